"""Attention rollout: how much of each token reaches a word through all layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.attention.index import LIMIT
from regard.reading import weights, wording
from regard.reading.weights import Numbers

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.reading.tokens import Word


def rollout(reading: Reading, query: Any = None, limit: int | None = LIMIT) -> Numbers:
    """Attention rollout: the product over layers of ½ A + ½ I, A averaged over heads, rows brought to the sum 1."""
    if query is not None:
        return _rollout_of(reading, reading.word(query))
    count = len(reading.tokens)
    needed = 8 * count * count
    if limit is not None and needed > limit:
        raise wording.rollout_too_large(count, needed, limit)
    whole = np.eye(count)
    for seen in reading.seen:
        mixed = weights.over_heads(seen.attention) / 2
        mixed[np.diag_indices(count)] += 0.5
        whole = (mixed / mixed.sum(axis=1, keepdims=True)) @ whole
    return whole


def _rollout_of(reading: Reading, word: Word) -> Numbers:
    """One word's rows of it, averaged, by products u @ A from the last layer to the first: O(n) memory."""
    u = np.zeros(len(reading.tokens))
    u[word.first : word.last] = 1 / (word.last - word.first)
    for seen in reversed(reading.seen):
        attention = seen.attention
        u = u / (0.5 + 0.5 * _row_sums(attention))
        u = 0.5 * u + 0.5 * _through(attention, u)
    return u


def _through(attention: Attention, u: Numbers) -> Numbers:
    """`u @ A`, averaged over heads."""
    heads = attention.shape[0]
    rows = np.broadcast_to(u[:, None], (heads, len(u), 1))
    queries = attention.queries
    given: Any = rows.astype(queries.dtype) if isinstance(queries, np.ndarray) else queries.new_tensor(rows.copy())
    back: Numbers = numpy_of(attention.mT @ given)[..., 0].mean(axis=0, dtype=np.float64)
    return back


def _row_sums(attention: Attention) -> Numbers:
    """The mean over heads of each row's sum: 1, less what a sink logit takes, and 0 for a query that sees no key."""
    normaliser = numpy_of(attention.logsumexp()).astype(np.float64)  # (head, query)
    sums = np.where(np.isneginf(normaliser), 0.0, 1.0)
    if attention.sinks is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            taken = np.exp(numpy_of(attention.sinks).astype(np.float64)[:, None] - normaliser)
        sums = np.where(sums > 0, 1 - taken, 0.0)
    mean: Numbers = sums.mean(axis=0)
    return mean
