"""Products of coloured matrices with their shapes, and one query's weights on the words of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from regard.output import colours
from regard.output.characters import fitted, printable, text_width
from regard.output.panel import Labels, Scale, number_size, panel, scale_for
from regard.output.svg import Drawing, FigureOptions, Svg, beside, framed, path, rectangle, room, sized, text, widest
from regard.output.weight_figures import numbers_of
from regard.tables import digits_for, printed_number

TYPE = 12.0  # font size of names, shapes and words
SIDE, TALL = 170.0, 190.0  # most width and height of a matrix without numbers
CELL = 36.0  # width of a cell with a number
MOST_NUMBERS = 6  # columns of a matrix whose numbers are printed
LONGEST_WORD = 80.0


@dataclass(frozen=True, eq=False, slots=True)
class Factor:
    """A matrix of a product: its name and numbers, the words of its rows, and whether it holds weights."""

    name: str
    array: Any
    words: Sequence[str] = ()
    is_weights: bool = False  # from 0 to 1, on the colours of weights
    shape: str = ""  # said below it; rows × columns by default
    live: str = ""  # its name among the live numbers of a deck


@sized
def product(factors: Sequence[Factor | str], *, notes: Sequence[str] = (), **_options: Unpack[FigureOptions]) -> Svg:
    """Matrices and the signs between them from left to right, as in X · W_Q = Q.

    factors   a `Factor` for a matrix, a string such as "·", "=" or "softmax →" for a sign
    """
    drawn = [
        Drawing(widest([part], TYPE, bold=True), TYPE * 1.4, (text(part, 0, TYPE * 0.7, TYPE, bold=True),))
        if isinstance(part, str)
        else _matrix(part)
        for part in factors
    ]
    tall = max(drawing.height for drawing in drawn)
    body = beside(drawn, room(14), [(tall - drawing.height) / 2 for drawing in drawn])
    parts = [part if isinstance(part, str) else f"{part.name} ({_shape(part)})" for part in factors]
    return framed(" ".join(part.partition(" (")[0] for part in parts), notes, body, " ".join(parts) + ".")


def _shape(factor: Factor) -> str:
    array = numbers_of(factor.name, factor.array)
    return factor.shape or " × ".join(map(str, array.shape))


def _matrix(factor: Factor) -> Drawing:
    array = numbers_of(factor.name, factor.array)
    rows, columns = array.shape
    scale = Scale(1.0) if factor.is_weights else scale_for(array, signed=True)
    words = [fitted(printable(word), LONGEST_WORD, TYPE) for word in factor.words] or [""] * rows
    least, has_numbers = TYPE * 1.25 if factor.words else 1.0, columns <= MOST_NUMBERS
    wide, tall = (CELL, 30.0) if has_numbers else (max(min(22.0, room(SIDE) / columns), 1.2), 26.0)
    cell = wide, max(min(tall, room(TALL) / rows), least)
    digits = min(2, digits_for(array))
    names, labels = [str(number + 1) for number in range(columns)], Labels(TYPE, drawn=(bool(factor.words), False))
    hint = f"{factor.name}, row {{row}}, column {{column}}: {{number}}"
    drawn = panel(array, words, names, scale, cell, labels, digits=digits if has_numbers else None, hint=hint)
    shape = _shape(factor)
    wide = max(drawn.width, widest([factor.name], TYPE, bold=True), widest([shape], TYPE))
    left = max(drawn.left, 0.0)
    middle = left + drawn.width / 2
    start = min(0.0, middle - wide / 2)
    cells = drawn.drawing
    if factor.live:
        signed = ' data-signed="yes"' if scale.signed else ""
        shown = f' data-digits="{digits}"' if has_numbers and number_size(array, cell, digits) else ""
        named = f'<g data-live="{factor.live}" data-top="{scale.top:g}"{signed}{shown}>'
        cells = Drawing(cells.width, cells.height, (named, *cells.parts, "</g>"))
    parts = (
        text(factor.name, middle, TYPE * 0.6, TYPE, anchor="middle", bold=True),
        cells.at(0, TYPE * 1.6 - drawn.top),
        text(shape, middle, TYPE * 1.6 + drawn.height + TYPE * 0.9, TYPE, anchor="middle", fill=colours.MUTED),
    )
    moved = tuple(Drawing(0, 0, (part,)).at(-start, 0) for part in parts)
    return Drawing(max(left + drawn.width, middle + wide / 2) - start, drawn.height + TYPE * 3.2, moved)


# One query's weights on a sentence

WORD, UNDER = 26.0, 20.0  # font sizes of a word and of its weight
LINES_APART = 46.0


@sized
def sentence(
    words: Sequence[str], weights: Any, query: int, *, key: int | None = None, width: float = 800.0, least: float = 0.1,
    numbers: bool = True, **_options: Unpack[FigureOptions],
) -> Svg:  # fmt: skip
    """The words of a sentence, each on the colour of the weight that one of them, the query, gives it.

    words     of the sentence
    weights   of the query's row, one per word
    query     the place of the query word, which is framed
    key       the place of the word that a curve leads to; by default that with the largest weight
    least     the smallest weight that is written below a word
    numbers   whether weights are written
    """
    row = numbers_of("weights", weights)
    labels = [fitted(printable(word), width - 30, WORD) for word in words]
    boxes: list[tuple[float, float, float]] = []  # left, line, width
    x, line = 0.0, 0
    for label in labels:
        wide = text_width(label, WORD) + 18
        if x and x + wide > width:
            x, line = 0.0, line + 1
        boxes.append((x, line, wide))
        x += wide + 8
    top, pitch = 52.0, WORD * 1.6 + LINES_APART
    others = np.where(np.arange(len(row)) == query, -1.0, row)
    strongest = int(np.argmax(others)) if key is None else key
    parts = []
    if row[strongest] >= least and numbers:  # a curve from the top of the query's box to that of the key
        ends = [(left + wide / 2, top + at * pitch - 2) for left, at, wide in (boxes[query], boxes[strongest])]
        (x1, y1), (x2, y2) = ends
        lift = min(y1, y2) - 44
        d = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {lift:.1f} {x2:.1f} {lift:.1f} {x2:.1f} {y2:.1f}"
        parts.append(path(d, colours.ACCENT, 3) + path(f"M{x2:.1f} {y2 + 2:.1f}l-6 -11h12z", fill=colours.ACCENT))
    for number, (label, (left, at, wide)) in enumerate(zip(labels, boxes, strict=True)):
        y, fill = top + at * pitch, colours.sequential(float(row[number]))
        stroke = colours.ACCENT if number == query else colours.RULE
        hint = f"{words[query]} attends to {words[number]}: {printed_number(row[number], 4)}"
        parts.append(rectangle(left, y, wide, WORD * 1.5, fill, stroke=stroke, radius=5, hint=hint))
        middle = left + wide / 2
        bold = number == query
        parts.append(text(label, middle, y + WORD * 0.75, WORD, anchor="middle", fill=colours.ink_on(fill), bold=bold))
        if row[number] >= least and numbers:
            shown = printed_number(row[number], 2)
            parts.append(text(shown, middle, y + WORD * 1.5 + 14, UNDER, anchor="middle", fill=colours.MUTED))
    body = Drawing(width, top + boxes[-1][1] * pitch + WORD * 1.5 + 28, tuple(parts))
    described = f"{words[query]} attends most to {words[strongest]}, {printed_number(row[strongest], 2)}."
    return framed(f"What {printable(words[query])} attends to", [], body, described)
