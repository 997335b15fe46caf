"""Column sums, what flows back to the keys, and pooled maps, for random attentions, within derived bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ..effort import examples
from ..engine_names import ENGINES, as_numpy, for_engine, using
from .cases import LAYOUTS, Case, cases, laid_out
from .truth import Truth

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@given(case=cases(corners=True))
@examples(50)
def test_what_keys_receive_is_right(engine: str, case: Case) -> None:
    with using(engine):
        found = as_numpy(case.attention(engine).column_sums())
    Truth(case).column_sums().check(found, "received")


@given(case=cases(corners=True), size=st.integers(1, 20), layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 999))
@examples(50)
def test_what_flows_back_to_keys_is_right(engine: str, case: Case, size: int, layout: str, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(*case.shape[:3], size)).astype(case.queries.dtype)
    rows = laid_out(rows, layout)
    with using(engine):
        A = case.attention(engine)
        found = as_numpy(A.mT @ for_engine(engine, rows))
        turned = as_numpy(for_engine(engine, rows.swapaxes(-1, -2)) @ A)
    assert found.dtype == rows.dtype
    near = Truth(case).backflow(rows)
    near.check(found, "A.mT @ u")
    near.check(turned.swapaxes(-1, -2), "u @ A")  # another layout, so perhaps another order of adding


@given(case=cases(corners=True), pool=st.sampled_from(("mean", "max", "sum")), data=st.data())
@examples(50)
def test_maps_of_any_region_are_right(engine: str, case: Case, pool: Any, data: Any) -> None:
    queries, keys = case.shape[2:]
    assume(queries)
    rows, columns = _span(data, queries), _span(data, keys)
    shape = tuple(data.draw(st.integers(1, stop - start)) for start, stop in (rows, columns))
    with using(engine):
        found = case.attention(engine).pooled(shape, rows=rows, columns=slice(*columns), pool=pool)
    for edges, cells, (start, stop) in zip((found.row_edges, found.column_edges), shape, (rows, columns), strict=True):
        assert edges.tolist() == [start + c * (stop - start) // cells for c in range(cells + 1)]
    Truth(case).pooled(found.row_edges, found.column_edges, pool).check(as_numpy(found.array), "map")


@given(case=cases(corners=True), pool=st.sampled_from(("mean", "max", "sum", "words")), data=st.data())
@examples(50)
def test_maps_by_given_boundaries_are_right(engine: str, case: Case, pool: Any, data: Any) -> None:
    queries, keys = case.shape[2:]
    assume(queries)
    row_edges, column_edges = _edges(data, queries), _edges(data, keys)
    with using(engine):
        A = case.attention(engine)
        if data.draw(st.booleans()):
            A.entropy()  # the row state is then remembered, and the map takes another path
        found = A.pooled(row_edges=row_edges, column_edges=column_edges, pool=pool)
    truth = Truth(case).pooled(np.array(row_edges), np.array(column_edges), pool)
    truth.check(as_numpy(found.array), "map")


def _span(data: Any, count: int) -> tuple[int, int]:
    start = data.draw(st.integers(0, count - 1))
    return start, data.draw(st.integers(start + 1, count))


def _edges(data: Any, count: int) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, count), min_size=2, max_size=12)))
