"""Linear maps, norms and rotary positions of the reference engine, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from regard.kernels import reference
from regard.kernels.interface import ACTIVATIONS

torch = pytest.importorskip("torch")
functional = torch.nn.functional

CLOSE: Any = {"rtol": 1e-12, "atol": 1e-12}  # float64 on both sides, sums of a few dozen terms of order one
Draw = Callable[..., Any]

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
    found = reference.linear(x, weight, bias, activation, residual)
    expected = PEERS[activation](functional.linear(*map(torch.from_numpy, (x, weight, bias))))
    assert_allclose(found, expected.numpy() + residual, **CLOSE)


def test_linear_without_bias_and_residual(draw: Draw) -> None:
    x, weight = draw(3, 7), draw(5, 7)
    assert_allclose(reference.linear(x, weight), x @ weight.T, **CLOSE)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_do_not_overflow(activation: str) -> None:
    x = np.array([[-1e4], [1e4]])
    assert np.isfinite(reference.linear(x, np.ones((1, 1)), None, activation)).all()


def test_norms(draw: Draw) -> None:
    x, weight, bias = draw(2, 5, 7), draw(7), draw(7)
    of_torch = [torch.from_numpy(array) for array in (x, weight, bias)]
    expected = functional.layer_norm(of_torch[0], (7,), of_torch[1], of_torch[2], 1e-5)
    assert_allclose(reference.layer_norm(x, weight, bias, 1e-5), expected.numpy(), **CLOSE)
    assert_allclose(reference.layer_norm(x, weight, None, 1e-5), expected.numpy() - bias, **CLOSE)
    expected = functional.rms_norm(of_torch[0], (7,), of_torch[1], 1e-6)
    assert_allclose(reference.rms_norm(x, weight, 1e-6), expected.numpy(), **CLOSE)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [3, 2])
def test_rotary_turns_pairs_as_complex_numbers(draw: Draw, interleaved: bool, pairs: int) -> None:
    x, angle = draw(2, 3, 5, 6), draw(2, 5, pairs)
    found = reference.rotary(x, np.cos(angle), np.sin(angle), interleaved)
    some = 2 * pairs
    one, other = (
        (np.s_[..., 0:some:2], np.s_[..., 1:some:2]) if interleaved else (np.s_[..., :pairs], np.s_[..., pairs:some])
    )
    turned = (x[one] + 1j * x[other]) * np.exp(1j * angle)[:, None]
    assert_allclose(found[one] + 1j * found[other], turned, **CLOSE)
    assert_array_equal(found[..., some:], x[..., some:])
