"""The PyTorch engine: any device PyTorch has, in strips of plain operations.

PyTorch's own fused attention computes what it can express, as long as that keeps the rules for NaN and for queries that
see nothing. 16-bit numbers are computed in single precision. Everything is differentiable: `A @ values` by `backward`
below, with O(n) memory, all else by PyTorch through the strips, which are recomputed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels import parts, torch_gradients
from regard.kernels.interface import Gradients, Pool, RowState, Scores, Stage
from regard.kernels.parts import no_short_way as short_product
from regard.kernels.torch_layers import layer_norm, linear, rms_norm, rotary
from regard.kernels.torch_rows import forward_in_strips
from regard.kernels.torch_tiles import (
    Place,
    at_stage,
    back_to_keys,
    compared,
    content_unknown,
    distances,
    exact,
    followed,
    from_keys,
    in_strips,
    key_heads,
    of_key_heads,
    product,
    tensors_of,
    to_keys,
    weights_of,
    wide,
)

__all__ = [
    "backflow",
    "backward",
    "fingerprint",
    "forward",
    "layer_norm",
    "linear",
    "pooled",
    "received",
    "rms_norm",
    "rotary",
    "short_product",
    "tile",
]


@exact
def forward(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Outputs and row statistics; log-sum-exp in float64."""
    if values is not None and not statistics and not top and _fuses(scores, values):
        return _fused(scores, values), {}
    if followed(values, *tensors_of(scores)):
        return torch_gradients.forward(scores, values, statistics, top)
    return forward_in_strips(scores, values, statistics, top)


@exact
def backflow(scores: Scores, state: RowState, rows: Tensor) -> Tensor:
    """Weights transposed times rows: what each key gives away."""

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        masked, factor = compared(part)
        weights = weights_of(masked, factor, state[place])
        return (product(weights.mT, ~torch.isneginf(masked).mT, wide(rows[place])),)

    return in_strips(scores, compute, torch.add)[0].to(rows.dtype)


@exact
def received(scores: Scores, state: RowState) -> Tensor:
    """Column sums of the weights."""

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        return (weights_of(*compared(part), state[place]).sum(dim=2),)

    return in_strips(scores, compute, torch.add)[0]


@exact
def pooled(scores: Scores, state: RowState, row_edges: Any, column_edges: Any, pool: Pool) -> Tensor:
    """Sum or largest weight of every cell; edges are NumPy integers that rise strictly."""
    region, columns = (slice(int(edges[0]), int(edges[-1])) for edges in (row_edges, column_edges))
    column_cells = np.repeat(np.arange(len(column_edges) - 1), np.diff(column_edges))
    row_cells = np.repeat(np.arange(len(row_edges) - 1), np.diff(row_edges))
    state = state[:, :, region]

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        weights = weights_of(*compared(part, columns), state[place])
        by_column = _gathered(weights, 3, column_cells, len(column_edges) - 1, pool)
        return (_gathered(by_column, 2, row_cells[place[2]], len(row_edges) - 1, pool),)

    add = torch.add if pool == "sum" else torch.maximum
    return in_strips(parts.of_rows(scores, region), compute, add)[0]


def _gathered(weights: Tensor, axis: int, cells: Any, count: int, pool: Pool) -> Tensor:
    """Weights summed, or the largest taken, by the cell that each place along an axis belongs to."""
    shape = [*weights.shape[:axis], count, *weights.shape[axis + 1 :]]
    index = torch.as_tensor(cells, device=weights.device)
    if pool == "sum":
        return weights.new_zeros(shape).index_add(axis, index, weights)
    index = index.reshape([-1 if place == axis else 1 for place in range(4)]).expand(weights.shape)
    return weights.new_zeros(shape).scatter_reduce(axis, index, weights, "amax")


@exact
def tile(scores: Scores, state: RowState | None, stage: Stage) -> Tensor:
    """The whole matrix at one stage."""

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        if stage != "weight":
            return (at_stage(part, stage),)
        assert state is not None
        return (weights_of(*compared(part), state[place]),)

    return in_strips(scores, compute)[0]


@exact
def backward(
    scores: Scores, values: Tensor, output: Tensor, state: RowState, flow: Tensor, wanted: Sequence[str] = ()
) -> Gradients:
    """Gradients, given `flow`, the gradient of the output."""
    with torch.no_grad():
        return _backward(scores, values, state, flow, wanted)


def _backward(scores: Scores, values: Tensor, state: RowState, flow: Tensor, wanted: Sequence[str]) -> Gradients:
    given = {"keys": scores.keys, "values": values, **{name: getattr(scores, name) for name in wanted}}
    sums = {name: torch.zeros_like(wide(array)) for name, array in given.items()}

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        masked, factor = compared(part)
        seen = ~torch.isneginf(masked)
        weights = weights_of(masked, factor, state[place])
        part_flow, part_values = wide(flow[place]), wide(of_key_heads(values, scores, place))
        to_weights = torch.where(seen, to_keys(part_flow, part_values), 0)  # gradient of the weights
        weighted_flow = (weights * to_weights).sum(dim=-1, keepdim=True)
        to_scores = torch.where(seen, weights * (to_weights - weighted_flow), 0)  # gradient of the biased scores
        _collect_options(sums, part, place, to_scores, weighted_flow, state[place])
        if scores.softcap:
            slope = 1 - (at_stage(part, "capped") / scores.softcap) ** 2
            to_scores = torch.where(seen, to_scores * slope, 0)
        to_scores = to_scores * scores.scale
        for name, matrix, rows in (("keys", to_scores, wide(part.queries)), ("values", weights, part_flow)):
            _add_to_keys(sums[name], back_to_keys(matrix, seen, rows, part.keys.shape[1]), scores, place)
        return (from_keys(to_scores, seen, part.keys),)

    queries = in_strips(scores, compute)[0].to(scores.queries.dtype)
    return Gradients(queries, **{name: total.to(given[name].dtype) for name, total in sums.items()})


def fingerprint(array: Tensor) -> int:
    """PyTorch's count of changes in place; a checksum where it does not count."""
    if not array.is_inference():
        return int(array._version)
    return crc32(array.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)


# PyTorch's own fused attention


def _fuses(scores: Scores, values: Tensor) -> bool:
    """Whether it can express these scores, and would give what our rules say: nothing odd may be behind a mask."""
    if scores.softcap or not (scores.bias is scores.relative is scores.sinks is None):
        return False
    if values.device.type == "cpu" and values.dtype.itemsize < 4:  # there it rounds the weights to 16 bits
        return False
    if values.shape[3] != scores.queries.shape[3]:  # on the CPU this takes the path that builds the matrix
        return False
    if content_unknown():
        return False
    if not _is_causal(scores) and scores.visible is not None:
        return False
    # Among few keys it loses NaN scores, and behind a mask it lets NaN through.
    return all(bool(torch.isfinite(array).all()) for array in (values, scores.keys, scores.queries))


def _is_causal(scores: Scores) -> bool:
    """Whether the mask is causal() with the first query at the first key, and nothing else."""
    visible = scores.visible
    if visible is None or visible.rest is not None or visible.second_first is not None or visible.first is None:
        return False
    xp = visible.xp
    last = xp.clip(xp.arange(1, visible.queries + 1, **_on(visible.device)), None, visible.keys)
    return not bool((visible.first != 0).any()) and not bool((visible.last != last).any())


def _fused(scores: Scores, values: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(
        scores.queries,
        scores.keys,
        values,
        is_causal=scores.visible is not None,
        scale=scores.scale,
        enable_gqa=scores.queries.shape[1] != scores.keys.shape[1],
    )


def _on(device: Any) -> dict[str, Any]:
    return {} if device is None else {"device": device}


# Gradients of what changes scores, and of keys that several strips share


def _add_to_keys(total: Tensor, found: Tensor, scores: Scores, place: Place) -> None:
    total[place[0]][:, key_heads(scores, place)] += found


def _collect_options(
    sums: dict[str, Tensor], part: Scores, place: Place, to_scores: Tensor, weighted_flow: Tensor, state: RowState
) -> None:
    """Add a strip's share to the gradients of bias, relative bias and sinks, where they are wanted."""
    if "bias" in sums:
        total = sums["bias"]
        where = tuple(slice(None) if total.shape[axis] == 1 else place[axis] for axis in range(3))
        shared = [axis for axis in range(4) if total.shape[axis] == 1]
        total[where] += to_scores.sum(dim=shared, keepdim=True) if shared else to_scores
    if "relative" in sums:
        _collect_relative(sums["relative"], part, place, to_scores)
    if "sinks" in sums and part.sinks is not None:
        sinks = part.sinks.to(state.row_max.dtype)[:, None]
        share = torch.exp(sinks - state.row_max) / state.row_sum  # weight of the sink
        share = torch.where(torch.isneginf(sinks), 0, share)
        sums["sinks"][place[1]] -= (share * weighted_flow[..., 0]).sum(dim=(0, 2)).to(sums["sinks"].dtype)


def _collect_relative(total: Tensor, part: Scores, place: Place, to_scores: Tensor) -> None:
    index = (distances(part) + part.relative_zero).expand(to_scores.shape[0], 1, -1, -1).reshape(-1)
    by_head = to_scores.movedim(1, 0).reshape(to_scores.shape[1], -1)  # (head, batch · query · key)
    if total.shape[0] == 1:
        total[0].index_add_(0, index, by_head.sum(dim=0))
    else:
        total[place[1]].index_add_(1, index, by_head)
