"""`Scores` flattened into tensors and numbers, which PyTorch's transforms and compiler can handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.engines import slicing
from regard.engines.interface import Scores
from regard.masks import Visible
from regard.masks.visible import Dense

Tensors = tuple[Tensor | None, ...]  # in the order of NAMES
INTERVALS = ("first", "last", "second_first", "second_last")
NAMES = ("queries", "keys", "values", "bias", "relative", "sinks", "mask", *INTERVALS, "offsets")
ALWAYS = ("queries", "keys", "values")  # always have gradients
OPTIONAL = ("bias", "relative", "sinks")  # have them if wanted


@dataclass(frozen=True, eq=False, slots=True)
class Fixed:
    """The parts without gradients, opaque to PyTorch; only here a mask stays lazy."""

    scale: float
    softcap: float
    relative_zero: int
    offset: Tensor | int
    visible: Visible | None = None


def taken_apart(scores: Scores, values: Tensor | None, whole: bool = False) -> tuple[Fixed, Tensors]:
    """The fixed parts and all tensors; with `whole`, masks are tensors too, O(n²) if they are not intervals."""
    offset, offsets = (0, scores.offset) if whole and isinstance(scores.offset, Tensor) else (scores.offset, None)
    mask: Tensor | None = None
    ends: list[Any] = [None] * 4
    visible = scores.visible
    if visible is not None and whole:
        rest = visible.rest
        if rest is None or rest.dense is not None:
            mask = None if rest is None else slicing.like(rest.dense, scores.queries)
            ends = [getattr(visible, end) for end in INTERVALS]
            ends = [None if end is None else slicing.like(end, scores.queries) for end in ends]
        else:
            mask = slicing.like(visible.tile(slicing.EVERYTHING, slicing.EVERYTHING), scores.queries)
    fixed = Fixed(scores.scale, scores.softcap, scores.relative_zero, offset, None if whole else visible)
    arrays = (scores.queries, scores.keys, values, scores.bias, scores.relative, scores.sinks)
    return fixed, (*arrays, mask, *ends, offsets)


def put_together(fixed: Fixed, tensors: Tensors) -> tuple[Scores, Any]:
    """The scores and the values, if there are any."""
    queries, keys, values, bias, relative, sinks, mask, first, last, second_first, second_last, offsets = tensors
    assert queries is not None
    assert keys is not None
    visible = fixed.visible
    if mask is not None or first is not None:
        counts = queries.shape[2], keys.shape[2]
        visible = Visible(
            first,
            last,
            second_first,
            second_last,
            None if mask is None else Dense(mask, *counts, torch),
            queries=counts[0],
            keys=counts[1],
            xp=torch,
            device=queries.device,
        )
    scores = Scores(
        queries,
        keys,
        fixed.scale,
        fixed.softcap,
        bias,
        relative,
        fixed.relative_zero,
        sinks,
        visible,
        fixed.offset if offsets is None else offsets,
    )
    return scores, values
