"""PyTorch as the array namespace of the generic engine, on any device; and the state that PyTorch is in.

16-bit numbers are computed in single precision. `numpy_arrays` documents the functions of a namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from regard import errors
from regard.engines.interface import Scores
from regard.engines.numpy_arrays import SHARED

STRIP = 1 << 22  # weights in one strip: 16 MiB of float32
globals().update({name: getattr(torch, name) for name in SHARED})
no_grad = torch.no_grad


# The state that PyTorch is in

are_transforms_active = torch._C._are_functorch_transforms_active


def must_record(*tensors: Tensor | None) -> bool:
    """Whether PyTorch has to see every operation: it compiles, transforms, or needs gradients of one of these."""
    return torch.compiler.is_compiling() or are_transforms_active() or needs_gradients(*tensors)


def needs_gradients(*tensors: Tensor | None) -> bool:
    """Whether PyTorch needs gradients of one of these, in reverse or forward mode."""
    if forward_ad._current_level >= 0:
        return True
    if torch._C._is_tracing():
        raise errors.traced()
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def in_transform() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation is active, outside of the compiler."""
    if torch.compiler.is_compiling():
        return False
    return bool(are_transforms_active()) or in_forward_mode()


def in_forward_mode() -> bool:
    """Whether forward-mode differentiation is active, by `torch.func.jvp` too."""
    return bool(forward_ad._current_level >= 0)


def any_gradient(*tensors: Tensor | None) -> bool:
    """Whether autograd records one of these."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def tensors_of(scores: Scores) -> tuple[Tensor | None, ...]:
    """The tensors that may need gradients."""
    return scores.queries, scores.keys, scores.bias, scores.relative, scores.sinks


def content_unknown() -> bool:
    """Whether no decision may depend on the content of a tensor."""
    return bool(torch.compiler.is_compiling()) or in_transform()


def exactly(function: Callable[..., Any], first: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function; if it takes scores, without autocast, which would round them to 16 bits."""
    if isinstance(first, Scores):
        device = first.queries.device.type
        if device == "meta":
            raise errors.unsupported("Attention on the meta device", "Its tensors hold no numbers: use another device.")
        if torch.is_autocast_enabled(device):
            with torch.autocast(device, enabled=False):
                return function(first, *arguments, **options)
    return function(first, *arguments, **options)


# Types


def wide(array: Tensor) -> Tensor:
    """In at least single precision."""
    return array if array.dtype.itemsize > 2 else array.float()


def at_least_float64(array: Tensor) -> Tensor:
    """In double precision if the device supports it."""
    return array.to(exact_type(array.device))


def exact_type(device: Any) -> torch.dtype:
    """The type of log-sum-exps."""
    return torch.float32 if device.type == "mps" else torch.float64


# Gradients, graphs and tensors of unknown content


def detach(array: Tensor) -> Tensor:
    return array.detach()


def without_unseen(keys: Tensor, seen: Tensor) -> Tensor:
    if not (any_gradient(keys) or in_transform()):
        return keys
    seen_at_all = seen.any(dim=2).any(dim=1)[:, None, :, None]  # (batch or 1, 1, key, 1)
    return torch.where(seen_at_all, keys, 0)  # NaN times a gradient of 0 would still be NaN


def all_finite(array: Tensor) -> bool:
    return not content_unknown() and bool(torch.isfinite(array).all())


def in_one_graph() -> bool:
    return bool(torch.compiler.is_compiling())  # one graph for all lengths: a loop would be unrolled for one of them


def of_strip(compute: Callable[..., Any], part: Scores, span: Any, values: Tensor | None) -> Any:
    """The backward pass recomputes each strip: kept, all strips together would be the whole matrix."""
    if any_gradient(values, *tensors_of(part)) and not in_transform():
        return checkpoint(compute, part, span, values, use_reentrant=False, preserve_rng_state=False)
    return compute(part, span, values)


# Indices


def take_along(array: Tensor, index: Tensor) -> Tensor:
    return array.gather(-1, index)


def pad(array: Tensor, count: int, fill: int) -> Tensor:
    return functional.pad(array, (0, count - array.shape[-1]), value=fill)


def by_cell(array: Tensor, axis: int, cells: Any, count: int, pool: str) -> Tensor:
    shape = [*array.shape[:axis], count, *array.shape[axis + 1 :]]
    index = torch.as_tensor(cells, device=array.device)
    if pool == "sum":
        return array.new_zeros(shape).index_add(axis, index, array)
    index = index.reshape([-1 if axis_number == axis else 1 for axis_number in range(4)]).expand(array.shape)
    return array.new_zeros(shape).scatter_reduce(axis, index, array, "amax")


def by_index(rows: Tensor, index: Tensor, count: int) -> Tensor:
    return rows.new_zeros(rows.shape[0], count).index_add(1, index, rows)


# Layers. Products of 16-bit numbers are computed by the device, which accumulates in single precision.


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.dtype == weight.dtype and (bias is None or bias.dtype == x.dtype):
        return wide(functional.linear(x, weight, bias))
    common = x.dtype if x.dtype == weight.dtype else torch.promote_types(wide(x).dtype, weight.dtype)
    result = wide(functional.linear(x.to(common), weight.to(common)))
    return result if bias is None else result + bias


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
    x = wide(x)
    shift = None if bias is None else bias.to(x.dtype)
    return functional.layer_norm(x, x.shape[-1:], weight.to(x.dtype), shift, epsilon)


ACTIVATION: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}
