"""Weight × value per key: the terms of an output, zero for masked keys even if their values are NaN."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from regard import arrays
from regard.arrays import Array


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
    scores = trace[last_stage(trace)][head, row]
    hidden = arrays.library(scores).isneginf(scores)
    return weigh(trace["weight"][head, row], hidden, trace["value"][head])


def weigh(weights: Array, hidden: Array, values: Array) -> Array:
    """Weight × value for every key, (..., key), (..., key, size) → (..., key, size); zero for hidden keys."""
    xp = arrays.library(values)
    with np.errstate(all="ignore"):
        return weights[..., None] * xp.where(hidden[..., None], xp.zeros_like(values), values)
