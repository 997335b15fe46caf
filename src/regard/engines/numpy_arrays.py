"""NumPy as the array namespace of the generic engine: every computation in float64, NaN and inf without warnings.

`SHARED` are the functions that NumPy and PyTorch both have, with one meaning; a namespace holds them beside its own, so
that `xp.exp` and `xp.take_along` are found in one place. `torch_arrays` is the same for PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

STRIP = 1 << 20  # weights in one strip: 8 MiB of float64
SHARED = ("add", "amax", "argsort", "broadcast_to", "concat", "exp", "finfo", "inf", "isfinite", "isnan", "isneginf",
          "log", "maximum", "nan", "sqrt", "square", "stack", "tanh", "where", "zeros_like")  # fmt: skip
globals().update({name: getattr(np, name) for name in SHARED})
no_grad = nullcontext


def exactly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function without NumPy's warnings: NaN and inf follow the rules of attention."""
    with np.errstate(all="ignore"):
        return function(*arguments, **options)


def wide(array: Array) -> Array:
    """As float64, the computing type."""
    return array.astype(np.float64, copy=False)


at_least_float64 = wide


# Counterparts of what PyTorch needs for gradients, graphs and tensors of unknown content


def detach(array: Array) -> Array:
    """Detached from the autograd graph."""
    return array


def without_unseen(keys: Array, seen: Array) -> Array:
    """Keys; those that no query sees are set to zero if gradients could carry their NaN."""
    return keys


def all_finite(array: Array) -> bool:
    """Whether there is no NaN and no inf; False if the content must not be read."""
    return bool(np.isfinite(array).all())


def in_one_graph() -> bool:
    """Whether everything must be computed as one strip."""
    return False


def of_strip(compute: Callable[..., Any], *arguments: Any) -> Any:
    """`compute` for one of several strips."""
    return compute(*arguments)


# Indices


def take_along(array: Array, index: Array) -> Array:
    """Numbers along the last axis."""
    return np.take_along_axis(array, index, axis=-1)


def pad(array: Array, count: int, fill: int) -> Array:
    """The last axis padded to `count`."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, count - array.shape[-1])], constant_values=fill)


def by_cell(array: Array, axis: int, cells: Array, count: int, pool: str) -> Array:
    """Sums or maxima of cells along an axis; `cells`, non-decreasing, gives the cell of each index."""
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    result = np.zeros((*array.shape[:axis], count, *array.shape[axis + 1 :]))
    reduce = np.add if pool == "sum" else np.maximum
    result[(slice(None),) * axis + (cells[starts],)] = reduce.reduceat(array, starts, axis=axis)
    return result


def by_index(rows: Array, index: Array, count: int) -> Array:
    """Sums (row, count) of the numbers (row, n) that have the same index (n,)."""
    return np.stack([np.bincount(index, row, count) for row in rows])


# Layers


def affine(x: Array, weight: Array, bias: Array | None) -> Array:
    """x @ weightᵀ + bias."""
    result = wide(x) @ wide(weight).T
    return result if bias is None else result + wide(bias)


def layer_norm(x: Array, weight: Array, bias: Array | None, epsilon: float) -> Array:
    """(x − mean) / √(variance + ε) · weight + bias over the last axis."""
    centred = wide(x) - wide(x).mean(axis=-1, keepdims=True)
    result = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + epsilon) * wide(weight)
    return np.asarray(result if bias is None else result + wide(bias))


_erf = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has no error function; the C library's is exact enough


ACTIVATION: dict[str | None, Callable[[Array], Array]] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (0.5 * (1 + _erf(x / math.sqrt(2)))),
    "gelu_tanh": lambda x: x * (0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "silu": lambda x: x * (0.5 * (1 + np.tanh(x / 2))),  # x / (1 + exp(−x)) without its overflow
    "tanh": np.tanh,
    "quick_gelu": lambda x: x * (0.5 * (1 + np.tanh(0.851 * x))),  # x · σ(1.702 x)
}
