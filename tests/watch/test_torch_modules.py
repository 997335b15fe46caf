"""Plain PyTorch: nn.MultiheadAttention, Transformer modules with their fast path, any call of fused attention."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import regard
from regard.watch.certificate import deviation

CLOSE = {"atol": 2e-6, "rtol": 0}


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention(need_weights, training):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(32, 4, batch_first=True).train(training)
    x = draw(2, 7, 32)
    hidden = torch.zeros(2, 7, dtype=torch.bool)
    hidden[0, 5:] = True
    options = {"key_padding_mask": hidden, "attn_mask": torch.ones(7, 7, dtype=torch.bool).triu(1)}
    expected = model(x, x, x, average_attn_weights=False, **options)
    with regard.watch(model) as seen:
        output, weights = model(x, x, x, need_weights=need_weights, average_attn_weights=False, **options)
    torch.testing.assert_close(output, expected[0], **CLOSE)
    assert (weights is not None) == need_weights
    torch.testing.assert_close(seen.layers[0].attention.dense(), expected[1], **CLOSE)
    real = (~hidden)[:, None, :, None]
    torch.testing.assert_close(seen.layers[0].column_sums(), (expected[1] * real).sum(-2), **CLOSE)


@pytest.mark.parametrize("grad", [True, False])
def test_transformer_encoder_with_its_fast_path(grad):
    """Without gradients PyTorch takes a fused path that skips hooks and fused attention; watching must see it."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 40, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = draw(2, 7, 32)
    with torch.set_grad_enabled(grad):
        plain = model(x)
        with regard.watch(model) as seen:
            watched = model(x)
        with regard.watch(model, keep="summary") as summary:
            model(x)
    torch.testing.assert_close(watched, plain, atol=1e-5, rtol=1e-5)
    assert [layer.name for layer in seen.layers] == ["layers.0.self_attn", "layers.1.self_attn"]
    with torch.no_grad():
        own = model.layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(seen.layers[0].attention.dense(), own, **CLOSE)
    torch.testing.assert_close(summary.layers[1].entropy(), seen.layers[1].attention.entropy(), atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padded_encoder_with_nested_tensors():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 40, batch_first=True), 2).eval()
    x, hidden = draw(2, 7, 32), torch.zeros(2, 7, dtype=torch.bool)
    hidden[1, 4:] = True
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=hidden)
        with regard.watch(model) as seen:
            watched = model(x, src_key_padding_mask=hidden)
    torch.testing.assert_close(watched[~hidden], plain[~hidden], atol=1e-5, rtol=1e-5)
    weights = seen.layers[1].attention.dense()
    assert (weights[1, :, :, 4:] == 0).all() and torch.allclose(weights.sum(-1), torch.ones(()))


def test_transformer_with_encoder_decoder_and_cross_attention():
    torch.manual_seed(0)
    model = nn.Transformer(32, 4, 2, 2, 40, batch_first=True).eval()
    source, target = draw(2, 9, 32), draw(2, 5, 32) + 1
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        plain = model(source, target, tgt_mask=causal, tgt_is_causal=True)
        with regard.watch(model) as seen:
            watched = model(source, target, tgt_mask=causal, tgt_is_causal=True)
    torch.testing.assert_close(watched, plain, atol=1e-5, rtol=1e-5)
    assert seen.encoder[1].attention.shape == (2, 4, 9, 9)
    assert seen.cross[1].attention.shape == (2, 4, 5, 9)
    weights = seen.decoder[1].attention.dense()
    assert (weights.triu(1) == 0).all()


class Block(nn.Module):
    """A home-made layer, as many vision models write it."""

    def __init__(self, causal):
        super().__init__()
        self.qkv, self.proj, self.causal = nn.Linear(32, 96), nn.Linear(32, 32), causal

    def forward(self, x):
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, 4, 8).permute(2, 0, 3, 1, 4)
        x = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=0.5)
        return self.proj(x.transpose(1, 2).reshape(batch, count, width))


@pytest.mark.parametrize("causal", [True, False])
def test_fused_attention_inside_any_module(causal):
    torch.manual_seed(0)
    model = nn.Sequential(Block(causal), nn.GELU(), Block(causal)).eval()
    x = draw(2, 7, 32)
    with torch.no_grad():
        plain = model(x)
        with regard.watch(model) as seen, regard.watch(model, keep=["entropy", "column_sums"]) as summary:
            watched = model(x)
    torch.testing.assert_close(watched, plain, atol=1e-5, rtol=1e-5)
    layer = seen.layers[2]
    attention = layer.attention
    scores = attention.queries @ attention.keys.mT * 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(attention.dense(), scores.softmax(-1), **CLOSE)
    torch.testing.assert_close(summary.layers[2].column_sums(), scores.softmax(-1).sum(-2), **CLOSE)


class Leaf(nn.Module):
    """Attention in a module of its own, without parameters."""

    def forward(self, *given, **options):
        return functional.scaled_dot_product_attention(*given, **options)


class Two(nn.Module):
    """Two calls in one forward, by modules and directly."""

    def __init__(self):
        super().__init__()
        self.one, self.other = Leaf(), Leaf()

    def forward(self, x, y):
        x = self.one(x, y, y) + self.other(x, x, x)
        return functional.scaled_dot_product_attention(x, x, x) + functional.scaled_dot_product_attention(x, y, y)


def test_several_calls_in_one_module_are_several_layers():
    model, x, y = Two(), draw(1, 3, 6, 8), draw(1, 3, 6, 8) + 1
    plain = model(x, y)
    with regard.watch(model) as seen, regard.watch(model) as again:
        assert torch.equal(model(x, y), plain)
    for one in (seen, again):
        assert [layer.name for layer in one] == ["one", "other", "Two", "Two (call 2)"]
        assert all(layer.attention.shape == (1, 3, 6, 6) and len(layer.runs) == 1 for layer in one)
    expected = (x @ y.mT * 8**-0.5).softmax(-1)
    torch.testing.assert_close(next(iter(seen)).attention.dense(), expected, **CLOSE)


@pytest.mark.parametrize(
    ("shape", "mask", "found"),
    [
        ((5, 8), (5, 5), (1, 1, 5, 5)),
        ((3, 5, 8), (3, 5, 5), (3, 1, 5, 5)),
        ((3, 5, 8), (5, 5), (3, 1, 5, 5)),
        ((2, 3, 5, 8), (2, 1, 1, 5), (2, 3, 5, 5)),
        ((2, 4, 3, 5, 8), (2, 1, 1, 5, 5), (8, 3, 5, 5)),
        ((2, 4, 3, 5, 8), (1, 1, 3, 5, 5), (8, 3, 5, 5)),
    ],
)
def test_any_number_of_axes(shape, mask, found):
    x, model = draw(*shape), Leaf()
    visible = draw(*mask) < 1
    plain = model(x, x, x, attn_mask=visible)
    scores = (x @ x.mT * 8**-0.5).masked_fill(~visible, -torch.inf)
    for keep in ("all", "summary"):
        with regard.watch(model, keep=keep) as seen, torch.no_grad():
            torch.testing.assert_close(model(x, x, x, attn_mask=visible), plain, **CLOSE)
        if keep == "all":
            weights = seen.layers[0].attention.dense()
            assert weights.shape == found
            torch.testing.assert_close(weights.reshape(scores.shape), scores.softmax(-1), **CLOSE)


def test_a_home_made_cache():
    """One query at a time with all keys so far: one attention over the text."""
    model, x = Leaf(), draw(1, 2, 9, 8)
    with regard.watch(model) as seen:
        model(x[:, :, :5], x[:, :, :5], x[:, :, :5], is_causal=True)
        for end in range(6, 10):
            model(x[:, :, end - 1 : end], x[:, :, :end], x[:, :, :end])
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(1)
    expected = (x @ x.mT * 8**-0.5).masked_fill(hidden, -torch.inf).softmax(-1)
    torch.testing.assert_close(seen.layers[0].attention.dense(), expected, **CLOSE)


def test_one_query_over_other_keys_is_a_pass_of_its_own():
    model = Leaf()
    with regard.watch(model) as seen:
        for count in (5, 6):
            keys = draw(1, 2, count, 8) * count
            model(draw(1, 2, 1, 8), keys, keys)
    assert seen.layers[0].attention.shape == (1, 2, 1, 6)


def test_a_hugging_face_model_inside_a_module_is_recorded_once():
    from .models import llama, tokens

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.block = llama().model, Block(True)

        def forward(self, ids):
            return self.block(self.inner(ids).last_hidden_state)

    model, ids = Outer().eval(), tokens(1, 6)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    assert sorted(layer.name for layer in seen) == ["block", *(f"inner.layers.{i}.self_attn" for i in range(3))]
    assert all(len(layer.runs[-1].calls) == 1 for layer in seen)


def test_other_models_and_threads_are_not_seen():
    model, other = Block(True).eval(), Block(True).eval()
    x = draw(1, 5, 32)
    with torch.no_grad(), regard.watch(model) as seen:
        model(x)
        other(x)
        functional.scaled_dot_product_attention(x, x, x)
    assert len(list(seen)) == 1 and len(seen.layers[0].runs) == 1


@pytest.mark.parametrize("shape", [(2, 3, 0, 8), (0, 3, 5, 8), (2, 3, 5, 0)])
def test_tensors_without_elements_pass(shape):
    model, x = Leaf(), draw(*shape)
    keys = draw(*shape[:3], 8)
    plain = model(keys, keys, x)
    for keep in ("all", "summary"):
        with regard.watch(model, keep=keep), torch.no_grad():
            assert torch.equal(model(keys, keys, x), plain)


def test_the_attention_functions_of_torch_ops_are_seen_or_named():
    class Operators(nn.Module):
        def forward(self, x):
            x = torch.ops.aten.scaled_dot_product_attention(x, x, x)
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]

    model, x = Operators(), draw(1, 3, 6, 8)
    plain = model(x)
    with regard.watch(model) as seen, torch.no_grad():
        assert torch.equal(model(x), plain)
    assert "1 of 2 attentions recorded; not seen: Operators (it is computed by _scaled_dot_product_flash" in repr(seen)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_runs_and_is_named():
    """It compiles itself as one graph, which watching must not break."""
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, x):
            return functional.scaled_dot_product_attention(x, x, x) + flex_attention(x, x, x)

    model, x = Flex(), draw(1, 2, 8, 16)
    with torch.no_grad():
        plain = model(x)
        with regard.watch(model) as seen:
            torch.testing.assert_close(model(x), plain, **CLOSE)
    assert "1 of 2 attentions recorded; not seen: Flex (it is computed by flex_attention)" in repr(seen)


class FusedAttention(nn.Module):
    """One head of fused attention."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        heads = (layer(x)[:, None] for layer in (self.query, self.key, self.value))
        return functional.scaled_dot_product_attention(*heads)


def test_outputs_that_are_not_finite_are_not_called_reproduced():
    model, x = FusedAttention(), draw(1, 5, 8)
    with regard.watch(model) as seen:
        model(x * torch.nan)
    assert seen.certificate.output is None and "of the outputs used" not in str(seen.certificate)


def test_finite_outputs_where_the_recording_is_not_finite_are_an_error():
    keys, values = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4)
    values[0, 0, 1] = torch.nan
    call: Any = SimpleNamespace(values=values, attention=lambda: regard.Attention(keys, keys))
    assert deviation(call, torch.zeros(1, 1, 3, 4)) == (None, math.inf)
    call.attention = lambda: regard.Attention(keys, keys, mask=regard.causal())
    first = torch.full((1, 1, 3, 4), torch.nan)
    first[0, 0, 0] = 0.0  # sees only key 0: the NaN of key 1 has no part in it
    assert deviation(call, first) == (None, 0.0)
