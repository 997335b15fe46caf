"""Masks against brute force: every mask says for each query and key what its definition says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.masks import Mask, Visible, allowed, causal, chunks, documents, first, padding, prefix, where, window

from ..effort import examples

ALL = slice(None)


@dataclass(frozen=True)
class Case:
    """A mask, and the same said in plain words: a condition for one sequence, head, query row and key."""

    mask: Mask
    sees: Callable[[int, int, int, int, int], bool]  # batch, head, row, query position, key


@dataclass(frozen=True)
class Setting:
    batch: int
    heads: int
    queries: int
    keys: int
    offset: Any

    def position(self, sequence: int, row: int) -> int:
        return row + (self.offset if isinstance(self.offset, int) else int(self.offset[sequence]))

    def expected(self, case: Case) -> np.ndarray[Any, Any]:
        seen = np.zeros((self.batch, self.heads, self.queries, self.keys), dtype=bool)
        for b, h, r, j in np.ndindex(seen.shape):
            seen[b, h, r, j] = case.sees(b, h, r, self.position(b, r), j)
        return seen

    def visible(self, mask: Mask, xp: Any = np) -> Visible:
        return mask.visible(
            queries=self.queries, keys=self.keys, batch=self.batch, heads=self.heads, offset=self.offset, xp=xp
        )

    def full(self, tile: Any) -> np.ndarray[Any, Any]:
        return np.broadcast_to(np.asarray(tile), (self.batch, self.heads, self.queries, self.keys))


@st.composite
def settings_of_masks(draw: st.DrawFn) -> Setting:
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    queries, keys = draw(st.integers(0, 7)), draw(st.integers(0, 11))
    offsets = st.integers(-3, 6)
    offset: Any = draw(st.one_of(offsets, st.lists(offsets, min_size=batch, max_size=batch)))
    if isinstance(offset, list) and draw(st.booleans()):
        offset = np.array(offset)
    return Setting(batch, heads, queries, keys, offset)


def per_sequence(draw: st.DrawFn, place: Setting, numbers: st.SearchStrategy[int]) -> tuple[Any, list[int]]:
    """One number or one per sequence, as a user may give it, and written out in full."""
    if draw(st.booleans()):
        number = draw(numbers)
        return number, [number] * place.batch
    each = draw(st.lists(numbers, min_size=place.batch, max_size=place.batch))
    return (np.array(each) if draw(st.booleans()) else each), each


INTERVALS = ("causal", "window", "lengths", "prefix", "chunks", "first")
KINDS = (*INTERVALS, "allowed", "where", "where4", "documents")


@st.composite
def single_masks(draw: st.DrawFn, place: Setting, kinds: tuple[str, ...]) -> Case:
    small = st.integers(0, 5)
    known = all(place.position(b, 0) >= 0 for b in range(place.batch))
    match draw(st.sampled_from([kind for kind in kinds if known or kind != "documents"])):
        case "causal":
            return Case(causal(), lambda b, h, r, i, j: j <= i)
        case "window":
            left, right = draw(small), draw(st.none() | small)
            after = left if right is None else right
            return Case(window(left, right), lambda b, h, r, i, j: i - left <= j <= i + after)
        case "lengths":
            side = draw(st.sampled_from(["left", "right"]))
            given_counts, counts = per_sequence(draw, place, st.integers(0, 13))
            keys = place.keys
            return Case(
                padding(given_counts, side=side),
                lambda b, h, r, i, j: j < counts[b] if side == "right" else j >= keys - counts[b],
            )
        case "prefix":
            (given_n, n), (given_start, start) = per_sequence(draw, place, small), per_sequence(draw, place, small)
            return Case(
                prefix(given_n, start=given_start), lambda b, h, r, i, j: start[b] <= j < max(start[b] + n[b], i + 1)
            )
        case "chunks":
            n_chunk = draw(st.integers(1, 5))
            return Case(chunks(n_chunk), lambda b, h, r, i, j: i // n_chunk == j // n_chunk)
        case "first":
            n_first = draw(small)
            return Case(first(n_first), lambda b, h, r, i, j: j < n_first)
        case "documents":
            count = max(place.keys, *(place.position(b, place.queries) for b in range(place.batch)))
            shape = draw(st.sampled_from([(count,), (1, count), (place.batch, count)]))
            numbers = draw(st.lists(st.integers(0, 3), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
            ids = np.array(numbers, dtype=np.int64).reshape(shape)
            ids = np.sort(ids, axis=-1) if draw(st.booleans()) else ids
            each = np.broadcast_to(ids, (place.batch, count))
            return Case(documents(ids), lambda b, h, r, i, j: bool(each[b, i] == each[b, j]))
        case "allowed":
            full = (place.batch, place.heads, place.queries, place.keys)
            shape = tuple(draw(st.sampled_from([1, size])) for size in full)[draw(st.integers(0, 2)) :]
            array = np.random.default_rng(draw(st.integers(0, 99))).random(shape) < 0.5
            whole = np.broadcast_to(array, full)
            return Case(allowed(array), lambda b, h, r, i, j: bool(whole[b, h, r, j]))
        case "where":
            return Case(where(lambda query, key: (query - key) % 3 == 0), lambda b, h, r, i, j: (i - j) % 3 == 0)
        case _:
            return Case(
                where(lambda batch, head, query, key: (query + key + batch) % (head + 2) == 0),
                lambda b, h, r, i, j: (i + j + b) % (h + 2) == 0,
            )


def combined(place: Setting, kinds: tuple[str, ...]) -> st.SearchStrategy[Case]:
    def both(pair: tuple[Case, Case]) -> Case:
        one, other = pair
        return Case(one.mask & other.mask, lambda *at: one.sees(*at) and other.sees(*at))

    def either(pair: tuple[Case, Case]) -> Case:
        one, other = pair
        return Case(one.mask | other.mask, lambda *at: one.sees(*at) or other.sees(*at))

    def inverse(case: Case) -> Case:
        return Case(~case.mask, lambda *at: not case.sees(*at))

    return st.recursive(
        single_masks(place, kinds),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(both), st.tuples(inner, inner).map(either), inner.map(inverse)
        ),
        max_leaves=6,
    )


def placed(kinds: tuple[str, ...]) -> st.SearchStrategy[tuple[Setting, Case]]:
    return settings_of_masks().flatmap(lambda place: st.tuples(st.just(place), combined(place, kinds)))


def check_intervals(visible: Visible, batch: int) -> None:
    """Within the keys, in order, disjoint with a gap, the second empty wherever the first is."""
    if visible.first is None:
        assert visible.last is visible.second_first is visible.second_last is None
        return
    ends = [visible.first, visible.last]
    if visible.second_first is not None:
        ends += [visible.second_first, visible.second_last]
    for end in ends:
        assert str(end.dtype).endswith("int32")
        assert end.shape[0] in (1, batch)
        assert end.shape[1] == visible.queries
        assert end.flags.c_contiguous if isinstance(end, np.ndarray) else end.is_contiguous()
    rising: list[Any] = [0, *(np.asarray(end) for end in ends), visible.keys]
    for lower, higher in pairwise(rising):
        assert np.all(lower <= higher)
    if visible.second_first is not None:
        one, last, two, end = (np.asarray(end) for end in ends)
        assert np.all((two == end) | (last < two))
        assert np.all((two == end) | (one < last))


@given(placed(KINDS) | placed(INTERVALS))
@examples(600)
def test_masks_mean_what_their_definitions_say(drawn: tuple[Setting, Case]) -> None:
    place, case = drawn
    visible = place.visible(case.mask)
    check_intervals(visible, place.batch)
    np.testing.assert_array_equal(place.full(visible.tile(ALL, ALL)), place.expected(case))
    if visible.second_first is not None and place.queries:
        assert np.any(visible.second_first < visible.second_last), "a second interval that no query has"


@given(placed(KINDS))
@examples(150)
def test_tensors_give_the_same_as_arrays(drawn: tuple[Setting, Case]) -> None:
    torch = pytest.importorskip("torch")
    place, case = drawn
    visible = place.visible(case.mask, xp=torch)
    check_intervals(visible, place.batch)
    np.testing.assert_array_equal(place.full(visible.tile(ALL, ALL)), place.expected(case))


ends = st.none() | st.integers(-4, 9)
slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1]))


@given(placed(KINDS), slices, slices, st.data())
@examples(200)
def test_parts_of_a_mask_are_parts_of_its_whole(
    drawn: tuple[Setting, Case], rows: slice, columns: slice, data: st.DataObject
) -> None:
    place, case = drawn
    visible, whole = place.visible(case.mask), place.expected(case)
    sequence, head = data.draw(st.integers(0, place.batch - 1)), data.draw(st.integers(0, place.heads - 1))

    def same(tile: Any, expected: Any) -> None:
        np.testing.assert_array_equal(np.broadcast_to(tile, expected.shape), expected)

    same(visible.tile(rows, columns), whole[:, :, rows, columns])
    same(visible.rows(rows).tile(ALL, columns), whole[:, :, rows, columns])
    same(visible.select(batch=sequence).tile(ALL, ALL), whole[[sequence]])
    same(visible.select(batch=sequence, head=head).tile(rows, ALL), whole[[sequence]][:, [head]][:, :, rows])
    same(visible.select(batch=slice(sequence, None), head=[head]).tile(ALL, ALL), whole[sequence:, [head]])
    if place.queries and place.keys:
        some_rows = np.array(data.draw(st.lists(st.integers(-place.queries, place.queries - 1), min_size=1)))
        some_columns = np.array(data.draw(st.lists(st.integers(-place.keys, place.keys - 1), min_size=1)))
        same(visible.tile(some_rows, some_columns), whole[:, :, some_rows[:, None], some_columns])
