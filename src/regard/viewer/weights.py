"""Exact weights and statistics of texts that are not long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.viewer.subject import Subject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

BLOCK = 1 << 22  # weights per block


def row(attention: Attention, heads: Sequence[int], query: int) -> Floats:
    """The weights of one query, (head, key); O(heads · n)."""
    found: Floats = numpy_of(attention[list(heads), query, :])
    return found


def word_row(subject: Subject, attention: Attention, heads: Sequence[int], query: int) -> Floats:
    """The same by word, (head, word): averaged over the query word's pieces, summed over each key word's pieces."""
    first, last = word_around(subject, query)
    rows = sum(row(attention, heads, piece) for piece in range(first, last)) / (last - first)
    starts = [start for start, _ in subject.words]
    found: Floats = np.add.reduceat(rows, starts, axis=-1)
    return found


def word_around(subject: Subject, query: int) -> tuple[int, int]:
    """The queries that belong to the same word as this one."""
    own = subject.own_key(query)
    if own is None or subject.query_tokens is not None:
        return query, query + 1
    shift = own - query
    starts = np.array([start for start, _ in subject.words])
    first, last = subject.words[int(np.searchsorted(starts, own, "right")) - 1]
    return max(first - shift, 0), min(last - shift, subject.queries)


def statistics(subject: Subject, attention: Attention) -> dict[str, Floats]:
    """Means over all rows that see a key, (head,): entropy, distance, mass on sinks, peak."""
    entropy, peak = numpy_of(attention.entropy()), numpy_of(attention.peak())
    seeing = peak > 0
    found = {"entropy": entropy, "peak": peak, "distance": distance(subject, attention)}
    if subject.sinks:
        found["sinks"] = numpy_of(attention.mass(list(subject.sinks)))
    else:
        found["sinks"] = np.zeros_like(entropy)
    count = np.maximum(seeing.sum(axis=-1), 1)
    return {name: np.where(seeing, array, 0).sum(axis=-1) / count for name, array in found.items()}


def distance(subject: Subject, attention: Attention) -> Floats:
    """Mean distance of each query's attention, (head, query); NaN where queries are not among the keys."""
    if subject.first_query is None:
        return np.full(attention.shape[:2], np.nan)
    found: Floats = numpy_of(attention.distance())
    return found


def along(subject: Subject, attention: Attention) -> dict[str, Floats]:
    """Per token: attention received, and the entropy and mean distance of its own attention, (head, token)."""
    return {
        "received": numpy_of(attention.received()),
        "entropy": numpy_of(attention.entropy()),
        "distance": distance(subject, attention),
    }


def mean_over_heads(attention: Attention, heads: Sequence[int], queries: Any) -> Floats:
    """The weights of some queries, (query, key), averaged over heads."""
    found = np.zeros((len(queries), attention.shape[-1]), np.float64)
    for head in heads:
        found += numpy_of(attention[head, queries, :])
    mean: Floats = found / len(heads)
    return mean


def blocks_of(subject: Subject) -> list[Any]:
    """All queries, in blocks that bound the memory of their weights."""
    step = max(1, BLOCK // max(subject.keys, 1))
    return [np.arange(start, min(start + step, subject.queries)) for start in range(0, subject.queries, step)]
