"""Fixed weights beside computed ones: a feed-forward layer and attention on two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard import errors
from regard.output import colours
from regard.output.drawn_weights import Numbers, Weights, numbers_of, weights_of
from regard.output.heat_map import MARGIN, titled
from regard.output.panel import Panel, Scale, cell_size, colour_bar, panel, scale_for
from regard.output.printable import printable
from regard.output.svg import Svg, line, text
from regard.output.text_width import fitted
from regard.tables import printed_number

SIDE = 250.0  # of a matrix
MOST_ROWS = 16  # rows and columns of the fixed weights that are drawn
BETWEEN = 96.0


def fixed_and_computed(
    fixed: Any, first: Any, second: Any, *, words: tuple[Sequence[str], Sequence[str]] | None = None, head: int = 0,
    title: str | None = None,
) -> Svg:  # fmt: skip
    """Feed-forward weights, equal for both inputs, beside attention weights, computed from each input.

    fixed           a feed-forward or linear layer, or its weights, (output, input)
    first, second   the same attention on two inputs: a Trace, an Attention or an array each
    words           of both inputs, for subjects without words
    """
    array = _weight_of(fixed)
    shown = array[:MOST_ROWS, :MOST_ROWS]
    of_first, of_second = words if words is not None else (None, None)
    one, two = weights_of(first, head, of_first), weights_of(second, head, of_second)
    fixed_scale = scale_for(shown, signed=True)
    scale = scale_for(np.concatenate([one.array.ravel(), two.array.ravel()]))
    left = [_fixed_panel(shown, fixed_scale) for _ in range(2)]
    right = [_computed_panel(weights, scale) for weights in (one, two)]
    bars = colour_bar(fixed_scale, 130, "weight"), colour_bar(scale, 130, "weight")

    # Columns: fixed matrix, its bar, computed matrix, its bar. Rows: the two inputs.
    second_column = max(item.drawing.width for item in left) + 24 + bars[0].width + BETWEEN
    right_wide = max(item.drawing.width for item in right)
    width = second_column + right_wide + 24 + bars[1].width
    heading = titled(title or "Fixed weights and computed weights", [], width, size=20)
    columns = titled("Feed-forward", [_fixed_note(array, shown)], second_column - 40, size=16)
    computed = titled("Attention", [_computed_note(one)], width - second_column, size=16)
    y = MARGIN + heading.height + 8
    parts = [heading.at(MARGIN, MARGIN), columns.at(MARGIN, y), computed.at(MARGIN + second_column, y)]
    y += max(columns.height, computed.height) + 6
    for place, weights in enumerate((one, two)):
        sentence = fitted(" ".join(map(printable, weights.key_words)), width - 90, 13, bold=True)
        parts.append(text(f"Input {place + 1}", MARGIN, y + 8, 13, fill=colours.MUTED))
        parts.append(text(sentence, MARGIN + 64, y + 8, 13, bold=True))
        y += 30
        top = max(left[place].top, right[place].top)  # align the cells of both
        parts.append(left[place].drawing.at(MARGIN, y + top - left[place].top))
        parts.append(right[place].drawing.at(MARGIN + second_column, y + top - right[place].top))
        for bar, x in zip(bars, (second_column - BETWEEN - bars[0].width, width - bars[1].width), strict=True):
            parts.append(bar.at(MARGIN + x, y + top - 22))
        y += top + max(left[place].height, right[place].height) + 22
        if place == 0:
            parts.append(line(MARGIN, y, MARGIN + width, y, colours.RULE))
            y += 18
    said = _described(one, two, array)
    return Svg(width + 2 * MARGIN, y + MARGIN - 14, title or "Fixed weights and computed weights", said, tuple(parts))


def _weight_of(fixed: Any) -> Numbers:
    """The matrix of a layer, or the array itself."""
    for name in ("up", "weight"):
        fixed = getattr(fixed, name, fixed)
    array = numbers_of("fixed", fixed)
    if array.ndim != 2:
        raise errors.ShapeError(f"`fixed` has shape {array.shape}; expected (output, input), the weights of one layer.")
    return array


def _fixed_panel(array: Numbers, scale: Scale) -> Panel:
    side = cell_size(max(array.shape), SIDE, 50)
    rows, columns = ([str(place + 1) for place in range(count)] for count in array.shape)
    return panel(
        array, rows, columns, scale, (side, side), label_size=11, row_title="output", column_title="input",
        hint="input {column} to output {row}: {number}",
    )  # fmt: skip


def _computed_panel(weights: Weights, scale: Scale) -> Panel:
    side = cell_size(max(weights.array.shape), SIDE, 50)
    return panel(
        weights.array, weights.query_words, weights.key_words, scale, (side, side), label_size=12, row_title="query",
        column_title="key", hidden=weights.hidden, hint="{row} attends to {column}: {number}",
    )  # fmt: skip


def _fixed_note(array: Numbers, shown: Numbers) -> str:
    said = "Learned once: the same matrix for every input, whatever the words."
    if shown.shape == array.shape:
        return said
    return f"{said} Drawn: {shown.shape[0]} × {shown.shape[1]} of {array.shape[0]} × {array.shape[1]}."


def _computed_note(weights: Weights) -> str:
    of_head = f", head {weights.head}" if weights.heads > 1 else ""
    return f"Computed from the words: a different matrix for every input{of_head}."


def _described(one: Weights, two: Weights, array: Numbers) -> str:
    said = [f"A feed-forward matrix of {array.shape[0]} × {array.shape[1]} weights is the same for both inputs."]
    for name, weights in (("first", one), ("second", two)):
        row, column = np.unravel_index(int(np.nan_to_num(weights.array).argmax()), weights.array.shape)
        words = printable(weights.query_words[row]), printable(weights.key_words[column])
        largest = printed_number(weights.array[row, column], 2)
        said.append(
            f"Attention on the {name} input gives its largest weight, {largest}, from {words[0]} to {words[1]}."
        )
    return " ".join(said)
