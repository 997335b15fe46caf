"""What a layer's step was made of: all that its calculation has to mention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.arrays import Array

if TYPE_CHECKING:
    from regard.layers import FeedForward, LayerNorm, Linear, RMSNorm


@dataclass(frozen=True, eq=False)
class Taken:
    """Vectors that were there before: given, or looked up."""

    how: str  # "as given"


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows through a linear map, split into heads."""

    rows: Array  # (token, in)
    linear: Linear
    letter: str  # the q of W_q and b_q
    heads: int = 1  # of which each has its share of the weight's rows
    shared_by: int = 1  # query heads that use one head here
    then: str = ""  # what happens to the vectors after it, in words


@dataclass(frozen=True, eq=False)
class Sum:
    """Two vectors added, and normed where there is a norm."""

    left: Array  # (token, width)
    right: Array  # (token, width)
    norm: LayerNorm | RMSNorm | None = None


@dataclass(frozen=True, eq=False)
class Fed:
    """Rows through a feed-forward layer."""

    rows: Array  # (token, width)
    layer: FeedForward


Recipe = Taken | Projection | Sum | Fed
