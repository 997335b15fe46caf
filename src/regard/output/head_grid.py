"""All heads of a layer in one figure on one colour scale, followed by concatenate → W_O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.output import colours
from regard.output.drawn_weights import Numbers, Weights, head_count, numbers_of, weights_of
from regard.output.heat_map import MARGIN, side_notes, titled
from regard.output.panel import LINE, Panel, Scale, cell_size, colour_bar, label_size_for, panel, scale_for
from regard.output.printable import printable
from regard.output.svg import Drawing, Svg, arrow_head, group, line, path, text
from regard.tables import printed_number
from regard.trace import Trace
from regard.trace.provenance import Projection

MOST_HEADS = 32
MOST_CELLS = 64  # along each side of a head's map; larger ones are pooled
GRID_WIDTH = 760.0  # of all maps of a row
GAP = 22.0
MOST_ROWS, MOST_DRAWN = 24, 64  # words and numbers of a matrix; larger ones are drawn as boxes with their shape
ALL_LABELLED = 26  # up to this many words, cells are large enough to label every word
MATRIX = 190.0  # height of W_O, at most
HEAD = 13.0  # font size of the heads' names


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of concatenate and W_O."""

    heads: int
    tokens: int
    joined: int  # width of the concatenated vectors
    out: int  # width of the output

    @property
    def note(self) -> str:
        """What follows the heads, in words."""
        return (
            f"Each head gives every word a vector, Σ weight · v. The vectors of the {self.heads} heads are "
            f"concatenated ({self.tokens} × {self.joined}) and multiplied by W_O ({self.joined} × {self.out}), which "
            "mixes what the heads found."
        )


def heads(
    subject: Any, *, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None,
    title: str | None = None, top: float | None = None, shapes: Shapes | None = None,
) -> Svg:  # fmt: skip
    """The weights of all heads, small multiples on one colour scale.

    subject      a Trace, an Attention, an array (head, query, key), or a list of `Weights`
    words        of the keys, and of the queries if there are as many; a Trace has its own
    top          the number with the darkest colour; by default the largest, rounded up
    shapes       of concatenate and W_O, for subjects that are not a Trace

    For a Trace of a multi-head layer, the figure continues with the concatenated outputs, W_O and their product. At
    most 32 heads are drawn.
    """
    given = isinstance(subject, list) and bool(subject) and isinstance(subject[0], Weights)
    count = len(subject) if given else head_count(subject)
    shown = subject[:MOST_HEADS] if given else [
        weights_of(subject, head, words, query_words, MOST_CELLS) for head in range(min(count, MOST_HEADS))
    ]  # fmt: skip
    scale = scale_for(np.concatenate([one.array.ravel() for one in shown]), top=top)
    grid = _grid(shown, scale)
    below = _after(subject) if isinstance(subject, Trace) else _after_shapes(shapes) if shapes else None
    width = max(grid.width, below.width if below else 0.0, 420.0)
    name = title or f"{count} heads, each with its own weights"
    heading = titled(name, _notes(shown, count), width)
    parts, y = [heading.at(MARGIN, MARGIN), grid.at(MARGIN, MARGIN + heading.height)], MARGIN + heading.height
    y += grid.height
    if below:
        parts.append(line(MARGIN, y + 20, MARGIN + width, y + 20, colours.RULE))
        parts.append(below.at(MARGIN, y + 38))
        y += 38 + below.height
    return Svg(width + 2 * MARGIN, y + MARGIN, name, _described(shown, below is not None), tuple(parts))


def _notes(shown: Sequence[Weights], count: int) -> list[str]:
    notes = ["Rows: queries. Columns: the keys they attend to. One colour scale for all heads."]
    notes += side_notes(replace(shown[0], note=None))
    if count > len(shown):
        notes.append(f"The first {len(shown)} of {count} heads.")
    return [*notes, shown[0].note] if shown[0].note else notes


def _grid(shown: Sequence[Weights], scale: Scale) -> Drawing:
    """The heat maps with one colour bar; words only left of each row and above each column of the grid."""
    across = min(len(shown), 4) if len(shown) != 6 else 3
    rows, columns = shown[0].array.shape
    side = cell_size(max(rows, columns), (GRID_WIDTH - GAP * (across - 1)) / across, 48.0)
    side = max(side, 12.2) if max(rows, columns) <= ALL_LABELLED else side
    size = min(label_size_for(side), 12.0)
    bar = colour_bar(scale, min(max(side * rows, 80.0), 180.0), "weight")
    panels = [_head_panel(one, scale, side, size, place, across) for place, one in enumerate(shown)]
    left, top = panels[0].left, panels[0].top
    overhang = max(one.drawing.width - one.left - one.width for one in panels)
    pitch = max(columns * side, 64.0) + GAP
    parts, y = [], 0.0
    for start in range(0, len(panels), across):
        labelled = start == 0
        y += HEAD * 1.6
        for place, one in enumerate(panels[start : start + across]):
            x = left + pitch * place - one.left
            number = shown[start + place].head
            parts.append(text(f"head {number}", left + pitch * place, y - HEAD * 0.7, HEAD, bold=True))
            parts.append(one.drawing.at(x, y))
        y += (top if labelled else 0) + rows * side + GAP
    wide = left + pitch * across - GAP + overhang
    parts.append(bar.at(wide + 24, top + HEAD * 1.6 - 22))
    return Drawing(wide + 24 + bar.width, max(y - GAP, top + HEAD * 1.6 + bar.height - 22), tuple(parts))


def _head_panel(one: Weights, scale: Scale, side: float, size: float, place: int, across: int) -> Panel:
    return panel(
        one.array, one.query_words, one.key_words, scale, (side, side), label_size=size, hidden=one.hidden,
        numbers=not one.pooled, apart=4 if one.pooled else LINE, hint="{row} attends to {column}: {number}",
        labelled=(place % across == 0, place < across),
    )  # fmt: skip


# After the heads


def _after(trace: Trace) -> Drawing | None:
    """Concatenated outputs, W_O and their product, from left to right."""
    if "concatenated" not in trace or "projected" not in trace:
        return None
    joined, result = (numbers_of(name, trace[name]) for name in ("concatenated", "projected"))
    made = trace.origin.parts.get("projected")
    matrix = numbers_of("W_O", made.linear.weight).T if isinstance(made, Projection) else None  # (in, out)
    shapes = Shapes(trace.heads, len(joined), joined.shape[1], result.shape[1])
    if matrix is None or max(matrix.shape) > MOST_DRAWN or len(joined) > MOST_ROWS:
        return _after_shapes(shapes)
    return _headed(shapes, _matrices(trace, joined, matrix, result))


def _after_shapes(shapes: Shapes) -> Drawing:
    return _headed(shapes, _boxes(shapes))


def _headed(shapes: Shapes, drawn: Drawing) -> Drawing:
    heading = titled("Concatenate, then multiply by W_O", [shapes.note], max(drawn.width, 420.0), size=16)
    return Drawing(
        max(heading.width, drawn.width), heading.height + 6 + drawn.height,
        (heading.at(0, 0), drawn.at(0, heading.height + 6)),
    )  # fmt: skip


def _matrices(trace: Trace, joined: Numbers, matrix: Numbers, result: Numbers) -> Drawing:
    """concatenated · W_O = output as matrices of coloured cells."""
    side = max(min(34.0, MATRIX / max(matrix.shape)), 5.0)
    scale = scale_for(np.concatenate([joined.ravel(), result.ravel()]), signed=True)
    of_matrix = scale_for(matrix, signed=True)
    words = trace.query_words
    ins, outs = ([str(place + 1) for place in range(count)] for count in matrix.shape)
    size = min(label_size_for(side), 12.0)
    row = max(side, size * LINE)
    first = panel(joined, words, ins, scale, (side, row), label_size=size, labelled=(True, False),
                  hint="{row}, number {column}: {number}")  # fmt: skip
    second = panel(matrix, ins, outs, of_matrix, (side, side), label_size=size, labelled=(False, False),
                   hint="W_O, row {row}, column {column}: {number}")  # fmt: skip
    third = panel(result, words, outs, scale, (side, row), label_size=size, labelled=(True, False),
                  hint="{row}, number {column}: {number}")  # fmt: skip
    tall = max(one.height for one in (first, second, third))
    lifts = (36.0, 14.0, 14.0)  # of the names, the first one above the brackets of the heads
    top = 10 + max(lift - (tall - one.height) / 2 for lift, one in zip(lifts, (first, second, third), strict=True))
    parts: list[str] = []
    x = 0.0
    for place, (one, name) in enumerate(zip((first, second, third), ("concatenated", "W_O", "output"), strict=True)):
        y = top + (tall - one.height) / 2
        cells = x + one.left
        parts.append(one.drawing.at(x, y - one.top))
        parts.append(text(name, cells + one.width / 2, y - lifts[place], HEAD, anchor="middle", bold=True))
        if place == 0:
            parts += _brackets(trace.heads, cells, y, one.width)
        x = cells + one.width
        if place < 2:
            parts.append(text("×" if place == 0 else "=", x + 23, top + tall / 2, 22, anchor="middle"))
            x += 46
    bars = colour_bar(scale, min(tall, 120.0), "vectors"), colour_bar(of_matrix, min(tall, 120.0), "W_O")
    x += 34
    for bar in bars:
        parts.append(bar.at(x, top - 22 + max(0.0, (tall - 120) / 2)))
        x += bar.width + 22
    return Drawing(x - 22, top + max(tall, min(tall, 120.0) + 8), tuple(parts))


def _brackets(count: int, left: float, top: float, width: float) -> list[str]:
    """Which width of the concatenated vectors are from which head."""
    parts, wide = [], width / count
    for head in range(count):
        start, end = left + wide * head + 1.5, left + wide * (head + 1) - 2.5
        y = top - 6
        parts.append(path(f"M{start:.2f} {y + 3:.2f}V{y:.2f}H{end:.2f}V{y + 3:.2f}", colours.MUTED, 1))
        if head % math.ceil(18 / wide) == 0:
            name = f"head {head}" if wide >= 44 else str(head)
            parts.append(text(name, (start + end) / 2, y - 9, 11, anchor="middle", fill=colours.MUTED))
    return parts


def _boxes(shapes: Shapes) -> Drawing:
    """The same as boxes with shapes, for matrices that are too wide to draw."""
    names = [("head outputs", f"{shapes.heads} × {shapes.tokens} × {shapes.joined // shapes.heads}"),
             ("concatenated", f"{shapes.tokens} × {shapes.joined}"), ("× W_O", f"{shapes.joined} × {shapes.out}"),
             ("output", f"{shapes.tokens} × {shapes.out}")]  # fmt: skip
    parts: list[str] = []
    box, between, height = 132.0, 34.0, 52.0
    for place, (name, shape) in enumerate(names):
        x = (box + between) * place
        d = f"M{x} 6a6 6 0 0 1 6 -6h{box - 12}a6 6 0 0 1 6 6v{height - 12}a6 6 0 0 1 -6 6h{12 - box}a6 6 0 0 1 -6 -6z"
        parts.append(path(d, colours.ACCENT, fill=colours.ACCENT_SOFT))
        parts.append(text(name, x + box / 2, height / 2 - 9, 14, anchor="middle", bold=True))
        parts.append(text(shape, x + box / 2, height / 2 + 11, 12, anchor="middle", fill=colours.MUTED))
        if place:
            parts.append(line(x - between + 3, height / 2, x - 5, height / 2, colours.MUTED))
            parts.append(arrow_head(x - 2, height / 2, colours.MUTED))
    return Drawing(len(names) * (box + between) - between, height, (group(parts),))


def _described(shown: Sequence[Weights], goes_on: bool) -> str:
    said = [f"Heat maps of {len(shown)} heads on one colour scale."]
    for one in shown:
        row, column = np.unravel_index(int(np.nan_to_num(one.array).argmax()), one.array.shape)
        words = printable(one.query_words[row]), printable(one.key_words[column])
        said.append(f"Head {one.head}: {words[0]} attends to {words[1]}, {printed_number(one.array[row, column], 2)}.")
    if goes_on:
        said.append("Below, the outputs of all heads are concatenated and multiplied by W_O.")
    return " ".join(said)
