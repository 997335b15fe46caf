"""Softmax over keys and the weighted sum of values, as in textbooks, for NumPy and PyTorch alike."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from regard import arrays
from regard.arrays import Array


def softmax_over_keys(scores: Array, sinks: Array | None = None) -> Array:
    """Softmax of each query's scores; with a sink, weights sum to less than 1; zeros for a query that sees no key.

    Scores are (head, query, key), sinks (head,).

    >>> softmax_over_keys(np.array([[[6.0, 4.0], [3.0, 2.0]]])).round(2).tolist()
    [[[0.88, 0.12], [0.73, 0.27]]]
    """
    xp = arrays.library(scores)
    sink = None if sinks is None else arrays.cast(sinks, scores.dtype)[:, None, None]
    with np.errstate(all="ignore"):
        peak = xp.amax(detached(scores), axis=-1, keepdims=True)  # (head, query, 1)
        if sink is not None:
            peak = xp.maximum(peak, detached(sink))
        peak = xp.where(xp.isneginf(peak), xp.zeros_like(peak), peak)  # −inf − −inf is NaN
        exponentials = xp.exp(scores - peak)
        total = xp.sum(exponentials, axis=-1, keepdims=True)
        if sink is not None:
            total = total + xp.exp(sink - peak)
        return exponentials / xp.where(total == 0, xp.ones_like(total), total)


def blend(weights: Array, seen: Array | None, values: Array) -> Array:
    """Σ weight · value: (head, query, key), (head, key, size) → (head, query, size).

    0 · NaN is NaN, but a masked key must have no influence: values that are not finite take a slower path.
    """
    xp = arrays.library(values)
    with np.errstate(all="ignore"):
        if seen is None or bool(xp.isfinite(values).all()):
            return weights @ values
    rows = [
        xp.stack([weigh(weights[head, row], seen[head, row], values[head]).sum(-2) for row in range(weights.shape[1])])
        for head in range(weights.shape[0])
    ]
    return xp.stack(rows)


def weigh(weights: Array, seen: Array | None, values: Array) -> Array:
    """Weight times value for every key, (..., key), (..., key, size) → (..., key, size); zero for masked keys."""
    if seen is not None:
        xp = arrays.library(values)
        values = xp.where(seen[..., None], values, xp.zeros_like(values))
    with np.errstate(all="ignore"):
        return weights[..., None] * values


def seen_keys(scores: Array) -> Array | None:
    """Which keys are visible: those with a score above −∞; None if all are."""
    hidden = arrays.library(scores).isneginf(detached(scores))
    return ~hidden if bool(hidden.any()) else None


def detached(array: Array) -> Any:
    """Without gradient."""
    return array.detach() if arrays.is_tensor(array) else array


class Named(Protocol):
    """The steps of a trace, in order and by name."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def __getitem__(self, name: str) -> Array: ...


def last_stage(trace: Named) -> str:
    """The name of the input of the softmax: scaled, capped, biased or masked scores."""
    return trace.names[trace.names.index("weight") - 1]


def weighted_values_of(trace: Named, row: int, head: int) -> Array:
    """Weight × value of one query, by its row in the trace, for every key: (key, size)."""
    visible = seen_keys(trace[last_stage(trace)][head, row])  # None: all keys
    return weigh(trace["weight"][head, row], visible, trace["value"][head])
