"""Statistics of rows, and outputs with them, strip by strip: the forward pass of the PyTorch engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.interface import ROW_STATE, RowState, Scores
from regard.kernels.torch_tiles import (
    MINUS_INFINITY,
    Place,
    compared,
    distances,
    exact,
    exactly,
    from_keys,
    in_strips,
    of_key_heads,
)


@exact
def forward_in_strips(
    scores: Scores, values: Tensor | None, statistics: Sequence[str] = (), top: int = 0
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """As an engine's `forward`; PyTorch can follow all of it."""
    if values is None and not statistics and not top:
        return None, {}

    def compute(part: Scores, place: Place) -> tuple[Tensor, ...]:
        found = softmax(part)
        results = [statistic(name, part, found) for name in statistics]
        if top:
            results.extend(strongest(found, top))
        if values is not None:
            seen = ~torch.isneginf(found.masked)
            results.append(from_keys(found.weights, seen, of_key_heads(values, scores, place)).to(values.dtype))
        return tuple(results)

    found = in_strips(scores, compute)
    return None if values is None else found[-1], dict(zip(names(statistics, top), found, strict=False))


def names(statistics: Sequence[str], top: int) -> tuple[str, ...]:
    """The names of what is found besides the outputs, in order."""
    return (*statistics, *(("top_index", "top_weight") if top else ()))


@dataclass(frozen=True, eq=False, slots=True)
class Softmax:
    """Weights of a strip, and what their statistics need."""

    masked: Tensor  # in the units of the softmax
    factor: float
    shifted: Tensor  # factor · (masked − row_max)
    row_max: Tensor  # 0 for a row that sees no key; (batch, head, query, 1), as are the others below
    row_sum: Tensor  # 1 for a row that sees no key
    empty: Tensor
    weights: Tensor

    @property
    def state(self) -> RowState:
        return RowState(
            torch.where(self.empty, MINUS_INFINITY, self.row_max)[..., 0],
            torch.where(self.empty, 0, self.row_sum)[..., 0],
        )

    @property
    def logsumexp(self) -> Tensor:
        """In double precision: rounded to single, scores of 10,000 would lose three digits."""
        sum_of_both = self.factor * exactly(self.row_max) + exactly(torch.log(self.row_sum))
        return torch.where(self.empty, MINUS_INFINITY, sum_of_both)[..., 0]


def softmax(scores: Scores) -> Softmax:
    """The weights of a strip."""
    masked, factor = compared(scores)
    sinks = None if scores.sinks is None else scores.sinks.to(masked.dtype)[:, None, None]  # (head, 1, 1)
    row_max = masked.amax(dim=-1, keepdim=True)
    if sinks is not None:
        row_max = torch.maximum(row_max, sinks)
    empty = torch.isneginf(row_max)
    row_max = torch.where(empty, 0, row_max).detach()
    shifted = (masked - row_max) * factor
    exponentials = torch.exp(shifted)
    row_sum = exponentials.sum(dim=-1, keepdim=True)
    if sinks is not None:
        row_sum = row_sum + torch.exp(sinks - row_max)
    row_sum = torch.where(empty, 1, row_sum)
    weights = torch.where(torch.isneginf(masked), 0, exponentials / row_sum)  # even in a row of NaN
    return Softmax(masked, factor, shifted, row_max, row_sum, empty, weights)


def statistic(name: str, scores: Scores, found: Softmax) -> Tensor:
    """One of ROW_STATISTICS of a strip, (batch, head, query)."""
    if name in ROW_STATE:
        part: Tensor = getattr(found.state, name)
        return part
    if name == "logsumexp":
        return found.logsumexp
    if name == "entropy":
        surprise = torch.log(found.row_sum) - found.shifted
        return (found.weights * torch.where(found.weights == 0, 0, surprise)).sum(dim=-1)
    if name == "peak":
        return found.weights.amax(dim=-1)
    assert name == "distance", name
    return (found.weights * distances(scores).abs()).sum(dim=-1)


def strongest(found: Softmax, top: int) -> tuple[Tensor, Tensor]:
    """Indices and weights of the strongest keys; by score, because small weights can round to equal ones."""
    order = torch.sort(-found.masked.detach(), dim=-1, stable=True).indices  # stable: ties to the lower index
    index = order[..., :top]
    weight = found.weights.gather(-1, index)
    index = torch.where(torch.isneginf(found.masked.gather(-1, index)), -1, index)
    missing = (0, top - index.shape[-1])
    return functional.pad(index, missing, value=-1), functional.pad(weight, missing)
