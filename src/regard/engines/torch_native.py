"""CPU tensors through the native engine, without copies: it takes NumPy views and returns tensors of new arrays.

While PyTorch differentiates or transforms, `A @ values` is computed by `torch_autograd`, which calls this engine
forwards and backwards, and everything else by the generic engine, whose operations PyTorch can record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard import _core, errors
from regard.engines import generic, native, torch_autograd
from regard.engines.interface import ROW_STATE, Gradients, RowState, Scores
from regard.engines.torch_arrays import ACTIVATION, in_transform, must_record, needs_gradients, tensors_of
from regard.engines.torch_threads import BORROWED
from regard.masks import Visible
from regard.masks.intervals import Index
from regard.masks.visible import Dense, Rest

BFLOAT16 = torch.bfloat16
DIRECT = _core.takes_tensors and hasattr(Tensor, "__dlpack_c_exchange_api__")  # PyTorch 2.10 and later
SLOPED_TYPES = (torch.float32, torch.float64)
OWN = (Tensor, torch.nn.Parameter)  # subclasses may not hold memory


def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    if must_record(values, scores.queries, scores.keys, scores.bias, scores.relative, scores.sinks):
        return torch_autograd.forward(scores, values, statistics, top)
    if values is not None and statistics in ((), ROW_STATE) and not top and not _is_lazy(scores.visible):
        output = _result_like(scores.queries, values.shape[3], values.dtype)
        state = {name: torch.empty(scores.queries.shape[:3], dtype=_computing(values)) for name in statistics}
        _core.forward(
            _kernel_scores(scores), kernel_array(values), kernel_array(output), *map(kernel_array, state.values())
        )
        return output, state
    output, rows = native.forward(in_numpy(scores), None if values is None else view(values), statistics, top)
    if rows:
        rows = {name: torch.from_numpy(array) for name, array in rows.items()}
    return None if output is None else tensor(output), rows


product = native.product


def _gradients(scores: Scores, values: Tensor, output: Tensor, state: RowState, flow: Tensor) -> Gradients:
    """Gradients of queries, keys and values."""
    gradients = _empty_like_views((scores.queries, scores.keys, values), _computing(values))
    rows = (array.to(_computing(values)).contiguous() for array in (state.row_max, state.row_sum))
    arrays = [kernel_array(array) for array in (values, output, *rows, flow)]
    _core.backward(_kernel_scores(scores), *arrays, *map(kernel_array, gradients))
    queries, keys, of_values = (array.to(values.dtype) for array in gradients)
    return Gradients(queries, keys, of_values)


def _result_like(rows: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """(batch, head, token, size) in the memory order of `rows`: heads that are inside tokens are joined for free."""
    batch, heads, tokens, _ = rows.shape
    if rows.stride(1) < rows.stride(2):
        return torch.empty((batch, tokens, heads, size), dtype=dtype).transpose(1, 2)
    return torch.empty((batch, heads, tokens, size), dtype=dtype)


def _empty_like_views(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> list[Tensor]:
    """Tensors of these shapes; of the parts of one array, (batch, token, widths of all), in an array of that kind.

    Then `torch_autograd.SplitHeads` has the gradient of the whole array without a copy.
    """
    first = tensors[0]
    batch, _, tokens, _ = first.shape
    widths = [tensor.shape[1] * tensor.shape[3] for tensor in tensors]
    whole, at = sum(widths), first.storage_offset()
    for tensor, width in zip(tensors, widths, strict=True):
        order = tokens * whole, tensor.shape[3], whole, 1
        if tensor.shape[2] != tokens or tensor.stride() != order or tensor.storage_offset() != at:
            return [_result_like(tensor, tensor.shape[3], dtype) for tensor in tensors]
        at += width
    parts = torch.empty((batch, tokens, whole), dtype=dtype).split(widths, dim=2)
    shapes = [(batch, tokens, tensor.shape[1], tensor.shape[3]) for tensor in tensors]
    return [part.view(shape).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]


def _computing(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype is torch.float64 else torch.float32


def _kernel_scores(scores: Scores) -> Any:
    if not _is_plain(scores):
        return native.kernel_scores(in_numpy(scores))
    queries, keys, visible = kernel_array(scores.queries), kernel_array(scores.keys), scores.visible
    if visible is None:
        return _core.Scores(queries, keys, scores.scale)
    return _core.Scores(queries, keys, scores.scale, first=visible.first, last=visible.last)


def kernel_array(tensor: Tensor) -> Any:
    """As the kernel takes it: the tensor itself if PyTorch has the DLPack exchange API, otherwise a NumPy view."""
    return tensor if DIRECT and type(tensor) in OWN and not tensor.is_neg() else view(tensor)


def backflow(scores: Scores, state: RowState, rows: Tensor) -> Tensor:
    if must_record(*tensors_in(state), rows, *tensors_of(scores)):
        return generic.backflow(scores, state, rows)
    wide = rows if rows.dtype.itemsize > 2 else rows.float()  # sums over strips are rounded once
    return torch.from_numpy(native.backflow(in_numpy(scores), _state(state), view(wide))).to(rows.dtype)


def _by_state(name: str) -> Any:
    """A function of scores and row state on NumPy views, or by the generic engine while PyTorch must see it."""
    native_function, generic_function = getattr(native, name), getattr(generic, name)

    def compute(scores: Scores, state: RowState | None, *arguments: Any) -> Tensor:
        if must_record(*tensors_in(state), *tensors_of(scores)):
            recorded: Tensor = generic_function(scores, state, *arguments)
            return recorded
        return torch.from_numpy(native_function(in_numpy(scores), _state(state), *arguments))

    return compute


column_sums, pooled, tile = map(_by_state, ("column_sums", "pooled", "tile"))


def backward(
    scores: Scores, values: Tensor, output: Tensor, state: RowState, flow: Tensor, wanted: Sequence[str] = ()
) -> Gradients:
    if not wanted and not _is_lazy(scores.visible):
        return _gradients(scores, values, output, state, flow)
    gradients = native.wide_gradients(in_numpy(scores), view(values), view(output), _state(state), view(flow), wanted)
    arrays = {"queries": scores.queries, "keys": scores.keys, "values": values}
    arrays.update({name: getattr(scores, name) for name in wanted})
    return Gradients(**{name: torch.from_numpy(array).to(arrays[name].dtype) for name, array in gradients.items()})


def _layer(name: str) -> Any:
    """A function of layers on NumPy views, or by the generic engine while PyTorch differentiates or transforms."""
    native_layer, generic_layer = getattr(native, name), getattr(generic, name)

    def layer(*arguments: Any, **options: Any) -> Tensor:
        if must_record(*(part for part in (*arguments, *options.values()) if isinstance(part, Tensor))):
            recorded: Tensor = generic_layer(*arguments, **options)
            return recorded
        named = {name: view(part) if isinstance(part, Tensor) else part for name, part in options.items()}
        return tensor(native_layer(*(view(part) if isinstance(part, Tensor) else part for part in arguments), **named))

    return layer


_linear, _layer_norm, rms_norm, rotary = map(_layer, ("linear", "layer_norm", "rms_norm", "rotary"))


def _is_learned(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether autograd alone records an operation on float32 or float64 tensors of one type, as in a training loop."""
    dtype = x.dtype
    return (
        dtype in SLOPED_TYPES
        and weight.dtype is dtype
        and (bias is None or bias.dtype is dtype)
        and not torch.compiler.is_compiling()
        and not in_transform()
        and needs_gradients(x, weight, bias)
    )


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    residual: Tensor | None = None,
    times: Tensor | None = None,
) -> Tensor:
    if not _is_learned(x, weight, bias):
        return _linear(x, weight, bias, activation, residual, times)
    rows = functional.linear(x, weight, bias).to(x.dtype)  # under autocast it has another type
    if activation is not None:
        sloped = activation in native.SLOPED
        rows = Activated.apply(rows, activation) if sloped else ACTIVATION[activation](rows)
    rows = rows if times is None else rows * times
    return rows if residual is None else rows + residual


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
    if not _is_learned(x, weight, bias):
        return _layer_norm(x, weight, bias, epsilon)
    return functional.layer_norm(x, weight.shape, weight, bias, epsilon)


class Activated(torch.autograd.Function):  # type: ignore[misc]
    """An activation with an exponential, in one pass over memory each way: twice the speed of PyTorch's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: str) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.activation = activation
        return _apply_activation(x, activation)

    @staticmethod
    def backward(ctx: Any, flow: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled() or torch._C._functorch.is_legacy_batchedtensor(flow):  # a gradient of the gradient
            with torch.enable_grad():
                inner = x if x.requires_grad else x.detach().requires_grad_()
                return torch.autograd.grad(ACTIVATION[ctx.activation](inner), inner, flow, create_graph=True)[0], None
        return _apply_activation(x, ctx.activation, flow.contiguous()), None


def _apply_activation(x: Tensor, activation: str, flow: Tensor | None = None) -> Tensor:
    """f(x), f one of SLOPED, of contiguous tensors; with `flow`, the gradient of the output, flow · f′(x)."""
    output = torch.empty_like(x)
    if x.numel():
        flow_array = None if flow is None else kernel_array(flow.view(-1))
        with BORROWED:
            _core.activate(
                kernel_array(x.view(-1)), kernel_array(output.view(-1)), native.activation_code(activation), flow_array
            )
    return output


# NumPy views of tensors


def view(tensor: Tensor) -> Any:
    """The tensor's memory as a NumPy array, bfloat16 as 16-bit integers; copied only if its negative bit is set."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    try:
        return (tensor if tensor.dtype is not BFLOAT16 else tensor.view(torch.uint16)).numpy()
    except (RuntimeError, TypeError) as problem:
        if tensor.is_neg():
            return view(tensor.resolve_neg())
        raise errors.unsupported(f"A tensor of class {type(tensor).__name__}", "Give a plain tensor.") from problem


def _view(tensor: Tensor | None) -> Any:
    return None if tensor is None else view(tensor)


def tensors_in(state: RowState | None) -> tuple[Tensor, ...]:
    """The tensors of a state, if there is one."""
    return () if state is None else (state.row_max, state.row_sum)


def _state(state: RowState | None) -> Any:
    return None if state is None else RowState(view(state.row_max), view(state.row_sum))


def tensor(array: Any) -> Tensor:
    """A tensor of the array's memory, 16-bit integers as bfloat16."""
    tensor = torch.from_numpy(array)
    return tensor.view(BFLOAT16) if array.dtype is native.BITS else tensor


def _is_lazy(visible: Visible | None) -> bool:
    return visible is not None and visible.rest is not None and visible.rest.dense is None


def _is_plain(scores: Scores) -> bool:
    """Whether there are no options, and a mask of at most one interval per query."""
    return (
        scores.bias is None is scores.relative
        and scores.sinks is None
        and not scores.softcap
        and (scores.visible is None or native.is_interval(scores.visible))
    )


def in_numpy(scores: Scores) -> Scores:
    """The scores with NumPy views of all tensors."""
    visible, sinks, offset = scores.visible, scores.sinks, scores.offset
    return Scores(
        view(scores.queries),
        view(scores.keys),
        scores.scale,
        scores.softcap,
        _view(scores.bias),
        _view(scores.relative),
        scores.relative_zero,
        None if sinks is None else view(sinks.detach().double()),
        visible if visible is None or visible.xp is np else _visible(visible),
        offset if isinstance(offset, int) else view(offset),
    )


def _visible(visible: Visible) -> Visible:
    rest = visible.rest
    if rest is not None and rest.dense is not None:
        rest = Dense(view(rest.dense), visible.queries, visible.keys, np)
    elif rest is not None:
        rest = InNumpy(rest)
    ends = {name: view(end) for name, end in visible.ends()}
    return replace(visible, **ends, rest=rest, xp=np, device=None)


@dataclass(frozen=True, eq=False, slots=True)
class InNumpy:
    """A `Rest` that is evaluated with tensors and returned as NumPy arrays."""

    inner: Rest
    dense: None = None

    def tile(self, rows: Index, columns: Index) -> Any:
        return view(self.inner.tile(rows, columns))

    def rows(self, rows: slice) -> InNumpy:
        return replace(self, inner=self.inner.rows(rows))

    def select(self, batch: Any = None, head: Any = None) -> InNumpy:
        return replace(self, inner=self.inner.select(batch, head))
