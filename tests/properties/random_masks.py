"""Random masks, and what each query sees of each key, written out from the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard

Seen = NDArray[np.bool_]
Pair = tuple[regard.Mask, Seen]


@dataclass(frozen=True)
class Setting:
    """Where a mask stands: how many of everything, and where the queries begin."""

    batch: int
    heads: int
    queries: int
    keys: int
    offset: Any

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.queries, self.keys

    @property
    def query(self) -> NDArray[np.int64]:
        """Positions of the queries, (batch, 1, query, 1)."""
        offset = np.broadcast_to(self.offset, self.batch)
        return (offset[:, None] + np.arange(self.queries))[:, None, :, None]

    @property
    def key(self) -> NDArray[np.int64]:
        return np.arange(self.keys)

    @property
    def apart(self) -> NDArray[np.int64]:
        """i − j, (batch, 1, query, key)."""
        return self.query - self.key

    @property
    def distances(self) -> NDArray[np.int64]:
        return np.abs(self.apart)

    def spelled(self, mask: regard.Mask, seen: Any) -> Pair:
        return mask, np.broadcast_to(seen, self.shape)


def _one(draw: st.DrawFn, at: Setting) -> Pair:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    number = draw(st.integers(0, 9))
    each = rng.integers(0, at.keys + 1, at.batch)
    kinds = ("causal", "window", "lengths", "left", "prefix", "documents", "scattered", "chunks", "first", "allowed")
    match draw(st.sampled_from((*kinds, "where"))):
        case "causal":
            return at.spelled(regard.causal(), at.key <= at.query)
        case "window":
            right = int(rng.integers(0, 9))
            return at.spelled(regard.window(number, right), (at.apart <= number) & (-at.apart <= right))
        case "lengths":
            return at.spelled(regard.padding(each), at.key < each[:, None, None, None])
        case "left":
            return at.spelled(regard.padding(each, side="left"), at.key >= at.keys - each[:, None, None, None])
        case "prefix":
            last = np.maximum(each[:, None, None, None], at.query + 1)
            return at.spelled(regard.masks.prefix(each), at.key < last)
        case "documents" | "scattered" as kind:
            positions = max(at.keys, int(np.max(at.offset, initial=0)) + at.queries)
            ids = rng.integers(0, 4, (at.batch, positions))
            ids = np.sort(ids, axis=1) if kind == "documents" else ids
            same = ids[np.arange(at.batch)[:, None, None, None], at.query] == ids[:, None, None, : at.keys]
            return at.spelled(regard.masks.documents(ids), same)
        case "chunks":
            return at.spelled(regard.masks.chunks(number + 1), at.query // (number + 1) == at.key // (number + 1))
        case "first":
            return at.spelled(regard.masks.first(number), at.key < number)
        case "where":
            return at.spelled(
                regard.masks.where(lambda query, key: (query + 2 * key) % 3 != 0), (at.query + 2 * at.key) % 3 != 0
            )
    seen = rng.random([full if rng.random() < 0.6 else 1 for full in at.shape]) < 0.7
    return at.spelled(regard.masks.allowed(seen), seen)


@st.composite
def masks(draw: st.DrawFn, at: Setting) -> Pair:
    """One mask, or several combined."""
    mask, seen = _one(draw, at)
    for how in draw(st.lists(st.sampled_from("&|~"), max_size=3)):
        if how == "~":
            mask, seen = ~mask, ~seen
            continue
        other, also = _one(draw, at)
        mask, seen = (mask & other, seen & also) if how == "&" else (mask | other, seen | also)
    return mask, seen
