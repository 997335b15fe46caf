"""A lecture as slides: `save(deck_of("The cat sat"), "deck.pptx")`, or .pdf, or .html."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard import atomic_file, errors, examples
from regard.slides.attention_parts import eight_heads, intuition, matrices, matrix_form, table
from regard.slides.deck import Deck, Slide, fit
from regard.slides.lecture import Lecture
from regard.slides.lesson_parts import blocks, fixed, learning, look_up, positions, roles, root

PARTS: dict[str, Callable[[Lecture], Iterator[Slide]]] = {
    "intuition": intuition,
    "matrices": matrices,
    "table": table,
    "matrix-form": matrix_form,
    "heads": eight_heads,
    "look-up": look_up,
    "root": root,
    "positions": positions,
    "roles": roles,
    "fixed": fixed,
    "blocks": blocks,
    "learning": learning,
}
FORMATS = (".pptx", ".pdf", ".html")


def deck_of(
    text: str | None = None, parts: Sequence[str] | None = None, *, symbols: bool = False, model: str = "minilm"
) -> Deck:
    """Slides about a sentence, with numbers that are computed from it.

    text      the sentence; the kids and the lions by default
    parts     names from `PARTS`, in the order of the slides; all of them by default
    symbols   q₁·k₁ and a₁₂ instead of numbers in the table
    model     whose heads the slides on trained attention show
    """
    lecture = Lecture(examples.named("kids").content if text is None else text.strip(), symbols, model)
    if not lecture.all_words:
        raise errors.OptionError('The text contains no word: give one, as in regard slides "The cat sat".')
    unknown = [name for name in parts or () if name not in PARTS]
    if unknown:
        raise errors.option("part", unknown[0], f"one of {', '.join(PARTS)}")
    slides = [
        replace(slide, part=name, notes=(*slide.notes, f"This slide: regard slides {lecture.quoted} --part {name}"))
        for name in parts or PARTS
        for slide in PARTS[name](lecture)
    ]
    return Deck(lecture.text, fit(slides))


def content(deck: Deck, ending: str) -> str | bytes:
    """The deck as the content of a file: .pptx, .pdf or .html."""
    if ending == ".pptx":
        from regard.slides.pptx import pptx

        return pptx(deck)
    if ending == ".pdf":
        from regard.slides.pdf import pdf

        return pdf(deck)
    if ending == ".html":
        from regard.slides.html import html

        return html(deck)
    raise errors.option("path", ending, "a name that ends in .pptx, .pdf or .html")


def save(deck: Deck, path: str | Path) -> Path:
    """Write a deck in the format of its ending."""
    return atomic_file.write(path, content(deck, Path(path).suffix.lower()))
