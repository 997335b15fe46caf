"""Hooks on the parts of a `training.Module` fire, and change nothing."""

import pytest
import torch

from regard.layers import Decoder, Encoder, MultiHead
from regard.training import Module, network

TOKENS = torch.tensor([[1, 5, 2, 2, 7], [3, 3, 0, 6, 1]])


@pytest.fixture
def module():
    return Module(network(vocabulary=11, length=8, layers=2, heads=2, width=12))


def test_forward_hooks_fire_on_every_part(module):
    fired = []
    for name, part in module.named_modules():
        part.register_forward_hook(lambda part, inputs, output, name=name: fired.append(name))
    with torch.no_grad():
        module(TOKENS)
    parts = {"attention", "feed_forward", "norm_1", "norm_2", "attention.w_q", "attention.w_k", "attention.w_v"}
    expected = {f"encoders.{block}.{part}" for block in (0, 1) for part in parts}
    assert expected | {"embedding", "norm", "head", "", "encoders.0", "encoders.1"} <= set(fired)
    assert len(fired) == len(set(fired))


def test_hooks_change_neither_outputs_nor_gradients(module):
    plain = module(TOKENS)
    plain.square().sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    module.zero_grad()
    handle = module.get_submodule("encoders.1.attention").register_forward_hook(lambda *_: None)
    observed = module(TOKENS)
    observed.square().sum().backward()
    torch.testing.assert_close(observed, plain, rtol=1e-5, atol=1e-6)  # q, k and v by three products instead of one
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-5)
    handle.remove()
    assert torch.equal(module(TOKENS), plain)


def test_a_hook_can_replace_an_output(module):
    plain = module(TOKENS)
    module.get_submodule("encoders.0.feed_forward").register_forward_hook(lambda part, inputs, output: output + 1)
    assert not torch.allclose(module(TOKENS), plain)


def test_a_module_with_hooks_is_copied_and_its_weights_are_saved(module, tmp_path):
    from copy import deepcopy

    module.get_submodule("encoders.0").register_forward_hook(print_nothing)
    copy = deepcopy(module)
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    for other in (copy, loaded):
        assert torch.equal(other(TOKENS), module(TOKENS))


def print_nothing(part, inputs, output):
    """At module level, so that it can be pickled."""


@pytest.mark.parametrize("layer", [MultiHead.seeded(12, 3), Encoder.seeded(12, 3, 20), Decoder.seeded(12, 3, 20)])
def test_layers_by_themselves(layer):
    module, fired = Module(layer), []
    for name, part in module.named_modules():
        part.register_forward_hook(lambda part, inputs, output, name=name: fired.append(name))
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    inputs = (x, x[:, :3]) if isinstance(layer, Decoder) else (x,)
    expected = layer.to_torch()(*inputs)
    torch.testing.assert_close(module(*inputs), expected, rtol=1e-5, atol=1e-6)
    assert "" in fired
    assert any(name.endswith("w_o") for name in fired)
