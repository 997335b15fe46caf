"""Masks against brute force: every mask says for each query and key what its definition says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.masks import Mask, Visible

from ..effort import examples
from ..properties.random_masks import INTERVALS, KINDS, Pair, Setting, masks

ALL = slice(None)


@st.composite
def settings_of_masks(draw: st.DrawFn) -> Setting:
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    queries, keys = draw(st.integers(0, 7)), draw(st.integers(0, 11))
    offsets = st.integers(-3, 6)
    offset: Any = draw(st.one_of(offsets, st.lists(offsets, min_size=batch, max_size=batch)))
    if isinstance(offset, list) and draw(st.booleans()):
        offset = np.array(offset)
    return Setting(batch, heads, queries, keys, offset)


def placed(kinds: tuple[str, ...]) -> st.SearchStrategy[tuple[Setting, Pair]]:
    return settings_of_masks().flatmap(lambda at: st.tuples(st.just(at), masks(at, kinds, most=6)))


def visible_of(at: Setting, mask: Mask, xp: Any = np) -> Visible:
    return mask.visible(queries=at.queries, keys=at.keys, batch=at.batch, heads=at.heads, offset=at.offset, xp=xp)


def same(tile: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.broadcast_to(np.asarray(tile), expected.shape), expected)


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
def test_masks_mean_what_their_definitions_say(drawn: tuple[Setting, Pair]) -> None:
    at, (mask, seen) = drawn
    visible = visible_of(at, mask)
    check_intervals(visible, at.batch)
    same(visible.tile(ALL, ALL), seen)
    if visible.second_first is not None and at.queries:
        assert np.any(visible.second_first < visible.second_last), "a second interval that no query has"


@given(placed(KINDS))
@examples(150)
def test_tensors_give_the_same_as_arrays(drawn: tuple[Setting, Pair]) -> None:
    torch = pytest.importorskip("torch")
    at, (mask, seen) = drawn
    visible = visible_of(at, mask, torch)
    check_intervals(visible, at.batch)
    same(visible.tile(ALL, ALL), seen)


ends = st.none() | st.integers(-4, 9)
slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, -1]))


@given(placed(KINDS), slices, slices, st.data())
@examples(200)
def test_parts_of_a_mask_are_parts_of_its_whole(
    drawn: tuple[Setting, Pair], rows: slice, columns: slice, data: st.DataObject
) -> None:
    at, (mask, whole) = drawn
    visible = visible_of(at, mask)
    sequence, head = data.draw(st.integers(0, at.batch - 1)), data.draw(st.integers(0, at.heads - 1))
    same(visible.tile(rows, columns), whole[:, :, rows, columns])
    same(visible.rows(rows).tile(ALL, columns), whole[:, :, rows, columns])
    same(visible.select(batch=sequence).tile(ALL, ALL), whole[[sequence]])
    same(visible.select(batch=sequence, head=head).tile(rows, ALL), whole[[sequence]][:, [head]][:, :, rows])
    same(visible.select(batch=slice(sequence, None), head=[head]).tile(ALL, ALL), whole[sequence:, [head]])
    if at.queries and at.keys:
        some_rows = np.array(data.draw(st.lists(st.integers(-at.queries, at.queries - 1), min_size=1)))
        some_columns = np.array(data.draw(st.lists(st.integers(-at.keys, at.keys - 1), min_size=1)))
        same(visible.tile(some_rows, some_columns), whole[:, :, some_rows[:, None], some_columns])
