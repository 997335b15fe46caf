"""Layers in plain PyTorch operations, on any device, differentiable: linear maps, norms and rotary positions.

Products of 16-bit numbers are left to the device, which sums them in single precision; all else happens in at least
single precision, and is rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ACTIVATION: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    residual: Tensor | None = None,
    times: Tensor | None = None,
) -> Tensor:
    """activation(x @ weightᵀ + bias) · times + residual; weight is (out, in)."""
    bare = activation is None is residual and times is None
    if bare and x.dtype == weight.dtype and (bias is None or bias.dtype == x.dtype):
        return functional.linear(x, weight, bias)
    common = x.dtype if x.dtype == weight.dtype else torch.promote_types(_wide(x).dtype, weight.dtype)
    result = _wide(functional.linear(x.to(common), weight.to(common)))
    if bias is not None:
        result = result + bias
    result = ACTIVATION[activation](result)
    if times is not None:
        result = result * times
    if residual is not None:
        result = result + residual
    return result.to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
    """(x − mean) / √(variance + ε) · weight + bias over the last axis."""
    wide = _wide(x)
    shift = None if bias is None else bias.to(wide.dtype)
    return functional.layer_norm(wide, x.shape[-1:], weight.to(wide.dtype), shift, epsilon).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / √(mean of squares + ε) · weight over the last axis."""
    wide = _wide(x)
    return (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon) * weight).to(x.dtype)


def rotary(x: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool, in_place: bool = False) -> Tensor:
    """Rotate pairs of the last axis of (batch, head, token, size) by angles (batch or 1, token, pairs).

    Pairs are neighbours where interleaved, and otherwise number p and number pairs + p; what lies past the last pair
    stays as it is.
    """
    pairs = cosines.shape[-1]
    wide = _wide(x)
    cosines, sines = cosines[:, None].to(wide.dtype), sines[:, None].to(wide.dtype)  # (batch or 1, 1, token, pairs)
    one, other = (
        (wide[..., 0 : 2 * pairs : 2], wide[..., 1 : 2 * pairs : 2])
        if interleaved
        else (wide[..., :pairs], wide[..., pairs : 2 * pairs])
    )
    turned = one * cosines - other * sines, other * cosines + one * sines
    joined = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat([joined, wide[..., 2 * pairs :]], dim=-1).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype.itemsize > 2 else x.float()
