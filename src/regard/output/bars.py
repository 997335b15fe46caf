"""A score as bars: the products q_i · k_i, component by component."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard import validate
from regard.output import colours
from regard.output.drawn_weights import Numbers, numbers_of
from regard.output.heat_map import MARGIN, titled
from regard.output.printable import printable
from regard.output.svg import Drawing, Svg, line, rectangle, text, widest
from regard.output.text_width import fitted
from regard.tables import digits_for, printed_number
from regard.trace import Trace
from regard.trace.labels import key_of, row_of

LABEL = 13.0
POSITIVE, NEGATIVE, QUIET = "#2a6fb5", "#b85c22", "#8a94a3"
SMALLEST = 8.0


def bars(trace: Trace, query: Any = None, key: Any = None, head: int = 0, *, title: str | None = None) -> Svg:
    """The components of a query and a key, and below them their products, which sum to the score."""
    row, head = row_of(trace, query), validate.index("head", head, trace.heads)
    column = key_of(trace, key, "score")
    query_vector = numbers_of("query", trace["query"][head, row])
    key_vector = numbers_of("key", trace["key"][head, column])
    products = query_vector * key_vector
    score = float(numbers_of("score", trace["score"][head, row])[column])
    words = printable(trace.query_words[row]), printable(trace.words[column])
    name = title or f"Query {words[0]}, key {words[1]}: q · k = {_said(score)}" + (
        f", head {head}" if trace.heads > 1 else ""
    )
    size = len(products)
    pitch = min(64.0, max(560.0 / size, 1.25))
    labels = [f"q of {words[0]}", f"k of {words[1]}", "q_i · k_i"]
    labels = [fitted(label, 200, LABEL, bold=True) for label in labels]
    left = widest(labels, LABEL, bold=True) + 20
    width = max(left + pitch * size + 16, 420.0)

    strips = [
        _strip(query_vector, labels[0], pitch, left, 46, quiet=True),
        _strip(key_vector, labels[1], pitch, left, 46, quiet=True),
        _strip(products, labels[2], pitch, left, 84, quiet=False),
    ]
    notes = [_sum(products, score), *_scaled(trace, score, row, column, head), *([trace.note] if trace.note else [])]
    heading = titled(name, notes, width)
    y = MARGIN + heading.height + 4
    parts = [heading.at(MARGIN, MARGIN)]
    for strip in strips:
        parts.append(strip.at(MARGIN, y))
        y += strip.height + 12
    parts.append(_positions(size, pitch, left).at(MARGIN, y - 2))
    described = f"Bars of {size} products of the components of the query {words[0]} and the key {words[1]}. {notes[0]}"
    return Svg(width + 2 * MARGIN, y + 16 + MARGIN, name, described, tuple(parts))


def _strip(numbers: Numbers, label: str, pitch: float, left: float, room: float, *, quiet: bool) -> Drawing:
    """Bars upwards for positive and downwards for negative numbers, labelled if the labels fit."""
    finite = np.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0)
    highest, lowest = max(float(finite.max()), 0.0), min(float(finite.min()), 0.0)
    unit = room / ((highest - lowest) or 1.0)
    shown = [printed_number(number, digits_for(numbers)) for number in numbers]
    size = min(12.0, pitch * 0.92 / max(widest(shown, 1.0), 0.1))
    size = size if size >= SMALLEST else 0.0
    above = size * 1.4 + 2
    zero = above + highest * unit
    bar = pitch * 0.62 if pitch > 4 else pitch
    height = above + room + (above if lowest < 0 else 4)
    parts = [text(label, left - 20, zero, LABEL, anchor="end", fill=colours.INK, bold=not quiet)]
    for place, number in enumerate(finite):
        x, tall = left + pitch * (place + 0.5), abs(number) * unit
        colour = QUIET if quiet else POSITIVE if number >= 0 else NEGATIVE
        top = zero - tall if number >= 0 else zero
        if tall:
            parts.append(rectangle(x - bar / 2, top, bar, tall, colour, hint=f"{place + 1}: {shown[place]}"))
        if size:
            y = top - size * 0.75 if number >= 0 else zero + tall + size * 0.75
            ink = colours.MUTED if quiet else colours.INK
            parts.append(text(shown[place], x, y, size, anchor="middle", fill=ink))
    parts.append(line(left, zero, left + pitch * len(numbers), zero, colours.MUTED))
    return Drawing(left + pitch * len(numbers), height, tuple(parts))


def _positions(size: int, pitch: float, left: float) -> Drawing:
    """Tick labels of the components, counted from 1, thinned out to fit."""
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, size) if step * pitch >= 26)
    places = [place for place in range(size) if place == 0 or (place + 1) % step == 0] if step > 1 else range(size)
    places = [place for place in places if place == 0 or place * pitch >= 26 or step == 1]
    parts = [text("i", left - 20, 8, LABEL, anchor="end", fill=colours.MUTED, italic=True)]
    parts += [
        text(str(place + 1), left + pitch * (place + 0.5), 8, 11, anchor="middle", fill=colours.MUTED)
        for place in places
    ]
    return Drawing(left + pitch * size, 16, tuple(parts))


def _sum(products: Numbers, score: float) -> str:
    digits = digits_for(products)
    if len(products) <= 8:
        terms = " + ".join(printed_number(number, digits) for number in products).replace("+ −", "− ")
        return f"{terms} = {_said(score)}"
    up, down = float(products[products > 0].sum()), float(products[products < 0].sum())
    above, below, both = (printed_number(number, digits) for number in (up, down, score))
    return f"{len(products)} products: those above zero sum to {above}, those below to {below}, all to {both}."


def _scaled(trace: Trace, score: float, row: int, column: int, head: int) -> list[str]:
    scaled = float(numbers_of("scaled", trace["scaled"][head, row])[column])
    by = f"÷ √{trace.size}" if trace.origin.is_root else f"× {trace.origin.scale:.3g}"
    return [f"{_said(score)} {by} = {_said(scaled)}, the scaled score"]


def _said(number: float) -> str:
    return printed_number(number, digits_for([number]))
