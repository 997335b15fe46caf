"""The engine for tensors: the generic one, PyTorch's fused attention if it computes the same, and gradients.

Everything is differentiable: `A @ values` by `backward`, with O(n) memory, everything else by autograd through the
strips of the generic engine, which are recomputed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from regard.engines import generic, torch_autograd
from regard.engines.generic import (  # noqa: F401
    backflow,
    backward,
    column_sums,
    layer_norm,
    linear,
    pooled,
    rms_norm,
    rotary,
    tile,
)
from regard.engines.interface import Scores
from regard.engines.torch_arrays import content_unknown, must_record, tensors_of
from regard.masks.intervals import on

OVERFLOW = 1e37  # no sum of products below this overflows in single precision, whatever its order
SCALES = 1e-30, 1e30  # beyond these, products with scores leave the range of single precision


@generic.exact
def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    if values is not None and not statistics and not top and _fuses(scores, values):
        return _fused_attention(scores, values), {}
    if must_record(values, *tensors_of(scores)):
        return torch_autograd.forward(scores, values, statistics, top)
    return generic.forward(scores, values, statistics, top)


product = generic.product


def _fuses(scores: Scores, values: Tensor) -> bool:
    """Whether fused attention can express these scores and treats NaN and masked keys as we do."""
    if scores.softcap or not (scores.bias is scores.relative is scores.sinks is None):
        return False
    if not SCALES[0] < scores.scale < SCALES[1]:  # it multiplies masked scores, −inf, by the scale
        return False
    if values.device.type == "cpu" and values.dtype.itemsize < 4:  # it rounds the weights to 16 bits
        return False
    if values.shape[3] != scores.queries.shape[3]:  # on the CPU it would build the matrix
        return False
    if content_unknown():
        return False
    if not _is_causal(scores) and scores.visible is not None:
        return False
    # With few keys it drops NaN scores, and it lets NaN through a mask.
    finite = _largest(values) * values.shape[2] < OVERFLOW  # it divides by the sum of the weights at the end
    return finite and _largest(scores.queries) * _largest(scores.keys) < OVERFLOW


def _largest(array: Tensor) -> float:
    """The largest magnitude times the length of the vectors; NaN if there is one."""
    return float(torch.linalg.vector_norm(array.detach(), torch.inf)) * array.shape[3] if array.numel() else 0.0


def _is_causal(scores: Scores) -> bool:
    """Whether the mask is causal() with the first query at the first key, and nothing else."""
    visible = scores.visible
    if visible is None or visible.rest is not None or visible.second_first is not None or visible.first is None:
        return False
    xp = visible.xp
    last = xp.clip(xp.arange(1, visible.queries + 1, **on(visible.device)), None, visible.keys)
    return not bool((visible.first != 0).any()) and not bool((visible.last != last).any())


def _fused_attention(scores: Scores, values: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(
        scores.queries,
        scores.keys,
        values,
        is_causal=scores.visible is not None,
        scale=scores.scale,
        enable_gqa=scores.queries.shape[1] != scores.keys.shape[1],
    )
