"""A deck of 16:9 slides: titles, text, tables and figures with their places, and notes for the speaker.

Places and sizes are decided here, in points of a slide of 960 × 540, so that all renderers agree. Nothing is set below
18 pt: a table that does not fit is split over several slides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from regard.output import colours
from regard.output.characters import fitted, printable, text_width, wrapped
from regard.output.svg import SUBSCRIPT, Svg

WIDTH, HEIGHT = 960.0, 540.0
LEFT, TOP, BOTTOM = 48.0, 104.0, 516.0  # of what is below the title
INNER = WIDTH - 2 * LEFT
TITLE, BODY, LEAST = 32.0, 24.0, 18.0  # font sizes
LINE = 1.35  # height of a line of text
ROW = 1.7  # height of a row of a table, in font sizes
PADDING = 9.0  # left and right of a cell's text
APART = 16.0  # between two elements
TABLE_SIZES = (28.0, 25.0, 22.0, 20.0, 18.0)
LEAST_FIGURE = 160.0  # height
WIDEST_CELL = 0.4 * INNER  # at the smallest size; longer words are shortened


@dataclass(frozen=True, slots=True)
class SlideText:
    """Paragraphs, one below the other."""

    paragraphs: tuple[str, ...]
    size: float = BODY
    muted: bool = False
    bold: bool = False


class GridCell(str):
    """The text of a table's cell."""

    shade: float  # from 0 to 1
    live: str  # name of the number, if an HTML deck computes it again; see `live.js`

    def __new__(cls, text: str, shade: float = 0.0, live: str = "") -> GridCell:
        cell = super().__new__(cls, text)
        cell.shade, cell.live = shade, live
        return cell


@dataclass(frozen=True, slots=True)
class SlideGrid:
    """A table of strings; columns are aligned at the left where `align` has an l, else at the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = "l"
    marked_row: int | None = None  # the row of the query
    new_column: int | None = None  # the column that this click adds
    sum_row: bool = False  # whether the last row is a sum

    def is_left(self, column: int) -> bool:
        return self.align[column : column + 1] == "l"

    def map(self, change: Callable[[str], str]) -> SlideGrid:
        """The table with other texts."""
        rows = [
            [
                GridCell(change(cell), cell.shade, cell.live) if isinstance(cell, GridCell) else change(cell)
                for cell in row
            ]
            for row in self.rows
        ]
        return replace(self, headings=[*map(change, self.headings)], rows=rows)

    def columns(self, columns: Sequence[int]) -> SlideGrid:
        """Some columns, in this order."""
        return replace(
            self,
            headings=[self.headings[column] for column in columns],
            rows=[[row[column] for column in columns] for row in self.rows],
            align="".join("l" if self.is_left(column) else "r" for column in columns),
            new_column=columns.index(self.new_column) if self.new_column in columns else None,
        )

    def widths(self, size: float) -> list[float]:
        """The least width of each column at this font size."""
        return [
            max(text_width(printable(cell), size, bold=True) for cell in column) + 2 * PADDING
            for column in zip(self.headings, *self.rows, strict=True)
        ]

    def height(self, size: float) -> float:
        return ROW * size * (len(self.rows) + 1)


Element = SlideText | SlideGrid | Svg


@dataclass(frozen=True, slots=True)
class Slide:
    """A title, what is below it, and what the speaker reads: how to make the slide, among others."""

    title: str
    elements: tuple[Element, ...]
    notes: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Deck:
    """Slides about one sentence."""

    title: str
    slides: tuple[Slide, ...]
    live: Mapping[str, Any] | None = None  # what live numbers are computed from


@dataclass(frozen=True, slots=True)
class Placed:
    """An element and its rectangle on the slide; the font size of text and tables, the lines of text."""

    element: Element
    x: float
    y: float
    width: float
    height: float
    size: float = 0.0
    lines: tuple[str, ...] = ()
    columns: tuple[float, ...] = ()  # widths of a table's columns


def fit(slides: Sequence[Slide]) -> tuple[Slide, ...]:
    """The same slides with tables split where they cannot be set in 18 pt, and long titles and words shortened."""
    return tuple(part for slide in slides for part in _split(slide))


def _split(slide: Slide) -> Iterator[Slide]:
    """Slides that each hold a part of the table: its columns in groups with the first one, then its rows."""
    title = fitted(printable(slide.title), INNER, TITLE, bold=True)
    table = next((element for element in slide.elements if isinstance(element, SlideGrid)), None)
    if table is None:
        yield replace(slide, title=title)
        return
    others = sum(_text_height(element) + APART for element in slide.elements if isinstance(element, SlideText))
    short = table.map(lambda cell: fitted(cell, WIDEST_CELL, LEAST, bold=True))
    parts = [part for columns in _column_groups(short) for part in _row_groups(columns, BOTTOM - TOP - others)]
    for number, part in enumerate(parts):
        of_part = title if len(parts) == 1 else f"{title} ({number + 1} of {len(parts)})"
        elements = tuple(part if element is table else element for element in slide.elements)
        yield replace(slide, title=fitted(of_part, INNER, TITLE, bold=True), elements=elements)


def _column_groups(table: SlideGrid) -> Iterator[SlideGrid]:
    widths = table.widths(LEAST)
    groups: list[list[int]] = [[0]]
    for column in range(1, len(widths)):
        if len(groups[-1]) > 1 and sum(widths[first] for first in groups[-1]) + widths[column] > INNER:
            groups.append([0])
        groups[-1].append(column)
    yield from map(table.columns, groups)


def _row_groups(table: SlideGrid, room: float) -> Iterator[SlideGrid]:
    most = max(1, math.floor(room / (ROW * LEAST)) - 1)
    count = math.ceil(len(table.rows) / most)
    for number in range(count):
        start, end = (round(len(table.rows) * bound / count) for bound in (number, number + 1))
        marked = table.marked_row
        yield replace(
            table,
            rows=table.rows[start:end],
            marked_row=marked - start if marked is not None and start <= marked < end else None,
            sum_row=table.sum_row and end == len(table.rows),
        )


def _text_lines(text: SlideText) -> list[str]:
    return [
        line
        for paragraph in text.paragraphs
        for line in (wrapped(printable(paragraph), INNER, text.size, text.bold) or [""])
    ]


def _text_height(text: SlideText) -> float:
    return LINE * text.size * len(_text_lines(text))


def place(slide: Slide) -> list[Placed]:
    """Where each element of a slide is: text and tables as high as they need, figures in the rest."""
    placed: list[Placed] = []
    fixed = sum(_text_height(element) for element in slide.elements if isinstance(element, SlideText))
    figures = sum(isinstance(element, Svg) for element in slide.elements)
    gaps = APART * (len(slide.elements) - 1)
    room = BOTTOM - TOP - fixed - gaps
    y = TOP
    for element in slide.elements:
        if isinstance(element, SlideText):
            height = _text_height(element)
            placed.append(Placed(element, LEFT, y, INNER, height, element.size, tuple(_text_lines(element))))
        elif isinstance(element, SlideGrid):
            most = room - figures * LEAST_FIGURE
            fits = (size for size in TABLE_SIZES if sum(element.widths(size)) <= INNER and element.height(size) <= most)
            size = next(fits, LEAST)
            widths, height = element.widths(size), element.height(size)
            placed.append(Placed(element, LEFT, y, sum(widths), height, size, (), tuple(widths)))
            room -= height
        else:
            scale = min(INNER / element.width, room / figures / element.height)
            width, height = element.width * scale, element.height * scale
            placed.append(Placed(element, LEFT + (INNER - width) / 2, y, width, height))
        y += height + APART
    return placed


# Text in runs, so that W_Q and d_k have their index below the line, and the look of a table's cells

NEW = "#fff3c4"  # the column that this click adds
HEADING = "#eef1f6"


class TextRun(TypedDict):
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
