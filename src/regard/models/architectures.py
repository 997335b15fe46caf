"""From a name or a path to a model: the architecture is chosen by what the checkpoint says it is."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.layers import Transformer
from regard.models.families import FAMILIES
from regard.models.files import Checkpoint, open_checkpoint
from regard.models.files.json_file import object_in
from regard.models.model import Model


def model(name: str | os.PathLike[str] = "minilm") -> Model:
    """A model by its name in the catalogue, by the path of a folder or GGUF file, or by its id on the hub.

    >>> model("minilm")
    Model(minilm: bert, 6 layers × 12 heads, width 384, up to 512 tokens, Apache-2.0)
    """
    from regard.models import store

    known: Any = store.CATALOGUE.get(name) if isinstance(name, str) else None
    return opened(store.find(name), str(name), None if known is None else known.licence)


def opened(path: str | os.PathLike[str], name: str | None = None, licence: str | None = None) -> Model:
    """The model that a folder or a GGUF file holds."""
    checkpoint = open_checkpoint(path)
    _, kind = FAMILIES[checkpoint.family]
    transformer: Transformer
    transformer, longest = import_module(f"regard.models.{kind}").transformer(checkpoint)
    name = name or Path(path).stem
    ends = _ends(checkpoint)
    return Model(name, kind, transformer, checkpoint.tokeniser, checkpoint.config, longest, licence, ends)


def _ends(checkpoint: Checkpoint) -> frozenset[int]:
    """Tokens that end a text, by the settings and by generation_config.json, which chat models have."""
    stated = [checkpoint.config.get("eos_token_id")]
    if (beside := checkpoint.path / "generation_config.json").is_file():
        stated.append(object_in(beside, "settings for generation").get("eos_token_id"))
    numbers = [number for one in stated for number in (one if isinstance(one, list) else [one])]
    return frozenset(number for number in numbers if type(number) is int)
