"""Gradients of `A @ values` by an engine's own backward pass, which keeps O(n) and recomputes the weights.

Works with `torch.autograd` and, through the rules for a further axis below, with `torch.func.grad` and `torch.func.vmap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard import errors
from regard.kernels import torch_ops
from regard.kernels.choosing import engine_for
from regard.kernels.interface import Scores
from regard.kernels.torch_flat import INTERVALS, NAMES, OPTIONAL, Fixed, Tensors, put_together, taken_apart
from regard.kernels.torch_rows import forward_in_strips
from regard.kernels.torch_tiles import in_forward_mode, transformed


def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """As an engine's `forward`, where PyTorch compiles, differentiates or transforms it."""
    if torch.compiler.is_compiling():
        return torch_ops.forward(scores, values, statistics, top)
    if in_forward_mode():
        return forward_in_strips(scores, values, statistics, top)
    output = None
    if values is not None:
        fixed, tensors = taken_apart(scores, values, whole=transformed())
        output = Attend.apply(fixed, *tensors)[0]
    return output, forward_in_strips(scores, None, statistics, top)[1]


class Attend(torch.autograd.Function):
    """Outputs and normalisers; gradients flow from the outputs alone."""

    @staticmethod
    def forward(fixed: Fixed, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        scores, values = put_together(fixed, tensors)
        output, found = engine_for(values).forward(scores, values, ("logsumexp",))
        assert output is not None
        return output, found["logsumexp"]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.fixed = inputs[0]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *output)

    @staticmethod
    def backward(ctx: Any, flow: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        if flow is None:
            return (None,) * (1 + len(NAMES))
        needed = ctx.needs_input_grad[1:]
        wanted = tuple(name for name in OPTIONAL if needed[NAMES.index(name)])
        if torch.is_grad_enabled() or transformed():
            found = iter(Gradients.apply(ctx.fixed, wanted, *ctx.saved_tensors, flow))
        else:
            found = iter(_gradients(ctx.fixed, wanted, *ctx.saved_tensors, flow))
        by_name = {name: next(found) for name in ("queries", "keys", "values", *wanted)}
        return (None, *(by_name.get(name) if need else None for name, need in zip(NAMES, needed, strict=True)))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], fixed: Fixed, *tensors: Tensor | None) -> Any:
        joined = _with_batch(info.batch_size, tensors, in_dims[1:])
        if joined is None:
            found = _one_by_one(info.batch_size, tensors, in_dims[1:], lambda one: Attend.apply(fixed, *one))
        else:
            found = tuple(_apart(array, info.batch_size) for array in Attend.apply(fixed, *joined))
        return found, (0, 0)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise errors.unsupported(
            "Differentiating a gradient of attention that was computed before",
            "Compute both within one forward-mode level, as torch.func.jvp does.",
        )


class Gradients(torch.autograd.Function):
    """The backward pass where something follows it: it can be batched, and says that it has no gradients of its own."""

    @staticmethod
    def forward(fixed: Fixed, wanted: tuple[str, ...], *tensors: Tensor | None) -> tuple[Tensor, ...]:
        return _gradients(fixed, wanted, *tensors)

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
        if joined is None:
            found = _one_by_one(
                info.batch_size, tensors, in_dims[2:], lambda one: Gradients.apply(fixed, wanted, *one)
            )
        else:
            found = tuple(_apart(array, info.batch_size) for array in Gradients.apply(fixed, wanted, *joined))
        return found, (0,) * len(found)

    jvp = Attend.jvp


def _gradients(fixed: Fixed, wanted: tuple[str, ...], *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of queries, keys, values and what else is wanted; tensors are NAMES, output, normaliser and flow."""
    scores, values = put_together(fixed, tensors[:-3])
    output, normaliser, flow = tensors[-3:]
    found = engine_for(values).backward(scores, values, output, normaliser, flow, wanted)
    return (found.queries, found.keys, found.values, *(getattr(found, name) for name in wanted))


# A further axis


def _with_batch(size: int, tensors: Tensors, dims: tuple[int | None, ...]) -> Tensors | None:
    """The tensors with a further axis joined with their batch; None where bias or sinks of a head would need both."""
    names = (*NAMES, "output", "normaliser", "flow")[: len(tensors)]
    given = dict(zip(names, zip(tensors, dims, strict=True), strict=True))
    if any(given[name][1] is not None for name in ("relative", "sinks")):
        return None
    queries, dim = given["queries"]
    assert queries is not None
    batch = queries.shape[0] if dim != 0 else queries.shape[1]
    intervals_differ = any(given[name][1] is not None for name in INTERVALS)
    joined: list[Tensor | None] = []
    for name, (tensor, dim) in given.items():
        one_for_all = name in ("relative", "sinks") or (
            name in ("bias", "mask", *INTERVALS)
            and tensor is not None
            and tensor.shape[0] == 1
            and not (name in INTERVALS and intervals_differ)
        )
        if tensor is None or (dim is None and one_for_all):
            joined.append(tensor)
        else:
            spread = tensor[None] if dim is None else tensor.movedim(dim, 0)
            spread = spread.expand(size, batch, *spread.shape[2:])
            joined.append(spread.reshape(size * batch, *spread.shape[2:]))
    return tuple(joined)


def _apart(array: Tensor, size: int) -> Tensor:
    return array.unflatten(0, (size, array.shape[0] // size))


def _one_by_one(size: int, tensors: Tensors, dims: tuple[int | None, ...], compute: Any) -> tuple[Tensor, ...]:
    found = []
    for index in range(size):
        one = (
            tensor if tensor is None or dim is None else tensor.select(dim, index)
            for tensor, dim in zip(tensors, dims, strict=True)
        )
        found.append(compute(tuple(one)))
    return tuple(torch.stack(arrays) for arrays in zip(*found, strict=True))
