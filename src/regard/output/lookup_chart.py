"""A soft look-up drawn: each key, its similarity to the query, its weight as a bar, and its value."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.output import colours
from regard.output.heat_map import MARGIN, titled
from regard.output.printable import printable
from regard.output.svg import Svg, group, line, rectangle, text, widest
from regard.output.text_width import fitted
from regard.tables import digits_for, printed_number
from regard.teaching.lookup.answer import Answer, said
from regard.teaching.lookup.dictionary import Lookup

MOST_KEYS = 24
ROW, SIZE, SMALL = 30.0, 14.0, 11.0
BAR = 180.0
LONGEST = 220.0  # of a key, and of a value
BETWEEN = 28.0


def lookup(dictionary: Lookup, query: Any, temperature: float | None = None, *, title: str | None = None) -> Svg:
    """The weights that the soft look-up of one query gives to the keys, strongest first, and what comes out."""
    answer = dictionary.soft(query, temperature)
    if answer.weights.ndim != 1:
        raise TypeError("A figure shows the look-up of one query.")
    order = np.argsort(-answer.weights, kind="stable")[:MOST_KEYS]
    similarity = dictionary.similarities(query)
    digits = max(2, digits_for(similarity[np.isfinite(similarity)])) if np.isfinite(similarity).any() else 2
    rows = [
        (
            fitted(_one_line(dictionary.keys[place]), LONGEST, SIZE, bold=True),
            printed_number(similarity[place], digits),
            float(answer.weights[place]),
            fitted(_one_line(dictionary.values[place]), LONGEST, SIZE, bold=True),
        )
        for place in order
    ]
    used = dictionary.temperature_for(temperature)
    softmax = "softmax" if used == 1 else f"softmax(similarity / {used:g})" if used else "softmax, temperature → 0"
    headings = ("key", "similarity", f"{softmax} = weight", "value")
    key_wide = max(widest([row[0] for row in rows], SIZE, bold=True), widest(headings[:1], SMALL))
    score_right = key_wide + BETWEEN + max(widest([row[1] for row in rows], SIZE), widest(headings[1:2], SMALL))
    bar_left = score_right + BETWEEN
    number_right = bar_left + BAR + 48
    value_left = number_right + BETWEEN
    width = max(value_left + max(widest([row[3] for row in rows], SIZE, bold=True), 60.0), 460.0)
    name = title or f"SELECT value WHERE key ≈ {_quoted(query)}"
    heading = titled(name, _notes(dictionary, query, answer), width)

    parts = [
        text(headings[0], 0, 8, SMALL, fill=colours.MUTED),
        text(headings[1], score_right, 8, SMALL, anchor="end", fill=colours.MUTED),
        text(headings[2], bar_left, 8, SMALL, fill=colours.MUTED),
        text(headings[3], value_left, 8, SMALL, fill=colours.MUTED),
        line(0, 22, width, 22, colours.RULE),
    ]
    top = max((row[2] for row in rows), default=0.0)
    for place, (key, score, weight, value) in enumerate(rows):
        y, first = 22 + ROW * (place + 0.6), weight == top > 0
        parts.append(text(key, 0, y, SIZE, bold=first))
        parts.append(text(score, score_right, y, SIZE, anchor="end"))
        parts.append(rectangle(bar_left, y - 8, BAR, 16, colours.HIDDEN, radius=2))
        if weight * BAR >= 0.5:
            parts.append(rectangle(bar_left, y - 8, BAR * weight, 16, colours.ACCENT, radius=2))
        parts.append(text(printed_number(weight, 2), number_right, y, SIZE, anchor="end", bold=first))
        parts.append(text(value, value_left, y, SIZE, bold=first))
    height = 22 + ROW * len(rows) + 6
    below = titled(f"z = {_one_line(answer.value)}", _shortened(len(dictionary)), width, size=15)
    moved = group(parts, MARGIN, MARGIN + heading.height)
    y = MARGIN + heading.height + height + 10
    return Svg(
        width + 2 * MARGIN, y + below.height + MARGIN - 12, name, _described(query, rows, answer),
        (heading.at(MARGIN, MARGIN), moved, below.at(MARGIN, y)),
    )  # fmt: skip


def _notes(dictionary: Lookup, query: Any, answer: Answer) -> list[str]:
    hard = dictionary.hard(query)
    equal = f"Hard look-up, key = query: {_one_line(hard.value)}." if hard.found else "Hard look-up: no key equals it."
    return [equal, "Soft look-up: every key counts, by its similarity to the query; weights sum to 1.", *answer.notes]


def _shortened(count: int) -> list[str]:
    return [f"{count - MOST_KEYS:,} keys with smaller weights are not drawn."] if count > MOST_KEYS else []


def _described(query: Any, rows: list[tuple[str, str, float, str]], answer: Answer) -> str:
    weights = ", ".join(f"{key} {printed_number(weight, 2)}" for key, _, weight, _ in rows)
    return f"Soft look-up of {_quoted(query)}. Weights: {weights}. The answer is {_one_line(answer.value)}."


def _quoted(query: Any) -> str:
    return f"“{printable(query)}”" if isinstance(query, str) else _one_line(query)


def _one_line(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, (int, float)) for part in value):
        value = np.asarray(value, np.float64)
    return printable(said(value))
