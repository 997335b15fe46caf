"""`regard slides` and `site`: the slides of a lecture, and a static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import outputs, terminal, text_input
from regard.cli.options import USUAL, ComputedModel, Sentence, open_computed
from regard.errors import OptionError, count


def slides(
    out: Annotated[list[str], typer.Option("--out", metavar="FILE")],
    text: Sentence = None,
    part: list[str] | None = None,
    symbols: bool = False,
    model: str | None = None,
    product: str | None = None,
) -> None:
    """Make the slides of a lecture about a sentence.

    out           A .pptx, .pdf, .html, .svg or .png file; repeatable.
    part NAME     Only these parts, with commas; repeatable.
    symbols       q₁·k₁ and a₁₂ instead of numbers in tables.
    model NAME    The model whose heads are shown; `regard models` lists names.
    product FORM  How W is written: "x W" by default, or "x W^T".

    Examples:
      regard slides "The kids were scared of the lions, so they left." --out deck.pptx
      regard slides "jane visits africa" --out deck.pdf --out deck.html
      regard slides "The cat sat" --part table --part matrix-form --out table.pptx
      regard slides "The cat sat" --part table --symbols --out symbols.pdf

    Parts: intuition, matrices, purpose, table, matrix-form, heads, blocks,
    look-up, root, fixed, roles, probability, positions, learning.
    Slides are 16:9, one new thing on each, nothing below 18 pt; the notes of each
    say which command shows the same. .pptx has editable text and tables; in .html
    the arrow keys turn slides, n shows the notes, p the pointer, f fills the
    screen, and embeddings can be changed: all numbers follow. .svg and .png are
    one figure per slide.
    """
    from regard import slides as lecture

    endings = {name: Path(name).suffix.lower() for name in out}
    for name, ending in endings.items():
        if ending not in lecture.FORMATS:
            example = f"{Path(name).stem or 'deck'}.pptx"
            raise OptionError(f"--out {name!r} does not end in {', '.join(lecture.FORMATS)}: write --out {example}.")
        outputs.check_path(name)
    written = None if text is None else text_input.text_given(text)
    parts = [name.strip() for names in part or () for name in names.split(",")]
    deck = lecture.deck_of(written, parts, symbols=symbols, model=model or USUAL, product=product)
    for name in endings:
        files = lecture.save(deck, name)
        shown = name if len(files) == 1 else f"{files[0]} to {files[-1].name}"
        terminal.show([f"Wrote {shown}: {count(len(deck.slides), 'slide')}."])


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
