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
from regard.engines.interface import ACTIVATIONS, ROW_STATE, RowState, Scores

from .torch_cases import BATCH, HEAD, KEY, KEY_HEAD, MASKS, QUERY, VALUE_SIZE, everything, scores_of

torch = pytest.importorskip("torch")
functional = torch.nn.functional

# Float64 against float64, sums of at most a hundred terms of order one: 1e-12 leaves two digits for another order.
CLOSE: Any = {"rtol": 1e-12, "atol": 1e-12}
Draw = Callable[..., Any]


@pytest.fixture
def scores(draw: Draw) -> Scores:
    """Everything that can change a score, at once."""
    return scores_of(draw, MASKS["intervals"])


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


def test_strips_change_nothing(scores: Scores, values: Any, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = draw(BATCH, HEAD, QUERY, VALUE_SIZE)
    at_once = everything(generic, scores, values, flow)
    monkeypatch.setattr(numpy_arrays, "STRIP", 3 * KEY)
    for name, in_strips in everything(generic, scores, values, flow).items():
        assert_allclose(in_strips, at_once[name], err_msg=name, **CLOSE)


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


# Types


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
