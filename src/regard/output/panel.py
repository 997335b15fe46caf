"""A matrix as coloured cells with labelled rows and columns: the building block of all heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from regard.output import colours
from regard.output.characters import fitted, printable, text_width
from regard.output.svg import Drawing, beside, least_type, line, rectangle, room, text, widest
from regard.tables import printed_number

Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]

LINE = 1.2  # height of a line of text, in font sizes
SMALLEST = 8.0  # font size below which numbers are omitted
GAPS_FROM = 9.0  # size of a cell from which white lines separate it from its neighbours
HINTS_UP_TO = 2500  # cells with a tooltip
LONGEST_LABEL = 120.0
BAR_LEAST = 40.0  # height of a colour bar whose three labels do not touch


@dataclass(frozen=True, eq=False, slots=True)
class Scale:
    """Maps numbers to colours: from 0 to `top`, or from −top to top for signed numbers."""

    top: float
    signed: bool = False
    goes_on: bool = False  # whether there are numbers above the top

    def colour(self, number: float) -> str:
        """The colour of a number, clipped to the ends of the scale."""
        share = number / self.top if self.top else 0.0
        return colours.diverging(share) if self.signed else colours.sequential(share)


def scale_for(array: Numbers, signed: bool = False, top: float | None = None) -> Scale:
    """A scale up to the largest number, rounded up: 0.42 becomes 0.5."""
    largest = float(abs(array[abs(array) < math.inf]).max(initial=0.0))
    if top is None:
        power = 10.0 ** math.floor(math.log10(largest)) if largest else 1.0
        top = next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= largest * (1 - 1e-9))
    return Scale(top, signed, largest > top * (1 + 1e-9))


@dataclass(frozen=True, eq=False, slots=True)
class Panel:
    """A drawn matrix, and the rectangle of its cells within the drawing."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of the rows and the columns of a panel."""

    size: float = 12
    titles: tuple[str, str] = ("", "")  # of rows and of columns
    drawn: tuple[bool, bool] = (True, True)  # whether rows and columns have any
    apart: float = LINE  # two labels, at least, in font sizes


USUAL_LABELS = Labels()


def panel(
    array: Numbers, rows: Sequence[str], columns: Sequence[str], scale: Scale, cell: tuple[float, float],
    labels: Labels = USUAL_LABELS, *, hidden: Booleans | None = None, digits: int | None = 2,
    hint: str = "{row} attends to {column}: {number}",
) -> Panel:  # fmt: skip
    """Cells of this size with labels above and on the left, rotated, shortened or omitted to avoid overlap.

    digits   decimals of the numbers in cells that are large enough; None draws none
    """
    label_size, longest = least_type(labels.size), max(room(LONGEST_LABEL), 48.0)
    row_title, column_title = labels.titles
    row_labels, column_labels = (
        _some([fitted(printable(name), longest, label_size) if drawn else "" for name in names], pitch,
              label_size * labels.apart)
        for names, drawn, pitch in zip((rows, columns), labels.drawn, reversed(cell), strict=True)
    )  # fmt: skip
    turn = _turn(column_labels, cell[0], label_size)
    above, overhang = _room_above(column_labels, cell[0], label_size, turn)
    left = widest(row_labels, label_size) + (8 if any(row_labels) else 0) + (label_size * 1.6 if row_title else 0)
    top = above + (8 if any(column_labels) else 0) + (label_size * 1.6 if column_title else 0)
    width, height = cell[0] * len(columns), cell[1] * len(rows)

    parts = _cells(array, rows, columns, scale, cell, hidden, hint, (left, top))
    parts += [] if digits is None else _numbers(array, scale, cell, hidden, digits, (left, top))
    parts += [
        text(label, left - 8, top + cell[1] * (index + 0.5), label_size, anchor="end")
        for index, label in enumerate(row_labels)
        if label
    ]
    lift = label_size * 0.45 * math.cos(math.radians(turn))
    parts += [
        text(label, x, top - 4 - lift, label_size, turn=turn)
        if turn
        else text(label, x, top - 6 - label_size / 2, label_size, anchor="middle")
        for label, x in ((label, left + cell[0] * (index + 0.5)) for index, label in enumerate(column_labels))
        if label
    ]
    if row_title:
        parts.append(_title(row_title, label_size * 0.6, top + height / 2, label_size, -90))
    if column_title:
        parts.append(_title(column_title, left + width / 2, label_size * 0.6, label_size, 0))
    return Panel(Drawing(left + width + overhang, top + height, tuple(parts)), left, top, width, height)


def colour_bar(scale: Scale, height: float, name: str, size: float = 11) -> Drawing:
    """The scale as a vertical bar with tick labels, the largest number on top."""
    bar, steps, size = 14.0, 48, least_type(size)
    top = size * 2
    lowest = -1.0 if scale.signed else 0.0
    parts = [text(name, 0, size * 0.6, size, fill=colours.MUTED)]
    for step in range(steps):
        share = 1 - (step + 0.5) / steps * (1 - lowest)
        y = top + height * step / steps  # each slightly longer than its share, so that no seam shows
        taller = height / steps + (0.5 if step < steps - 1 else 0)
        parts.append(rectangle(0, y, bar, taller, scale.colour(share * scale.top)))
    parts.append(rectangle(0, top, bar, height, "none", stroke=colours.RULE))
    shares = (1.0, 0.5, 0.0) if not scale.signed else (1.0, 0.0, -1.0)
    middle = scale.top / (1 if scale.signed else 2)  # as few decimals as are exact, at most five
    digits = next((digits for digits in range(5) if abs(middle * 10**digits % 1) < 1e-9 * 10**digits), 5)
    labels = [printed_number(share * scale.top, digits) for share in shares]
    labels[0] = f"≥ {labels[0]}" if scale.goes_on else labels[0]
    for label, share in zip(labels, shares, strict=True):
        y = top + height * (1 - share) / (1 - lowest)
        parts.append(line(bar, y, bar + 4, y, colours.MUTED))
        parts.append(text(label, bar + 8, y, size, fill=colours.MUTED))
    wide = max(widest([name], size), bar + 8 + widest(labels, size))
    return Drawing(wide, top + height + size * 0.6, tuple(parts))


def with_bar(
    matrix: Panel, scale: Scale, name: str = "", height: float = 200.0, apart: float = 24, over: Sequence[str] = ()
) -> Drawing:
    """A drawn matrix, with what is `over` it, and its colour bar on the right, from the height of the first cells."""
    bar = colour_bar(scale, min(max(matrix.height, room(80.0), BAR_LEAST), height), name)
    drop = matrix.top - 22  # the name of the bar is above its top
    drawn = replace(matrix.drawing, parts=(*matrix.drawing.parts, *over))
    return beside([drawn, bar], max(room(apart), 16.0), [max(0.0, -drop), max(0.0, drop)])


def cell_size(count: int, most: float = 640.0, largest: float = 72.0) -> float:
    """The side of a cell so that `count` of them fit into a length of `most`."""
    return max(min(room(largest), room(most) / max(count, 1)), room(2.5))


def label_size_for(cell: float) -> float:
    """A font size in proportion to the cells."""
    return least_type(min(14.0, max(10.0, cell * 0.62)))


def number_size(array: Numbers, cell: tuple[float, float], digits: int) -> float:
    """The font size at which every number fits its cell; 0 if that is too small to read."""
    wide = max((text_width(printed_number(number, digits), 1.0) for number in array.ravel()), default=0.0)
    size = min(15.0, cell[0] * 0.8 / max(wide, 1.0), cell[1] * 0.6)
    return size if size >= least_type(SMALLEST) else 0.0


def _cells(
    array: Numbers, rows: Sequence[str], columns: Sequence[str], scale: Scale, cell: tuple[float, float],
    hidden: Booleans | None, hint: str, corner: tuple[float, float],
) -> list[str]:  # fmt: skip
    gap = 1.0 if min(cell) >= GAPS_FROM else 0.0
    hints = array.size <= HINTS_UP_TO
    parts = [rectangle(*corner, cell[0] * len(columns), cell[1] * len(rows), scale.colour(0.0))] if not gap else []
    for row in range(len(rows)):
        y = corner[1] + cell[1] * row
        fills = [
            colours.HIDDEN if hidden is not None and hidden[row, column] else scale.colour(float(array[row, column]))
            for column in range(len(columns))
        ]
        if hints:
            for column, fill in enumerate(fills):
                is_hidden = hidden is not None and hidden[row, column]
                number = "masked" if is_hidden else printed_number(array[row, column], 4)
                title = hint.format(row=rows[row], column=columns[column], number=number)
                x = corner[0] + cell[0] * column
                parts.append(rectangle(x, y, cell[0] - gap, cell[1] - gap, fill, hint=title))
            continue
        start = 0
        for fill, run in groupby(fills):  # neighbours of one colour are one rectangle
            count = len(list(run))
            if fill != scale.colour(0.0) or gap:
                parts.append(rectangle(corner[0] + cell[0] * start, y, cell[0] * count, cell[1], fill))
            start += count
    if not gap:
        parts.append(rectangle(*corner, cell[0] * len(columns), cell[1] * len(rows), "none", stroke=colours.RULE))
    return parts


def _numbers(
    array: Numbers, scale: Scale, cell: tuple[float, float], hidden: Booleans | None, digits: int,
    corner: tuple[float, float],
) -> list[str]:  # fmt: skip
    """The numbers in the cells, where these are large enough."""
    size, parts = number_size(array, cell, digits), []
    for (row, column), number in np.ndenumerate(array) if size else ():
        if hidden is None or not hidden[row, column]:
            ink = colours.ink_on(scale.colour(float(number)))
            x, y = corner[0] + cell[0] * (column + 0.5) - 0.5, corner[1] + cell[1] * (row + 0.5) - 0.5
            parts.append(text(printed_number(number, digits), x, y, size, anchor="middle", fill=ink))
    return parts


def _some(labels: list[str], pitch: float, apart: float) -> list[str]:
    """Every label, or every second, third …, so that they do not overlap."""
    step = max(1, math.ceil(apart / pitch - 1e-9))
    return [label if index % step == 0 else "" for index, label in enumerate(labels)]


def _turn(labels: list[str], pitch: float, size: float) -> float:
    """The rotation of column labels: 0° if they fit side by side, else −45°, else −90°."""
    step = next((index for index, label in enumerate(labels[1:], 1) if label), 1)
    if widest(labels, size) <= pitch * step - 4:
        return 0
    return -45 if pitch * step * math.sin(math.pi / 4) >= size * LINE - 1e-9 else -90


def _room_above(labels: list[str], pitch: float, size: float, turn: float) -> tuple[float, float]:
    """How far rotated labels extend above the cells, and past their right edge."""
    if not any(labels):
        return 0.0, 0.0
    angle = math.radians(-turn)
    height = max(text_width(label, size) for label in labels) * math.sin(angle) + size * math.cos(angle)
    reach = [
        pitch * (index + 0.5) + text_width(label, size) * math.cos(angle) + size / 2
        for index, label in enumerate(labels)
        if label
    ]
    return height, max(0.0, max(reach) - pitch * len(labels)) if turn == -45 else 0.0


def _title(name: str, x: float, y: float, size: float, turn: float) -> str:
    return text(name, x, y, size, anchor="middle", fill=colours.MUTED, italic=True, turn=turn)
