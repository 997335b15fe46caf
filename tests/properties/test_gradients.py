"""Gradients of random attentions: of queries, keys, values, bias and sinks, within derived bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.engines.interface import ROW_STATE, RowState
from regard.engines.select import engine_for

from ..effort import examples
from ..engine_names import ENGINES, NUMPY_ENGINES, TORCH_ENGINES, as_numpy, for_engine, using
from .cases import LAYOUTS, Case, cases, laid_out
from .gradient_truth import GradientTruth
from .truth import Truth


def check_gradients(case: Case, flow: Any, found: dict[str, Any]) -> None:
    truth = GradientTruth(Truth(case), flow.astype(np.float64))
    for name, gradient in found.items():
        gradient = as_numpy(gradient)
        assert gradient.dtype == getattr(case, name).dtype, name
        getattr(truth, name)().check(gradient, f"gradient of {name}")


def flow_for(case: Case, seed: int, layout: str) -> Any:
    flow = np.random.default_rng(seed).normal(size=(*case.shape[:3], case.values.shape[3]))
    return laid_out(flow.astype(case.queries.dtype), layout)


def options_with_gradients(case: Case) -> list[str]:
    """Of those that are arrays: a lazy bias has tests of its own."""
    dense = ["bias"] if isinstance(case.bias, np.ndarray) else []
    return dense + (["sinks"] if case.sinks is not None else [])


@pytest.mark.parametrize("engine", NUMPY_ENGINES)
@given(case=cases(), seed=st.integers(0, 999), layout=st.sampled_from(LAYOUTS))
@examples(60)
def test_gradients_of_an_engine_are_right(engine: str, case: Case, seed: int, layout: str) -> None:
    flow = flow_for(case, seed, layout)
    with using(engine):
        scores = case.attention(engine).scores
        compute = engine_for(case.queries)
        output, statistics = compute.forward(scores, case.values, ROW_STATE)
        wanted = options_with_gradients(case)
        found = compute.backward(scores, case.values, output, RowState.of(statistics), flow, wanted)
    names = ("queries", "keys", "values", *wanted)
    check_gradients(case, flow, {name: getattr(found, name) for name in names})


@pytest.mark.parametrize("engine", TORCH_ENGINES)
@given(case=cases(), seed=st.integers(0, 999), layout=st.sampled_from(LAYOUTS))
@examples(60)
def test_gradients_by_autograd_are_right(engine: str, case: Case, seed: int, layout: str) -> None:
    flow = flow_for(case, seed, layout)
    with using(engine):
        A = case.attention(engine)
        values = for_engine(engine, case.values)
        wanted = {"queries": A.queries, "keys": A.keys, "values": values}
        wanted |= {name: getattr(A, name) for name in options_with_gradients(case)}
        for tensor in wanted.values():
            tensor.requires_grad_()
        (A @ values).backward(for_engine(engine, flow))
    check_gradients(case, flow, {name: tensor.grad for name, tensor in wanted.items()})


@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases(kinds=("float64",), most=9, plain=True))
@examples(20)
def test_what_flows_back_is_the_gradient_of_the_values(engine: str, case: Case) -> None:
    flow = flow_for(case, 7, "plain")
    with using(engine):
        found = as_numpy(case.attention(engine).mT @ for_engine(engine, flow))
    truth = GradientTruth(Truth(case), flow)
    truth.values().check(Truth(case).for_each_key_head(found), "backflow")
