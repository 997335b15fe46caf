"""Weights, outputs and gradients at every magnitude of the scores, from 10⁻³⁰ to 10³⁰: random shapes and magnitudes.

Extreme scales, soft caps, biases and sinks, and scores that share a large level, are in tests/engines/test_magnitudes.

Vectors are small integers times a power of two, so that every product q · k is exact in float32. What an engine
computes from it may then be off by its own rounding alone, however large the scores are: the exponent
scale · (score − row_max) is off by 2 u of itself, and a weight is 0 where it is below −104 (float32) or −746 (float64).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import regard
from regard.engines.interface import ROW_STATE, RowState
from regard.engines.select import engine_for

from ..effort import examples
from ..engine_names import ENGINES, as_numpy, for_engine, using
from ..engines.test_magnitudes import check, everything

UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}
DEEPEST = {"float32": 104, "float64": 746}  # below this, exp rounds to zero
LARGEST = {"float32": 100, "float64": 200}  # powers of two


@dataclass(frozen=True)
class Large:
    queries: Any
    keys: Any
    values: Any
    flow: Any
    causal: bool

    @property
    def kind(self) -> str:
        return str(self.queries.dtype)

    @property
    def bound(self) -> float:
        """The relative error of a weight: its exponent, the division, and a sum over the keys."""
        return (4 * DEEPEST[self.kind] + len(self.keys) + 32) * UNIT[self.kind]

    def weights(self) -> Any:
        """The formula in float64, with the subtraction before the scaling."""
        queries, keys = (array.astype(np.float64) for array in (self.queries, self.keys))
        scores = queries @ keys.T
        seen = np.tri(*scores.shape).astype(bool) if self.causal else np.ones(scores.shape, bool)
        scores = np.where(seen, scores, -np.inf)
        exponentials = np.exp((scores - scores.max(axis=-1, keepdims=True)) * self.queries.shape[1] ** -0.5)
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


@st.composite
def large(draw: st.DrawFn) -> Large:
    kind = draw(st.sampled_from(["float32", "float64"]))
    powers = st.integers(-LARGEST[kind], LARGEST[kind])
    of_queries = draw(powers)
    of_keys = draw(powers.filter(lambda power: abs(power + of_queries) <= LARGEST[kind]))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    count, keys, size = (draw(st.sampled_from(sizes)) for sizes in ((3, 17), (5, 33), (4, 8)))
    causal = draw(st.booleans())
    shapes = (count, size), (keys, size), (keys, 3), (count, 3)
    q, k, values, flow = (rng.integers(-7, 8, shape).astype(kind) for shape in shapes)
    of_type = np.dtype(kind).type
    return Large(q * of_type(2.0**of_queries), k * of_type(2.0**of_keys), values, flow, causal)


def attention(engine: str, case: Large) -> regard.Attention:
    arrays = (for_engine(engine, array) for array in (case.queries, case.keys))
    return regard.Attention(*arrays, mask=regard.causal() if case.causal else None, offset=0)


@pytest.mark.parametrize("engine", ENGINES)
@given(case=large())
@examples(60)
def test_weights_outputs_and_statistics_do_not_feel_the_magnitude(engine: str, case: Large) -> None:
    expected = case.weights()
    with using(engine):
        found = everything(engine, attention(engine, case), case.values)
    assert_allclose(found["dense"], expected, rtol=case.bound, atol=1e-30)
    check(found, expected, case.values, case.bound)


@pytest.mark.parametrize("engine", ENGINES)
@given(case=large())
@examples(30)
def test_gradients_do_not_feel_the_magnitude(engine: str, case: Large) -> None:
    weights, scale = case.weights(), case.queries.shape[1] ** -0.5
    queries, keys, values, flow = (
        array.astype(np.float64) for array in (case.queries, case.keys, case.values, case.flow)
    )
    with using(engine):
        scores = attention(engine, case).scores
        given_values, given_flow = (for_engine(engine, array)[None, None] for array in (case.values, case.flow))
        module = engine_for(scores.queries)
        output, found = module.forward(scores, given_values, ROW_STATE)
        gradients = module.backward(scores, given_values, output, RowState.of(found), given_flow)
    to_weights = flow @ values.T
    to_scores = weights * (to_weights - (weights * to_weights).sum(axis=-1, keepdims=True))
    off = 400 * case.bound  # |flow · value| ≤ 3 · 49, twice
    assert_allclose(as_numpy(gradients.values)[0, 0], weights.T @ flow, rtol=0, atol=off)
    for name, truth, size in (
        ("queries", to_scores @ keys * scale, np.abs(keys).max()),
        ("keys", to_scores.T @ queries * scale, np.abs(queries).max()),
    ):
        assert_allclose(
            as_numpy(getattr(gradients, name))[0, 0], truth, rtol=0, atol=off * size * len(weights.T), err_msg=name
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_sums_to_one_where_its_scores_are_rounded(engine: str, dtype: str) -> None:
    """Products of other shapes may round the same score differently: rows and single columns are of whole rows."""
    rng = np.random.default_rng(1)
    for magnitude in (1e-30, 1.0, 1e5, 1e9, 1e15) + ((1e30,) if dtype == "float64" else ()):
        q, k = ((magnitude * rng.normal(size=(1, 2, count, 64))).astype(dtype) for count in (40, 70))
        with using(engine):
            A = regard.Attention(for_engine(engine, q), for_engine(engine, k))
            weights, peak = as_numpy(A.dense()), as_numpy(A.peak())
            rows, some = as_numpy(A[:, :, 5]), as_numpy(A[:, :, [3, 5, 9]])
        for found in (weights, rows, some):
            assert_allclose(found.sum(axis=-1, dtype=np.float64), 1, rtol=0, atol=2e-6)
            assert (found <= 1).all()
        assert (peak <= 1).all()
