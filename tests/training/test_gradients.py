"""Gradients of every layer against finite differences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.layers import Transformer

from ..layers.kinds import TOKENS, VOCABULARY, WIDTH, layers

torch = pytest.importorskip("torch")

from regard.training import Module, network  # noqa: E402

BATCH = 2
LAYERS = layers(np.float64)
OF_TOKENS = ("embedding", "transformer")


def check(function: Any, tensors: list[Any]) -> None:
    """Each gradient against the central difference along a random direction: one direction sees every component."""
    flow = torch.randn(function().shape, dtype=torch.float64)
    found = torch.autograd.grad((function() * flow).sum(), tensors)
    for tensor, gradient in zip(tensors, found, strict=True):
        for _ in range(3):
            direction = torch.randn_like(tensor)
            step = 1e-6
            with torch.no_grad():
                tensor += step * direction
                above = (function() * flow).sum()
                tensor -= 2 * step * direction
                below = (function() * flow).sum()
                tensor += step * direction
            expected = float(above - below) / (2 * step)
            # The difference of sums of order 100 in float64, divided by the step, is exact to about 1e-8.
            assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in OF_TOKENS])
def test_gradients_of_a_layer_equal_finite_differences(name):
    torch.manual_seed(5)
    module = Module(LAYERS[name])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)
    inputs = [x, torch.randn(BATCH, 7, WIDTH, dtype=torch.float64, requires_grad=True)] if name == "decoder" else [x]
    check(lambda: module(*inputs), [*module.parameters(), *inputs])


def test_gradients_of_an_embedding_equal_finite_differences():
    module = Module(LAYERS["embedding"])
    check(lambda: module(torch.tensor([[1, 3, 1], [6, 0, 3]])), list(module.parameters()))


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_of_a_whole_model_equal_finite_differences(tied):
    model = network(VOCABULARY, length=TOKENS, layers=2, heads=2, width=WIDTH, hidden=5, tied=tied, dtype=np.float64)
    module = Module(model.map(lambda array: array * 10))  # away from the small initial weights
    assert len(list(module.parameters())) == len({id(array) for array in model.parameters().values()})
    check(lambda: module(torch.tensor([[1, 3, 1, 0, 2], [6, 0, 3, 3, 5]])), list(module.parameters()))


def test_a_module_shares_its_parameters_with_the_layer_it_calls():
    module = Module(Transformer.seeded(vocabulary=5, width=4, heads=2, encoders=1, head=5))
    before = module(torch.tensor([1, 2])).detach().clone()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    module(torch.tensor([1, 2])).sum().backward()
    optimiser.step()
    assert not torch.equal(module(torch.tensor([1, 2])), before)
    assert "encoders.0.attention.w_q.weight" in module.state_dict()
