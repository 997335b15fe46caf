"""Multi-head attention, encoder and decoder blocks equal PyTorch, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from regard import errors
from regard.layers import Decoder, Encoder, Layer, MultiHead
from regard.masks import allowed, causal, padding

torch = pytest.importorskip("torch")
nn = torch.nn

Draw = Callable[..., Any]
BATCH, TOKEN, MEMORY, WIDTH, HEADS, HIDDEN = 2, 5, 7, 12, 3, 17

# Another order of summation, of a few dozen terms of order one.
CLOSE = {"float64": 1e-12, "float32": 2e-6}
TYPES = ("float64", "float32")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(11)


def spread(module: Any) -> Any:
    """The module with biases and norms that are not zeros and ones, so that none can be ignored unnoticed."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module.eval()


def same(found: Any, expected: Any, dtype: str) -> None:
    found = found.detach().numpy() if isinstance(found, torch.Tensor) else found
    assert found.dtype == np.dtype(dtype)
    assert_allclose(found, expected.detach().numpy(), rtol=0, atol=CLOSE[dtype])


def on_both(layer: Layer, dtype: str, expected: Any, *inputs: Any, **options: Any) -> None:
    """NumPy arrays, tensors without gradients and tensors with gradients all give the expected result."""
    same(layer.to_numpy()(*(x.numpy() for x in inputs), **options), expected, dtype)  # type: ignore[operator]
    same(layer(*inputs, **options), expected, dtype)  # type: ignore[operator]
    with torch.no_grad():
        same(layer(*inputs, **options), expected, dtype)  # type: ignore[operator]


def tensors(draw: Draw, dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    return [torch.from_numpy(draw(*shape, dtype=dtype)) for shape in shapes]


def gradients(module: Any, result: Any, flow: Any) -> dict[str, Any]:
    module.zero_grad()
    result.backward(flow)
    return {name: parameter.grad.numpy().copy() for name, parameter in module.named_parameters()}


def same_gradients(module: Any, ours: Any, theirs: Any, dtype: str) -> None:
    """Every parameter of the module gets the same gradient both ways."""
    flow = torch.randn_like(theirs)
    expected, found = gradients(module, theirs, flow), gradients(module, ours, flow)
    for name, gradient in expected.items():
        # Sums over all tokens, and through two norms: a few times what one value may differ by.
        assert_allclose(found[name], gradient, rtol=0, atol=20 * CLOSE[dtype], err_msg=name)


# Multi-head attention


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_equals_torch(draw: Draw, dtype: str, bias: bool) -> None:
    module = spread(nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True, dtype=getattr(torch, dtype)))
    (x,) = tensors(draw, dtype, (BATCH, TOKEN, WIDTH))
    layer = MultiHead.from_torch(module)
    expected, weights = module(x, x, x, average_attn_weights=False)
    on_both(layer, dtype, expected, x)
    same_gradients(module, layer(x), expected, dtype)
    same(layer.attention(x).attention.dense(), weights, dtype)
    expected, _ = module(x[0], x[0], x[0])
    on_both(layer, dtype, expected, x[0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("context_width", [WIDTH, 7])
def test_cross_attention_equals_torch(draw: Draw, dtype: str, context_width: int) -> None:
    options = {"kdim": context_width, "vdim": context_width, "batch_first": True, "dtype": getattr(torch, dtype)}
    module = spread(nn.MultiheadAttention(WIDTH, HEADS, **options))
    x, context = tensors(draw, dtype, (BATCH, TOKEN, WIDTH), (BATCH, MEMORY, context_width))
    layer = MultiHead.from_torch(module)
    expected, _ = module(x, context, context)
    on_both(layer, dtype, expected, x, context)
    same_gradients(module, layer(x, context), expected, dtype)


def test_masked_multi_head_equals_torch(draw: Draw) -> None:
    module = spread(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64))
    (x,) = tensors(draw, "float64", (BATCH, TOKEN, WIDTH))
    layer = MultiHead.from_torch(module)
    counts = [5, 3]
    hidden = torch.arange(TOKEN) >= torch.tensor(counts)[:, None]
    expected, _ = module(x, x, x, key_padding_mask=hidden)
    on_both(layer, "float64", expected, x, mask=padding(counts))
    later = torch.ones(TOKEN, TOKEN, dtype=torch.bool).triu(1)
    expected, _ = module(x, x, x, attn_mask=later)
    on_both(layer, "float64", expected, x, mask=causal())
    on_both(MultiHead.from_torch(module, causal=True), "float64", expected, x)
    seen = draw(TOKEN, TOKEN) > -0.5
    seen |= np.eye(TOKEN, dtype=bool)
    expected, _ = module(x, x, x, attn_mask=torch.from_numpy(~seen))
    on_both(layer, "float64", expected, x, mask=allowed(seen))


def test_unsupported_options_of_torch_are_refused() -> None:
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 5, "vdim": 7}):
        with pytest.raises(errors.Unsupported):
            MultiHead.from_torch(nn.MultiheadAttention(WIDTH, HEADS, **options))


# Blocks


def of_block(dtype: str, **options: Any) -> dict[str, Any]:
    return {"dim_feedforward": HIDDEN, "batch_first": True, "dtype": getattr(torch, dtype), **options}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_equals_torch(draw: Draw, dtype: str, norm_first: bool, activation: str) -> None:
    options = of_block(dtype, norm_first=norm_first, activation=activation)
    module = spread(nn.TransformerEncoderLayer(WIDTH, HEADS, **options))
    (x,) = tensors(draw, dtype, (BATCH, TOKEN, WIDTH))
    layer = Encoder.from_torch(module)
    expected = module(x)  # with gradients enabled, it takes its plain path
    on_both(layer, dtype, expected, x)
    same_gradients(module, layer(x), expected, dtype)
    hidden = torch.arange(TOKEN) >= torch.tensor([4, 5])[:, None]
    on_both(layer, dtype, module(x, src_key_padding_mask=hidden), x, mask=padding([4, 5]))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoder_equals_torch(draw: Draw, dtype: str, norm_first: bool, activation: str) -> None:
    options = of_block(dtype, norm_first=norm_first, activation=activation)
    module = spread(nn.TransformerDecoderLayer(WIDTH, HEADS, **options))
    x, memory = tensors(draw, dtype, (BATCH, TOKEN, WIDTH), (BATCH, MEMORY, WIDTH))
    later = torch.ones(TOKEN, TOKEN, dtype=torch.bool).triu(1)
    hidden = torch.arange(MEMORY) >= torch.tensor([4, 6])[:, None]
    layer = Decoder.from_torch(module)
    expected = module(x, memory, tgt_mask=later, memory_key_padding_mask=hidden)
    on_both(layer, dtype, expected, x, memory, memory_mask=padding([4, 6]))
    same_gradients(module, layer(x, memory, memory_mask=padding([4, 6])), expected, dtype)
    on_both(Decoder.from_torch(module, causal=False), dtype, module(x, memory), x, memory)


@pytest.mark.parametrize(
    "activation", [nn.GELU(approximate="tanh"), nn.SiLU(), nn.functional.silu, torch.relu, nn.Tanh()]
)
def test_activations_are_known_by_function_and_module(draw: Draw, activation: Any) -> None:
    module = spread(nn.TransformerEncoderLayer(WIDTH, HEADS, **of_block("float64", activation=activation, bias=False)))
    (x,) = tensors(draw, "float64", (BATCH, TOKEN, WIDTH))
    on_both(Encoder.from_torch(module), "float64", module(x), x)


def test_an_unknown_activation_is_refused() -> None:
    module = nn.TransformerEncoderLayer(WIDTH, HEADS, activation=torch.sigmoid)
    with pytest.raises(errors.OptionError, match="activation"):
        Encoder.from_torch(module)


def test_gradients_reach_inputs_and_weights(draw: Draw) -> None:
    module = spread(nn.TransformerEncoderLayer(WIDTH, HEADS, **of_block("float64")))
    (x,) = tensors(draw, "float64", (BATCH, TOKEN, WIDTH))
    x.requires_grad_()
    (expected,) = torch.autograd.grad(module(x).square().sum(), x)
    layer = Encoder.from_torch(module).to_numpy().to_torch(gradients=True)
    (found,) = torch.autograd.grad(layer(x).square().sum(), x)
    assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-11)
    layer(x).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters().values())


def test_layers_compile_in_one_graph(draw: Draw) -> None:
    layer = Encoder.seeded(WIDTH, HEADS, HIDDEN, dtype=torch.float64)
    (x,) = tensors(draw, "float64", (BATCH, TOKEN, WIDTH))
    compiled = torch.compile(lambda x: layer(x), fullgraph=True, backend="eager")
    assert_allclose(compiled(x).numpy(), layer(x).numpy(), rtol=0, atol=1e-12)
