"""Attention rollout (Abnar and Zuidema, 2020): the product over layers of ½ A + ½ I, with rows of sum 1.

A is the mean over heads of a layer's weights between tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.arrays import numpy_of
from regard.attention import Attention
from regard.reading import weights
from regard.reading.weights import Numbers


def matrix(attentions: Sequence[Attention]) -> Numbers:
    """The rollout of all tokens, (token, token): O(n²) memory."""
    count = attentions[0].shape[-1]
    whole = np.eye(count)
    for attention in attentions:
        mixed = weights.over_heads(attention) / 2
        mixed[np.diag_indices(count)] += 0.5
        whole = (mixed / mixed.sum(axis=1, keepdims=True)) @ whole
    return whole


def of_row(attentions: Sequence[Attention], row: Numbers) -> Numbers:
    """`row` (token,) times the rollout, by products `u @ A` from the last layer to the first: O(n) memory."""
    u = row
    for attention in reversed(attentions):
        u = u / (0.5 + 0.5 * _row_sums(attention))
        u = 0.5 * u + 0.5 * _times(u, attention)
    return u


def _times(u: Numbers, attention: Attention) -> Numbers:
    """`u @ A`, averaged over heads."""
    rows = np.broadcast_to(u[:, None], (attention.shape[0], len(u), 1))
    queries = attention.queries
    given: Any = rows.astype(queries.dtype) if isinstance(queries, np.ndarray) else queries.new_tensor(rows.copy())
    back: Numbers = numpy_of(attention.mT @ given)[..., 0].mean(axis=0, dtype=np.float64)
    return back


def _row_sums(attention: Attention) -> Numbers:
    """The mean over heads of each row's sum: 1, less the share of a sink logit, and 0 for a query that sees no key."""
    normaliser = numpy_of(attention.logsumexp()).astype(np.float64)  # (head, query)
    sums = np.where(np.isneginf(normaliser), 0.0, 1.0)
    if attention.sinks is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            taken = np.exp(numpy_of(attention.sinks).astype(np.float64)[:, None] - normaliser)
        sums = np.where(sums > 0, 1 - taken, 0.0)
    mean: Numbers = sums.mean(axis=0)
    return mean
