"""From an `Attention` to the `Scores` that engines take."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from regard import arrays, errors
from regard.arrays import Array, four_axes
from regard.biases import Bias
from regard.engines.interface import Scores
from regard.errors import size_in_bytes
from regard.masks import Mask, Visible

if TYPE_CHECKING:
    from regard.attention.attention import Attention


MOST_RELATIVE = 1 << 28  # bytes of a lazy bias, which spans the distance between the offsets of a batch


def scores_of(attention: Attention) -> Scores:
    """All scores of an attention as engines take them: arrays with four axes, O(n) memory beyond the given arrays."""
    queries, keys = four_axes(attention.queries), four_axes(attention.keys)
    if attention.similarity == "cosine":
        queries, keys = (arrays.unit_length(arrays.wide(vectors)) for vectors in (queries, keys))
    scale = queries.shape[3] ** -0.5 if attention.scale is None else attention.scale
    bias, relative, relative_zero = attention.bias, None, 0
    if isinstance(bias, Bias):
        relative, relative_zero = _relative(attention, bias, queries, keys)
        bias = None
    return Scores(
        queries,
        keys,
        scale,
        _softcap(attention, queries),
        None if bias is None else four_axes(bias),
        relative,
        relative_zero,
        attention.sinks,
        None if attention.mask is None else visible_of(attention, queries, keys),
        0 if attention.offset is None else attention.offset,
    )


def _softcap(attention: Attention, queries: Array) -> float:
    """The soft cap, 0 for none; a cap near the largest float has no effect on finite scores and would overflow."""
    largest = 4e307 if arrays.wide_type(queries) == arrays.library(queries).float64 else 8e37
    return 0.0 if attention.softcap is None or attention.softcap > largest else attention.softcap


def offset_known(attention: Attention) -> Any:
    """The position of the first query; 0 by default if there are as many queries as keys, else required."""
    if attention.offset is not None:
        return attention.offset
    queries, keys = attention.queries.shape[-2], attention.keys.shape[-2]
    if queries != keys:
        last = f"offset={keys - queries}"
        raise errors.OptionError(
            f"`offset` is not given, and {errors.count(queries, 'query')} with {errors.count(keys, 'key')} "
            "can be aligned in two ways.\n"
            f"  {'offset=0'.ljust(len(last))}  top-left: query 0 is at key 0, as with is_causal in PyTorch\n"
            f"  {last.ljust(8)}  bottom-right: the last query is at the last key, as in FlashAttention and decoding\n"
            "This mask or statistic depends on the positions of the queries: choose one of them."
        )
    return 0


def visible_of(attention: Attention, queries: Array, keys: Array) -> Visible:
    """The mask evaluated for these queries and keys."""
    mask, (batch, heads, count, _) = attention.mask, queries.shape
    assert mask is not None
    offset = offset_known(attention) if mask.needs_position else 0
    if not _in_tensors(mask, queries):
        return mask.visible(queries=count, keys=keys.shape[2], batch=batch, heads=heads, offset=offset)
    library, device = arrays.library(queries), queries.device
    return mask.visible(
        queries=count, keys=keys.shape[2], batch=batch, heads=heads, offset=offset, xp=library, device=device
    )


def _in_tensors(mask: Mask, queries: Array) -> bool:
    """Whether a mask must be evaluated with PyTorch; on the CPU, NumPy takes a tenth of the time."""
    if not arrays.is_tensor(queries):
        return False
    return not queries.is_cpu or arrays.tracing() or not (mask._only_numbers or _is_data(mask))


def _is_data(mask: Mask) -> bool:
    """Whether a mask consists of numbers and arrays only; a function of positions (`where`) must get tensors."""
    parts = [getattr(mask, field.name) for field in fields(mask)]  # type: ignore[arg-type]
    return not any(callable(part) or (isinstance(part, Mask) and not _is_data(part)) for part in parts)


def _relative(attention: Attention, bias: Bias, queries: Array, keys: Array) -> tuple[Array, int]:
    """The lazy bias for every distance i − j that occurs, and the index of distance 0."""
    offset = offset_known(attention)
    nearest, furthest = (offset, offset) if arrays.is_number(offset) else (int(offset.min()), int(offset.max()))
    lowest, highest = nearest - (keys.shape[2] - 1), furthest + queries.shape[2] - 1
    device = queries.device if arrays.is_tensor(queries) else None
    needed = (highest - lowest + 1) * queries.shape[1] * max(4, queries.dtype.itemsize)
    if nearest != furthest and needed > MOST_RELATIVE:
        raise errors.TooLarge(
            f"`offset` puts the sequences up to {furthest - nearest:,} positions apart: a bias by distance would take "
            f"{size_in_bytes(needed)}.\nCompute sequences that are so far apart separately."
        )
    return bias.table(
        queries.shape[1], lowest, highest, arrays.library(queries), arrays.wide_type(queries), device
    ), -lowest
