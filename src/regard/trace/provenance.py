"""What each step of a layer was computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import Array, numpy_of

if TYPE_CHECKING:
    from regard.layers import FeedForward, LayerNorm, Linear, RMSNorm
    from regard.trace.trace import Trace


@dataclass(frozen=True, eq=False)
class Taken:
    """Vectors given as input, or looked up in a table."""

    how: str  # "as given"


@dataclass(frozen=True, eq=False)
class Projection:
    """Rows through a linear map, split into heads."""

    rows: Array  # (token, in)
    linear: Linear
    letter: str  # the q of W_q and b_q
    heads: int = 1  # each with its share of the weight's rows
    shared_by: int = 1  # query heads per head
    then: str = ""  # what follows the product: "normed", "turned by its position"


@dataclass(frozen=True, eq=False)
class Sum:
    """Two vectors added, then normalised if there is a norm."""

    left: Array  # (token, width)
    right: Array  # (token, width)
    norm: LayerNorm | RMSNorm | None = None


@dataclass(frozen=True, eq=False)
class Fed:
    """Rows through a feed-forward layer."""

    rows: Array  # (token, width)
    layer: FeedForward


Provenance = Taken | Projection | Sum | Fed


def setup(trace: Trace) -> dict[str, Any]:
    """Matrices and settings from which the steps can be recomputed. Matrices are as in q = x · W_q: (in, out).

    W_q, W_k, W_v are left out if a bias, a norm or rotary positions come between x · W and q, k, v.
    """
    origin, parts = trace.origin, trace.origin.parts
    found: dict[str, Any] = {"heads": trace.heads}
    if not origin.is_root:
        found["divisor"] = 1 / origin.scale if origin.scale else 0.0
    if origin.is_cosine:
        found["similarity"] = "cosine"
    if origin.sinks is not None:
        found["sinks"] = origin.sinks
    if "masked" in trace:
        hidden = np.isneginf(numpy_of(trace["masked"]))  # (head, query, key)
        same = bool((hidden == hidden[:1]).all())
        found["mask"] = (~(hidden[0] if same else hidden)).astype(int)
    projections = [parts.get(name) for name in ("query", "key", "value")]
    if all(isinstance(part, Projection) and _is_plain(part) for part in projections):
        found["product"] = "x W"
        found |= {f"W_{part.letter}": _typed(part) for part in projections if part is not None}
        if trace.own_key is None:
            found["context"] = parts["key"].rows
    through = parts.get("projected")
    if isinstance(through, Projection) and through.linear.bias is None:
        found["W_O"] = _typed(through)
    return found


def _is_plain(part: Projection) -> bool:
    """Whether vectors are x · W and nothing else, for every query head."""
    return part.linear.bias is None and not part.then and part.shared_by == 1


def _typed(part: Projection) -> Any:
    return numpy_of(part.linear.weight).T
