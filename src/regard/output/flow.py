"""One query through one head: q · k → scaled → softmax → weighted values → sum, weights as line widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import validate
from regard.output import colours
from regard.output.cells import parts_of, shortened
from regard.output.drawn_weights import Numbers, numbers_of
from regard.output.heat_map import MARGIN, titled
from regard.output.printable import printable
from regard.output.svg import Svg, arrow_head, curve, group, line, rectangle, text, widest
from regard.output.text_width import fitted, text_width
from regard.tables import digits_for, printed_number
from regard.trace import Trace
from regard.trace.labels import row_of

MOST_WORDS = 12
MOST_PARTS = 5  # numbers of a vector that are shown
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


def flow(trace: Trace, query: Any = None, head: int = 0, *, title: str | None = None) -> Svg:
    """One query through one head, from its vector to its output.

    With more than 12 words, those with the largest weights are drawn in sentence order, the others as one row.
    """
    row, head = row_of(trace, query), validate.index("head", head, trace.heads)
    word = trace.query_words[row]
    weights = numbers_of("weight", trace["weight"][head, row])
    headings, rows = _rows(trace, row, head, weights)
    drawn = _Flow(trace, row, head, headings, rows)
    parts, width, height = drawn.draw()
    name = title or f"Attention of {printable(word)}, step by step" + (f", head {head}" if trace.heads > 1 else "")
    notes = ["The width of a line is the weight.", *([trace.note] if trace.note else [])]
    heading = titled(name, notes, width)
    total = height + heading.height + 2 * MARGIN
    moved = group(parts, MARGIN, MARGIN + heading.height)
    return Svg(
        width + 2 * MARGIN, total, name, _described(word, rows, drawn.output), (heading.at(MARGIN, MARGIN), moved)
    )


def _rows(trace: Trace, row: int, head: int, weights: Numbers) -> tuple[list[str], list[_Row]]:
    """The headings of the columns between keys and softmax, and one row per drawn word."""
    stages = {name: numbers_of(name, trace[name][head, row]) for name in ("score", "scaled", *STAGES) if name in trace}
    root = f"÷ √d_k = {trace.size**0.5:.3g}" if trace.origin.is_root else f"× {trace.origin.scale:.3g}"
    headings = [{"score": "q · k", "scaled": root, **STAGES}[name] for name in stages]
    digits = {name: digits_for(numbers) for name, numbers in stages.items()}
    keys, values = (numbers_of(name, trace[name][head]) for name in ("key", "value"))
    count = len(trace.words)
    places = np.arange(count)
    if count > MOST_WORDS:
        places = np.sort(np.argsort(-weights, kind="stable")[: MOST_WORDS - 1])
    masked = stages.get("masked")
    rows = [
        _Row(
            trace.words[place],
            float(weights[place]),
            _vector(keys[place], digits_for(keys)),
            _vector(values[place], digits_for(values)),
            tuple(printed_number(numbers[place], digits[name]) for name, numbers in stages.items()),
            masked is None or not np.isneginf(masked[place]),
        )
        for place in places
    ]
    if count > MOST_WORDS:
        rest = float(np.delete(weights, places).sum())
        rows.append(_Row(f"{count - len(places)} other words", rest, value="…", stages=("",) * len(stages)))
    return headings, rows


class _Flow:
    """The layout from left to right, and its drawing."""

    def __init__(self, trace: Trace, row: int, head: int, headings: list[str], rows: list[_Row]) -> None:
        queries, outputs = (numbers_of(name, trace[name][head]) for name in ("query", "output"))
        self.word = fitted(printable(trace.query_words[row]), 140, SIZE, bold=True)
        self.query = _vector(queries[row], digits_for(queries))
        self.output = _vector(outputs[row], max(2, digits_for(outputs[row])))
        self.headings, self.rows = headings, rows
        self.words = [fitted(printable(entry.word), 140, SIZE) for entry in rows]
        card = max(text_width(self.word, SIZE, bold=True), widest([self.query, "query q"], SMALL)) + 24
        keys = max(widest(self.words, SIZE), widest([entry.key for entry in rows], SMALL), 40.0) + 24
        self.card = card
        self.key_left = card + 84
        self.key_right = self.key_left + keys
        self.stage_ends = []  # right edge of each column of numbers
        x = self.key_right
        for place, name in enumerate(headings):
            x += max(widest([entry.stages[place] for entry in rows], SIZE), text_width(name, SMALL)) + 22
            self.stage_ends.append(x)
        self.bar_left = x + 26
        self.bar_right = self.bar_left + 96
        self.value_left = self.bar_right + 84
        self.value_right = self.value_left + max(widest([entry.value for entry in rows], SMALL), 50.0) + 20
        self.sum_left = self.value_right + 120
        self.width = self.sum_left + widest([self.output, "Σ weight · v"], SMALL) + 24
        self.first = 34 + ROW / 2
        self.middle = self.first + ROW * (len(rows) - 1) / 2

    def draw(self) -> tuple[list[str], float, float]:
        parts = self._headings() + self._query_lines() + self._ribbons()
        for place, entry in enumerate(self.rows):
            parts += self._row(entry, self.words[place], self.first + ROW * place)
        parts += self._card(0, self.card, self.word, self.query, colours.ACCENT)
        parts += self._card(self.sum_left, self.width - self.sum_left, "sum", self.output, colours.ACCENT)
        return parts, self.width, self.first + ROW * (len(self.rows) - 0.5)

    def _headings(self) -> list[str]:
        def heading(content: str, x: float, anchor: str) -> str:
            return text(content, x, 8, SMALL, anchor=anchor, fill=colours.MUTED)

        parts = [heading("query q", self.card / 2, "middle")]
        parts += [heading("keys k", (self.key_left + self.key_right) / 2, "middle")]
        parts += [heading(name, x, "end") for name, x in zip(self.headings, self.stage_ends, strict=True)]
        parts += [heading("softmax = weight", self.bar_left, "start")]
        parts += [heading("values v", (self.value_left + self.value_right) / 2, "middle")]
        parts += [heading("Σ weight · v", (self.sum_left + self.width) / 2, "middle")]
        return [*parts, line(0, 24, self.width, 24, colours.RULE)]

    def _query_lines(self) -> list[str]:
        ends = [self.first + ROW * place for place, entry in enumerate(self.rows) if entry.seen]
        parts = [curve(self.card, self.middle, self.key_left - 2, y, "#9aa3b0", 1.2) for y in ends]
        return parts + [arrow_head(self.key_left, y, "#9aa3b0") for y in ends]

    def _ribbons(self) -> list[str]:
        """Bands from softmax through the values into the sum, as wide as the weights, stacked at the sum."""
        parts, arrives = [], self.middle - THICKEST * sum(entry.weight for entry in self.rows) / 2
        for place, entry in enumerate(self.rows):
            thick, y = THICKEST * entry.weight, self.first + ROW * place
            if thick >= 0.05:
                colour = colours.sequential(0.35 + 0.5 * entry.weight)
                end = arrives + thick / 2
                parts.append(curve(self.bar_right + 12, y, self.value_left, y, colour, thick, 0.85))
                parts.append(curve(self.value_right, y, self.sum_left, end, colour, thick, 0.85))
            arrives += thick
        return parts

    def _row(self, entry: _Row, word: str, y: float) -> list[str]:
        ink = colours.INK if entry.seen else colours.MUTED
        middle = (self.key_left + self.key_right) / 2
        wide = self.key_right - self.key_left
        parts = [rectangle(self.key_left, y - 18, wide, 36, "#ffffff", stroke=colours.RULE, radius=6)]
        parts.append(text(word, middle, y - 7 if entry.key else y, SIZE, anchor="middle", fill=ink))
        if entry.key:
            parts.append(text(entry.key, middle, y + 9, SMALL, anchor="middle", fill=colours.MUTED))
        for number, x in zip(entry.stages, self.stage_ends, strict=True):
            parts.append(text(number, x, y, SIZE, anchor="end", fill=ink))
        room = self.bar_right - self.bar_left - 44
        parts.append(rectangle(self.bar_left, y - 7, room, 14, colours.HIDDEN, radius=2))
        if entry.weight > 0:
            parts.append(rectangle(self.bar_left, y - 7, room * min(entry.weight, 1), 14, colours.ACCENT, radius=2))
        shown = printed_number(entry.weight, 2) if entry.seen else "–"
        parts.append(text(shown, self.bar_right + 4, y, SIZE, anchor="end", fill=ink, bold=entry.weight >= 0.005))
        if entry.value:
            wide = self.value_right - self.value_left
            parts.append(rectangle(self.value_left, y - 12, wide, 24, "#ffffff", stroke=colours.RULE, radius=6))
            middle = (self.value_left + self.value_right) / 2
            parts.append(text(entry.value, middle, y, SMALL, anchor="middle", fill=ink))
        return parts

    def _card(self, x: float, wide: float, word: str, numbers: str, colour: str) -> list[str]:
        return [
            rectangle(x, self.middle - 26, wide, 52, colours.ACCENT_SOFT, stroke=colour, radius=8),
            text(word, x + wide / 2, self.middle - 9, SIZE, anchor="middle", bold=True),
            text(numbers, x + wide / 2, self.middle + 11, SMALL, anchor="middle"),
        ]


def _vector(vector: Numbers, digits: int) -> str:
    return " ".join(shortened(parts_of(vector, digits), MOST_PARTS))


def _described(word: str, rows: list[_Row], output: str) -> str:
    weights = ", ".join(f"{entry.word} {printed_number(entry.weight, 2)}" for entry in rows)
    return f"The query of {word} is compared with every key. Softmax gives the weights {weights}. The sum is {output}."
