"""`regard.watch` records a `regard.training.Module` as it records any model."""

import pytest
import torch

import regard
from regard.layers import Encoder, Transformer
from regard.training import Module, network

TOKENS = torch.tensor([[1, 5, 2, 2, 7], [3, 3, 0, 6, 1]])


@pytest.mark.parametrize("gradients", [False, True])
def test_every_layer_of_a_module_is_recorded(gradients):
    model = network(vocabulary=11, length=8, layers=3, heads=2, width=12)
    module = Module(model)
    with torch.set_grad_enabled(gradients):
        plain = module(TOKENS)
        with regard.watch(module) as seen:
            watched = module(TOKENS)
    torch.testing.assert_close(watched, plain, rtol=1e-5, atol=1e-6)
    expected = model.to_torch().run(TOKENS).seen
    assert [layer.name for layer in seen.layers] == [f"encoders.{block}.attention" for block in range(3)]
    for layer, (attention, values) in zip(seen.layers, expected, strict=True):
        torch.testing.assert_close(layer.attention.dense(), attention.dense(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.output.detach(), attention @ values, rtol=1e-5, atol=1e-6)
    assert seen.certificate.is_complete
    assert seen.certificate.recorded == 3


def test_some_layers_and_statistics():
    module = Module(network(vocabulary=11, length=8, layers=3, heads=2, width=12))
    with regard.watch(module, layers=[1], keep="summary") as seen, torch.no_grad():
        module(TOKENS)
    assert [layer.number for layer in seen.layers] == [1]
    assert seen.layers[1].entropy().shape == (2, 2, 5)


def test_windows_and_padding_are_recorded():
    block = Encoder.seeded(12, 3, 20, causal=True)
    module = Module(block)
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    mask = regard.masks.padding([3, 5])
    with regard.watch(module) as seen, torch.no_grad():
        module(x, mask=mask)
    expected = block.to_torch().attention.attention(x, mask=mask).attention
    torch.testing.assert_close(seen.layers[0].attention.dense(), expected.dense(), rtol=1e-5, atol=1e-6)


def test_encoder_and_decoder():
    model = Transformer.seeded(vocabulary=9, width=12, heads=3, encoders=1, decoders=1)
    module = Module(model)
    with regard.watch(module) as seen, torch.no_grad():
        module(TOKENS % 9, TOKENS[:, :3] % 9)
    assert len(seen.cross) == 1
    assert seen.certificate.recorded == 3
