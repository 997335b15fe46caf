"""Every case of the ONNX operator suite for Attention, and those of FlexAttention that Regard has words for.

The cases are collected from the `onnx` package, inputs and expected outputs with them; `operator.py` turns a node into
calls of `regard.Attention`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from ..engine_names import BFLOAT16, ENGINES, using

onnx = pytest.importorskip("onnx", minversion="1.23")

from .operator import NotOffered, attention, flex_attention  # noqa: E402 - needs onnx

ATTENTION_CASES = 93  # in onnx 1.23
FLEX_CASES = 11
NOT_OFFERED = {"test_flexattention_prob_mod"}
BFLOAT16_CASES = 5


@cache
def cases(module: str) -> list[Any]:
    """The cases of one module of the suite, without those in which the operator is expanded into smaller ones.

    Importing the module is what collects its cases; `collect_testcases` imports all two hundred, which takes
    twenty times as long.
    """
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes with NaN and inf on purpose
        import_module(f"{node.__name__}.{module}")
    prefix = f"test_{module}"
    return [case for case in node._NodeTestCases if case.name.startswith(prefix) and "_expanded" not in case.name]


def check(case: Any, run: Callable[..., dict[str, NDArray[Any]]], engine: str) -> None:
    (node,) = case.model.graph.node
    for inputs, expected in case.data_sets:
        given = dict(zip(filter(None, node.input), inputs, strict=True))
        with using(engine):
            found = run(node, given, engine)
        for name, wanted in zip(filter(None, node.output), expected, strict=True):
            assert found[name].dtype == wanted.dtype, name
            assert found[name].shape == wanted.shape, name
            if wanted.dtype == BFLOAT16:
                assert units_apart(found[name], wanted).max() <= 2, name
            else:
                assert_allclose(found[name], wanted, rtol=case.rtol, atol=case.atol, err_msg=name)


def units_apart(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.int64]:
    """How many bfloat16 numbers lie between two: their bits, read as sign and magnitude, count them."""

    def place(array: NDArray[Any]) -> NDArray[np.int64]:
        bits = array.view(np.uint16).astype(np.int64)
        return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)

    apart: NDArray[np.int64] = np.abs(place(one) - place(other))
    return apart


@pytest.mark.parametrize("engine", ENGINES)
def test_every_attention_case_passes(engine: str, subtests: Any, record_property: Any) -> None:
    ran = 0
    for case in cases("attention"):
        with subtests.test(case.name):
            check(case, attention, engine)
        ran += 1
    record_property("ran", f"{ran} ONNX Attention cases on {engine}")
    print(f"{ran} cases of the ONNX operator Attention ran on the engine {engine}")  # noqa: T201
    assert ran >= ATTENTION_CASES


@pytest.mark.parametrize("engine", ENGINES)
def test_every_flex_attention_case_that_is_offered_passes(engine: str, subtests: Any, record_property: Any) -> None:
    not_offered: dict[str, str] = {}
    ran = 0
    for case in cases("flexattention"):
        with subtests.test(case.name):
            try:
                check(case, flex_attention, engine)
                ran += 1
            except NotOffered as reason:
                not_offered[case.name] = str(reason)
    said = "".join(f"; without {name} ({reason})" for name, reason in not_offered.items())
    record_property("ran", f"{ran} ONNX FlexAttention cases on {engine}{said}")
    print(f"{ran} cases of the ONNX operator FlexAttention ran on the engine {engine}{said}")  # noqa: T201
    assert set(not_offered) == NOT_OFFERED
    assert ran >= FLEX_CASES - len(NOT_OFFERED)


def test_as_many_cases_are_in_bfloat16_as_are_compared_by_units() -> None:
    in_bfloat16 = [
        case.name for case in cases("attention") if any(output.dtype == BFLOAT16 for output in case.data_sets[0][1])
    ]
    assert len(in_bfloat16) == BFLOAT16_CASES, in_bfloat16
