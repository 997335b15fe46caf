"""Random masks, and what each query sees of each key, written out from the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard
from regard.masks import allowed, causal, chunks, documents, first, padding, prefix, where, window

Seen = NDArray[np.bool_]
Pair = tuple[regard.Mask, Seen]  # a mask, and booleans (batch, head, query, key)

INTERVALS = ("causal", "window", "lengths", "prefix", "chunks", "first")
KINDS = (*INTERVALS, "documents", "allowed", "where", "where by head")


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


def _per_sequence(draw: st.DrawFn, at: Setting, numbers: st.SearchStrategy[int]) -> tuple[Any, NDArray[np.int64]]:
    """One number or one per sequence, as a user may give it, and as an array (batch, 1, 1, 1)."""
    each = [draw(numbers)] * at.batch
    if draw(st.booleans()):
        return each[0], np.array(each)[:, None, None, None]
    each = draw(st.lists(numbers, min_size=at.batch, max_size=at.batch))
    return (np.array(each) if draw(st.booleans()) else each), np.array(each)[:, None, None, None]


@st.composite
def single_masks(draw: st.DrawFn, at: Setting, kinds: tuple[str, ...] = KINDS) -> Pair:
    """One mask of these kinds."""
    rng, small = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), st.integers(0, 9)
    has_positions = int(np.min(at.offset, initial=0)) >= 0  # documents are named from position 0 on
    batch, head = (np.arange(count).reshape(-1, *(1,) * axes) for count, axes in ((at.batch, 3), (at.heads, 2)))
    seen: Any
    mask: regard.Mask
    match draw(st.sampled_from([kind for kind in kinds if has_positions or kind != "documents"])):
        case "causal":
            mask, seen = causal(), at.key <= at.query
        case "window":
            left, right = draw(small), draw(st.none() | small)
            mask = window(left, right)
            seen = (at.apart <= left) & (-at.apart <= (left if right is None else right))
        case "lengths":
            given, counts = _per_sequence(draw, at, st.integers(0, at.keys + 2))
            side = draw(st.sampled_from(["left", "right"]))
            mask = padding(given, side=side)
            seen = at.key < counts if side == "right" else at.key >= at.keys - counts
        case "prefix":
            (given_n, n), (given_start, start) = _per_sequence(draw, at, small), _per_sequence(draw, at, small)
            mask = prefix(given_n, start=given_start)
            seen = (start <= at.key) & (at.key < np.maximum(start + n, at.query + 1))
        case "chunks":
            size = draw(st.integers(1, 10))
            mask, seen = chunks(size), at.query // size == at.key // size
        case "first":
            count = draw(small)
            mask, seen = first(count), at.key < count
        case "documents":
            positions = max(at.keys, int(np.max(at.offset)) + at.queries)
            shape = draw(st.sampled_from([(positions,), (1, positions), (at.batch, positions)]))
            ids = rng.integers(0, 4, shape)
            ids = np.sort(ids, axis=-1) if draw(st.booleans()) else ids
            each = np.broadcast_to(ids, (at.batch, positions))
            mask, seen = documents(ids), each[batch, at.query] == each[:, None, None, : at.keys]
        case "allowed":
            seen = rng.random([full if rng.random() < 0.6 else 1 for full in at.shape][draw(st.integers(0, 2)) :]) < 0.7
            mask = allowed(seen)
        case "where":
            mask, seen = where(lambda query, key: (query + 2 * key) % 3 != 0), (at.query + 2 * at.key) % 3 != 0
        case _:
            mask = where(lambda batch, head, query, key: (query + key + batch) % (head + 2) == 0)
            seen = (at.query + at.key + batch) % (head + 2) == 0
    return mask, np.broadcast_to(seen, at.shape)


def masks(at: Setting, kinds: tuple[str, ...] = KINDS, most: int = 4) -> st.SearchStrategy[Pair]:
    """One mask, or up to `most` combined."""
    return st.recursive(
        single_masks(at, kinds),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: (two[0][0] & two[1][0], two[0][1] & two[1][1])),
            st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], two[0][1] | two[1][1])),
            inner.map(lambda one: (~one[0], ~one[1])),
        ),
        max_leaves=most,
    )
