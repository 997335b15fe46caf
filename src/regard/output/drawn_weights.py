"""Weights to draw: those of a trace, an attention or an array, with the words of their rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.attention import Attention
from regard.trace import Trace

Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]
MOST_CELLS = 128  # along each side; larger matrices are pooled


@dataclass(frozen=True, eq=False, slots=True)
class Weights:
    """A matrix of weights to draw, (query, key)."""

    array: Numbers
    query_words: tuple[str, ...]
    key_words: tuple[str, ...]
    hidden: Booleans | None = None  # True where the key is masked
    head: int = 0
    heads: int = 1
    pooled: str = ""  # how the matrix was pooled, if it was too large for one cell per weight
    note: str | None = None  # where the numbers come from


def weights_of(
    subject: Any, head: int = 0, words: Sequence[str] | None = None, query_words: Sequence[str] | None = None,
    most: int = MOST_CELLS,
) -> Weights:  # fmt: skip
    """The weights of one head of a Trace, an Attention, or an array (query, key) or (head, query, key).

    An attention with more than `most` queries or keys is pooled to `most` cells per side.
    """
    if isinstance(subject, Weights):
        return subject
    if isinstance(subject, Trace):
        return _of_trace(subject, head, most)
    if isinstance(subject, Attention):
        return _of_attention(subject, head, words, query_words, most)
    array = numbers_of("weights", subject)
    if array.ndim not in (2, 3):
        raise errors.ShapeError(
            f"`weights` have shape {array.shape}; expected (query, key) or (head, query, key).\n"
            "Choose one sequence of a batch, as in weights[0]."
        )
    heads = array.shape[0] if array.ndim == 3 else 1
    array = array[_checked(head, heads)] if array.ndim == 3 else array
    return _worded(array, words, query_words, None, head, heads, most)


def head_count(subject: Any) -> int:
    """The number of heads."""
    if isinstance(subject, Trace):
        return subject.heads
    shape = subject.shape if hasattr(subject, "shape") else np.shape(subject)
    return int(shape[-3]) if len(shape) > 2 else 1


def numbers_of(name: str, given: Any) -> Numbers:
    """Any array as a NumPy array in float64."""
    try:
        return np.asarray(arrays.numpy_of(given) if hasattr(given, "dtype") else given, dtype=np.float64)
    except (TypeError, ValueError):
        raise errors.not_an_array(name, given) from None


def _of_trace(trace: Trace, head: int, most: int) -> Weights:
    head = validate.index("head", head, trace.heads)
    array = numbers_of("weights", trace["weight"][head])
    hidden = np.isneginf(numbers_of("masked", trace["masked"][head])) if "masked" in trace else None
    weights = Weights(array, trace.query_words, trace.words, hidden, head, trace.heads, note=trace.note)
    return weights if max(array.shape) <= most else _pooled(weights, most)


def _of_attention(
    attention: Attention, head: int, words: Sequence[str] | None, query_words: Sequence[str] | None, most: int
) -> Weights:
    if attention.ndim == 4:
        if attention.shape[0] != 1:
            raise errors.ShapeError(
                f"This attention holds {attention.shape[0]} sequences; a figure shows one.\n"
                "Choose one with A.select(batch=0)."
            )
        attention = attention.select(batch=0)
    heads = attention.shape[0] if attention.ndim == 3 else 1
    if attention.ndim == 3:
        attention = attention.select(head=_checked(head, heads))
    queries, keys = attention.shape
    if max(queries, keys) <= most:
        hidden = np.isneginf(numbers_of("masked", attention.masked[...])) if attention.mask is not None else None
        return _worded(numbers_of("weights", attention[...]), words, query_words, hidden, head, heads, most)
    picture = attention.pooled((min(queries, most), min(keys, most)))
    return Weights(
        numbers_of("map", picture.array),
        tuple(str(edge) for edge in picture.row_edges[:-1]),
        tuple(str(edge) for edge in picture.column_edges[:-1]),
        head=head,
        heads=heads,
        pooled=f"{queries} × {keys} weights, each cell the mean of the weights it covers",
    )


def _pooled(weights: Weights, most: int) -> Weights:
    """Mean-pooled to at most `most` cells per side."""
    array = weights.array
    edges = [np.linspace(0, count, min(count, most) + 1).astype(int)[:-1] for count in array.shape]
    sums = np.add.reduceat(np.add.reduceat(array, edges[0], axis=0), edges[1], axis=1)
    covered = [np.diff([*starts, count]) for starts, count in zip(edges, array.shape, strict=True)]
    return Weights(
        sums / np.outer(*covered),
        tuple(weights.query_words[place] for place in edges[0]),
        tuple(weights.key_words[place] for place in edges[1]),
        None,
        weights.head,
        weights.heads,
        f"{array.shape[0]} × {array.shape[1]} weights, each cell the mean of the weights it covers",
        weights.note,
    )


def _worded(
    array: Numbers, words: Sequence[str] | None, query_words: Sequence[str] | None, hidden: Booleans | None, head: int,
    heads: int, most: int,
) -> Weights:  # fmt: skip
    queries, keys = array.shape
    if query_words is None and queries == keys:
        query_words = words
    rows = _labels("query_words", query_words, queries)
    weights = Weights(array, rows, _labels("words", words, keys), hidden, head % heads, heads)
    return weights if max(array.shape) <= most else _pooled(weights, most)


def _labels(name: str, words: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """One label per row or column; positions if there are no words."""
    if words is None:
        return tuple(str(position) for position in range(count))
    if len(words) != count:
        raise errors.ShapeError(f"`{name}` holds {len(words)} words for {count} tokens.\nGive one word for each token.")
    return tuple(map(str, words))


def _checked(head: int, heads: int) -> int:
    return validate.index("head", head, heads)
