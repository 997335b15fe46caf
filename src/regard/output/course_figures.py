"""Figures of the course: a sentence shaded by weight, matrices as blocks with their shapes, a window beside a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.output import colours
from regard.output.characters import printable, text_width
from regard.output.chart import Chart, Line, charts, linear, logarithmic
from regard.output.panel import panel, scale_for
from regard.output.svg import Drawing, Svg, framed, rectangle, text
from regard.output.weight_figures import numbers_of
from regard.tables import digits_for, printed_number

WIDE = 440.0  # of a figure that a phone shows without shrinking its text much
WORD, NUMBER = 20.0, 12.0
NARROWEST = 32.0  # of a word, so that the numbers below two words do not touch


def shaded_sentence(words: Sequence[str], rows: Sequence[tuple[str, Any]], *, title: str, note: str = "") -> Svg:
    """A sentence several times, each word shaded by its weight and with the weight below it.

    rows   a label and one weight per word; NaN: out of reach, drawn without a number
    """
    parts: list[str] = []
    captions, y = [], 0.0
    for label, row in rows:
        weights = numbers_of("weights", row)
        parts.append(text(label, 0, y + 8, 14, bold=True))
        x, y = 0.0, y + 26
        for word, weight in zip(map(printable, words), weights, strict=True):
            wide = max(text_width(word, WORD) + 12, NARROWEST)
            if x and x + wide > WIDE:
                x, y = 0.0, y + 54
            is_reached = bool(weight == weight)
            fill = colours.sequential(float(weight)) if is_reached else colours.HIDDEN
            parts.append(rectangle(x, y, wide, 28, fill, radius=4))
            parts.append(text(word, x + wide / 2, y + 14, WORD, anchor="middle", fill=colours.ink_on(fill)))
            if is_reached and weight >= 0.005:
                below = printed_number(float(weight), 2)
                parts.append(text(below, x + wide / 2, y + 38, NUMBER, anchor="middle", fill=colours.MUTED))
            x += wide + 4
        y += 66
        captions.append(
            f"{label}: " + ", ".join(f"{word} {weight:.2f}" for word, weight in zip(words, weights, strict=True))
        )
    return framed(title, [note] if note else [], Drawing(WIDE, y - 14, tuple(parts)), ". ".join(captions) + ".")


def products(matrices: Sequence[tuple[str, Any]], signs: Sequence[str], *, title: str, note: str = "") -> Svg:
    """Matrices in a row with signs between them: X · W = Q. Below each its name, and its shape as rows × columns."""
    arrays = [numbers_of(name, matrix) for name, matrix in matrices]
    digits = [min(digits_for(array), 2) for array in arrays]
    cell = 34.0 if sum(array.shape[1] for array in arrays) <= 12 else 28.0
    tallest = max(len(array) for array in arrays) * cell
    parts: list[str] = []
    x = 0.0
    for number, ((name, _), array, shown) in enumerate(zip(matrices, arrays, digits, strict=True)):
        rows, columns = ([str(count) for count in range(size)] for size in array.shape)
        drawn = panel(
            array, rows, columns, scale_for(array, signed=bool((array < 0).any())), (cell, cell), digits=shown,
            labelled=(False, False), hint=name + "[{row}, {column}]: {number}",
        )  # fmt: skip
        parts.append(drawn.drawing.at(x, (tallest - drawn.height) / 2))
        middle = x + drawn.width / 2
        parts.append(text(name, middle, tallest + 18, 16, anchor="middle", bold=True))
        shape = f"{array.shape[0]} × {array.shape[1]}"
        parts.append(text(shape, middle, tallest + 38, 13, anchor="middle", fill=colours.MUTED))
        x += drawn.width
        if number < len(signs):
            wide = max(text_width(signs[number], 16), 14.0)
            parts.append(text(signs[number], x + wide / 2 + 9, tallest / 2, 16, anchor="middle"))
            x += wide + 18
    shapes = ", ".join(
        f"{name} {array.shape[0]} by {array.shape[1]}" for (name, _), array in zip(matrices, arrays, strict=True)
    )
    body = Drawing(max(x, 320.0), tallest + 50, tuple(parts))
    return framed(title, [note] if note else [], body, f"{title}: {shapes}.", gap=8)


def curves(
    lines: dict[str, Any], sizes: Sequence[int], *, title: str, along: str, what: str, is_log: bool = False
) -> Svg:
    """One line per name over the same sizes; both axes logarithmic or both linear."""
    arrays = [numbers_of(name, numbers) for name, numbers in lines.items()]
    axis = (logarithmic if is_log else linear)(numbers_of("lines", [list(array) for array in arrays]))
    drawn = [Line(name, array, number) for number, (name, array) in enumerate(zip(lines, arrays, strict=True))]
    chart = charts([Chart("", what, drawn, axis)], sizes, along=along, is_log=is_log)
    ends = ". ".join(f"{name}: {array[0]:.4g} to {array[-1]:.4g}" for name, array in zip(lines, arrays, strict=True))
    return framed(title, [], chart, f"{title}. {ends}.")
