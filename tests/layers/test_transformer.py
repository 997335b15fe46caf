"""Stacks of blocks: equal to PyTorch, token by token equal to all at once, with every state and attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from regard import errors
from regard.layers import (
    Decoder,
    Embedding,
    Encoder,
    FeedForward,
    Heads,
    Linear,
    MultiHead,
    RMSNorm,
    Rotary,
    Transformer,
)
from regard.layers.norms import LayerNorm
from regard.masks import padding

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 0, "atol": 1e-12}  # float64, another order of summation
VOCABULARY, WIDTH, HEADS, HIDDEN = 11, 12, 3, 17


def llama(layers: int) -> Transformer:
    """Decoders only: rotary positions, grouped queries, RMS norms, SwiGLU, norms of queries and keys, a tied head."""

    def block(place: int) -> Decoder:
        attention = MultiHead.seeded(
            WIDTH, HEADS, kv_heads=1, bias=False, causal=True, rotary=Rotary(4), seed=place, dtype=np.float64
        )
        head_norm = RMSNorm.seeded(4, dtype=np.float64)
        return Decoder(
            replace(attention, q_norm=head_norm, k_norm=head_norm),
            None,
            FeedForward.seeded(WIDTH, HIDDEN, activation="silu", gated=True, bias=False, seed=place, dtype=np.float64),
            RMSNorm.seeded(WIDTH, dtype=np.float64),
            None,
            RMSNorm.seeded(WIDTH, dtype=np.float64),
            norm_first=True,
        )

    embedding = Embedding.seeded(VOCABULARY, WIDTH, dtype=np.float64)
    norm = RMSNorm.seeded(WIDTH, dtype=np.float64)
    blocks = tuple(block(place) for place in range(layers))
    return Transformer(embedding, decoders=blocks, norm=norm, head=Linear(embedding.weight))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", None])
def test_token_by_token_equals_all_at_once(positions: Any) -> None:
    options: Any = {"decoders": 2, "head": VOCABULARY, "norm_first": True, "dtype": np.float64}
    model = Transformer.seeded(VOCABULARY, WIDTH, HEADS, HIDDEN, positions=positions, **options)
    tokens = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    caches = model.caches()
    parts = [model(tokens[:, :2], caches=caches), *(model(tokens[:, [place]], caches=caches) for place in (2, 3, 4))]
    assert_allclose(np.concatenate(parts, axis=1), model(tokens), **CLOSE)
    assert model(tokens).shape == (2, 5, VOCABULARY)


def test_a_llama_like_model_decodes_with_a_cache() -> None:
    model, tokens = llama(2), [3, 1, 4, 1, 5]
    caches = model.caches()
    parts = [model(tokens[:3], caches=caches), model(tokens[3:4], caches=caches), model(tokens[4:], caches=caches)]
    assert_allclose(np.concatenate(parts), model(tokens), **CLOSE)


def test_padding_on_the_left_changes_nothing() -> None:
    options: dict[str, Any] = {"decoders": 2, "positions": "learned", "dtype": np.float64}
    model = Transformer.seeded(VOCABULARY, WIDTH, HEADS, HIDDEN, **options)
    padded = model([[0, 0, 4, 1, 5], [9, 2, 6, 5, 3]], positions=[-2, 0], mask=padding([3, 5], side="left"))
    assert_allclose(padded[0, 2:], model([4, 1, 5]), **CLOSE)
    assert_allclose(padded[1], model([9, 2, 6, 5, 3]), **CLOSE)


def test_later_tokens_have_no_influence_on_earlier_ones() -> None:
    model = llama(2)
    assert_array_equal(model([3, 1, 4, 1, 5])[:3], model([3, 1, 4, 9, 9])[:3])


def test_numpy_and_torch_agree() -> None:
    pytest.importorskip("torch")
    both = Transformer.seeded(VOCABULARY, WIDTH, HEADS, HIDDEN, encoders=2, decoders=2, dtype=np.float64)
    for model, inputs in ((llama(2), ([3, 1, 4],)), (both, ([[3, 1, 4]], [[1, 5]]))):
        tensors = model.to_torch(gradients=True)
        result = tensors(*inputs)
        assert_allclose(result.detach().numpy(), model(*inputs), **CLOSE)
        result.square().sum().backward()
        assert all(parameter.grad is not None for parameter in tensors.parameters().values())


def test_stacks_equal_torch(draw: Draw) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(5)
    options = {"dim_feedforward": HIDDEN, "batch_first": True, "dtype": torch.float64, "norm_first": True}
    blocks = nn.TransformerEncoderLayer(WIDTH, HEADS, **options), nn.TransformerDecoderLayer(WIDTH, HEADS, **options)
    norms = nn.LayerNorm(WIDTH, dtype=torch.float64), nn.LayerNorm(WIDTH, dtype=torch.float64)
    peer = nn.Transformer(
        WIDTH,
        HEADS,
        batch_first=True,
        custom_encoder=nn.TransformerEncoder(blocks[0], 2, norms[0], enable_nested_tensor=False),
        custom_decoder=nn.TransformerDecoder(blocks[1], 3, norms[1]),
    ).eval()
    embedding = Embedding(torch.from_numpy(draw(VOCABULARY, WIDTH)))
    model = Transformer(
        embedding,
        encoders=tuple(Encoder.from_torch(layer) for layer in peer.encoder.layers),
        decoders=tuple(Decoder.from_torch(layer) for layer in peer.decoder.layers),
        norm=LayerNorm.from_torch(peer.decoder.norm),
        memory_norm=LayerNorm.from_torch(peer.encoder.norm),
    )
    tokens, targets = [[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], [[5, 8, 9], [7, 9, 3]]
    hidden = torch.arange(5) >= torch.tensor([5, 3])[:, None]
    expected = peer(
        embedding(tokens),
        embedding(targets),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
        tgt_mask=torch.ones(3, 3, dtype=torch.bool).triu(1),
    )
    found = model(tokens, targets, mask=padding([5, 3]), memory_mask=padding([5, 3]))
    assert_allclose(found.detach().numpy(), expected.detach().numpy(), **CLOSE)


def test_a_run_keeps_every_state_and_attention() -> None:
    model = Transformer.seeded(VOCABULARY, WIDTH, HEADS, HIDDEN, encoders=2, decoders=2, dtype=np.float64)
    run = model.run([3, 1, 4, 1, 5], [9, 2])
    assert [state.shape[0] for state in run.states] == [5, 5, 5, 2, 2, 2]
    shapes = [seen.attention.shape for seen in run.seen]
    assert shapes == [(3, 5, 5), (3, 5, 5), (3, 2, 2), (3, 2, 5), (3, 2, 2), (3, 2, 5)]
    assert_array_equal(run.states[-1], run.result)  # post-norm blocks: nothing comes after
    again = model.run([3, 1, 4, 1, 5], [9, 2], memory=run.states[2])
    assert_allclose(again.result, run.result, **CLOSE)
    first = model.encoders[0].attention
    assert_allclose(run.seen[0].attention.dense(), first.attention(run.states[0]).attention.dense(), **CLOSE)


def test_arguments_that_do_not_fit_are_refused() -> None:
    model = Transformer.seeded(VOCABULARY, WIDTH, HEADS, encoders=1, decoders=1)
    with pytest.raises(errors.OptionError, match="targets"):
        model([1, 2])
    with pytest.raises(errors.OptionError, match="targets"):
        llama(1)([1, 2], [3])
    with pytest.raises(errors.OptionError, match="caches"):
        llama(2)([1, 2], caches=())
    with pytest.raises(errors.ShapeError, match=r"encoders\[0\] has width 12, the embedding 6"):
        replace(model, embedding=Embedding.seeded(5, 6))
    with pytest.raises(errors.OptionError, match="positions"):
        Transformer.seeded(5, 6, 2, encoders=1, positions="sinusoid")  # type: ignore[arg-type]
    decoder = model.decoders[0]
    with pytest.raises(errors.OptionError, match="memory"):
        decoder(np.ones((2, WIDTH), np.float32))
    with pytest.raises(errors.OptionError, match="memory"):
        llama(1).decoders[0](np.ones((2, WIDTH)), np.ones((2, WIDTH)))
    with pytest.raises(errors.OptionError, match="both or neither"):
        replace(decoder, cross=None)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("separate", [False, True])
def test_steps_of_a_block_follow_from_each_other(draw: Draw, norm_first: bool, separate: bool) -> None:
    block = Encoder.seeded(12, 3, norm_first=norm_first, dtype=np.float64)
    x = draw(5, 12)
    steps = dict(block.observe(x, separate=separate))
    assert list(steps) == [
        name
        for name in ("normed", "heads", "projected", "attended", "feed_input", "fed_forward", "result")
        if separate or name not in ("projected", "fed_forward")
    ]
    seen = steps["heads"].seen
    outputs = np.concatenate(list(seen.attention.dense() @ seen.values), axis=-1)
    np.testing.assert_allclose(steps["heads"].outputs, outputs, atol=1e-12)
    assert block.attention.w_o is not None
    attended = x + block.attention.w_o(outputs)
    attended = attended if norm_first else block.norm_1(attended)
    np.testing.assert_allclose(steps["attended"], attended, atol=1e-12)
    fed = attended + block.feed_forward(block.norm_2(attended) if norm_first else attended)
    np.testing.assert_allclose(steps["result"], fed if norm_first else block.norm_2(fed), atol=1e-12)
    np.testing.assert_allclose(block(x), steps["result"], atol=1e-12)


def test_a_custom_attend_replaces_the_attention(draw: Draw) -> None:
    block = Encoder.seeded(12, 3, dtype=np.float64)
    x = draw(5, 12)

    def last_token(layer: Any, rows: Any) -> Heads:
        seen = layer.attention(rows)
        return Heads(layer.concatenate(seen.attention @ seen.values)[-1:], seen, slice(4, 5))

    steps = dict(block.observe(x, attend=last_token))
    np.testing.assert_allclose(steps["result"], block(x)[-1:], atol=1e-12)
