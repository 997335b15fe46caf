"""Traces of layers: every step equals PyTorch's layers and the result of the layer itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard import errors
from regard.layers import Decoder, Encoder, MultiHead, Transformer

torch = pytest.importorskip("torch")
WIDTH, HEADS, TOKENS, MEMORY = 12, 3, 5, 7


def test_multi_head_steps_equal_pytorch(draw):
    module = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    x = torch.from_numpy(draw(TOKENS, WIDTH))
    output, weights = module(x, x, x, average_attn_weights=False)
    trace = MultiHead.from_torch(module).explain(x)
    np.testing.assert_allclose(trace["weight"].detach(), weights.detach(), atol=1e-12)
    np.testing.assert_allclose(trace["projected"].detach(), output.detach(), atol=1e-12)
    assert trace.names[0] == "embedding" and trace.names[-2:] == ("concatenated", "projected")
    assert trace["concatenated"].shape == (TOKENS, WIDTH)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_steps_equal_pytorch(draw, norm_first):
    module = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 17, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    x = torch.from_numpy(draw(TOKENS, WIDTH))
    trace = Encoder.from_torch(module).explain(x)
    np.testing.assert_allclose(trace["result"].detach(), module(x[None])[0].detach(), atol=1e-12)
    seen = module.norm1(x) if norm_first else x
    projected = module.self_attn(seen, seen, seen)[0]
    attended = x + projected if norm_first else module.norm1(x + projected)
    fed = module.linear2(torch.relu(module.linear1(module.norm2(attended) if norm_first else attended)))
    for name, expected in (("projected", projected), ("attended", attended), ("fed_forward", fed)):
        np.testing.assert_allclose(trace[name].detach(), expected.detach(), atol=1e-12, err_msg=name)


def test_gradients_reach_every_step_and_the_weights(draw):
    layer = Encoder.seeded(WIDTH, HEADS, dtype=torch.float64).map(lambda array: array.requires_grad_())
    x = torch.from_numpy(draw(TOKENS, WIDTH)).requires_grad_()
    trace = layer.explain(x)
    (trace["result"] ** 3).sum().backward()
    assert all(step.gradient.shape == step.array.shape for step in trace.steps)
    np.testing.assert_allclose(trace.step("embedding").gradient, x.grad, atol=1e-12)
    ours = {name: array.grad.clone() for name, array in layer.parameters().items()}
    for array in layer.parameters().values():
        array.grad = None
    (layer(x) ** 3).sum().backward()
    for name, array in layer.parameters().items():
        np.testing.assert_allclose(ours[name], array.grad, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("norm_first", [False, True])
def test_one_query_of_a_block_equals_its_row_of_all(draw, norm_first):
    block = Encoder.seeded(WIDTH, HEADS, norm_first=norm_first, dtype=np.float64)
    x = draw(TOKENS, WIDTH)
    whole = block.explain(x, mask=regard.causal())
    alone = block.explain(x, mask=regard.causal(), query=3)
    np.testing.assert_allclose(whole["result"], block(x, mask=regard.causal()), atol=1e-12)
    for name in ("output", "weight"):
        np.testing.assert_allclose(alone[name][:, 0], whole[name][:, 3], atol=1e-12)
    for name in ("concatenated", "projected", "attended", "fed_forward", "result"):
        np.testing.assert_allclose(alone[name], whole[name][3:4], atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_traces_self_and_cross_attention(draw, norm_first):
    block = Decoder.seeded(WIDTH, HEADS, norm_first=norm_first, dtype=np.float64)
    x, memory = draw(TOKENS, WIDTH), draw(MEMORY, WIDTH)
    steps = dict(block.observe(x, memory))
    itself = block.explain(x, memory)
    assert itself.names[-1] == "attended"
    np.testing.assert_allclose(itself["weight"], steps["heads"].seen.attention.dense(), atol=1e-12)
    words: Any = {"words": list("abcde"), "memory_words": list("tuvwxyz")}
    cross = block.explain(x, memory, which="cross", **words)
    assert cross.words == tuple("tuvwxyz") and cross.query_words == tuple("abcde")
    np.testing.assert_allclose(cross["weight"], steps["cross_heads"].seen.attention.dense(), atol=1e-12)
    np.testing.assert_allclose(cross["result"], steps["result"], atol=1e-12)
    row = block.explain(x, memory, which="cross", query="d", **words)
    np.testing.assert_allclose(row["result"], steps["result"][3:4], atol=1e-12)
    with pytest.raises(errors.OptionError, match="memory"):
        block.explain(x, which="cross")


def test_every_block_of_a_stack_can_be_traced(draw):
    model = Transformer.seeded(11, WIDTH, HEADS, encoders=2, decoders=2, dtype=np.float64)
    run = model.run([1, 2, 3], [4, 5])
    for block, state in ((0, 1), (1, 2), (2, 4), (3, 5)):
        trace = model.explain([1, 2, 3], [4, 5], block=block, which="cross" if block > 1 else "self")
        np.testing.assert_allclose(trace["result"], run.states[state], atol=1e-12)
    first = model.explain([1, 2, 3], [4, 5])
    np.testing.assert_array_equal(first["embedding"], model.embedding([1, 2, 3]))
    np.testing.assert_array_equal(first["positioned"], run.states[0])
    with pytest.raises(errors.OutOfRange, match="there are 4 blocks"):
        model.explain([1, 2, 3], [4, 5], block=4)


def test_decoders_alone_end_in_a_result():
    model = Transformer.seeded(11, WIDTH, HEADS, decoders=1, positions="rotary", dtype=np.float64)
    trace = model.explain([1, 2, 3])
    assert "masked" in trace and "positioned" not in trace
    np.testing.assert_allclose(trace["result"], model.run([1, 2, 3]).states[1], atol=1e-12)


def test_a_batch_is_refused(draw):
    layer = MultiHead.seeded(WIDTH, HEADS)
    with pytest.raises(errors.ShapeError, match=r"layer.explain\(x\[0\]\)"):
        layer.explain(draw(2, TOKENS, WIDTH, dtype=np.float32))
    assert layer.explain(draw(1, TOKENS, WIDTH, dtype=np.float32))["weight"].shape == (HEADS, TOKENS, TOKENS)


def test_without_w_o_the_concatenation_is_the_last_step():
    one = [[1.0, 0.0], [0.0, 1.0]]
    trace = MultiHead.from_heads([one], [one], [one]).explain([[1.0, 0.0], [0.0, 1.0]], note="identity")
    assert trace.names[-1] == "concatenated" and trace.note == "identity"
