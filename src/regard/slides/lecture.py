"""What the slides of a lecture are computed from: a sentence, its attention step by step, and a model's reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.arrays import numpy_of
from regard.models.model import model
from regard.output.svg import Svg, fit_box
from regard.reading import Reading
from regard.reading.weights import WordWeights
from regard.slides.deck import INNER, Slide, SlideText
from regard.tables import digits_for, printed_number
from regard.teaching.traced_attention import Traced, traced
from regard.teaching.words import words_of
from regard.trace import Trace

WIDTH = 64  # of vectors, so that √d_k = 8
SHOWN = 4  # components of a vector on a slide
MOST_WORDS = 7  # of the sentence in tables and matrices
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, eq=False)
class Lecture:
    """A sentence, and everything that is computed from it once."""

    text: str
    symbols: bool = False  # q₁·k₁ instead of numbers
    model: str = "minilm"

    @cached_property
    def all_words(self) -> tuple[str, ...]:
        """The words of the sentence."""
        return words_of(self.text)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that tables and matrices show: the first ones of a long sentence."""
        return self.all_words[:MOST_WORDS]

    @property
    def shortened(self) -> tuple[SlideText, ...]:
        """A line that says so, where words are left out."""
        left = len(self.all_words) - len(self.words)
        return (remark(f"The first {len(self.words)} of {len(self.all_words)} words."),) if left else ()

    @cached_property
    def steps(self) -> Traced:
        """One head of d_k = 64 on random embeddings and weights."""
        return traced(self.words, width=WIDTH)

    @cached_property
    def trace(self) -> Trace:
        """All steps of that head."""
        return self.steps.whole()

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
        """The sentence as an argument in a shell."""
        escaped = self.text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
        return f'"{escaped}"'

    def slide(self, title: str, *elements: Any, command: str = "", notes: Sequence[str] = ()) -> Slide:
        """A slide whose notes say which command shows the same."""
        made = (f"The same in the terminal: {command}",) if command else ()
        return Slide(title, elements, (*notes, *made))

    def array(self, name: str) -> Any:
        """A step of the one head, (row, …)."""
        return numpy_of(self.trace[name])[0]


def slide_figure(draw: Callable[[], Svg], height: float = 345.0) -> Svg:
    """A figure without caption for the part of a slide below its title, so high in points."""
    return fit_box(draw, INNER, height)


def weights_of_word(reading: Reading, layer: int, head: int, query: int) -> NDArray[np.float64]:
    """The weights of one query word in one head, between words."""
    by_word = WordWeights((reading.attention(layer),), reading.words)
    rows = by_word.rows(reading.words[query], 0, reading.head_numbers.index(head))
    return np.asarray(next(row for _, _, row in rows), np.float64)


def read(name: str, text: str) -> Reading:
    """A text as read by a model."""
    return model(name).read(text)


def remark(*paragraphs: str) -> SlideText:
    """Text in the smallest size, below what it is about."""
    return SlideText(paragraphs, 18.0, muted=True)


def number(value: float, digits: int = 2) -> str:
    """A number as it is printed on slides."""
    return printed_number(float(value), digits)


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
