"""Statistics of rows and columns against the weights they summarise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 1e-11, "atol": 1e-12}  # float64 on both sides, sums of at most a few dozen terms

pytestmark = pytest.mark.usefixtures("engine_name")

MASKS = {
    "everything": None,
    "causal": regard.causal(),
    "sinks and window": regard.causal() & (regard.masks.first(2) | regard.window(3)),
    "padding": regard.padding([3, 13]),
    "nothing for some": regard.masks.allowed(np.arange(13)[:, None] > np.arange(13)),
    "function": regard.masks.where(lambda i, j: (i * j) % 3 == 0),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_what_some_queries_give_to_keys(draw: Draw, mask: regard.Mask | None) -> None:
    A = regard.Attention(draw(2, 4, 13, 5), draw(2, 2, 13, 5), mask=mask, scale=1.3)
    weights, every_second = A.dense(), np.arange(13) % 2 == 0
    for rows in (slice(-4, None), slice(2, 12, 3), slice(5, 5), [0, 7, 8], every_second):
        assert_allclose(A.column_sums(queries=rows), weights[:, :, rows].sum(axis=-2), **CLOSE)
    assert_allclose(A.column_sums(queries=-1), weights[:, :, -1], **CLOSE)
    of_each = np.stack([every_second, np.arange(13) < 4])
    assert_allclose(A.column_sums(queries=of_each), (weights * of_each[:, None, :, None]).sum(axis=-2), **CLOSE)


@pytest.mark.parametrize(
    ("queries", "message"), [(13, "query 13"), ("x", "index"), (np.ones((3, 13), bool), "queries")]
)
def test_queries_that_are_not_there_give_nothing_but_an_error(draw: Draw, queries: Any, message: str) -> None:
    with pytest.raises(regard.errors.RegardError, match=message):
        regard.Attention(draw(2, 4, 13, 5), draw(2, 4, 13, 5)).column_sums(queries=queries)


def test_equal_scores_go_to_the_lower_key() -> None:
    A = regard.Attention(np.ones((3, 4)), np.ones((9, 4)))
    assert A.top(4).index.tolist() == [[0, 1, 2, 3]] * 3
    rounded = np.round(np.random.default_rng(0).normal(size=(37, 2)))
    A = regard.Attention(rounded, rounded)
    expected = np.argsort(-A.score.dense(), axis=-1, kind="stable")[:, :6]
    assert_array_equal(A.top(6).index, expected)


@pytest.mark.parametrize("k", [6, 2**31, 2**63, 10**30])
def test_more_strongest_keys_than_there_are_means_all_of_them(draw: Draw, k: int) -> None:
    A = regard.Attention(draw(2, 3), draw(4, 3), mask=regard.causal(), offset=0)
    for strongest in (A.top(k), A.attend(draw(4, 1), top=k).top):
        assert strongest is not None
        assert_array_equal(strongest.index, A.top(4).index)
        assert strongest.index.tolist()[0] == [0, -1, -1, -1]
        assert not strongest.weight[0, 1:].any()


def test_a_query_that_sees_nothing_has_zeros_for_statistics(draw: Draw) -> None:
    A = regard.Attention(draw(2, 3), draw(4, 3), mask=regard.padding(0), offset=0)
    for statistic in (A.entropy(), A.peak(), A.distance(), A.weight_on(slice(None)), A.column_sums()):
        assert not statistic.any()
    assert_array_equal(A.logsumexp(), -np.inf)
    assert not A.dense().any() and not (A @ draw(4, 2)).any()


def test_known_entropies() -> None:
    assert_allclose(regard.Attention(np.zeros((1, 2)), np.zeros((8, 2))).entropy(), np.log(8), rtol=1e-14)
    one = regard.Attention([[1.0, 0.0]], [[1000.0, 0.0], [0.0, 0.0]])
    assert_allclose(one.entropy(), 0, atol=1e-15)
    assert regard.Attention([[1.0]], [[5.0]]).entropy().tolist() == [0.0]
