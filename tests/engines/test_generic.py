"""The generic engine on NumPy arrays, the reference, against formulas from books, PyTorch and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import regard
from regard.engines import generic, numpy_arrays
from regard.engines.interface import ACTIVATIONS, ROW_STATE, STAGES, RowState, Scores

torch = pytest.importorskip("torch")
functional = torch.nn.functional

# Float64 against float64, sums of at most a hundred terms of order one: 1e-12 leaves two digits for another order.
CLOSE: Any = {"rtol": 1e-12, "atol": 1e-12}
BATCH, HEAD, KEY_HEAD, QUERY, KEY, SIZE, VALUE_SIZE = 2, 6, 3, 7, 11, 5, 3
Draw = Callable[..., Any]


@pytest.fixture
def scores(draw: Draw) -> Scores:
    """Everything that can change a score, at once."""
    mask = regard.window(4, 3) & regard.padding([9, 11])
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
    output, found = generic.forward(scores, values, statistics, top)
    assert output is not None
    return output, found


def state_of(scores: Scores) -> RowState:
    return RowState.of(generic.forward(scores, None, ROW_STATE)[1])


def test_outputs_and_weights_follow_the_formula(scores: Scores, values: Any, weights: Draw) -> None:
    expected = plain_weights(scores, weights)
    output, _ = forward(scores, values)
    assert_allclose(output, expected @ values.repeat(2, axis=1), **CLOSE)
    assert_allclose(generic.tile(scores, state_of(scores), "weight"), expected, **CLOSE)


def test_stages_come_one_after_the_other(scores: Scores) -> None:
    found = {stage: generic.tile(scores, state_of(scores), stage) for stage in STAGES}
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
    _, found = generic.forward(scores, None, ("logsumexp", "entropy", "peak", "distance"))
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
    assert_allclose(generic.column_sums(scores, state), expected.sum(axis=2), **CLOSE)
    assert_allclose(generic.backflow(scores, state, rows), expected.swapaxes(2, 3) @ rows, **CLOSE)
    row_edges, column_edges = np.array([1, 2, 5, 7]), np.array([0, 4, 5, 10])
    for pool, join in (("sum", np.sum), ("max", np.max)):
        found = generic.pooled(scores, state, row_edges, column_edges, pool)
        for r, c in np.ndindex(3, 3):
            cell = expected[:, :, row_edges[r] : row_edges[r + 1], column_edges[c] : column_edges[c + 1]]
            assert_allclose(found[:, :, r, c], join(cell, axis=(2, 3)), **CLOSE)


def test_strips_change_nothing(scores: Scores, values: Any, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, wanted = draw(BATCH, HEAD, QUERY, VALUE_SIZE), ("bias", "relative", "sinks")
    edges = np.array([0, 3, 7]), np.array([2, 9, 11])

    def everything() -> list[Any]:
        output, found = forward(scores, values, (*ROW_STATE, "logsumexp", "entropy", "peak", "distance"), top=4)
        state = RowState.of(found)
        gradients = generic.backward(scores, values, output, state, flow, wanted)
        return [
            output,
            *found.values(),
            generic.tile(scores, state, "weight"),
            generic.column_sums(scores, state),
            generic.backflow(scores, state, flow),
            generic.pooled(scores, state, *edges, "sum"),
            *(getattr(gradients, name) for name in ("queries", "keys", "values", *wanted)),
        ]

    at_once = everything()
    monkeypatch.setattr(numpy_arrays, "STRIP", 3 * KEY)
    for whole, in_strips in zip(at_once, everything(), strict=True):
        assert_allclose(in_strips, whole, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_equal_those_of_torch(draw: Draw, causal: bool) -> None:
    queries, keys, values = draw(2, 6, 13, 5), draw(2, 3, 13, 5), draw(2, 3, 13, 7)
    visible = regard.causal().visible(queries=13, keys=13) if causal else None
    output, _ = forward(Scores(queries, keys, 5**-0.5, visible=visible), values)
    expected = functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (queries, keys, values)), is_causal=causal, enable_gqa=True
    )
    assert_allclose(output, expected.numpy(), **CLOSE)


def test_gradients_equal_finite_differences(scores: Scores, values: Any, draw: Draw) -> None:
    flow, wanted = draw(BATCH, HEAD, QUERY, VALUE_SIZE), ("bias", "relative", "sinks")
    output, found = forward(scores, values, ROW_STATE)
    gradients = generic.backward(scores, values, output, RowState.of(found), flow, wanted)

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
    gradients = generic.backward(scores, values, output, RowState.of(found), output + 1)
    assert not gradients.queries.any() and not gradients.keys.any() and not gradients.values.any()
    with_sink = replace(scores, sinks=np.array([0.25]))
    assert (generic.forward(with_sink, None, ("logsumexp",))[1]["logsumexp"] == 0.25).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_masked_poison_has_no_influence(draw: Draw, poison: float) -> None:
    queries, keys, values = draw(1, 2, 7, 3), draw(1, 1, 7, 3), draw(1, 1, 7, 3)
    scores = Scores(queries, keys, 1.0, visible=regard.padding(4).visible(queries=7, keys=7))
    poisoned = keys.copy(), values.copy()
    poisoned[0][0, 0, 4:], poisoned[1][0, 0, 5] = poison, poison
    clean, found = forward(scores, values, (*ROW_STATE, "entropy"))
    output, also_found = forward(replace(scores, keys=poisoned[0]), poisoned[1], (*ROW_STATE, "entropy"))
    assert_array_equal(output, clean)
    assert_array_equal(also_found["entropy"], found["entropy"])
    flow = np.ones_like(clean)
    expected = generic.backward(scores, values, clean, RowState.of(found), flow)
    gradients = generic.backward(
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
    weights = generic.tile(scores, RowState.of(found), "weight")[0, 0]
    assert_array_equal(np.isnan(weights[3]), [True, True, True, True, False])  # key 4 stays hidden
    assert_array_equal(np.isnan(generic.column_sums(scores, RowState.of(found))[0, 0]), True)


def test_gradients_of_infinite_keys_are_those_of_torch() -> None:
    """A soft cap makes their scores finite, with slope 0: 0 · inf is NaN, never inf of some sign."""
    queries, keys, values = (
        np.eye(2)[None, None],
        np.array([[1.0, -1], [0, 2], [-3, 1]])[None, None],
        np.ones((1, 1, 3, 1)),
    )
    keys[..., 1, 1], values[..., 0, 0], flow = -np.inf, 2.0, np.array([1.0, -3]).reshape(1, 1, 2, 1)
    queries += 0.5
    scores = Scores(queries, keys, 0.7, softcap=2.0)
    output, found = forward(scores, values, ROW_STATE)
    gradients = generic.backward(scores, values, output, RowState.of(found), flow)
    tensors = [torch.from_numpy(array).requires_grad_() for array in (queries, keys, values)]
    capped = 2 * torch.tanh(tensors[0] @ tensors[1].mT * 0.7 / 2)
    expected = torch.autograd.grad(torch.softmax(capped, -1) @ tensors[2], tensors, torch.from_numpy(flow))
    for name, peer in zip(("queries", "keys", "values"), expected, strict=True):
        assert_allclose(getattr(gradients, name), peer.numpy(), err_msg=name, **CLOSE)
    assert np.isnan(gradients.queries).any()


# Top and types


def test_strongest_keys_are_sorted_with_ties_to_the_lower_index() -> None:
    keys = np.array([1.0, 3, 2, 3, 3, 0]).reshape(1, 1, 6, 1)
    _, found = generic.forward(Scores(np.ones((1, 1, 1, 1)), keys, 1.0), None, top=8)
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
    assert generic.tile(scores, state, "weight").dtype == statistic
    assert generic.column_sums(scores, state).dtype == statistic
    assert generic.backflow(scores, state, values).dtype == dtype
    gradients = generic.backward(scores, values, output, state, values)
    assert {gradients.queries.dtype, gradients.keys.dtype, gradients.values.dtype} == {np.dtype(dtype)}


# Layers, against PyTorch's

PEERS = {
    None: lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "tanh": torch.tanh,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def test_every_activation_has_a_peer() -> None:
    assert set(PEERS) == {None, *ACTIVATIONS}


@pytest.mark.parametrize("activation", PEERS)
def test_linear(draw: Draw, activation: str | None) -> None:
    x, weight, bias, residual = draw(2, 5, 7), 3 * draw(11, 7), draw(11), draw(2, 5, 11)
    found = generic.linear(x, weight, bias, activation, residual)
    expected = PEERS[activation](functional.linear(*map(torch.from_numpy, (x, weight, bias))))
    assert_allclose(found, expected.numpy() + residual, **CLOSE)


def test_linear_without_bias_and_residual(draw: Draw) -> None:
    x, weight = draw(3, 7), draw(5, 7)
    assert_allclose(generic.linear(x, weight), x @ weight.T, **CLOSE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_do_not_overflow(activation: str) -> None:
    x = np.array([[-1e4], [1e4]])
    assert np.isfinite(generic.linear(x, np.ones((1, 1)), None, activation)).all()


def test_norms(draw: Draw) -> None:
    x, weight, bias = draw(2, 5, 7), draw(7), draw(7)
    of_torch = [torch.from_numpy(array) for array in (x, weight, bias)]
    expected = functional.layer_norm(of_torch[0], (7,), of_torch[1], of_torch[2], 1e-5)
    assert_allclose(generic.layer_norm(x, weight, bias, 1e-5), expected.numpy(), **CLOSE)
    assert_allclose(generic.layer_norm(x, weight, None, 1e-5), expected.numpy() - bias, **CLOSE)
    expected = functional.rms_norm(of_torch[0], (7,), of_torch[1], 1e-6)
    assert_allclose(generic.rms_norm(x, weight, 1e-6), expected.numpy(), **CLOSE)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [3, 2])
def test_rotary_turns_pairs_as_complex_numbers(draw: Draw, interleaved: bool, pairs: int) -> None:
    x, angle = draw(2, 3, 5, 6), draw(2, 5, pairs)
    found = generic.rotary(x, np.cos(angle), np.sin(angle), interleaved)
    some = 2 * pairs
    one, other = (
        (np.s_[..., 0:some:2], np.s_[..., 1:some:2]) if interleaved else (np.s_[..., :pairs], np.s_[..., pairs:some])
    )
    turned = (x[one] + 1j * x[other]) * np.exp(1j * angle)[:, None]
    assert_allclose(found[one] + 1j * found[other], turned, **CLOSE)
    assert_array_equal(found[..., some:], x[..., some:])
