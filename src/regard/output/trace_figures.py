"""One query of a trace as a figure: a score as bars, and the way from the query to its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from regard import validate
from regard.output import colours, svg
from regard.output.characters import fitted, printable, text_width
from regard.output.panel import Numbers
from regard.output.svg import Drawing, FigureOptions, Svg, framed, least_type, room, sized, text
from regard.output.table_formats import parts_of, shortened
from regard.output.weight_figures import numbers_of
from regard.tables import digits_for, printed_number
from regard.trace import Trace
from regard.trace.named_steps import key_of, row_of

# A score as bars: the products q_i · k_i

LABEL = 13.0
POSITIVE, NEGATIVE, QUIET = "#2a6fb5", "#b85c22", "#8a94a3"
SMALLEST = 8.0


@sized
def bars(trace: Trace, query: Any = None, key: Any = None, head: int = 0, **_options: Unpack[FigureOptions]) -> Svg:
    """The components of a query and a key, and below them their products, which sum to the score."""
    row, head = row_of(trace, query), validate.index("head", head, trace.heads)
    column = key_of(trace, key, "score")
    query_vector = numbers_of("query", trace["query"][head, row])
    key_vector = numbers_of("key", trace["key"][head, column])
    products = query_vector * key_vector
    score = float(numbers_of("score", trace["score"][head, row])[column])
    words = printable(trace.query_words[row]), printable(trace.words[column])
    name = f"Query {words[0]}, key {words[1]}: q · k = {_said(score)}" + (f", head {head}" if trace.heads > 1 else "")
    size = len(products)
    pitch = min(room(64.0), max(room(560.0) / size, room(1.25)))
    labels = [f"q of {words[0]}", f"k of {words[1]}", "q_i · k_i"]
    labels = [fitted(label, 200, LABEL, bold=True) for label in labels]
    left = svg.widest(labels, LABEL, bold=True) + 20
    width = max(left + pitch * size + 16, room(420.0))

    strips = [
        _strip(query_vector, labels[0], pitch, left, room(46), quiet=True),
        _strip(key_vector, labels[1], pitch, left, room(46), quiet=True),
        _strip(products, labels[2], pitch, left, room(84), quiet=False),
    ]
    scaled = float(numbers_of("scaled", trace["scaled"][head, row])[column])
    by = f"÷ √{trace.head_dim}" if trace.origin.is_root else f"× {trace.origin.scale:.3g}"
    notes = [_sum(products, score), f"{_said(score)} {by} = {_said(scaled)}, the scaled score"]
    notes += [trace.note] if trace.note else []
    parts, y = [], 0.0
    for strip in strips:
        parts.append(strip.at(0, y))
        y += strip.height + 12
    parts.append(_positions(size, pitch, left).at(0, y - 2))
    described = f"Bars of {size} products of the components of the query {words[0]} and the key {words[1]}. {notes[0]}"
    return framed(name, notes, Drawing(width, y + 16, tuple(parts)), described, gap=4)


def _strip(numbers: Numbers, label: str, pitch: float, left: float, room: float, *, quiet: bool) -> Drawing:
    """Bars upwards for positive and downwards for negative numbers, labelled if the labels fit."""
    finite = np.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0)
    highest, lowest = max(float(finite.max()), 0.0), min(float(finite.min()), 0.0)
    unit = room / ((highest - lowest) or 1.0)
    shown = [printed_number(number, digits_for(numbers)) for number in numbers]
    size = min(12.0, pitch * 0.92 / max(*(text_width(number, 1.0) for number in shown), 0.1))
    size = size if size >= least_type(SMALLEST) else 0.0
    above = size * 1.4 + 2
    zero = above + highest * unit
    bar = pitch * 0.62 if pitch > 4 else pitch
    height = above + room + (above if lowest < 0 else 4)
    parts = [text(label, left - 20, zero, LABEL, anchor="end", fill=colours.INK, bold=not quiet)]
    for index, number in enumerate(finite):
        x, tall = left + pitch * (index + 0.5), abs(number) * unit
        colour = QUIET if quiet else POSITIVE if number >= 0 else NEGATIVE
        top = zero - tall if number >= 0 else zero
        if tall:
            parts.append(svg.rectangle(x - bar / 2, top, bar, tall, colour, hint=f"{index + 1}: {shown[index]}"))
        if size:
            y = top - size * 0.75 if number >= 0 else zero + tall + size * 0.75
            ink = colours.MUTED if quiet else colours.INK
            parts.append(text(shown[index], x, y, size, anchor="middle", fill=ink))
    parts.append(svg.line(left, zero, left + pitch * len(numbers), zero, colours.MUTED))
    return Drawing(left + pitch * len(numbers), height, tuple(parts))


def _positions(size: int, pitch: float, left: float) -> Drawing:
    """Tick labels of the components, counted from 1, thinned out to fit."""
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, size) if step * pitch >= 26)
    indices = [index for index in range(size) if index == 0 or (index + 1) % step == 0] if step > 1 else range(size)
    indices = [index for index in indices if index == 0 or index * pitch >= 26 or step == 1]
    parts = [text("i", left - 20, 8, LABEL, anchor="end", fill=colours.MUTED, italic=True)]
    parts += [
        text(str(index + 1), left + pitch * (index + 0.5), 8, 11, anchor="middle", fill=colours.MUTED)
        for index in indices
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


def _said(number: float) -> str:
    return printed_number(number, digits_for([number]))


# One query through one head: q · k → scaled → softmax → weighted values → sum

MOST_WORDS, FEW_WORDS = 12, 6  # keys that are drawn, and on a slide
MOST_PARTS, FEW_PARTS = 5, 2  # numbers of a vector that are shown, and on a slide
ROW = 46.0
THICKEST = 30.0
SIZE, SMALL = 14.0, 11.0
STAGES = {"capped": "capped", "biased": "+ bias", "masked": "masked"}


@dataclass(frozen=True, eq=False, slots=True)
class _Row:
    """One key, or all remaining keys together."""

    word: str
    weight: float
    key: str = ""
    value: str = ""
    stages: tuple[str, ...] = ()
    seen: bool = True


@sized
def flow(trace: Trace, query: Any = None, head: int = 0, **_options: Unpack[FigureOptions]) -> Svg:
    """One query through one head, from its vector to its output.

    With more than 12 words, those with the largest weights are drawn in sentence order, the others as one row.
    """
    row, head = row_of(trace, query), validate.index("head", head, trace.heads)
    word = trace.query_words[row]
    weights = numbers_of("weight", trace["weight"][head, row])
    headings, rows = _rows(trace, row, head, weights)
    drawn = _Flow(trace, row, head, headings, rows)
    name = f"Attention of {printable(word)}, step by step" + (f", head {head}" if trace.heads > 1 else "")
    notes = ["The width of a line is the weight.", *([trace.note] if trace.note else [])]
    seen = (f"{entry.word} {printed_number(entry.weight, 2) if entry.seen else 'masked'}" for entry in rows)
    described = f"The query of {word} is compared with every key. Softmax gives the weights {', '.join(seen)}. "
    return framed(name, notes, drawn.draw(), f"{described}The sum is {drawn.output}.")


def _rows(trace: Trace, row: int, head: int, weights: Numbers) -> tuple[list[str], list[_Row]]:
    """The headings of the columns between keys and softmax, and one row per drawn word."""
    stages = {name: numbers_of(name, trace[name][head, row]) for name in ("score", "scaled", *STAGES) if name in trace}
    root = f"÷ √d_k = {trace.head_dim**0.5:.3g}" if trace.origin.is_root else f"× {trace.origin.scale:.3g}"
    headings = [{"score": "q · k", "scaled": root, **STAGES}[name] for name in stages]
    digits = {name: digits_for(numbers) for name, numbers in stages.items()}
    keys, values = (numbers_of(name, trace[name][head]) for name in ("key", "value"))
    count, most = len(trace.words), MOST_WORDS if room(1.0) > 0.8 else FEW_WORDS
    key_indices = np.arange(count)
    if count > most:
        key_indices = np.sort(np.argsort(-weights, kind="stable")[: most - 1])
    masked = stages.get("masked")
    rows = [
        _Row(
            trace.words[index],
            float(weights[index]),
            _vector(keys[index], digits_for(keys)),
            _vector(values[index], digits_for(values)),
            tuple(printed_number(numbers[index], digits[name]) for name, numbers in stages.items()),
            masked is None or not np.isneginf(masked[index]),
        )
        for index in key_indices
    ]
    if count > most:
        rest = float(np.delete(weights, key_indices).sum())
        others = "other words" if room(1.0) > 0.8 else "others"
        rows.append(_Row(f"{count - len(key_indices)} {others}", rest, value="…", stages=("",) * len(stages)))
    return headings, rows


class _Flow:
    """The layout from left to right, and its drawing."""

    def __init__(self, trace: Trace, row: int, head: int, headings: list[str], rows: list[_Row]) -> None:
        queries, outputs = (numbers_of(name, trace[name][head]) for name in ("query", "output"))
        self.word = fitted(printable(trace.query_words[row]), max(room(140), 60.0), SIZE, bold=True)
        self.query = _vector(queries[row], digits_for(queries))
        self.output = _vector(outputs[row], max(2, digits_for(outputs[row])))
        self.headings, self.rows = headings, rows
        self.words = [fitted(printable(entry.word), max(room(140), 60.0), SIZE) for entry in rows]
        card = max(text_width(self.word, SIZE, bold=True), svg.widest([self.query, "query q"], SMALL)) + 24
        keys = max(svg.widest(self.words, SIZE), svg.widest([entry.key for entry in rows], SMALL), 40.0) + 24
        self.card = card
        self.key_left = card + max(room(84), 20.0)
        self.key_right = self.key_left + keys
        self.stage_ends = []  # right edge of each column of numbers
        x = self.key_right
        for number, name in enumerate(headings):
            x += max(svg.widest([entry.stages[number] for entry in rows], SIZE), svg.widest([name], SMALL)) + max(
                room(22), 9.0
            )
            self.stage_ends.append(x)
        self.bar_left = x + max(room(26), 14.0)
        self.bar_right = self.bar_left + max(room(96), 64.0, svg.widest(["softmax = weight"], SMALL) - 8)
        self.value_left = self.bar_right + max(room(84), 22.0)
        self.value_right = self.value_left + max(svg.widest([entry.value for entry in rows], SMALL), 50.0) + 20
        self.sum_left = self.value_right + max(room(120), 28.0)
        self.width = self.sum_left + svg.widest([self.output, "Σ weight · v"], SMALL) + 24
        self.first = 34 + ROW / 2
        self.middle = self.first + ROW * (len(rows) - 1) / 2

    def draw(self) -> Drawing:
        ends = [self.first + ROW * number for number, entry in enumerate(self.rows) if entry.seen]
        parts = self._headings()
        parts += [svg.curve(self.card, self.middle, self.key_left - 2, y, "#9aa3b0", 1.2) for y in ends]
        parts += [*(svg.arrow_head(self.key_left, y, "#9aa3b0") for y in ends), *self._ribbons()]
        for number, entry in enumerate(self.rows):
            parts += self._row(entry, self.words[number], self.first + ROW * number)
        for x, wide, word, numbers in (
            (0, self.card, self.word, self.query), (self.sum_left, self.width - self.sum_left, "sum", self.output),
        ):  # fmt: skip
            box = svg.rectangle(x, self.middle - 26, wide, 52, colours.ACCENT_SOFT, stroke=colours.ACCENT, radius=8)
            parts.append(box)
            parts.append(text(word, x + wide / 2, self.middle - 9, SIZE, anchor="middle", bold=True))
            parts.append(text(numbers, x + wide / 2, self.middle + 11, SMALL, anchor="middle"))
        return Drawing(self.width, self.first + ROW * (len(self.rows) - 0.5), tuple(parts))

    def _headings(self) -> list[str]:
        headings = [
            ("query q", self.card / 2, "middle"), ("keys k", (self.key_left + self.key_right) / 2, "middle"),
            *((name, x, "end") for name, x in zip(self.headings, self.stage_ends, strict=True)),
            ("softmax = weight", self.bar_left, "start"),
            ("values v", (self.value_left + self.value_right) / 2, "middle"),
            ("Σ weight · v", (self.sum_left + self.width) / 2, "middle"),
        ]  # fmt: skip
        parts = [text(name, x, 8, SMALL, anchor=anchor, fill=colours.MUTED) for name, x, anchor in headings]
        return [*parts, svg.line(0, 24, self.width, 24, colours.RULE)]

    def _ribbons(self) -> list[str]:
        """Bands from softmax through the values into the sum, as wide as the weights, stacked at the sum."""
        parts, arrives = [], self.middle - THICKEST * sum(entry.weight for entry in self.rows) / 2
        for number, entry in enumerate(self.rows):
            thick, y = THICKEST * entry.weight, self.first + ROW * number
            if thick >= 0.05:
                colour = colours.sequential(0.35 + 0.5 * entry.weight)
                end = arrives + thick / 2
                parts.append(svg.curve(self.bar_right + 12, y, self.value_left, y, colour, thick, 0.85))
                parts.append(svg.curve(self.value_right, y, self.sum_left, end, colour, thick, 0.85))
            arrives += thick
        return parts

    def _row(self, entry: _Row, word: str, y: float) -> list[str]:
        ink = colours.INK if entry.seen else colours.MUTED
        middle = (self.key_left + self.key_right) / 2
        wide = self.key_right - self.key_left
        parts = [svg.rectangle(self.key_left, y - 18, wide, 36, "#ffffff", stroke=colours.RULE, radius=6)]
        parts.append(text(word, middle, y - 7 if entry.key else y, SIZE, anchor="middle", fill=ink))
        if entry.key:
            parts.append(text(entry.key, middle, y + 9, SMALL, anchor="middle", fill=colours.MUTED))
        for number, x in zip(entry.stages, self.stage_ends, strict=True):
            parts.append(text(number, x, y, SIZE, anchor="end", fill=ink))
        room = self.bar_right - self.bar_left - 44
        parts.append(svg.rectangle(self.bar_left, y - 7, room, 14, colours.HIDDEN, radius=2))
        if entry.weight > 0:
            parts.append(svg.rectangle(self.bar_left, y - 7, room * min(entry.weight, 1), 14, colours.ACCENT, radius=2))
        shown = printed_number(entry.weight, 2) if entry.seen else ""
        parts.append(text(shown, self.bar_right + 4, y, SIZE, anchor="end", fill=ink, bold=entry.weight >= 0.005))
        if entry.value:
            wide = self.value_right - self.value_left
            parts.append(svg.rectangle(self.value_left, y - 12, wide, 24, "#ffffff", stroke=colours.RULE, radius=6))
            middle = (self.value_left + self.value_right) / 2
            parts.append(text(entry.value, middle, y, SMALL, anchor="middle", fill=ink))
        return parts


def _vector(vector: Numbers, digits: int) -> str:
    return " ".join(shortened(parts_of(vector, digits), MOST_PARTS if room(1.0) > 0.55 else FEW_PARTS))
