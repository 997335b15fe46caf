"""What the slides of a lecture are computed from: a sentence, its attention step by step, and a model's reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.arrays import numpy_of
from regard.models.model import model
from regard.output import colours
from regard.output.matrix_figures import Factor, product, sentence
from regard.output.svg import Svg, fit_box
from regard.reading import Reading
from regard.reading.weights import WordWeights
from regard.slides.deck import INNER, GridCell, Slide, SlideGrid, SlideText
from regard.tables import digits_for, printed_number
from regard.teaching.hand_check.inputs import PRODUCTS, Product
from regard.teaching.traced_attention import Traced, traced
from regard.teaching.words import words_of
from regard.trace import Trace
from regard.trace.labels import numbered

WIDTH = 64  # of vectors, so that √d_k = 8
SHOWN = 4  # components of a vector on a slide
MOST_WORDS = 7  # of the sentence in tables and matrices
MOST_SENTENCE = 18  # words of the sentence where it is written out
COLOURS = 65  # steps of a colour map in an HTML deck
WEIGHT_NAMES = ("W_Q", "W_K", "W_V", "W_O")
WEIGHTS = re.compile(r"(?<=· )W_[QKVO]\b(?!ᵀ)")  # where x or X is multiplied by them
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
STEPS = {"q": "query", "k": "key", "v": "value", "z": "output"}  # by their names in `live.js`
SYMBOLS = {
    "x": "x{}", "q": "q{}", "k": "k{}", "v": "v{}", "score": "q{}·k{}", "scaled": "q{}·k{}/8", "weight": "a{}{}",
    "weighted": "a{0}{1}·v{1}", "z": "z{}",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lecture:
    """A sentence, and everything that is computed from it once."""

    text: str
    symbols: bool = False  # q₁·k₁ instead of numbers
    model: str = "minilm"
    product: Product = PRODUCTS[0]  # "x W^T" for lectures that write Q = X · Wᵀ

    @property
    def is_transposed(self) -> bool:
        """Whether W is written as in Q = X · Wᵀ."""
        return self.product != PRODUCTS[0]

    def written(self, text: str) -> str:
        """A formula with W as this lecture writes it."""
        return WEIGHTS.sub(r"\g<0>ᵀ", text) if self.is_transposed else text

    @cached_property
    def all_words(self) -> tuple[str, ...]:
        return words_of(self.text)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that tables and matrices show: the first ones of a long sentence."""
        return self.all_words[:MOST_WORDS]

    @property
    def names(self) -> tuple[str, ...]:
        """These words as tables name them: the second "the" is the:2."""
        return tuple(numbered(self.words))

    @property
    def shortened(self) -> tuple[SlideText, ...]:
        """A note where words are left out."""
        is_whole = len(self.words) == len(self.all_words)
        return () if is_whole else (remark(f"Only the words up to “{self.words[-1]}” are shown."),)

    @cached_property
    def steps(self) -> Traced:
        """One head of d_k = 64 on random embeddings and weights."""
        return traced(self.words, width=WIDTH, product=self.product)

    @cached_property
    def positioned(self) -> Traced:
        """The same head after positions are added to the embeddings."""
        return traced(self.words, width=WIDTH, positions="sinusoidal")

    @cached_property
    def trace(self) -> Trace:
        """All steps of that head."""
        return self.steps.whole()

    @cached_property
    def positioned_trace(self) -> Trace:
        """All steps after positions are added."""
        return self.positioned.whole()

    @cached_property
    def eight_heads(self) -> Traced:
        """Eight heads on the same embeddings."""
        return traced(self.words, heads=8, width=WIDTH)

    @cached_property
    def reading(self) -> Reading:
        """The sentence as a trained model reads it."""
        return read(self.model, self.text)

    @property
    def quoted(self) -> str:
        return quoted(self.text)

    def steps_command(self, options: str = "") -> str:
        """The command that computes the numbers of tables and matrices, which are about the words shown."""
        return f"regard steps {quoted(' '.join(self.words))} --set width={WIDTH}{options}"

    def live_numbers(self) -> dict[str, Any]:
        """What an HTML deck computes its numbers from when an embedding is changed on a slide, and their colours."""
        inputs, shares = self.steps.inputs, np.linspace(0, 1, COLOURS)
        return {
            "x": np.asarray(inputs.x).tolist(),
            "positions": np.asarray(self.positioned.inputs.position).tolist(),
            **{name: inputs.matrices[name].tolist() for name in ("W_q", "W_k", "W_v")},
            "sequential": [colours.sequential(share) for share in shares],
            "positive": [colours.diverging(share) for share in shares],
            "negative": [colours.diverging(-share) for share in shares],
        }

    @property
    def command(self) -> str:
        """The command that makes the slides of this lecture."""
        options = " --symbols" * self.symbols + f' --product "{self.product}"' * self.is_transposed
        return f"regard slides {self.quoted}{options}"

    def slides(self, command: str) -> Callable[..., Slide]:
        """A function from a title and elements to a slide, whose notes say that these commands show the same."""
        if self.is_transposed and command.startswith("regard steps"):
            command += f' --set product="{self.product}"'
        notes = tuple(f"The same in the terminal: {line}" for line in command.splitlines())
        return lambda title, *elements: Slide(self.written(title), tuple(map(self._as_written, elements)), notes)

    def _as_written(self, element: Any) -> Any:
        """Text and tables with W as this lecture writes it."""
        if isinstance(element, SlideText):
            return replace(element, paragraphs=tuple(map(self.written, element.paragraphs)))
        return element.map(self.written) if isinstance(element, SlideGrid) else element

    def cell(self, name: str, *place: int, positioned: bool = False, as_symbol: bool = False) -> GridCell:
        """A number of the one head, or the first ones of a vector, as `live.js` names it: "q", 0 or "score", 0, 2."""
        if as_symbol:
            return GridCell(SYMBOLS[name].format(*map(index, place)))
        trace = self.positioned_trace if positioned else self.trace
        live = " ".join([f"p.{name}" if positioned else name, *map(str, place)])
        if name == "x":
            values = numpy_of(trace["positioned" if positioned else "embedding"])[place]
        elif name == "weighted":
            values = numpy_of(trace["weight"])[0][place] * numpy_of(trace["value"])[0, place[1]]
        else:
            values = numpy_of(trace[STEPS.get(name, name)])[0][place]
        text = vector(values) if values.ndim else number(values, 1 if name == "score" else 2)
        return GridCell(text, float(values) if name == "weight" else 0.0, live)

    def product_figure(self, factors: Sequence[Factor | str], height: float = 345.0) -> Svg:
        """A product of matrices, W transposed where the lecture writes it so."""
        shown = [
            replace(factor, name=f"{factor.name}ᵀ")
            if isinstance(factor, Factor) and self.is_transposed and factor.name in WEIGHT_NAMES and before == "·"
            else factor
            for before, factor in zip(("", *factors), factors, strict=False)
        ]
        return slide_figure(lambda: product(shown), height)

    def array(self, name: str) -> Any:
        """A step of the one head, (row, …)."""
        return numpy_of(self.trace[name])[0]


def quoted(text: str) -> str:
    r"""A text as an argument in a shell.

    >>> quoted('It costs $5')
    '"It costs \\$5"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'


def slide_figure(draw: Callable[[], Svg], height: float = 345.0) -> Svg:
    """A figure without caption for the part of a slide below its title; `height` in points."""
    return fit_box(draw, INNER, height)


def weights_of_word(reading: Reading, layer: int, head: int, query: int) -> NDArray[np.float64]:
    """The weights of one query word in one head, between words."""
    by_word = WordWeights((reading.attention(layer),), reading.words)
    rows = by_word.rows(reading.words[query], 0, reading.head_numbers.index(head))
    return np.asarray(next(row for _, _, row in rows), np.float64)


def texts(reading: Reading) -> list[str]:
    """The words of a text as a model reads it."""
    return [word.text for word in reading.words]


def strongest(row: Any, query: int) -> int:
    """The key with the largest weight of a query, other than itself."""
    return int(np.argmax(np.where(np.arange(len(row)) == query, -1.0, row)))


def sentence_elements(
    words: Sequence[str], weights: Any, query: int, key: int | None = None, *, numbers: bool = True
) -> tuple[Svg | SlideText, ...]:
    """One query's weights on a sentence; of a long one the words around the query and the key, which a line says."""
    row = np.asarray(weights, np.float64)
    key = strongest(row, query) if key is None else key
    if len(words) <= MOST_SENTENCE:
        return (sentence(words, row, query, key=key, numbers=numbers, caption=False),)
    near = sorted(range(len(words)), key=lambda position: min(abs(position - query), abs(position - key)))
    kept = sorted(near[: MOST_SENTENCE - 3])
    shown: list[tuple[str, float, int]] = []  # word, weight, place; … for the words of a gap
    for position in range(len(words)):
        if position in kept:
            shown.append((words[position], row[position], position))
        elif shown and shown[-1][0] == "…":
            shown[-1] = ("…", shown[-1][1] + row[position], -1)
        else:
            shown.append(("…", row[position], -1))
    positions = [position for _, _, position in shown]
    drawn = sentence(
        [word for word, _, _ in shown], [weight for _, weight, _ in shown], positions.index(query),
        key=positions.index(key), numbers=numbers, caption=False,
    )  # fmt: skip
    return drawn, remark("Only the words around both are shown; … is the rest.")


def read(name: str, text: str) -> Reading:
    return model(name).read(text)


def remark(*paragraphs: str) -> SlideText:
    """Text in the smallest size, below what it is about."""
    return SlideText(paragraphs, 18.0, muted=True)


def number(value: float, digits: int = 2) -> str:
    return printed_number(float(value), digits)


def share(weight: float) -> GridCell:
    """A weight, with its shade."""
    return GridCell(number(weight), float(weight))


def weights_grid(words: Sequence[str], keys: Sequence[str], weights: Any) -> SlideGrid:
    """A row per query, a column per key."""
    rows = [(word, *map(share, row)) for word, row in zip(words, weights, strict=True)]
    return SlideGrid(("q \\ k", *keys), rows)


def vector(values: Any, digits: int | None = None) -> str:
    """The first components of a vector, … for the others.

    >>> vector([1, 2, 3, 4, 5])
    '1 2 3 4 …'
    """
    numbers = np.asarray(values, np.float64).ravel()
    digits = min(2, digits_for(numbers)) if digits is None else digits
    shown = " ".join(number(value, digits) for value in numbers[:SHOWN])
    return f"{shown} …" if len(numbers) > SHOWN else shown


def index(place: int) -> str:
    """A number below the line: ₁ for place 0."""
    return str(place + 1).translate(SUBSCRIPTS)
