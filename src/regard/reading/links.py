"""Ranking of links, the (query, key) pairs of largest weight; web/maths/links.js is kept equal by fixtures.

Strongest first; ties go to the earlier query, then the earlier key; pairs without weight are never listed. Sinks that
are set aside are left out both as keys and as queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNRANKED = -1.0  # below every weight


class Links(NamedTuple):
    """Links as three arrays of equal length, strongest first."""

    query: NDArray[np.int64]
    key: NDArray[np.int64]
    weight: NDArray[Any]


def strongest(weights: NDArray[Any], count: int | None = None) -> NDArray[np.int64]:
    """Positions of the largest weights of a row, strongest first.

    >>> strongest(np.array([0.1, 0.3, 0.0, 0.3, 0.3])).tolist(), strongest(np.array([0.1, 0.3, 0.3]), 1).tolist()
    ([1, 3, 4, 0], [1])
    """
    positive = np.flatnonzero(weights > 0)
    if count is not None and count < len(positive):
        least = np.partition(weights[positive], len(positive) - count)[len(positive) - count]
        positive = positive[weights[positive] >= least]  # all ties of the last place: the earlier ones stay
    order: NDArray[np.int64] = positive[np.argsort(-weights[positive], kind="stable")][:count]
    return order


def ranked_weights(
    weights: NDArray[Any], own: Sequence[int] | NDArray[Any] | None, *, itself: bool, sinks: Iterable[int] = ()
) -> NDArray[Any]:
    """A copy of weights (query, key) with UNRANKED in place of those that a ranking leaves out.

    own     the key position of each query; None where queries are not among the keys
    itself  rank weights of a token on itself too
    sinks   key positions that are set aside
    """
    ranked = np.array(weights, np.float64)
    aside = np.array(sorted(sinks), np.int64)
    ranked[:, aside] = UNRANKED
    if own is not None:
        keys = np.asarray(own)
        if not itself:
            inside = np.flatnonzero((keys >= 0) & (keys < ranked.shape[1]))
            ranked[inside, keys[inside]] = UNRANKED
        ranked[np.isin(keys, aside)] = UNRANKED
    return ranked


def strongest_links(
    weights: NDArray[Any],
    queries: Sequence[int] | NDArray[Any],
    own: Sequence[int] | NDArray[Any] | None,
    count: int,
    *,
    itself: bool = False,
    sinks: Iterable[int] = (),
) -> Links:
    """The `count` strongest links of some rows of weights; `queries` are the rows' positions, in rising order.

    >>> strongest_links(np.array([[0.6, 0.4], [0.5, 0.5]]), [0, 1], [0, 1], 2)
    Links(query=array([1, 0]), key=array([0, 1]), weight=array([0.5, 0.4]))
    """
    rows = ranked_weights(weights, own, itself=itself, sinks=sinks)
    best = strongest(rows.reshape(-1), count)
    row, key = np.divmod(best, rows.shape[1])
    return Links(np.asarray(queries, np.int64)[row], key, rows[row, key])


def merge_links(parts: Sequence[Links], count: int) -> Links:
    """The strongest of several rankings of different queries, given in the order of their queries."""
    whole = Links(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.lexsort((whole.key, whole.query, -whole.weight))[:count]
    return Links(*(array[order] for array in whole))
