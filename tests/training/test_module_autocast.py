"""`training.Module` inside torch.autocast computes as PyTorch's modules do."""

import pytest
import torch

from regard.layers import Encoder, Linear
from regard.training import Module


def test_a_linear_layer_gives_the_type_values_and_gradients_of_pytorch():
    ours, theirs = Module(Linear.seeded(7, 5, seed=3)), torch.nn.Linear(7, 5)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(11, 7, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = ours(x), theirs(x)
    assert found.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0.03)  # 8 bits
    for module, output in ((ours, found), (theirs, expected)):
        output.float().square().sum().backward()
        assert module.weight.grad.dtype == torch.float32
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, atol=0.5, rtol=0.05)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_computes_in_the_type_of_autocast(norm_first):
    module = Module(Encoder.seeded(16, 4, 24, norm_first=norm_first, causal=True))
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1))
    expected = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = module(x)
    assert found.dtype == torch.bfloat16 and expected.dtype == torch.float32
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.1)
    found.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in module.parameters())
