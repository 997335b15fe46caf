"""The plain engine's layers: linear maps, norms and rotary positions in float64, rounded once at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])  # NumPy has no error function; the C library's is exact enough


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.asarray(np.maximum(x, 0))


def gelu(x: Array) -> Array:
    """x · Φ(x), Φ the distribution function of the normal distribution."""
    return np.asarray(x * (0.5 * (1 + _erf(x / math.sqrt(2)))))


def gelu_tanh(x: Array) -> Array:
    """The older approximation of gelu, as GPT-2 has it."""
    return x * (0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def silu(x: Array) -> Array:
    """x / (1 + exp(−x)), also called swish; by tanh, which does not overflow."""
    return x * (0.5 * (1 + np.tanh(x / 2)))


def quick_gelu(x: Array) -> Array:
    """x · σ(1.702 x), the cheap approximation of gelu that CLIP uses."""
    return silu(1.702 * x) / 1.702


ACTIVATION: dict[str | None, Callable[[Array], Array]] = {
    None: lambda x: x,
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "tanh": np.tanh,
    "quick_gelu": quick_gelu,
}


@np.errstate(all="ignore")
def linear(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    times: Array | None = None,
) -> Array:
    """activation(x @ weightᵀ + bias) · times + residual; weight is (out, in)."""
    result = _double(x) @ _double(weight).T
    if bias is not None:
        result += _double(bias)
    result = ACTIVATION[activation](result)
    if times is not None:
        result = result * _double(times)
    if residual is not None:
        result = result + _double(residual)
    return result.astype(x.dtype, copy=False)


@np.errstate(all="ignore")
def layer_norm(x: Array, weight: Array, bias: Array | None, epsilon: float) -> Array:
    """(x − mean) / √(variance + ε) · weight + bias over the last axis."""
    centred = _double(x) - _double(x).mean(axis=-1, keepdims=True)
    result = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + epsilon) * _double(weight)
    if bias is not None:
        result += _double(bias)
    return np.asarray(result.astype(x.dtype, copy=False))


@np.errstate(all="ignore")
def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """x / √(mean of squares + ε) · weight over the last axis."""
    mean_square = np.square(_double(x)).mean(axis=-1, keepdims=True)
    result = _double(x) / np.sqrt(mean_square + epsilon) * _double(weight)
    return np.asarray(result.astype(x.dtype, copy=False))


@np.errstate(all="ignore")
def rotary(x: Array, cosines: Array, sines: Array, interleaved: bool, in_place: bool = False) -> Array:
    """Rotate pairs of the last axis of (batch, head, token, size) by angles (batch or 1, token, pairs).

    Pairs are neighbours where interleaved, and otherwise number p and number pairs + p; what lies past the last pair
    stays as it is.
    """
    pairs = cosines.shape[-1]
    cosines, sines = _double(cosines)[:, None], _double(sines)[:, None]  # (batch or 1, 1, token, pairs)
    one = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    other = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    result = x.astype(np.float64)
    result[..., one] = _double(x[..., one]) * cosines - _double(x[..., other]) * sines
    result[..., other] = _double(x[..., other]) * cosines + _double(x[..., one]) * sines
    return result.astype(x.dtype)


def _double(array: Array) -> Array:
    return array.astype(np.float64, copy=False)
