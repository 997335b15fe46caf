"""The reference engine against the formulas as books print them, against PyTorch, and against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard.kernels import reference
from regard.kernels.interface import ROW_STATE, STAGES, RowState, Scores

torch = pytest.importorskip("torch")

# Float64 against float64, sums of at most a hundred terms of order one: 1e-12 leaves two digits for another order.
CLOSE: Any = {"rtol": 1e-12, "atol": 1e-12}
BATCH, HEAD, KEY_HEAD, QUERY, KEY, SIZE, VALUE_SIZE = 2, 6, 3, 7, 11, 5, 3
Draw = Callable[..., Any]


@pytest.fixture
def scores(draw: Draw) -> Scores:
    """Everything that can change a score, at once."""
    mask = regard.window(4, 3) & regard.lengths([9, 11])
    return Scores(
        draw(BATCH, HEAD, QUERY, SIZE),
        draw(BATCH, KEY_HEAD, KEY, SIZE),
        scale=0.7,
        softcap=2.0,
        bias=draw(1, HEAD, 1, KEY),
        relative=draw(HEAD, QUERY + KEY + 3),
        relative_zero=KEY - 1,
        sinks=draw(HEAD),
        visible=mask.visible(queries=QUERY, keys=KEY, batch=BATCH, heads=HEAD, offset=np.array([0, 2])),
        offset=np.array([0, 2]),
    )


@pytest.fixture
def values(draw: Draw) -> Any:
    return draw(BATCH, KEY_HEAD, KEY, VALUE_SIZE)


def relative_of(scores: Scores) -> Any:
    """The relative bias, written out number by number."""
    assert scores.relative is not None
    result = np.zeros((BATCH, HEAD, QUERY, KEY))
    for b, h, i, j in np.ndindex(*result.shape):
        result[b, h, i, j] = scores.relative[h, i + np.broadcast_to(scores.offset, BATCH)[b] - j + scores.relative_zero]
    return result


def plain_weights(scores: Scores, weights: Draw) -> Any:
    assert scores.visible is not None
    assert scores.bias is not None
    return weights(
        scores.queries,
        scores.keys,
        scale=scores.scale,
        seen=scores.visible.tile(slice(None), slice(None)),
        bias=scores.bias + relative_of(scores),
        softcap=scores.softcap,
        sinks=scores.sinks,
    )


def forward(scores: Scores, values: Any, statistics: Any = (), top: int = 0) -> tuple[Any, dict[str, Any]]:
    """As the engine, with an output for sure."""
    output, found = reference.forward(scores, values, statistics, top)
    assert output is not None
    return output, found


def state_of(scores: Scores) -> RowState:
    return RowState.of(reference.forward(scores, None, ROW_STATE)[1])


def test_outputs_and_weights_follow_the_formula(scores: Scores, values: Any, weights: Draw) -> None:
    expected = plain_weights(scores, weights)
    output, _ = forward(scores, values)
    assert_allclose(output, expected @ values.repeat(2, axis=1), **CLOSE)
    assert_allclose(reference.tile(scores, state_of(scores), "weight"), expected, **CLOSE)


def test_stages_come_one_after_the_other(scores: Scores) -> None:
    found = {stage: reference.tile(scores, state_of(scores), stage) for stage in STAGES}
    assert scores.visible is not None
    seen = np.broadcast_to(scores.visible.tile(slice(None), slice(None)), found["score"].shape)
    assert_allclose(found["score"], scores.queries @ scores.keys.repeat(2, axis=1).swapaxes(2, 3), **CLOSE)
    assert_allclose(found["scaled"], found["score"] * 0.7, **CLOSE)
    assert_allclose(found["capped"], 2 * np.tanh(found["scaled"] / 2), **CLOSE)
    assert_allclose(found["biased"], found["capped"] + scores.bias + relative_of(scores), **CLOSE)
    assert_array_equal(found["masked"] == -np.inf, ~seen)
    assert_array_equal(found["masked"][seen], found["biased"][seen])


def test_row_statistics_follow_from_the_weights(scores: Scores, weights: Draw) -> None:
    expected = plain_weights(scores, weights)
    _, found = reference.forward(scores, None, ("logsumexp", "entropy", "peak", "distance"))
    logarithms = np.log(np.where(expected > 0, expected, 1))
    assert_allclose(found["entropy"], -(expected * logarithms).sum(axis=-1), **CLOSE)
    assert_allclose(found["peak"], expected.max(axis=-1), **CLOSE)
    position = np.array([0, 2])[:, None, None, None] + np.arange(QUERY)[:, None]
    assert_allclose(found["distance"], (expected * abs(position - np.arange(KEY))).sum(axis=-1), **CLOSE)
    assert scores.sinks is not None
    sink_share = np.exp(scores.sinks[:, None] - found["logsumexp"])
    assert_allclose(expected.sum(axis=-1) + sink_share, 1, **CLOSE)


def test_columns_and_cells_follow_from_the_weights(scores: Scores, weights: Draw, draw: Draw) -> None:
    expected, state, rows = plain_weights(scores, weights), state_of(scores), draw(BATCH, HEAD, QUERY, 4)
    assert_allclose(reference.received(scores, state), expected.sum(axis=2), **CLOSE)
    assert_allclose(reference.backflow(scores, state, rows), expected.swapaxes(2, 3) @ rows, **CLOSE)
    row_edges, column_edges = np.array([1, 2, 5, 7]), np.array([0, 4, 5, 10])
    for pool, join in (("sum", np.sum), ("max", np.max)):
        found = reference.pooled(scores, state, row_edges, column_edges, pool)  # type: ignore[arg-type]
        for r, c in np.ndindex(3, 3):
            cell = expected[:, :, row_edges[r] : row_edges[r + 1], column_edges[c] : column_edges[c + 1]]
            assert_allclose(found[:, :, r, c], join(cell, axis=(2, 3)), **CLOSE)


def test_strips_change_nothing(scores: Scores, values: Any, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, wanted = draw(BATCH, HEAD, QUERY, VALUE_SIZE), ("bias", "relative", "sinks")
    edges = np.array([0, 3, 7]), np.array([2, 9, 11])

    def everything() -> list[Any]:
        output, found = forward(scores, values, (*ROW_STATE, "logsumexp", "entropy", "peak", "distance"), top=4)
        state = RowState.of(found)
        gradients = reference.backward(scores, values, output, state, flow, wanted)
        return [
            output,
            *found.values(),
            reference.tile(scores, state, "weight"),
            reference.received(scores, state),
            reference.backflow(scores, state, flow),
            reference.pooled(scores, state, *edges, "sum"),
            *(getattr(gradients, name) for name in ("queries", "keys", "values", *wanted)),
        ]

    at_once = everything()
    monkeypatch.setattr(reference, "STRIP", 3 * KEY)
    for whole, in_strips in zip(at_once, everything(), strict=True):
        assert_allclose(in_strips, whole, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_equal_those_of_torch(draw: Draw, causal: bool) -> None:
    queries, keys, values = draw(2, 6, 13, 5), draw(2, 3, 13, 5), draw(2, 3, 13, 7)
    visible = regard.causal().visible(queries=13, keys=13) if causal else None
    output, _ = forward(Scores(queries, keys, 5**-0.5, visible=visible), values)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (queries, keys, values)), is_causal=causal, enable_gqa=True
    )
    assert_allclose(output, expected.numpy(), **CLOSE)


def test_gradients_equal_finite_differences(scores: Scores, values: Any, draw: Draw) -> None:
    flow, wanted = draw(BATCH, HEAD, QUERY, VALUE_SIZE), ("bias", "relative", "sinks")
    output, found = forward(scores, values, ROW_STATE)
    gradients = reference.backward(scores, values, output, RowState.of(found), flow, wanted)

    def loss(name: str, moved: Any) -> float:
        if name == "values":
            output, _ = forward(scores, moved)
        else:
            output, _ = forward(replace(scores, **{name: moved}), values)
        return float((output * flow).sum())

    for name in ("queries", "keys", "values", *wanted):
        start = values if name == "values" else getattr(scores, name)
        direction, step = draw(*start.shape), 1e-6
        slope = (loss(name, start + step * direction) - loss(name, start - step * direction)) / (2 * step)
        # Central differences: error step² · third derivative (1e-12) plus rounding 1e-16 / step · loss (1e-9).
        assert_allclose((getattr(gradients, name) * direction).sum(), slope, rtol=1e-7, atol=1e-7, err_msg=name)


# NaN, inf, and rows that see nothing


def test_a_query_that_sees_no_key_gets_zeros(draw: Draw) -> None:
    visible = regard.masks.allowed(np.zeros((3, 5), bool)).visible(queries=3, keys=5)
    scores, values = Scores(draw(1, 1, 3, 2), draw(1, 1, 5, 2), 1.0, visible=visible), draw(1, 1, 5, 2)
    output, found = forward(scores, values, (*ROW_STATE, "logsumexp", "entropy", "peak", "distance"), top=2)
    assert not output.any() and not found["entropy"].any() and not found["peak"].any() and not found["distance"].any()
    assert (found["logsumexp"] == -np.inf).all()
    assert (found["top_index"] == -1).all() and not found["top_weight"].any()
    gradients = reference.backward(scores, values, output, RowState.of(found), output + 1)
    assert not gradients.queries.any() and not gradients.keys.any() and not gradients.values.any()
    with_sink = replace(scores, sinks=np.array([0.25]))
    assert (reference.forward(with_sink, None, ("logsumexp",))[1]["logsumexp"] == 0.25).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_masked_poison_has_no_influence(draw: Draw, poison: float) -> None:
    queries, keys, values = draw(1, 2, 7, 3), draw(1, 1, 7, 3), draw(1, 1, 7, 3)
    scores = Scores(queries, keys, 1.0, visible=regard.lengths(4).visible(queries=7, keys=7))
    poisoned = keys.copy(), values.copy()
    poisoned[0][0, 0, 4:], poisoned[1][0, 0, 5] = poison, poison
    clean, found = forward(scores, values, (*ROW_STATE, "entropy"))
    output, also_found = forward(replace(scores, keys=poisoned[0]), poisoned[1], (*ROW_STATE, "entropy"))
    assert_array_equal(output, clean)
    assert_array_equal(also_found["entropy"], found["entropy"])
    flow = np.ones_like(clean)
    expected = reference.backward(scores, values, clean, RowState.of(found), flow)
    gradients = reference.backward(
        replace(scores, keys=poisoned[0]),
        poisoned[1],
        clean,
        RowState.of(found),
        flow,
    )
    for name in ("queries", "keys", "values"):
        assert_array_equal(getattr(gradients, name), getattr(expected, name))


def test_a_bias_of_minus_infinity_hides_poison_too(draw: Draw) -> None:
    keys, values, bias = draw(1, 1, 5, 3), draw(1, 1, 5, 3), np.zeros((1, 1, 1, 5))
    bias[..., 3] = -np.inf
    scores = Scores(draw(1, 1, 4, 3), keys, 1.0, bias=bias)
    clean, _ = forward(scores, values)
    poisoned = keys.copy()
    poisoned[0, 0, 3] = np.nan
    assert_array_equal(forward(replace(scores, keys=poisoned), values)[0], clean)


def test_visible_poison_reaches_exactly_the_rows_that_see_it(draw: Draw) -> None:
    queries, keys, values = draw(1, 1, 5, 3), draw(1, 1, 5, 3), draw(1, 1, 5, 3)
    visible = regard.causal().visible(queries=5, keys=5)
    values[0, 0, 2, 1], values[0, 0, 3, 0], values[0, 0, 4, 0] = np.nan, np.inf, -np.inf
    output, _ = forward(Scores(queries, keys, 1.0, visible=visible), values)
    assert_array_equal(np.isnan(output[0, 0, :, 1]), [False, False, True, True, True])
    assert_array_equal(output[0, 0, 3, 0], np.inf)
    assert np.isnan(output[0, 0, 4, 0])  # inf − inf
    assert np.isfinite(output[0, 0, :, 2]).all()
    keys[0, 0, 3] = np.nan
    scores = Scores(queries, keys, 1.0, visible=visible)
    output, found = forward(scores, np.ones((1, 1, 5, 1)), ROW_STATE)
    assert_array_equal(np.isnan(output[0, 0, :, 0]), [False, False, False, True, True])
    weights = reference.tile(scores, RowState.of(found), "weight")[0, 0]
    assert_array_equal(np.isnan(weights[3]), [True, True, True, True, False])  # key 4 stays hidden
    assert_array_equal(np.isnan(reference.received(scores, RowState.of(found))[0, 0]), True)


# Top, types, fingerprints


def test_strongest_keys_are_sorted_with_ties_to_the_lower_index() -> None:
    keys = np.array([1.0, 3, 2, 3, 3, 0]).reshape(1, 1, 6, 1)
    _, found = reference.forward(Scores(np.ones((1, 1, 1, 1)), keys, 1.0), None, top=8)
    assert found["top_index"].ravel().tolist() == [1, 3, 4, 2, 0, 5, -1, -1]
    assert (np.diff(found["top_weight"]) <= 0).all()
    assert found["top_weight"].ravel()[-2:].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("dtype", "statistic"), [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64",) * 2]
)
def test_results_have_the_type_of_the_inputs_and_statistics_a_wide_one(draw: Draw, dtype: str, statistic: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    queries, keys, values = (draw(1, 1, 5, 3, dtype=np.dtype(dtype)) for _ in range(3))
    scores = Scores(queries, keys, 1.0)
    output, found = forward(scores, values, (*ROW_STATE, "logsumexp"), top=1)
    state = RowState.of(found)
    assert output.dtype == dtype and found["logsumexp"].dtype == np.float64 and found["top_weight"].dtype == statistic
    assert reference.tile(scores, state, "weight").dtype == statistic
    assert reference.received(scores, state).dtype == statistic
    assert reference.backflow(scores, state, values).dtype == dtype
    gradients = reference.backward(scores, values, output, state, values)
    assert {gradients.queries.dtype, gradients.keys.dtype, gradients.values.dtype} == {np.dtype(dtype)}


def test_fingerprints_notice_every_number(draw: Draw) -> None:
    array = draw(3, 5, 7).astype(np.float32)
    for view in (array, array.transpose(2, 0, 1), array[::-1, ::2], array[0], array[0, 0, ::3]):
        before = reference.fingerprint(view)
        assert reference.fingerprint(view) == before
        view[(0,) * view.ndim] += 1
        assert reference.fingerprint(view) != before
        moved = reference.fingerprint(view)
        view[(-1,) * view.ndim] *= 2
        assert reference.fingerprint(view) != moved
    assert reference.fingerprint(np.empty((0, 3))) == reference.fingerprint(np.empty((0, 3)))
