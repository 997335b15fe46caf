"""Pages by typst: a figure, an exercise sheet, a deck of slides. Each template is a .typ file of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from typing import Any, Literal

from regard.errors import require


def typeset(
    what: str, template: Literal["figure", "sheet", "deck"], inputs: Mapping[str, str], instead: str, **options: Any
) -> bytes:
    """A template, filled in, as PDF or PNG; needs the package typst.

    inputs    texts come as data, so that nothing in them is read as markup
    what, instead   what needs the package, and what else to do, for an error
    """
    require(what, "typst", instead=instead)
    source = files(__name__).joinpath(f"{template}.typ").read_bytes()
    return bytes(import_module("typst").compile(source, sys_inputs=dict(inputs), **options))
