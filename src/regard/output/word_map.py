"""The weights of one head between words, for figures, and as a small map in a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from regard.arrays import numpy_of
from regard.output import colours
from regard.output.drawn_weights import MOST_CELLS, Booleans, Weights
from regard.output.printable import printable
from regard.reading import Reading
from regard.reading.weights import edges_of
from regard.tables import printed_number

LONGEST_LABEL = 12  # characters of a row label
TALLEST_HEADING = 8  # characters of a column label, set vertically
NUMBER = 4  # width of a cell with a number: " .81"
SHADE = 2  # width of a cell without one
TALLEST, POOLED = 36, 24  # most rows of a map with one row per word, and of a pooled one
FAINT = 0.005  # smaller weights print as 0.00
GROUND = 0.05  # smaller weights have no background: pale cells are too bright in a dark terminal
SHADES = ((0.5, "█"), (0.25, "▓"), (0.1, "▒"), (0.03, "░"))  # in terminals without colour
GOES_ON = " …"  # after the first word of a cell with several
LEGEND = "█ from 0.50, ▓ from 0.25, ▒ from 0.10, ░ from 0.03"


def weights_between_words(reading: Reading, layer: int, head: int, most: int = MOST_CELLS) -> Weights:
    """One head's weights between words; adjacent words are pooled if there are more than `most`."""
    words = reading.words
    groups = np.unique(np.linspace(0, len(words), min(len(words), most) + 1).astype(np.int64))
    pooled = len(groups) - 1 < len(words)
    edges = edges_of(words)[groups]
    attention = reading.attention(layer).select(head=head)
    array = numpy_of(attention.pooled(row_edges=edges, column_edges=edges, pool="words").array).astype(np.float64)
    labels = tuple(
        words[first].text if last - first == 1 else f"{words[first].text}{GOES_ON}" for first, last in pairwise(groups)
    )
    note = ""
    if pooled:
        note = f"{len(words):,} words, pooled: the mean weight of a row's tokens on all words of the column"
    hidden = None if pooled else _hidden(attention, edges)
    return Weights(array, labels, labels, hidden, head, reading.heads, note, f"{reading.model}, layer {layer}.")


def _hidden(attention: Any, edges: Any) -> Booleans | None:
    """Where all tokens of a key word are masked for all tokens of a query word."""
    if attention.mask is None or attention.shape[0] > 8 * MOST_CELLS:
        return None
    forbidden = np.isneginf(numpy_of(attention.masked[...]))
    by_key = np.logical_and.reduceat(forbidden, edges[:-1], axis=1)
    found: Booleans = np.logical_and.reduceat(by_key, edges[:-1], axis=0)
    return found


@dataclass(frozen=True, eq=False, slots=True)
class WordMap:
    """One head in a terminal: one row per query word, one column per key word, as numbers or shades."""

    reading: Reading
    layer: int
    head: int
    marked: int | None = None  # position of the highlighted query word

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        labels = [printable(word.text) for word in self.reading.words]
        beside = min(max(map(cell_len, labels)), LONGEST_LABEL)
        room = max(width - beside - 1, 3 * SHADE)
        fit = room // SHADE
        most = fit if len(labels) <= min(fit, TALLEST) else min(fit, POOLED)
        weights = weights_between_words(self.reading, self.layer, self.head, most)
        numbers = len(weights.key_words) * NUMBER <= room and not weights.pooled
        cell = NUMBER if numbers else SHADE
        yield Text(f"Layer {self.layer}, head {self.head}: rows attend to columns", "bold")
        yield from _headings(weights.key_words, beside + 1, cell)
        coloured = console.color_system is not None and not options.ascii_only
        for place, (word, row) in enumerate(zip(weights.query_words, weights.array, strict=True)):
            label = _cut(printable(word), beside)
            stands_out = place == self.marked and not weights.pooled
            line = Text(label + " " * (beside - cell_len(label) + 1), "bold" if stands_out else "")
            for column, weight in enumerate(row):
                if weights.hidden is not None and weights.hidden[place, column]:
                    line.append(" " * cell)
                else:
                    line.append_text(_number(weight) if numbers else _shade(weight, coloured))
            if numbers or not coloured:
                line.rstrip()
            yield line
        for note in self._notes(weights, numbers, coloured):
            yield Text(note, "dim italic")

    def _notes(self, weights: Weights, numbers: bool, coloured: bool) -> list[str]:
        notes = ["· stands for less than 0.005."] if numbers else []
        if not numbers and not coloured:
            notes.append(f"{LEGEND}.")
        if weights.hidden is not None and weights.hidden.any():
            notes.append("Blank: words that may not be seen, because they come later or are masked.")
        return [*notes, f"{weights.pooled}."] if weights.pooled else notes


def _headings(words: tuple[str, ...], left: int, cell: int) -> list[Text]:
    """Column labels: horizontal if they fit, else vertical."""
    names = [_cut(printable(word.removesuffix(GOES_ON)), TALLEST_HEADING) for word in words]
    if all(cell_len(name) < cell for name in names):
        return [Text(" " * left + "".join(" " * (cell - cell_len(name)) + name for name in names), "italic")]
    letters = [_letters(name) for name in names]
    tallest = max(map(len, letters))
    lines = []
    for level in range(tallest):
        line = " " * left
        for of_word in letters:
            above = tallest - len(of_word)  # aligned at the bottom
            sign = of_word[level - above] if level >= above else " "
            blanks = " " * (cell - cell_len(sign))
            line += blanks + sign if cell == NUMBER else sign + blanks
        lines.append(Text(line.rstrip(), "italic"))
    return lines


def _letters(word: str) -> list[str]:
    """Grapheme clusters, roughly: combining marks stay with their letters, joined emoji together.

    >>> [len(_letters(word)) for word in ("cat", "👩‍👩‍👧")]
    [3, 1]
    """
    signs: list[str] = []
    for letter in word:
        if signs and (cell_len(letter) == 0 or signs[-1].endswith("\u200d")):
            signs[-1] += letter
        else:
            signs.append(letter)
    return signs


def _number(weight: float) -> Text:
    """A weight such as .81 on its background colour."""
    if not weight >= FAINT:
        return Text("NaN".rjust(NUMBER) if weight != weight else "·".rjust(NUMBER), "dim")
    text = printed_number(weight, 2)
    text = "1.0" if text.startswith("1") else text[1:]
    return Text(text.rjust(NUMBER), _on(weight) if weight >= GROUND else "dim")


def _shade(weight: float, coloured: bool) -> Text:
    if coloured:
        return Text(" " * SHADE, _on(weight)) if weight >= GROUND else Text("· ", "dim")
    sign = next((sign for least, sign in SHADES if weight >= least), "·")
    return Text(sign * SHADE if sign != "·" else "· ")


def _on(weight: float) -> str:
    ground = colours.sequential(float(weight))
    return f"{colours.ink_on(ground)} on {ground}"


def _cut(word: str, most: int) -> str:
    return word if cell_len(word) <= most else set_cell_size(word, most - 1).rstrip() + "…"
