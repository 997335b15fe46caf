"""Inputs of layers: converted where that is safe, refused with a reason otherwise."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from regard import arrays, errors, validate
from regard.arrays import Array


def float_weights(name: str, given: Any) -> Array:
    """Weights as an array of floats; lists become float64, tensors are returned unchanged."""
    return arrays.floats(name, given) if isinstance(given, (list, tuple, np.ndarray)) else given


def float_rows(name: str, given: Any, weight: Array, width: int | None = None) -> Array:
    """Rows for a layer with this weight: lists and integers get its dtype; `width` is the expected width."""
    array = given
    kind = type(given)
    if kind is not np.ndarray or given.dtype not in arrays.NUMPY_FLOATS:
        array = _floats(name, given, weight)
    elif arrays.is_tensor(weight):
        raise _mixed(name, given, weight)
    if width is not None and (array.ndim == 0 or array.shape[-1] != width):
        raise _width_error(name, array, weight, width)
    return array


def token_rows(name: str, given: Any, weight: Array, width: int) -> Array:
    """Tokens as rows, (token, width) or (batch, token, width)."""
    array = float_rows(name, given, weight, width)
    if array.ndim not in (2, 3):
        raise errors.ShapeError(
            f"`{name}` has {array.ndim} axes: {tuple(array.shape)}; expected (token, width) or (batch, token, width)."
        )
    return array


def token_ids(given: Any, weight: Array) -> Array:
    """Token ids, in the library and on the device of the weight."""
    array = given if arrays.is_tensor(given) else np.asarray(given)
    if not validate.holds_integers(array):
        fix = "Tokens are row numbers of the embedding: split the text and number its words first."
        raise errors.option("tokens", given, "integers, (token,) or (batch, token)", fix)
    if not arrays.is_tensor(array) or not arrays.is_tensor(weight):
        array = arrays.numpy_of(array).astype(np.int64, copy=False)
    if arrays.is_tensor(weight):
        torch = sys.modules["torch"]
        array = torch.as_tensor(array, dtype=torch.int64, device=weight.device)
    if not arrays.tracing() and 0 not in array.shape:
        lowest, highest, count = int(array.min()), int(array.max()), weight.shape[0]
        if lowest < 0 or highest >= count:
            raise errors.index_out_of_range("token", lowest if lowest < 0 else highest, count)
    return array


def _width_error(name: str, array: Array, weight: Array, width: int) -> errors.ShapeError:
    """The error for rows of the wrong width."""
    came = array.shape[-1] if array.ndim else 1
    return errors.ShapeError(
        f"`{name}` has width {came}, the layer expects {width}.\n"
        f"  {name.ljust(6)}  {tuple(array.shape)}\n  weight  {tuple(weight.shape)}\n"
        "Rows are tokens, and a weight is (out, in): y = x @ weightᵀ + bias."
    )


def _floats(name: str, given: Any, weight: Array) -> Array:
    if arrays.is_tensor(given) and not arrays.is_tensor(weight):
        raise _mixed(name, given, weight)
    if isinstance(given, (list, tuple)) or (arrays.is_tensor(given) and not given.is_floating_point()):
        return arrays.floats(name, given, weight)
    if isinstance(given, np.ndarray):
        return arrays.numpy_floats(name, given, weight.dtype)
    if arrays.is_tensor(given) or arrays.is_placeholder(given):
        return given
    raise errors.not_an_array(name, given)


def _mixed(name: str, given: Any, weight: Array) -> errors.TypeProblem:
    ours, fix = ("NumPy arrays", "to_torch") if isinstance(weight, np.ndarray) else ("PyTorch tensors", "to_numpy")
    theirs = "a PyTorch tensor" if arrays.is_tensor(given) else "a NumPy array"
    return errors.TypeProblem(f"`{name}` is {theirs}, the layer has {ours}.\nUse layer.{fix}(), or convert `{name}`.")
