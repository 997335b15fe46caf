"""A lecture as slides: `save(deck_of("The cat sat"), "deck.pptx")`, or .pdf, or .html."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from regard import atomic_file, errors, examples
from regard.slides import html, pptx, svg
from regard.slides.deck import Deck, GridCell, SlideGrid, fit
from regard.slides.lecture import Lecture
from regard.slides.parts import PARTS as PARTS
from regard.teaching.hand_check.inputs import parse_product

WRITERS: dict[str, Callable[[Deck], str | bytes]] = {".pptx": pptx.pptx, ".pdf": svg.pdf, ".html": html.html}
FIGURES = (".svg", ".png")
FORMATS = (*WRITERS, *FIGURES)


def deck_of(
    text: str | None = None,
    parts: Sequence[str] | None = None,
    *,
    symbols: bool = False,
    model: str = "minilm",
    product: str | None = None,
) -> Deck:
    """Slides about a sentence, with numbers that are computed from it.

    text      the sentence; the kids and the lions by default
    parts     names from `PARTS`, in the order of the slides; all of them by default
    symbols   q₁·k₁ and a₁₂ instead of numbers in the table
    model     whose heads the slides on trained attention show
    product   "x W^T" for lectures that write Q = X · Wᵀ
    """
    lecture = Lecture(
        examples.named("kids").content if text is None else text.strip(), symbols, model, parse_product(product)
    )
    if not lecture.all_words:
        raise errors.OptionError('The text contains no word: give one, as in regard slides "The cat sat".')
    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        guess = errors.did_you_mean(unknown[0], PARTS)
        raise errors.OptionError(f"`part` is {unknown[0]!r}, not one of {', '.join(PARTS)}.{guess}")
    slides = [
        replace(slide, part=name, notes=(*slide.notes, f"This slide: {lecture.command} --part {name}"))
        for name in parts or PARTS
        for slide in PARTS[name](lecture)
    ]
    elements = [element for slide in slides for element in slide.elements if isinstance(element, SlideGrid)]
    is_live = any(isinstance(cell, GridCell) and cell.live for grid in elements for row in grid.rows for cell in row)
    return Deck(lecture.text, fit(slides), lecture.live_numbers() if is_live else None)


def content(deck: Deck, ending: str) -> str | bytes:
    """The deck as the content of a file: .pptx, .pdf or .html."""
    if ending not in WRITERS:
        raise errors.option("path", ending, "a name that ends in .pptx, .pdf or .html")
    return WRITERS[ending](deck)


def save(deck: Deck, path: str | Path) -> list[Path]:
    """Write a deck in the format of its ending; .svg and .png are one figure per slide, numbered."""
    path, ending = Path(path), Path(path).suffix.lower()
    if ending not in FIGURES:
        return [atomic_file.write(path, content(deck, ending))]
    digits = len(str(len(deck.slides)))
    names = [path.with_stem(f"{path.stem}-{number:0{digits}}") for number in range(1, len(deck.slides) + 1)]
    names = [path] if len(names) == 1 else names
    return [svg.slide_svg(slide).save(name) for slide, name in zip(deck.slides, names, strict=True)]
