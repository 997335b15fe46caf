"""Attention in a module's own code is recognised, verified, and reported by name where it is not."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import regard
from regard.watch.recogniser import RECOGNISED

from .models import tokens
from .test_support import SMALL, made

CLOSE = {"atol": 2e-6, "rtol": 0}
GPT = {"vocab_size": 67, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64}
OWN_CODE: dict[str, dict[str, Any]] = {
    "gptj": GPT,
    "codegen": GPT,
    "gpt_neo": {
        "vocab_size": 67, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4, "intermediate_size": 40,
        "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64,
    },
    "mpt": {"vocab_size": 67, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "bloom": {"vocab_size": 67, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "roformer": SMALL,
    "deberta": {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {**SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "mpnet": SMALL,
    "xlnet": {"vocab_size": 67, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 40},
    "falcon": {"vocab_size": 67, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True},
}  # fmt: skip


def draw(*shape, seed=7):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def widen(model):
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize("kind", OWN_CODE)
def test_models_with_attention_in_their_own_code_are_seen(kind):
    model, ids = widen(made(kind, OWN_CODE[kind])), tokens(2, 11)
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    with torch.no_grad():
        plain = model(ids, attention_mask=mask, output_attentions=True)
        with regard.watch(model) as seen:
            watched = model(ids, attention_mask=mask, output_attentions=True)
        with regard.watch(model, keep="summary") as summary:
            model(ids, attention_mask=mask, output_attentions=True)
    assert torch.equal(plain[0], watched[0])
    assert len(list(seen)) == 2
    for layer, few, weights in zip(seen, summary, plain.attentions, strict=True):
        torch.testing.assert_close(layer.attention.dense(), weights, **CLOSE)
        torch.testing.assert_close(layer.attention @ layer.values, layer.output, atol=1e-5, rtol=0)
        torch.testing.assert_close(few.peak(), weights.amax(-1), **CLOSE)
        assert layer.is_recognised and "n²" in repr(layer)
    certificate = seen.certificate
    assert certificate.is_complete and (certificate.ran, certificate.recorded, certificate.recognised) == (2, 2, 2)
    assert certificate.output is not None and certificate.output < 1e-5
    assert "2 of 2 attentions recorded" in repr(seen)
    assert RECOGNISED in seen.statistics().notes


IMAGE = {"image_size": 16, "patch_size": 4, "num_channels": 3}


@pytest.mark.parametrize("kind", ["swin", "swinv2"])
def test_windows_of_an_image_are_seen(kind):
    options = {**IMAGE, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 2}
    model = widen(made(kind, options))
    model.config._attn_implementation = "eager"
    with torch.no_grad(), regard.watch(model) as seen:
        out = model(draw(2, 3, 16, 16))
        plain = model(draw(2, 3, 16, 16))
    assert torch.equal(out[0], plain[0])
    certificate = seen.certificate
    assert len(list(seen)) == 3 and certificate.is_complete
    assert certificate.output is not None and certificate.output < 1e-5
    for layer in seen:
        torch.testing.assert_close(layer.attention @ layer.values, layer.output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gptj", "bloom", "mpt"])
def test_generated_tokens_are_one_attention(kind):
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    config = AutoConfig.for_model(kind, **OWN_CODE[kind], eos_token_id=None, pad_token_id=0, bos_token_id=1)
    model, ids = widen(AutoModelForCausalLM.from_config(config).eval()), tokens(1, 6)
    with regard.watch(model) as seen:
        written = model.generate(ids, max_new_tokens=4, do_sample=False)
    with torch.no_grad():
        expected = model(written[:, :-1], output_attentions=True).attentions
    for layer, weights in zip(seen, expected, strict=True):
        torch.testing.assert_close(layer.attention.dense(), weights, atol=5e-6, rtol=0)


# Home-made modules: every spelling of the same attention


def by_matmul(q, k, v):
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 8**0.5, dim=-1), v)


def by_operators(q, k, v):
    scores = q @ k.mT
    scores *= 8**-0.5
    return functional.dropout(scores.softmax(-1), 0.1, training=False) @ v


def by_einsum(q, k, v):
    scores = torch.einsum("...qd,...kd->...qk", q * 8**-0.5, k)
    return torch.einsum("bhqk,bhkd->bhqd", nn.Softmax(dim=3)(scores), v)


def by_bmm(q, k, v):
    batch, heads, count, _ = q.shape
    q, k, v = (one.reshape(batch * heads, count, -1) for one in (q, k, v))
    scores = torch.baddbmm(torch.zeros(1, 1, count), q, k.transpose(1, 2), alpha=8**-0.5)
    weights = functional.softmax(scores.view(batch, heads, count, count), dim=-1, dtype=torch.float32)
    return torch.bmm(weights.view(batch * heads, count, count), v).view(batch, heads, count, -1)


def by_values_on_the_left(q, k, v):
    weights = (q @ k.mT * 8**-0.5).softmax(-1)
    return (v.mT @ weights.mT).mT


def with_a_cap(q, k, v):
    return (torch.tanh(q @ k.mT * 8**-0.5 / 2) * 2).softmax(-1) @ v


def masked(q, k, v):
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
    return (q @ k.mT * 8**-0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v


def with_a_bias(q, k, v):
    bias = torch.arange(k.shape[2]) * 0.3 - 1
    return (q @ k.mT * 8**-0.5 + bias).softmax(-1) @ v


def by_exponentials(q, k, v):
    scores = q @ k.mT * 8**-0.5
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (weights / weights.sum(-1, keepdim=True)) @ v


def by_logarithms(q, k, v):
    return functional.log_softmax(q @ k.mT * 8**-0.5, dim=-1).exp() @ v


def by_softmin(q, k, v):
    return functional.softmin(q @ k.mT * -(8**-0.5), dim=-1) @ v


def by_operators_of_aten(q, k, v):
    scores = torch.ops.aten.mul.Tensor(torch.ops.aten.matmul.default(q, k.mT), 8**-0.5)
    return torch.ops.aten.matmul(torch.ops.aten._softmax.default(scores, -1, False), v)


def copied(q, k, v):
    scores = q @ k.mT * 8**-0.5
    weights = torch.empty_like(scores)
    weights.copy_(scores.softmax(-1))
    return weights @ v


SPELLINGS = [
    by_matmul, by_operators, by_einsum, by_bmm, by_values_on_the_left, with_a_cap, masked, with_a_bias, by_exponentials,
    by_logarithms, by_softmin, by_operators_of_aten, copied,
]  # fmt: skip
WITHOUT_QUERIES = {with_a_cap, by_logarithms}  # recorded by their logits


class Own(nn.Module):
    """One layer with attention by some function of q, k and v."""

    def __init__(self, attend):
        super().__init__()
        torch.manual_seed(4)
        self.qkv, self.attend = nn.Linear(32, 96), attend

    def forward(self, x):
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return self.attend(q * 3, k, v).transpose(1, 2).reshape(batch, count, width)


@pytest.mark.parametrize("attend", SPELLINGS)
@pytest.mark.parametrize("grad", [True, False])
def test_every_spelling_of_attention_is_recognised(attend, grad):
    model, x = nn.Sequential(Own(attend), nn.GELU(), Own(attend)).eval(), draw(2, 7, 32)
    identity = torch.eye(7).expand(2, 4, 7, 7)
    q, k, _ = model[0].qkv(x).reshape(2, 7, 3, 4, 8).permute(2, 0, 3, 1, 4)
    expected = attend(q * 3, k, identity).detach()  # the weights themselves
    with torch.set_grad_enabled(grad):
        plain = model(x)
        with regard.watch(model) as seen:
            assert torch.equal(model(x), plain)
    assert [layer.name for layer in seen.layers] == ["0", "2"]
    attention = seen.layers[0].attention
    torch.testing.assert_close(attention.dense().detach(), expected, **CLOSE)
    torch.testing.assert_close(attention @ seen.layers[0].values, seen.layers[0].output, atol=1e-5, rtol=0)
    assert seen.certificate.is_complete and seen.certificate.recorded == 2
    # Queries and keys are the model's own unless something else than scale, mask and bias was between.
    assert (attention.queries.shape[-1] == 8) == (attend not in WITHOUT_QUERIES)


def test_recognised_attention_without_a_dense_mask_is_kept_in_memory_that_grows_with_tokens_only():
    model = Own(by_matmul).eval()
    kept = []
    for count in (16, 64):
        with torch.no_grad(), regard.watch(model) as seen:
            model(draw(1, count, 32))
        kept.append(seen.memory)
    assert kept[1] == 4 * kept[0]


def test_training_with_dropout_shows_recognised_weights_before_dropout():
    model = Own(lambda q, k, v: functional.dropout((q @ k.mT).softmax(-1), 0.5) @ v)
    with regard.watch(model) as seen:
        model(draw(1, 6, 32))
    torch.testing.assert_close(seen.layers[0].attention.dense().sum(-1), torch.ones(1, 4, 6))
    assert any("before dropout" in note for note in seen.statistics().notes)


# What is not seen is said


def talking_heads(q, k, v):
    weights = (q @ k.mT).softmax(-1)
    return weights.flip(1) @ v


def sharpened(q, k, v):
    weights = (q @ k.mT).softmax(-1) ** 2
    return (weights / weights.sum(-1, keepdim=True)) @ v


def summed(q, k, v):
    return ((q @ k.mT).softmax(-1)[..., None] * v[:, :, None]).sum(-2)


def over_queries(q, k, v):
    return (q @ k.mT).softmax(-2) @ v


def assigned(q, k, v):
    """GroupViT: each key goes to one query, with the gradient of a softmax."""
    scores = q @ k.mT
    soft = scores.softmax(-2)
    hard = torch.zeros_like(scores).scatter_(-2, soft.max(-2, keepdim=True)[1], 1.0)
    weights = hard - soft.detach() + soft
    return (weights / (weights.sum(-1, keepdim=True) + 1)) @ v


def in_pieces(q, k, v):
    return torch.cat([part @ v for part in (q @ k.mT).softmax(-1).split(3, 2)], 2)


def of_the_strongest(q, k, v):
    weights, place = (q @ k.mT).topk(3, -1)
    place = place[..., None].expand(-1, -1, -1, -1, v.shape[-1])
    values = v[:, :, None].expand(-1, -1, q.shape[2], -1, -1).gather(3, place)
    return (weights.softmax(-1).unsqueeze(3) @ values).squeeze(3)


def divided_afterwards(q, k, v):
    weights = (q @ k.mT).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True)


def in_one_operator(q, k, v):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]


HIDDEN = [
    talking_heads, sharpened, summed, over_queries, assigned, in_pieces, of_the_strongest, divided_afterwards,
    in_one_operator,
]  # fmt: skip


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_hidden_attention_changes_the_certificate_and_is_named(hidden):
    model, x = nn.Sequential(Own(by_matmul), Own(hidden)).eval(), draw(2, 7, 32)
    with torch.no_grad():
        plain = model(x)
        with regard.watch(model) as seen:
            assert torch.equal(model(x), plain)
    certificate = seen.certificate
    assert (certificate.ran, certificate.recorded, dict(certificate.unseen)) == (2, 1, {"1": 1})
    assert not certificate.is_complete
    assert "1 of 2 attentions recorded; not seen: 1 (" in repr(seen)
    assert any("Not all attention was seen: 1 (" in note for note in seen.statistics().notes)


class TalkingHeads(nn.Module):
    """CaiT: linear layers mix the heads before and after the softmax."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, q, k, v):
        scores = self.before((q @ k.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.after(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v


def test_heads_that_are_mixed_by_layers_are_named():
    model = nn.Sequential(Own(by_matmul), Own(TalkingHeads())).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model(draw(2, 7, 32))
    assert dict(seen.certificate.unseen) == {"1.attend": 1}


def similarities(q, k, v):
    """Probabilities that no values are weighted with: those of a loss, and of a matching by two softmaxes."""
    scores = q @ k.mT
    q.mean().add(-(scores.softmax(-1) + 1e-6).log().mean() + (scores.softmax(-1) * scores.softmax(-2)).max())
    return functional.scaled_dot_product_attention(q, k, v)


def test_a_softmax_without_values_is_not_an_attention():
    with torch.no_grad(), regard.watch(Own(similarities).eval()) as seen:
        seen._model(draw(2, 7, 32))
    assert seen.certificate.is_complete and seen.certificate.ran == 1


def test_a_scripted_module_is_named_as_one_that_cannot_be_seen():
    class Scripted(nn.Module):
        def forward(self, x):
            return torch.matmul(torch.softmax(torch.matmul(x, x.transpose(-1, -2)), -1), x)

    model = nn.Sequential(Own(by_matmul), torch.jit.trace(Scripted(), draw(2, 7, 32))).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model(draw(2, 7, 32))
    assert not seen.certificate.is_complete and "1 is a TorchScript module" in repr(seen)


@pytest.mark.parametrize("between", [lambda scores: scores, lambda scores: (scores.float() / 0.7).view(2, 7, 5)])
def test_a_router_is_not_an_attention(between):
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.attend = nn.Linear(32, 5), Own(by_matmul)

        def forward(self, x):
            weights = between(self.gate(x)).softmax(-1)
            return self.attend(x) * weights.topk(2).values.sum(-1, keepdim=True) + weights @ x[:, :5]

    with torch.no_grad(), regard.watch(Router().eval()) as seen:
        seen._model(draw(2, 7, 32))
    assert seen.certificate.is_complete and seen.certificate.ran == 1


@pytest.mark.parametrize("attend", [by_matmul, with_a_cap, sharpened])
def test_scores_and_weights_are_not_held_after_the_model_has_dropped_them(attend):
    from regard.watch.torch_calls import MODES

    model = nn.Sequential(Own(by_matmul), Own(attend)).eval()
    with torch.no_grad(), regard.watch(model, keep="summary"):
        model(draw(2, 7, 32))
        assert not MODES.mode.recogniser.tags


def test_weights_that_nothing_reads_are_not_an_attention():
    def unused(q, k, v):
        _ = (q @ k.mT).softmax(-1).to(q.dtype)
        return functional.scaled_dot_product_attention(q, k, v)

    with torch.no_grad(), regard.watch(Own(unused).eval()) as seen:
        seen._model(draw(2, 7, 32))
    assert seen.certificate.is_complete and seen.certificate.ran == 1


def test_all_ways_to_compute_attention_in_one_model_are_counted_once():
    from .models import llama
    from .test_torch_modules import Block

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.fused, self.own = llama().model, Block(True), Own(by_einsum)
            self.pool, self.probe = nn.MultiheadAttention(32, 4, batch_first=True), nn.Parameter(torch.ones(1, 1, 32))

        def forward(self, ids):
            x = self.own(self.fused(self.inner(ids).last_hidden_state))
            return self.pool(self.probe, x, x)[0]

    model, ids = Mixed().eval(), tokens(1, 6)
    for implementation in ("sdpa", "eager"):
        model.inner.set_attn_implementation(implementation)
        with torch.no_grad(), regard.watch(model) as seen:
            model(ids)
        assert (seen.certificate.ran, seen.certificate.recorded) == (6, 6)
        names = [layer.name for layer in seen]
        assert names == [*(f"inner.layers.{number}.self_attn" for number in range(3)), "fused", "own", "pool"]
        assert [layer.name for layer in seen.cross] == ["pool"]


def test_layers_that_were_not_chosen_are_counted_apart():
    model = nn.Sequential(Own(by_matmul), Own(by_einsum)).eval()
    with torch.no_grad(), regard.watch(model, layers=[1]) as seen:
        model(draw(1, 5, 32))
    certificate = seen.certificate
    assert (certificate.ran, certificate.recorded, certificate.unchosen) == (2, 1, 1) and certificate.is_complete


# Cross-attention by what it is


class Attn(nn.Module):
    """An attention block as diffusion models name it: the same class for both kinds."""

    def __init__(self, attend):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.attend = attend

    def forward(self, hidden_states, encoder_hidden_states=None):
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q, k, v = self.to_q(hidden_states), self.to_k(source), self.to_v(source)
        q, k, v = (one.unflatten(-1, (4, 8)).transpose(1, 2) for one in (q, k, v))
        return self.attend(q, k, v).transpose(1, 2).flatten(2)


class UNetBlock(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attn1, self.attn2 = Attn(attend), Attn(attend)

    def forward(self, x, context):
        x = x + self.attn1(x)
        return x + self.attn2(x, encoder_hidden_states=context)


@pytest.mark.parametrize("attend", [functional.scaled_dot_product_attention, by_matmul])
@pytest.mark.parametrize("keys", [9, 5])
def test_cross_attention_is_told_by_where_keys_come_from(attend, keys):
    model = nn.ModuleDict({"block": UNetBlock(attend)}).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model["block"](draw(2, 9, 32), draw(2, keys, 32, seed=8))
    assert [layer.name for layer in seen.layers] == ["block.attn1"]
    assert [layer.name for layer in seen.cross] == ["block.attn2"]


# Several passes in one forward


def test_all_passes_of_one_forward_are_kept_and_said():
    from .folders import bert

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = bert()

        def forward(self, one, other):
            return self.encoder(one).last_hidden_state[:, 0] - self.encoder(other).last_hidden_state[:, 0]

    model, one, other = Siamese(), tokens(1, 5), tokens(2, 7, seed=6)
    with torch.no_grad(), regard.watch(model) as seen:
        for _ in range(2):
            model(one, other)
    assert [run.layers[0].attention.shape for run in seen.runs] == [(1, 4, 5, 5), (2, 4, 7, 7)]
    assert "the last 2 of 4 passes" in repr(seen)
    assert seen.layers[1].attention.shape == (2, 4, 7, 7)
    first, second = (run.statistics()["entropy"] for run in seen.runs)
    expected = [(a * 5 + b * 14) / 19 for a, b in zip(first, second, strict=True)]
    assert seen.statistics()["entropy"] == pytest.approx(expected)
    assert "Means over 2 passes." in seen.statistics().notes


def test_attentions_are_shaped_as_transformers_shapes_them():
    from .models import eager_weights, llama

    model, ids = llama(), tokens(2, 6)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    expected = eager_weights(model, input_ids=ids).attentions
    assert isinstance(seen.attentions, tuple)
    for weights, truth in zip(seen.attentions, expected, strict=True):
        torch.testing.assert_close(weights, truth, **CLOSE)
    assert "<table" in seen._repr_html_() and "3 of 3 attentions" in seen._repr_html_()


def test_a_bias_added_in_other_axes_than_query_and_key_is_seen():
    """SegGPT adds a bias by rows and one by columns of the image to scores of five axes."""

    class Decomposed(nn.Module):
        num_heads = 2

        def __init__(self):
            super().__init__()
            self.projection = nn.Linear(8, 24)

        def forward(self, states):
            batch, height, width, _ = states.shape
            queries, keys, values = (
                self.projection(states).reshape(batch, height * width, 3, 2, 4).permute(2, 0, 3, 1, 4)
            )
            queries, keys, values = (one.reshape(batch * 2, height * width, 4) for one in (queries, keys, values))
            scores = (queries @ keys.mT).reshape(-1, height, width, height, width)
            scores = scores + draw(2 * batch, height, width, height, 1) + draw(2 * batch, height, width, 1, width)
            return functional.softmax(scores.reshape(-1, height * width, height * width), -1) @ values

    model, states = widen(Decomposed()), draw(3, 2, 5, 8, seed=2)
    with torch.no_grad():
        plain = model(states)
        with regard.watch(model) as seen:
            assert torch.equal(model(states), plain)
    (layer,) = seen
    assert seen.certificate.is_complete
    output = (layer.attention.dense() @ layer.values).reshape(6, 10, 4)
    torch.testing.assert_close(output, plain, atol=1e-5, rtol=0)
