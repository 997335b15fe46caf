"""Gradients of `A @ values` by an engine's own backward pass, which stores O(n) and recomputes the weights.

Works with `torch.autograd` and, by the rules for a further axis below, with `torch.func.grad` and `torch.func.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import errors
from regard.engines import generic, torch_compile
from regard.engines.interface import ROW_STATE, RowState, Scores
from regard.engines.select import engine_for
from regard.engines.torch_arrays import in_forward_mode, in_transform
from regard.engines.torch_compile import ALWAYS, NAMES, OPTIONAL, Fixed, Tensors, put_together, take_apart
from regard.engines.torch_threads import BORROWED
from regard.masks.visible import ENDS

MASK_IS_FIXED = (None,) * (len(NAMES) - 6)  # instead of the tensors of a flattened mask


def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """An engine's `forward` while PyTorch compiles, differentiates or transforms it."""
    if torch.compiler.is_compiling():
        return torch_compile.forward(scores, values, statistics, top)
    if in_forward_mode():
        return generic.forward(scores, values, statistics, top)
    output: Tensor | None = None
    if values is not None and in_transform():
        fixed, tensors = take_apart(scores, values, whole=True)
        output = AttendTransformed.apply(fixed, *tensors)[0]
    elif values is not None:
        output = Attend.apply(scores, scores.queries, scores.keys, values, scores.bias, scores.relative, scores.sinks)
    return output, generic.forward(scores, None, statistics, top)[1] if statistics or top else {}


class Attend(torch.autograd.Function):  # type: ignore[misc]
    """Differentiable outputs. The older style of autograd.Function, without setup_context, is 30 µs faster."""

    @staticmethod
    def forward(ctx: Any, scores: Scores, *tensors: Tensor | None) -> Tensor:
        values = tensors[2]
        with BORROWED:
            output, row_state = engine_for(values).forward(scores, values, ROW_STATE)
        assert output is not None
        ctx.fixed = Fixed(scores.scale, scores.softcap, scores.relative_zero, scores.offset, scores.visible)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, output, *(row_state[name] for name in ROW_STATE))
        return output

    @staticmethod
    def backward(ctx: Any, flow: Tensor | None) -> tuple[Tensor | None, ...]:
        if flow is None:
            return (None,) * 7
        *tensors, output, row_max, row_sum = ctx.saved_tensors
        needed = ctx.needs_input_grad
        optional = tuple(name for name, need in zip(OPTIONAL, needed[4:], strict=True) if need)
        if torch.is_grad_enabled() or in_transform():
            everything = (*tensors, *MASK_IS_FIXED, output, row_max, row_sum, flow)
            gradients = dict(
                zip((*ALWAYS, *optional), BackwardFunction.apply(ctx.fixed, optional, *everything), strict=True)
            )
            return (None, *(gradients.get(name) for name in (*ALWAYS, *OPTIONAL)))
        scores, values = put_together(ctx.fixed, (*tensors, *MASK_IS_FIXED))
        state = RowState(row_max, row_sum)

        def flow_back(flow: Tensor) -> tuple[Tensor | None, ...]:
            with BORROWED:
                gradients = engine_for(values).backward(scores, values, output, state, flow, optional)
            return gradients.named((*ALWAYS, *OPTIONAL))

        if torch._C._functorch.is_legacy_batchedtensor(flow):
            return None, *_for_each_flow(flow_back, flow)
        return None, *flow_back(flow)


def split_heads(rows: Tensor, widths: Sequence[int], heads: Sequence[int]) -> tuple[Tensor, ...]:
    """(…, token, sum of widths) → for each width a view (…, head, token, width / head)."""
    if torch.compiler.is_compiling() or in_transform():
        return _heads_of(rows, widths, heads)
    parts: tuple[Tensor, ...] = SplitHeads.apply(rows, widths, heads)
    return parts


def _heads_of(rows: Tensor, widths: Sequence[int], heads: Sequence[int]) -> tuple[Tensor, ...]:
    parts = zip(rows.split(widths, dim=-1), heads, strict=True)
    return tuple(part.unflatten(-1, (count, -1)).transpose(-3, -2) for part, count in parts)


class SplitHeads(torch.autograd.Function):  # type: ignore[misc]
    """One node instead of seven; gradients that are views of one array, as kernels return them, are not copied."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, widths: Sequence[int], heads: Sequence[int]) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        parts = _heads_of(rows, widths, heads)
        ctx.shape, ctx.strides = rows.shape, [part.stride() for part in parts] if rows.is_contiguous() else None
        ctx.empty = [(part.shape, rows.dtype, rows.device) for part in parts]
        return parts

    @staticmethod
    def backward(ctx: Any, *flows: Tensor | None) -> tuple[Tensor, None, None]:
        whole = None if torch.is_grad_enabled() or ctx.strides is None else _whole(flows, ctx.shape, ctx.strides)
        if whole is None:
            filled = (
                torch.zeros(shape, dtype=dtype, device=device) if flow is None else flow
                for flow, (shape, dtype, device) in zip(flows, ctx.empty, strict=True)
            )
            lead = ctx.shape[:-1]  # explicit sizes: the older vmap knows no flatten, and 0 tokens no −1
            rows = [part.transpose(-3, -2).reshape(*lead, part.shape[-3] * part.shape[-1]) for part in filled]
            whole = torch.cat(rows, dim=-1)
        return whole, None, None


def _whole(parts: Sequence[Tensor | None], shape: torch.Size, strides: Sequence[tuple[int, ...]]) -> Tensor | None:
    """The contiguous array of this shape of which the parts are views with these strides, side by side, or None."""
    first = parts[0]
    if first is None or type(first) is not Tensor or torch._C._functorch.is_legacy_batchedtensor(first):
        return None
    memory, at = first.untyped_storage().data_ptr(), first.storage_offset()
    for part, expected in zip(parts, strides, strict=True):
        if part is None or type(part) is not Tensor or part.stride() != expected or part.storage_offset() != at:
            return None
        if part.untyped_storage().data_ptr() != memory:
            return None
        at += part.shape[-3] * part.shape[-1]
    return first.as_strided(shape, (*(shape[-2] * shape[-1],) * (len(shape) - 2), shape[-1], 1))


class AttendTransformed(torch.autograd.Function):  # type: ignore[misc]
    """Outputs and row state for `torch.func`; only the outputs are differentiable."""

    @staticmethod
    def forward(fixed: Fixed, *tensors: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        scores, values = put_together(fixed, tensors)
        output, row_state = engine_for(values).forward(scores, values, ROW_STATE)
        assert output is not None
        return output, row_state["row_max"], row_state["row_sum"]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.fixed = inputs[0]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *output)

    @staticmethod
    def backward(ctx: Any, flow: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if flow is None:
            return (None,) * (1 + len(NAMES))
        needed = dict(zip(NAMES, ctx.needs_input_grad[1:], strict=True))
        optional = tuple(name for name in OPTIONAL if needed[name])
        gradients = BackwardFunction.apply(ctx.fixed, optional, *ctx.saved_tensors, flow)
        gradient_of = dict(zip((*ALWAYS, *optional), gradients, strict=True))
        return (None, *(gradient_of.get(name) if needed[name] else None for name in NAMES))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], fixed: Fixed, *tensors: Tensor | None) -> Any:
        joined = _with_batch(info.batch_size, tensors, in_dims[1:])
        return _batched(info.batch_size, tensors, in_dims[1:], joined, partial(AttendTransformed.apply, fixed))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _no_later_level()


class BackwardFunction(torch.autograd.Function):  # type: ignore[misc]
    """The backward pass as a function of its own, which can be batched, and raises if differentiated again.

    Takes the tensors NAMES, output, row_max, row_sum and flow; returns gradients of queries, keys, values and those
    wanted.
    """

    @staticmethod
    def forward(fixed: Fixed, wanted: tuple[str, ...], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        scores, values = put_together(fixed, tensors[:-4])
        output, row_max, row_sum, flow = tensors[-4:]
        state = RowState(row_max, row_sum)
        gradients = engine_for(values).backward(scores, values, output, state, flow, wanted)
        return gradients.named((*ALWAYS, *wanted))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *flows: Any) -> Any:
        raise errors.unsupported(
            "Differentiating attention twice",
            "Its gradient is computed without a graph; A.dense() @ values has one, at O(n²) memory.",
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], fixed: Fixed, wanted: tuple[str, ...], *tensors: Tensor | None
    ) -> Any:
        joined = None if wanted else _with_batch(info.batch_size, tensors, in_dims[2:])
        return _batched(info.batch_size, tensors, in_dims[2:], joined, partial(BackwardFunction.apply, fixed, wanted))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _no_later_level()


def _no_later_level() -> Exception:
    return errors.unsupported(
        "Forward-mode differentiation of gradients that were computed outside of it",
        "Compute them inside, as torch.func.jvp of a function does.",
    )


# Batching by vmap


def _for_each_flow(flow_back: Any, flow: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of a batch of flows, one by one: `autograd.grad(is_grads_batched=True)` hides an axis in the tensor."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    flows = torch._remove_batch_dim(flow, level, 1, 0)  # the axis comes first
    gradients = zip(*map(flow_back, flows), strict=True)
    return tuple(
        None if arrays[0] is None else torch._add_batch_dim(torch.stack(arrays), 0, level) for arrays in gradients
    )


def _with_batch(size: int, tensors: Tensors, dims: tuple[int | None, ...]) -> Tensors | None:
    """The tensors with the vmap axis merged into the batch; None if bias or sinks per head would need both."""
    names = (*NAMES, "output", *ROW_STATE, "flow")[: len(tensors)]
    tensor_of = dict(zip(names, zip(tensors, dims, strict=True), strict=True))
    if any(tensor_of[name][1] is not None for name in ("relative", "sinks")):
        return None
    queries, dim = tensor_of["queries"]
    assert queries is not None
    batch = queries.shape[0] if dim != 0 else queries.shape[1]
    intervals_differ = any(tensor_of[name][1] is not None for name in ENDS)
    joined: list[Tensor | None] = []
    for name, (tensor, dim) in tensor_of.items():
        one_for_all = name in ("relative", "sinks") or (
            name in ("bias", "mask", *ENDS)
            and tensor is not None
            and tensor.shape[0] == 1
            and not (name in ENDS and intervals_differ)
        )
        if tensor is None or (dim is None and one_for_all):
            joined.append(tensor)
        else:
            spread = tensor[None] if dim is None else tensor.movedim(dim, 0)
            spread = spread.expand(size, batch, *spread.shape[2:])
            joined.append(spread.reshape(size * batch, *spread.shape[2:]))
    return tuple(joined)


def _batched(
    size: int, tensors: Tensors, dims: tuple[int | None, ...], joined: Tensors | None, compute: Callable[..., Any]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The results of `compute`, the vmap axis first, and where that is: in one call if the axis could be joined."""
    if joined is not None:
        results = tuple(array.unflatten(0, (size, array.shape[0] // size)) for array in compute(*joined))
        return results, (0,) * len(results)
    several = []
    for index in range(size):
        of_index = (
            tensor if tensor is None or dim is None else tensor.select(dim, index)
            for tensor, dim in zip(tensors, dims, strict=True)
        )
        several.append(compute(*of_index))
    results = tuple(torch.stack(arrays) for arrays in zip(*several, strict=True))
    return results, (0,) * len(results)
