"""The attention matrix in strips of plain PyTorch operations, on any device, differentiable all the way.

A strip is some queries of some heads against all their keys, at most `STRIP` weights at once. Results of strips are
joined, never written into a common array, so that gradients, `torch.func` and the compiler can follow them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from regard import errors
from regard.kernels import parts
from regard.kernels.interface import RowState, Scores, Stage, softmax_units

Place = tuple[slice, slice, slice]  # batch, head, query
Compute = Callable[[Scores, Place], tuple[Tensor, ...]]
Join = Callable[[Tensor, Tensor], Tensor]
Result = TypeVar("Result")

STRIP = 1 << 22  # weights in one strip: 16 MiB of float32
MINUS_INFINITY = float("-inf")
are_transforms_active = torch._C._are_functorch_transforms_active


# What PyTorch is doing right now


def followed(*tensors: Tensor | None) -> bool:
    """Whether PyTorch has to see every operation: it compiles, transforms, or wants gradients of one of these."""
    if torch.compiler.is_compiling() or are_transforms_active() or forward_ad._current_level >= 0:
        return True
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def transformed() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation is on: tensors may be more than they show."""
    if torch.compiler.is_compiling():  # the compiler has its own eyes on everything
        return False
    return bool(are_transforms_active()) or in_forward_mode()


def in_forward_mode() -> bool:
    """Whether forward-mode differentiation is on, by `torch.func.jvp` too."""
    return bool(forward_ad._current_level >= 0)


def any_gradient(*tensors: Tensor | None) -> bool:
    """Whether gradients are to flow back to one of these."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def tensors_of(scores: Scores) -> tuple[Tensor | None, ...]:
    """What gradients can flow to."""
    return scores.queries, scores.keys, scores.bias, scores.relative, scores.sinks


def content_unknown() -> bool:
    """Whether no decision may depend on what a tensor holds."""
    return bool(torch.compiler.is_compiling()) or transformed()


def exact(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of scores in the precision that they have: automatic casts would round them to 16 bits."""

    @wraps(function)
    def exact(scores: Scores, *arguments: Any, **options: Any) -> Result:
        device = scores.queries.device.type
        if device == "meta":
            raise errors.unsupported("Attention on the meta device", "Its tensors hold no numbers: use another device.")
        if not torch.is_autocast_enabled(device):
            return function(scores, *arguments, **options)
        with torch.autocast(device, enabled=False):
            return function(scores, *arguments, **options)

    return exact


# Strips


def in_strips(scores: Scores, compute: Compute, add: Join | None = None) -> tuple[Tensor, ...]:
    """What `compute` gives for every strip, joined along its first three axes; over queries by `add` where given."""
    place = (slice(0, scores.queries.shape[0]), slice(0, scores.queries.shape[1]), slice(0, scores.queries.shape[2]))
    if torch.compiler.is_compiling():  # one graph for all lengths: a loop would be for one alone
        return compute(scores, place)
    return _in_strips(scores, compute, add, place, 0)


def _in_strips(scores: Scores, compute: Compute, add: Join | None, place: Place, axis: int) -> tuple[Tensor, ...]:
    counts = [part.stop - part.start for part in place]
    weights = counts[0] * counts[1] * counts[2] * scores.keys.shape[2]
    if axis == 3 or weights <= STRIP:
        return _computed(scores, compute, place)
    step = max(1, STRIP * counts[axis] // weights)
    if axis == 1:  # whole groups of heads, so that the keys they share stay where they are
        group = counts[1] // min(counts[1], scores.keys.shape[1])
        step = step - step % group if step >= group else 1
    pieces = []
    for start in range(place[axis].start, place[axis].stop, step):
        some = slice(start, min(start + step, place[axis].stop))
        pieces.append(_in_strips(scores, compute, add, (*place[:axis], some, *place[axis + 1 :]), axis + 1))  # type: ignore[arg-type]
    if axis == 2 and add is not None:
        total = pieces[0]
        for piece in pieces[1:]:
            total = tuple(add(one, other) for one, other in zip(total, piece, strict=True))
        return total
    return tuple(torch.cat(found, axis) for found in zip(*pieces, strict=True))


def _computed(scores: Scores, compute: Compute, place: Place) -> tuple[Tensor, ...]:
    whole = place[0].stop - place[0].start, place[1].stop - place[1].start, place[2].stop - place[2].start
    if whole == tuple(scores.queries.shape[:3]):
        return compute(scores, place)
    part = part_of(scores, place)
    if any_gradient(*tensors_of(part)) and not transformed():
        # Gradients recompute a strip when they come to it: kept, all strips together would be the matrix.
        found: tuple[Tensor, ...] = checkpoint(compute, part, place, use_reentrant=False, preserve_rng_state=False)
        return found
    return compute(part, place)


def part_of(scores: Scores, place: Place) -> Scores:
    """The scores of one strip."""
    batch, head = (
        parts.EVERYTHING if part == slice(0, count) else part
        for part, count in zip(place[:2], scores.queries.shape[:2], strict=True)
    )
    if not (batch == parts.EVERYTHING == head):
        scores = parts.selected(scores, batch, head)
    return parts.of_rows(scores, place[2])


def of_key_heads(array: Tensor, scores: Scores, place: Place) -> Tensor:
    """The part of an array (batch, key head, ...) that belongs to a strip."""
    return array[place[0]][:, key_heads(scores, place)]


def key_heads(scores: Scores, place: Place) -> slice:
    """The key heads of a strip, which holds whole groups of query heads or a single one."""
    group = scores.queries.shape[1] // scores.keys.shape[1]
    return slice(place[1].start // group, (place[1].stop - 1) // group + 1)


# The stages: score → scaled → capped → biased → masked → weight


def at_stage(scores: Scores, stage: Stage, columns: slice = parts.EVERYTHING) -> Tensor:
    """The scores of a strip at one stage before the weights, (batch, head, query, key)."""
    keys = wide(scores.keys if columns == parts.EVERYTHING else scores.keys[:, :, columns])
    seen = seen_of(scores, columns) if stage == "masked" else None
    if seen is not None and (
        any_gradient(scores.queries, keys) or transformed()
    ):  # NaN times a gradient of 0 would still be NaN
        seen_at_all = seen.any(dim=2).any(dim=1)[:, None, :, None]  # (batch or 1, 1, key, 1)
        keys = torch.where(seen_at_all, keys, 0)
    result = to_keys(wide(scores.queries), keys)
    if stage == "score":
        return result
    result = result * scores.scale
    if stage == "scaled":
        return result
    if scores.softcap:
        result = scores.softcap * torch.tanh(result / scores.softcap)
    if stage == "capped":
        return result
    if scores.bias is not None:
        result = _biased(result, parts.shared(scores.bias, columns, 3))
    if scores.relative is not None:
        result = _biased(result, relative_bias(scores, columns))
    return result if seen is None else torch.where(seen, result, MINUS_INFINITY)


def _biased(scores: Tensor, bias: Tensor) -> Tensor:
    """A bias of −inf hides a key as a mask does: NaN + −inf would let a poisoned key through."""
    bias = bias.to(scores.dtype)
    return torch.where(torch.isneginf(bias), MINUS_INFINITY, scores + bias)


def seen_of(scores: Scores, columns: slice = parts.EVERYTHING) -> Tensor | None:
    """Which keys the queries may see, booleans (batch or 1, head or 1, query, key); None for all."""
    if scores.visible is None:
        return None
    return as_tensor(scores.visible.tile(parts.EVERYTHING, columns), scores.queries.device)


def distances(scores: Scores, columns: slice = parts.EVERYTHING) -> Tensor:
    """i − j for every query position i and key position j, (batch or 1, 1, query, key)."""
    device = scores.queries.device
    row = torch.arange(scores.queries.shape[2], device=device)
    column = torch.arange(scores.keys.shape[2], device=device)[columns]
    offset = scores.offset if isinstance(scores.offset, Tensor) else torch.as_tensor(scores.offset, device=device)
    return offset.reshape(-1, 1, 1, 1) + (row[:, None] - column)


def relative_bias(scores: Scores, columns: slice = parts.EVERYTHING) -> Tensor:
    """The bias by relative position, (batch or 1, head or 1, query, key)."""
    assert scores.relative is not None
    found: Tensor = scores.relative[:, distances(scores, columns)[:, 0] + scores.relative_zero]
    return found.swapaxes(0, 1)


def compared(scores: Scores, columns: slice = parts.EVERYTHING) -> tuple[Tensor, float]:
    """Masked scores in the units of the softmax, and what differences of them are multiplied by."""
    before, factor = softmax_units(scores)
    return at_stage(replace(scores, scale=before), "masked", columns), factor


def weights_of(masked: Tensor, factor: float, state: RowState) -> Tensor:
    """Exactly zero for a key that is not seen, even in a row of NaN."""
    row_max, row_sum = (array.to(masked.dtype)[..., None] for array in (state.row_max, state.row_sum))
    row_max = torch.where(torch.isneginf(row_max), 0, row_max)
    row_sum = torch.where(row_sum == 0, 1, row_sum)
    return torch.where(torch.isneginf(masked), 0, torch.exp(factor * (masked - row_max)) / row_sum)


# Products, with grouped queries and without leaks: query heads that share a key head are stacked along the queries


def to_keys(rows: Tensor, keys: Tensor) -> Tensor:
    """rows @ keysᵀ for (batch, head, query, size) and (batch, key head, key, size)."""
    return (stacked(rows, keys.shape[1]) @ keys.mT).reshape(*rows.shape[:3], keys.shape[2])


def from_keys(weights: Tensor, seen: Tensor, values: Tensor) -> Tensor:
    """weights @ values for (batch, head, query, key) and (batch, key head, key, size)."""
    heads = values.shape[1]
    result = product(stacked(weights, heads), stacked(seen, heads), wide(values))
    return result.reshape(*weights.shape[:3], values.shape[3])


def back_to_keys(weights: Tensor, seen: Tensor, rows: Tensor, heads: int) -> Tensor:
    """weightsᵀ @ rows, summed over the query heads that share one of so many key heads."""
    return product(stacked(weights, heads).mT, stacked(seen, heads).mT, stacked(rows, heads))


def product(weights: Tensor, seen: Tensor, values: Tensor) -> Tensor:
    """weights @ values where an unseen value has no influence, not even as NaN: 0 · NaN would be NaN."""
    finite = torch.isfinite(values)
    if not content_unknown() and bool(finite.all()):
        return weights @ values
    result = weights @ torch.where(finite, values, 0)
    odd = torch.cat([values == float("inf"), values == MINUS_INFINITY, values.isnan()], dim=-1)
    above, below, unknown = ((seen.to(result.dtype) @ odd.to(result.dtype)) > 0).chunk(3, dim=-1)
    result = result + torch.where(above, float("inf"), 0.0) + torch.where(below, MINUS_INFINITY, 0.0)
    return torch.where(unknown, float("nan"), result)


def stacked(rows: Tensor, heads: int) -> Tensor:
    """(batch, key head · group, query, x) as (batch, key head, group · query, x)."""
    batch, all_heads, query, last = rows.shape
    if all_heads == heads:
        return rows
    return rows.reshape(batch, heads, all_heads // heads * query, last)


# Types


def as_tensor(array: Any, device: Any) -> Tensor:
    """A tensor on the device; arrays that are read-only or lie backwards in memory are copied."""
    if isinstance(array, np.ndarray):
        array = torch.from_numpy(np.require(array, requirements=("C", "W")))
    found: Tensor = array.to(device)
    return found


def wide(array: Tensor) -> Tensor:
    """In at least single precision."""
    return array if array.dtype.itemsize > 2 else array.float()


def exactly(array: Tensor) -> Tensor:
    """In double precision, where the device has it."""
    return array.to(exact_type(array.device))


def exact_type(device: Any) -> torch.dtype:
    """The type of log-sum-exp."""
    return torch.float32 if device.type == "mps" else torch.float64
