"""`regard site`: a static site with the front door, lessons, heads and films of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.options import USUAL, ComputedModel, open_computed


def site(
    out: Annotated[Path, typer.Option(metavar="DIR")], model: ComputedModel = None, film: list[Path] | None = None
) -> None:
    """Write a site of static files: the page, what heads do, lessons, documentation. Any web server can serve it.

    out       The folder to write; it is made where it is missing.
    film DIR  A folder of `regard train`, as a page; repeatable.

    Examples:
      regard site --out public
      regard site --out public --film trained/lookup --film trained/relations
    """
    from regard.site import write

    first = write(out, open_computed(model or USUAL, "A site"), films=film or (), tell=terminal.remark)
    terminal.show([f"Open {first}, or serve the folder: python -m http.server --bind 127.0.0.1 --directory {out}"])
