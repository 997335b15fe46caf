"""Layers of tensors equal those of the reference on arrays of float64, by the generic and by the native engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from regard.engines import generic, select
from regard.engines.interface import ACTIVATIONS

from .torch_cases import CLOSE, one_thread

torch = pytest.importorskip("torch")

Draw = Callable[..., Any]


@pytest.fixture(params=["generic", "native"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "native" and select.NATIVE_PROBLEM:
        pytest.skip(select.NATIVE_PROBLEM)
    with one_thread():
        yield generic if request.param == "generic" else import_module("regard.engines.torch_native")


def drawn(draw: Draw, kind: str, *shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Tensors of a type, and the same numbers as arrays of float64."""
    tensors = [torch.from_numpy(draw(*shape)).to(getattr(torch, kind)) for shape in shapes]
    return tensors, [tensor.double().numpy() for tensor in tensors]


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_linear(engine: Any, draw: Draw, activation: str | None, kind: str) -> None:
    tensors, arrays = drawn(draw, kind, (2, 5, 7), (11, 7), (11,), (2, 5, 11))
    found = engine.linear(*tensors[:3], activation, tensors[3])
    bound = 4 * torch.finfo(tensors[0].dtype).eps  # one rounding of the result, and a sum of seven products
    assert found.dtype == tensors[0].dtype
    expected = generic.linear(*arrays[:3], activation, arrays[3])
    assert_allclose(found.double().numpy(), expected, rtol=bound, atol=8 * bound)
    found, expected = (engine.linear(*some[:2], activation=activation) for some in (tensors, arrays))
    assert_allclose(found.double().numpy(), expected, rtol=bound, atol=8 * bound)


def test_norms_and_rotary(engine: Any, draw: Draw) -> None:
    (x, weight, bias), arrays = drawn(draw, "float64", (2, 3, 5, 8), (8,), (8,))
    norm = engine.layer_norm(x, weight, bias, 1e-5), engine.layer_norm(x, weight, None, 1e-5)
    assert_allclose(norm[0].numpy(), generic.layer_norm(*arrays, 1e-5), **CLOSE)
    assert_allclose(norm[1].numpy(), generic.layer_norm(*arrays[:2], None, 1e-5), **CLOSE)
    assert_allclose(engine.rms_norm(x, weight, 1e-6).numpy(), generic.rms_norm(*arrays[:2], 1e-6), **CLOSE)
    for pairs in (2, 3):
        for interleaved in (False, True):
            (angles,), (of_array,) = drawn(draw, "float64", (1, 5, pairs))
            found = engine.rotary(x, angles.cos(), angles.sin(), interleaved)
            expected = generic.rotary(arrays[0], np.cos(of_array), np.sin(of_array), interleaved)
            assert_allclose(found.numpy(), expected, **CLOSE)


def test_gradients_are_those_of_pytorch(engine: Any, draw: Draw) -> None:
    (x, weight, bias, angles), _ = drawn(draw, "float64", (2, 3, 5, 8), (8, 8), (8,), (1, 5, 3))
    x.requires_grad_()
    for compute in (
        lambda engine: engine.linear(x, weight, bias, "gelu", x),
        lambda engine: engine.layer_norm(x, bias, None, 1e-5),
        lambda engine: engine.rms_norm(x, bias, 1e-5),
        lambda engine: engine.rotary(x, angles.cos(), angles.sin(), True),
    ):
        found, expected = (torch.autograd.grad(compute(one).sum(), x)[0] for one in (engine, generic))
        assert_allclose(found.numpy(), expected.numpy(), **CLOSE)
        assert found.any()
        with torch.no_grad():
            assert_allclose(compute(engine).numpy(), compute(generic).numpy(), **CLOSE)


def test_a_weight_of_a_wider_type_leaves_the_type_of_the_rows(engine: Any, draw: Draw) -> None:
    (x, weight, bias), _ = drawn(draw, "bfloat16", (5, 7), (11, 7), (11,))
    assert engine.linear(x, weight.float(), bias.float(), "silu").dtype == torch.bfloat16
