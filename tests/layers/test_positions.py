"""Sinusoidal, learned and rotary positions, against their formulas written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from regard import errors
from regard.layers import Alibi, Learned, Rotary, Sinusoidal, sinusoidal

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 0, "atol": 1e-12}  # float64; angles up to a few dozen
BATCH, HEAD, TOKEN = 2, 3, 5


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoidal_equals_the_formula_of_the_paper(width: int) -> None:
    table = sinusoidal(TOKEN, width)
    for position in range(TOKEN):
        for place in range(width):
            angle = position / 10000 ** (2 * (place // 2) / width)
            assert table[position, place] == pytest.approx(math.cos(angle) if place % 2 else math.sin(angle))


def test_positions_are_added_from_an_offset(draw: Draw) -> None:
    x, weight = draw(BATCH, TOKEN, 6), draw(11, 6)
    assert_allclose(Sinusoidal()(x, 3), x + sinusoidal(8, 6)[3:], **CLOSE)
    assert_allclose(Learned(weight)(x, 3), x + weight[3:8], **CLOSE)
    shifted = Learned(weight)(x, [3, -2])
    assert_allclose(shifted[0], x[0] + weight[3:8], **CLOSE)
    assert_allclose(shifted[1], x[1] + weight[[0, 0, 0, 1, 2]], **CLOSE)
    assert_allclose(Sinusoidal()(x, [3, 0])[1], x[1] + sinusoidal(5, 6), **CLOSE)


def test_positions_past_the_last_learned_one_are_refused(draw: Draw) -> None:
    with pytest.raises(errors.OptionError, match="less than 4"):
        Learned(draw(4, 6))(draw(TOKEN, 6))


def as_llama_does_it(x: Any, base: float, start: int) -> Any:
    """Halves: x · cos + rotate_half(x) · sin, with the angles of all pairs written twice."""
    size = x.shape[-1]
    speeds = 1.0 / base ** (np.arange(0, size, 2) / size)
    angles = np.outer(np.arange(start, start + x.shape[-2]), speeds)
    angles = np.concatenate([angles, angles], axis=-1)
    turned_half = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1)
    return x * np.cos(angles) + turned_half * np.sin(angles)


def as_complex_numbers(x: Any, base: float, start: int) -> Any:
    """Neighbours: a pair is a complex number, multiplied by exp(i · angle)."""
    size = x.shape[-1]
    angles = np.outer(np.arange(start, start + x.shape[-2]), base ** (-np.arange(0, size, 2) / size))
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


@pytest.mark.parametrize("base", [10000.0, 500.0])
@pytest.mark.parametrize("start", [0, 13])
def test_rotary_equals_both_definitions(draw: Draw, engine_name: str, base: float, start: int) -> None:
    x = draw(BATCH, HEAD, TOKEN, 8)
    assert_allclose(Rotary(8, base)(x, start), as_llama_does_it(x, base, start), **CLOSE)
    assert_allclose(Rotary(8, base, interleaved=True)(x, start), as_complex_numbers(x, base, start), **CLOSE)
    assert_allclose(Rotary(8, base)(x[0], start), as_llama_does_it(x[0], base, start), **CLOSE)


def test_rotary_rotates_part_of_a_vector_from_each_offset(draw: Draw) -> None:
    x = draw(BATCH, HEAD, TOKEN, 11)
    found = Rotary(8)(x, [2, 7])
    assert_array_equal(found[..., 8:], x[..., 8:])
    for sequence, start in enumerate((2, 7)):
        assert_allclose(found[sequence, ..., :8], as_llama_does_it(x[sequence, ..., :8], 10000.0, start), **CLOSE)


def test_rotary_uses_given_frequencies(draw: Draw) -> None:
    x = draw(BATCH, HEAD, TOKEN, 4)
    assert_allclose(Rotary(4, frequencies=(1.0, 0.01))(x), Rotary(4)(x), **CLOSE)
    with pytest.raises(errors.OptionError, match="2 numbers"):
        Rotary(4, frequencies=(1.0,))
    with pytest.raises(errors.OptionError, match="even"):
        Rotary(3)
    with pytest.raises(errors.OptionError, match="at most 4"):
        Rotary(6)(x)


def test_rotary_scores_depend_only_on_the_distance(draw: Draw) -> None:
    query, key, rotary = draw(1, 1, 1, 8), draw(1, 1, 1, 8), Rotary(8)
    here, shifted = (np.sum(rotary(query, 9 + shift) * rotary(key, 4 + shift)) for shift in (0, 100))
    assert_allclose(here, shifted, rtol=0, atol=1e-11)


def test_tensors_get_the_same_positions(draw: Draw) -> None:
    torch = pytest.importorskip("torch")
    x = draw(BATCH, HEAD, TOKEN, 8)
    tensor = torch.from_numpy(x).requires_grad_()
    for layer in (Rotary(8), Rotary(6, interleaved=True), Sinusoidal()):
        for offset in (0, 4):
            found = layer(tensor, offset)
            assert_allclose(found.detach().numpy(), layer(x, offset), **CLOSE)
    assert_allclose(Rotary(8)(tensor, torch.tensor([1, 2])).detach().numpy(), Rotary(8)(x, [1, 2]), **CLOSE)
    weight = draw(9, 8)
    found = Learned(torch.from_numpy(weight))(tensor[:, 0], torch.tensor([1, -2]))
    assert_allclose(found.detach().numpy(), Learned(weight)(x[:, 0], [1, -2]), **CLOSE)


def test_alibi_slopes_equal_the_paper() -> None:
    assert Alibi.of(4).slopes == (0.25, 0.0625, 0.015625, 0.00390625)
