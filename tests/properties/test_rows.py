"""Outputs and statistics of rows, for random attentions, within the bounds that `truth.py` derives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..effort import examples
from ..engine_names import ENGINES, as_numpy, for_engine, using
from .cases import Case, cases
from .truth import Near, Truth

STATISTICS = ("logsumexp", "entropy", "peak", "distance")
pytestmark = pytest.mark.parametrize("engine", ENGINES)


@given(case=cases(corners=True))
@examples(60)
def test_outputs_are_right(engine: str, case: Case) -> None:
    with using(engine):
        found = as_numpy(case.attention(engine) @ for_engine(engine, case.values))
    assert found.dtype == case.values.dtype
    Truth(case).output().check(found, "output")


@given(case=cases(corners=True), names=st.sets(st.sampled_from(STATISTICS)), top=st.integers(0, 9))
@examples(60)
def test_outputs_and_statistics_of_one_pass_are_right(engine: str, case: Case, names: set[str], top: int) -> None:
    truth = Truth(case)
    with using(engine):
        found = case.attention(engine).attend(for_engine(engine, case.values), sorted(names), top=top)
    truth.output().check(as_numpy(found.output), "output")
    for name in STATISTICS:
        statistic = getattr(found, name)
        assert (statistic is not None) == (name in names)
        if name in names:
            truth.statistic(name).check(as_numpy(statistic), name)
    assert (found.top is not None) == (top > 0)
    if top:
        check_top(truth, found.top, top)


@given(case=cases(corners=True))
@examples(40)
def test_statistics_alone_are_right(engine: str, case: Case) -> None:
    truth = Truth(case)
    with using(engine):
        A = case.attention(engine)
        for name in STATISTICS:
            truth.statistic(name).check(as_numpy(getattr(A, name)()), name)


@given(case=cases(corners=True), top=st.integers(1, 9))
@examples(40)
def test_the_strongest_keys_are_the_strongest(engine: str, case: Case, top: int) -> None:
    with using(engine):
        check_top(Truth(case), case.attention(engine).top(top), top)


@given(case=cases(corners=True), data=st.data())
@examples(30)
def test_the_mass_on_some_keys_is_the_sum_of_their_weights(engine: str, case: Case, data: Any) -> None:
    chosen = data.draw(st.lists(st.integers(0, case.shape[3] - 1), min_size=1, max_size=5, unique=True))
    factors = np.zeros(case.shape[3])
    factors[chosen] = 1
    with using(engine):
        found = as_numpy(case.attention(engine).weight_on(chosen))
    Truth(case).dot(factors).check(found, "mass")


@given(case=cases(corners=True))
@examples(40)
def test_every_stage_is_right(engine: str, case: Case) -> None:
    truth = Truth(case)
    with using(engine):
        A = case.attention(engine)
        for name in ("score", "scaled", "capped", "biased", "masked"):
            truth.stage(name).check(as_numpy(getattr(A, name).dense()), name)
        truth.weight().check(as_numpy(A.dense()), "weight")


def check_top(truth: Truth, found: Any, top: int) -> None:
    """Their weights are right, none that was left out is stronger, and what is not there is said to be so."""
    top = min(top, truth.case.shape[3])  # more than there are means all
    index, weight = as_numpy(found.index), as_numpy(found.weight).astype(np.float64)
    assert index.shape == weight.shape == (*truth.case.shape[:3], top)
    there = index >= 0
    np.testing.assert_array_equal(there.sum(axis=-1), np.minimum(truth.seen.sum(axis=-1), top))
    assert (weight[~there] == 0).all()
    assert (np.diff(weight, axis=-1) <= 0).all(), "strongest first"
    place = np.where(there, index, 0)
    expected, bound = (
        np.where(there, np.take_along_axis(matrix, place, axis=-1), 0) for matrix in (truth.weights, truth.weight_error)
    )
    Near(expected, bound).check(weight, "top weight")
    chosen = np.zeros(truth.case.shape, dtype=np.int64)
    np.add.at(chosen, (*np.indices(index.shape)[:3], place), there)
    assert (chosen <= 1).all(), "no key twice"
    assert not (chosen > truth.seen).any(), "no key that is not seen"
    left_out = np.where(chosen == 0, truth.weights - truth.weight_error, 0).max(axis=-1, initial=0)
    weakest = np.where(there, expected + bound, np.inf).min(axis=-1, initial=np.inf)
    assert (left_out <= weakest).all(), "a stronger key was left out"
