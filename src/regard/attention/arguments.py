"""The arguments of `Attention`: checks, conversions, and what masks and lazy biases are for given queries and keys."""

from __future__ import annotations

import math
import operator
import sys
from dataclasses import fields
from typing import Any

import numpy as np

from regard import arrays, errors, validate
from regard.arrays import Array, floats, is_tensor
from regard.biases import Bias
from regard.errors import count
from regard.masks import Mask, Visible

SIMILARITIES = ("dot", "cosine")
FURTHEST = 2**30  # positions and sums of two positions fit into int32
MOST_RELATIVE = 1 << 28  # bytes of a lazy bias, which spans the distance between the offsets of a batch


def queries_and_keys(queries: Any, keys: Any) -> tuple[Array, Array]:
    """Queries and keys as arrays of the same library, dtype and device, with compatible shapes."""
    arrays_by_name = {"queries": queries, "keys": keys}
    if is_tensor(queries) != is_tensor(keys) and all(hasattr(array, "shape") for array in arrays_by_name.values()):
        raise errors.families_mixed(**arrays_by_name)
    typed = [array for array in arrays_by_name.values() if _is_float_array(array)]
    typed = typed or [floats(name, array) for name, array in arrays_by_name.items() if is_tensor(array)]
    queries, keys = (floats(name, array, typed[0] if typed else None) for name, array in arrays_by_name.items())
    same_kind(queries=queries, keys=keys)
    for name, array in (("queries", queries), ("keys", keys)):
        if not 2 <= array.ndim <= 4:
            raise errors.wrong_dimensions(name, array)
    if queries.ndim != keys.ndim:
        raise axes_differ(queries, keys)
    if queries.ndim == 4 and queries.shape[0] != keys.shape[0]:
        raise errors.misfit(
            f"`keys` hold {count(keys.shape[0], 'sequence')}, `queries` hold {queries.shape[0]}.",
            "Each sequence needs its own keys: expand `keys` along the batch.", queries=queries, keys=keys,
        )  # fmt: skip
    if queries.ndim >= 3 and (0 in (queries.shape[-3], keys.shape[-3]) or queries.shape[-3] % keys.shape[-3] != 0):
        raise errors.misfit(
            f"{count(queries.shape[-3], 'query head')} cannot share {count(keys.shape[-3], 'key head')} evenly.",
            "Each key head is shared by the same number of query heads: check the order of the axes.",
            queries=queries, keys=keys,
        )  # fmt: skip
    if queries.shape[-1] != keys.shape[-1]:
        raise head_dims_differ(queries, keys)
    if queries.shape[-1] == 0:
        fix = "Vectors need at least one number: check the width of W."
        raise errors.misfit("`queries` have head_dim 0.", fix, queries=queries)
    if keys.shape[-2] == 0:
        raise errors.misfit(
            "`keys` hold no key, so there is nothing to attend to.",
            "Attention needs at least one key: check how `keys` were sliced.", queries=queries, keys=keys,
        )  # fmt: skip
    return queries, keys


def same_kind(**given: Array) -> None:
    """Raise if dtypes or devices differ."""
    first, *others = given.values()
    if any(other.dtype != first.dtype for other in others):
        came = ", ".join(f"`{name}` are {errors.type_name(array.dtype)}" for name, array in given.items())
        raise errors.TypeProblem(f"{came}.\nAll arrays of one attention have the same type: convert one of them.")
    same_device(**given)


def same_device(**given: Array) -> None:
    """Refuse tensors on different devices."""
    first, *others = given.values()
    if is_tensor(first) and any(other.device != first.device for other in others):
        came = ", ".join(f"`{name}` are on {array.device}" for name, array in given.items())
        raise errors.OptionError(f"{came}.\nAll arrays of one attention are on one device: move them with .to(device).")


def axes_differ(queries: Array, keys: Array) -> errors.ShapeError:
    """Queries with another number of axes than keys."""
    came = f"`keys` have {count(keys.ndim, 'axis')}, `queries` have {queries.ndim}."
    return errors.misfit(came, "Give both the same axes: keys[None] adds one in front.", queries=queries, keys=keys)


def head_dims_differ(queries: Array, keys: Array) -> errors.ShapeError:
    """Queries and keys whose last axes differ."""
    came = f"`keys` have head_dim {keys.shape[-1]}, `queries` have {queries.shape[-1]}."
    return errors.misfit(came, "Both come from projections of the same width: check W_k.", queries=queries, keys=keys)


def values_do_not_fit(keys: Array, values: Array) -> errors.ShapeError:
    """Values whose batch or heads differ from those of the keys."""
    came = "`values` have another batch or other heads than `keys`."
    fix = "All axes but the last must be equal: split values into heads as keys were."
    return errors.misfit(came, fix, keys=keys, values=values)


def values_count_differs(keys: Array, values: Array) -> errors.ShapeError:
    """Not one value per key."""
    came = f"`values` hold {count(values.shape[-2], 'value')} for {count(keys.shape[-2], 'key')}."
    return errors.misfit(came, "Each key needs one value: project both from the same tokens.", keys=keys, values=values)


def scale(given: Any) -> float | None:
    """A finite number, or None."""
    if given is None or arrays.is_symbolic(given):
        return given  # type: ignore[no-any-return]
    number = _number(given)
    if number is None or not -math.inf < number < math.inf:
        fix = "Leave it out for 1 / √head_dim, or check what it was divided by."
        raise errors.option("scale", given, "a finite number", fix)
    return number


def softcap(given: Any) -> float | None:
    """A positive finite number, or None."""
    if given is None:
        return None
    number = _number(given)
    if number is None or not 0 < number < math.inf:
        fix = "It bounds the scaled scores to ±softcap (Gemma 2 uses 50); None is no cap."
        raise errors.option("softcap", given, "a positive finite number, or None", fix)
    return number


def similarity(given: Any) -> str:
    """One of SIMILARITIES."""
    return validate.choice("similarity", given, SIMILARITIES)


def bias(given: Any, queries: Array, shape: tuple[int, ...]) -> Any:
    """A lazy bias unchanged; an array or a number as floats that broadcast to `shape`."""
    if given is None or isinstance(given, Bias):
        return given
    array = floats("bias", [given] if isinstance(given, (int, float)) else given, queries)
    same_device(queries=queries, bias=array)
    if array.ndim > len(shape) or not _broadcasts(array.shape, shape):
        came = f"`bias` of shape {tuple(array.shape)} does not fit attention of shape {tuple(shape)}."
        fix = "Each axis has full size or 1, as in (head, query, key) or (batch, 1, 1, key)."
        raise errors.OptionError(errors.with_shapes(came, fix, bias=array, attention=shape))
    return array


def sinks(given: Any, queries: Array) -> Array | None:
    """One logit per head; a number is accepted for a single head."""
    if given is None:
        return None
    heads = queries.shape[-3] if queries.ndim > 2 else 1
    array = floats("sinks", [given] if isinstance(given, (int, float)) else given, queries)
    if tuple(array.shape) != (heads,):
        raise errors.OptionError(
            f"`sinks` have shape {tuple(array.shape)}; expected ({heads},), one logit per head.\n"
            "A logit that all heads share is np.full(heads, logit)."
        )
    same_device(queries=queries, sinks=array)
    return array


def offset(given: Any, queries: Array) -> Any:
    """The position of the first query: None, an integer, or integers (batch,)."""
    if given is None or (type(given) is int and abs(given) < FURTHEST) or arrays.is_symbolic(given):
        return given
    batch = queries.shape[0] if queries.ndim == 4 else 1
    if isinstance(given, (bool, np.bool_)):
        raise errors.bad_offset(given, batch)
    if not hasattr(given, "shape") and not isinstance(given, (list, tuple)):
        return _whole_offset(given, batch)
    array = _integers(given, queries)
    if array is None or tuple(array.shape) not in ((), (batch,)):
        raise errors.bad_offset(given, batch)
    if array.ndim == 0:
        return _whole_offset(array, batch)
    if not arrays.tracing() and batch and bool(abs(array).max() >= FURTHEST):
        raise errors.bad_offset(given, batch)
    return array


def values(given: Any, keys: Array) -> Array:
    """The values (batch, head, key, value_dim), with the leading axes of the keys.

    Missing leading axes and axes of size 1 are broadcast without a copy.
    """
    if arrays.are_plain(given, keys) and given.shape[:-1] == keys.shape[:-1]:  # the common case
        return given
    array = floats("values", given, keys)
    same_kind(keys=keys, values=array)
    if not 2 <= array.ndim <= keys.ndim:
        raise errors.wrong_dimensions("values", array)
    if array.shape[-2] != keys.shape[-2]:
        raise values_count_differs(keys, array)
    full = (*keys.shape[:-1], array.shape[-1])
    if tuple(array.shape) == full:
        return array
    if not _broadcasts(array.shape, full):
        raise values_do_not_fit(keys, array)
    return arrays.library(array).broadcast_to(array, full)


def rows(given: Any, queries: Array) -> Array:
    """One row per query, (batch, head, query, any width), with the leading axes of the queries."""
    array = floats("u", given, queries)
    same_kind(queries=queries, u=array)
    full = (*queries.shape[:-1], array.shape[-1] if array.ndim else 0)
    if tuple(array.shape) == full:
        return array
    if not 2 <= array.ndim <= queries.ndim or not _broadcasts(array.shape, full) or array.shape[-2] != full[-2]:
        raise errors.ShapeError(
            f"`u` has shape {tuple(array.shape)}; the product with the transposed weights needs {full}.\n"
            "Give one row per query, with the head and batch axes of the attention."
        )
    return arrays.library(array).broadcast_to(array, full)


def _broadcasts(shape: Any, full: tuple[int, ...]) -> bool:
    """Whether this shape broadcasts to the full shape."""
    # Not `size in (1, whole)`: a symbolic size (torch.compile) is found in no tuple.
    return all(size == 1 or size == whole for size, whole in zip(shape, full[len(full) - len(shape) :], strict=True))


def _is_float_array(thing: Any) -> bool:
    if is_tensor(thing):
        return bool(thing.is_floating_point())
    return isinstance(thing, np.ndarray) and (thing.dtype.kind == "f" or thing.dtype.name == "bfloat16")


def _number(given: Any) -> float | None:
    """A number as float; None for anything else, numbers beyond float64, and tensors, whose gradient would be lost."""
    if isinstance(given, float):
        return given
    if is_tensor(given) or isinstance(given, (bool, np.bool_, str, np.ndarray)):
        return None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return given if type(given) is int else number


def _whole_offset(given: Any, batch: int) -> int:
    try:
        whole = operator.index(given)
    except TypeError:
        raise errors.bad_offset(given, batch) from None
    if abs(whole) >= FURTHEST:
        raise errors.bad_offset(given, batch)
    return whole


def _integers(positions: Any, queries: Array) -> Array | None:
    """As int64 in the library of the queries; None if the dtype is not an integer type."""
    if not is_tensor(positions):
        try:
            positions = np.asarray(positions)
        except ValueError:  # lists of unequal length
            return None
    if not validate.holds_integers(positions):
        return None
    if not is_tensor(positions) or not is_tensor(queries):
        positions = arrays.numpy_of(positions).astype(np.int64)
    if is_tensor(queries):
        torch = sys.modules["torch"]
        return torch.as_tensor(positions, dtype=torch.int64, device=queries.device)
    return positions


# Masks, lazy biases and positions for given queries and keys


def offset_known(offset: Any, queries: int, keys: int) -> Any:
    """The position of the first query; 0 by default if there are as many queries as keys, else required."""
    if offset is not None:
        return offset
    if queries != keys:
        last = f"offset={keys - queries}"
        raise errors.OptionError(
            f"`offset` is not given, and {count(queries, 'query')} with {count(keys, 'key')} "
            "can be aligned in two ways.\n"
            f"  {'offset=0'.ljust(len(last))}  top-left: query 0 is at key 0, as with is_causal in PyTorch\n"
            f"  {last.ljust(8)}  bottom-right: the last query is at the last key, as in FlashAttention and decoding\n"
            "This mask or statistic depends on the positions of the queries: choose one of them."
        )
    return 0


def visible(mask: Mask, offset: Any, queries: Array, keys: Array) -> Visible:
    """The mask evaluated for these queries and keys, which have two to four axes."""
    shape, columns = queries.shape, keys.shape[-2]
    batch, heads, rows = shape[0] if len(shape) == 4 else 1, shape[-3] if len(shape) > 2 else 1, shape[-2]
    offset = offset_known(offset, rows, columns) if mask.needs_position else 0
    if not _in_tensors(mask, queries):
        return mask.visible(queries=rows, keys=columns, batch=batch, heads=heads, offset=offset)
    library, device = arrays.library(queries), queries.device
    return mask.visible(queries=rows, keys=columns, batch=batch, heads=heads, offset=offset, xp=library, device=device)


def _in_tensors(mask: Mask, queries: Array) -> bool:
    """Whether a mask must be evaluated with PyTorch; on the CPU, NumPy takes a tenth of the time."""
    if not is_tensor(queries):
        return False
    return not queries.is_cpu or arrays.tracing() or not (mask._only_numbers or _is_data(mask))


def _is_data(mask: Mask) -> bool:
    """Whether a mask consists of numbers and arrays only; a function of positions (`where`) must get tensors."""
    parts = [getattr(mask, field.name) for field in fields(mask)]  # type: ignore[arg-type]
    return not any(callable(part) or (isinstance(part, Mask) and not _is_data(part)) for part in parts)


def relative(bias: Bias, offset: Any, queries: Array, keys: Array) -> tuple[Array, int]:
    """The lazy bias for every distance i − j that occurs, and the index of distance 0."""
    offset = offset_known(offset, queries.shape[2], keys.shape[2])
    nearest, furthest = (offset, offset) if arrays.is_number(offset) else (int(offset.min()), int(offset.max()))
    lowest, highest = nearest - (keys.shape[2] - 1), furthest + queries.shape[2] - 1
    device = queries.device if is_tensor(queries) else None
    needed = (highest - lowest + 1) * queries.shape[1] * max(4, queries.dtype.itemsize)
    if nearest != furthest and needed > MOST_RELATIVE:
        raise errors.TooLarge(
            f"`offset` puts the sequences up to {furthest - nearest:,} positions apart: a bias by distance would take "
            f"{errors.size_in_bytes(needed)}.\nCompute sequences that are so far apart separately."
        )
    return bias.table(
        queries.shape[1], lowest, highest, arrays.library(queries), arrays.wide_type(queries), device
    ), -lowest


def effective_softcap(given: float | None, queries: Array) -> float:
    """The soft cap, 0 for none; a cap near the largest float has no effect on finite scores and would overflow."""
    largest = 4e307 if arrays.wide_type(queries) == arrays.library(queries).float64 else 8e37
    return 0.0 if given is None or given > largest else given


# Vectors


def is_vector(thing: Any) -> bool:
    """Whether this is a vector: one axis, or a flat list."""
    if hasattr(thing, "ndim"):
        return bool(thing.ndim == 1)
    return isinstance(thing, (list, tuple)) and bool(thing) and not any(hasattr(part, "__len__") for part in thing)


def as_column(vector: Any) -> Any:
    """A vector as a matrix with one column."""
    return vector[:, None] if hasattr(vector, "ndim") else [[number] for number in vector]
