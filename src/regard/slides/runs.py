"""Text in runs, so that W_Q and d_k have their index below the line, and the look of a table's cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from regard.output import colours
from regard.output.characters import printable
from regard.output.svg import SUBSCRIPT
from regard.slides.deck import GridCell, SlideGrid

NEW = "#fff3c4"  # the column that this click adds
HEADING = "#eef1f6"


class TextRun(TypedDict):
    """A piece of text on the line or below it."""

    text: str
    below: bool


def runs(content: str) -> list[TextRun]:
    """The pieces of a text.

    >>> [run["text"] for run in runs("score/√d_k = 2")]
    ['score/√d', 'k', ' = 2']
    """
    content = printable(content)
    pieces: list[TextRun] = []
    start = 0
    for match in SUBSCRIPT.finditer(content):
        pieces += [{"text": content[start : match.end(1)], "below": False}, {"text": match[2], "below": True}]
        start = match.end()
    if content[start:]:
        pieces.append({"text": content[start:], "below": False})
    return pieces


@dataclass(frozen=True, slots=True)
class SlideCell:
    """A cell of a table as every renderer draws it."""

    text: str
    fill: str | None
    ink: str
    bold: bool
    heavy: bool = False  # a heavy line below it
    live: str = ""  # name of the number, if an HTML deck computes it again


def cells(grid: SlideGrid) -> Iterator[list[SlideCell]]:
    """The heading and the rows."""
    last = len(grid.rows) - 1
    yield [SlideCell(heading, HEADING, colours.INK, bold=True, heavy=True) for heading in grid.headings]
    for number, row in enumerate(grid.rows):
        line = []
        for column, text in enumerate(row):
            shade, live = (text.shade, text.live) if isinstance(text, GridCell) else (0.0, "")
            fill = colours.sequential(shade) if shade > 0 else NEW if column == grid.new_column else None
            bold = (number == grid.marked_row and column == 0) or (grid.sum_row and number == last)
            ink = colours.ink_on(fill) if shade > 0 and fill else colours.INK
            line.append(SlideCell(text, fill, ink, bold, heavy=grid.sum_row and number == last - 1, live=live))
        yield line
