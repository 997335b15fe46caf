"""Several maps of the same tokens as one: a single product where their weights are contiguous in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.layers.linear import Linear


def together(weights: Sequence[Array], biases: Sequence[Array | None]) -> tuple[Linear, ...]:
    """Linear maps whose weights are views of one array, so that `joined_rows` finds it; missing biases are zeros.

    >>> w_q, w_k = together([np.ones((2, 3)), np.zeros((1, 3))], [None, None])
    >>> w_q.weight.base is w_k.weight.base
    True
    """
    ends = np.cumsum([0, *(len(weight) for weight in weights)])
    weight = np.concatenate(weights)
    bias: Array | None = None
    if any(one is not None for one in biases):
        parts = [
            np.zeros(len(its), its.dtype) if one is None else one for one, its in zip(biases, weights, strict=True)
        ]
        bias = np.concatenate(parts)
    places = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
    return tuple(Linear(weight[place], None if bias is None else bias[place]) for place in places)


def joined_rows(*maps: Linear) -> Linear | None:
    """One map that gives what all give, in their order; None where their weights are not contiguous.

    >>> joined_rows(*together([np.ones((2, 3)), np.zeros((1, 3))], [None, None]))
    Linear(weight (3, 3) float64)
    """
    weight = _whole([one.weight for one in maps])
    if weight is None:
        return None
    if all(one.bias is None for one in maps):
        return Linear(weight)
    bias = _whole([one.bias for one in maps])
    return None if bias is None else Linear(weight, bias)


def _whole(parts: Sequence[Any]) -> Array | None:
    """The array of which the parts are views, one after the other, and nothing else."""
    base = parts[0].base if type(parts[0]) is np.ndarray else None
    if type(base) is not np.ndarray or not base.flags.c_contiguous or base.ndim != parts[0].ndim:
        return None
    if base.shape != (sum(len(part) for part in parts), *parts[0].shape[1:]) or base.dtype != parts[0].dtype:
        return None
    at = base.ctypes.data
    for part in parts:
        if type(part) is not np.ndarray or part.base is not base or part.ctypes.data != at:
            return None
        if not part.flags.c_contiguous:
            return None
        at += part.nbytes
    return base
