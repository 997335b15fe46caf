"""Weights read in factored form equal the dense vocabulary × vocabulary computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attribution import token_circuits
from regard.attribution.token_circuits import TokenCircuits

from ..models.checkpoints import torch
from ..small_models import encoder
from .cases import readers


@pytest.fixture
def in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, the last one shorter, as for a real vocabulary."""
    monkeypatch.setattr(token_circuits, "ROWS", 13)


def parts_of(kind: str, twin: Any, layer: int, head: int) -> tuple[Any, Any, Any, Any, Any]:
    """Of one head: normed embeddings, scores of the vocabulary, W_V, W_O (width, value_dim), gained unembedding."""
    if kind == "llama":
        block, norm = twin.model.layers[layer], twin.model.norm
        x = block.input_layernorm(twin.model.embed_tokens.weight)
        parts, size, group = block.self_attn, 4, head // 3
        queries = parts.q_proj(x)[:, head * size : (head + 1) * size]
        keys = parts.k_proj(x)[:, group * size : (group + 1) * size]
        values = parts.v_proj.weight[group * size : (group + 1) * size]
        output = parts.o_proj.weight[:, head * size : (head + 1) * size]
        unembedding = twin.lm_head.weight * norm.weight
    else:
        block, norm, size = twin.transformer.h[layer], twin.transformer.ln_f, 6
        x = block.ln_1(twin.transformer.wte.weight)
        joined = block.attn.c_attn(x)
        queries, keys = (joined[:, part + head * size : part + (head + 1) * size] for part in (0, 24))
        values = block.attn.c_attn.weight.T[48 + head * size : 48 + (head + 1) * size]
        output = block.attn.c_proj.weight.T[:, head * size : (head + 1) * size]
        gained = twin.lm_head.weight * norm.weight
        unembedding = gained - gained.mean(1, keepdim=True)
    return x, queries @ keys.T * size**-0.5, values, output, unembedding


@pytest.mark.usefixtures("in_chunks")
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_circuits_equal_a_dense_computation(folders: Any, kind: str) -> None:
    made, layer, head = folders(kind), 1, 3
    reader = readers(kind, made)[1]
    circuits, number = TokenCircuits.of(reader), reader.tokeniser.encode("mat", special=False).ids[0]
    twin = made.twin.double()
    with torch.no_grad():
        x, scores, values, output, unembedding = parts_of(kind, twin, layer, head)
        dense = unembedding @ output @ values @ x.T  # (vocabulary, vocabulary)
        eigenvalues = torch.linalg.eigvals(dense)
    made.twin.float()
    best = scores[number].topk(5)
    found = circuits.looks_for(layer, head, "mat", 5)
    assert [token.text for token in found] == [reader.tokeniser.piece(int(one))[0] for one in best.indices]
    np.testing.assert_allclose([token.score for token in found], best.values, atol=1e-4)
    copying = float(eigenvalues.real.sum() / eigenvalues.abs().sum())
    assert abs(circuits.scores.copying[layer, head] - copying) < 1e-4
    with torch.no_grad():
        value = values @ x[number]  # its bias is written too
        if kind == "llama":
            shift = made.twin.model.layers[layer].self_attn.v_proj.bias[head // 3 * 4 : (head // 3 + 1) * 4]
        else:
            shift = made.twin.transformer.h[layer].attn.c_attn.bias[48 + head * 6 : 48 + (head + 1) * 6]
        logits = unembedding @ output @ (value + shift.double())
    best = logits.topk(5)
    written = circuits.writes(layer, head, "mat", 5)
    assert [token.text for token in written] == [reader.tokeniser.piece(int(one))[0] for one in best.indices]
    np.testing.assert_allclose([token.score for token in written], best.values, atol=1e-4)


def test_a_planted_previous_token_head_scores_one() -> None:
    """One-hot positions, and keys shifted by one: the head attends to the token before."""
    from dataclasses import replace

    from regard.layers import Learned, Linear

    model = encoder()
    width, count = model.width, token_circuits.POSITIONS
    angles = np.arange(64)[:, None] * np.array([0.9, 0.5])
    table = np.zeros((64, width), np.float32)
    table[:, 0:4:2], table[:, 1:4:2] = np.cos(angles), np.sin(angles)
    block = model.transformer.encoders[0]
    size, turn = block.attention.head_dim, np.zeros((4, 4))
    for pair, angle in enumerate((0.9, 0.5)):
        cos, sin = np.cos(angle), np.sin(angle)
        turn[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cos, sin], [-sin, cos]]  # back by one position
    w_q, w_k = np.zeros((2, width, width), np.float32)
    w_q[:size, :4], w_k[:size, :4] = 40 * turn, 40 * np.eye(4)
    attention = replace(block.attention, w_q=Linear(w_q), w_k=Linear(w_k))
    embedding = replace(model.transformer.embedding, weight=np.zeros_like(model.transformer.embedding.weight))
    transformer = replace(
        model.transformer, embedding=embedding, positions=Learned(table), embedding_norm=None,
        encoders=(replace(block, attention=attention), *model.transformer.encoders[1:]),
    )  # fmt: skip
    scores = TokenCircuits.of(replace(model, transformer=transformer)).scores
    assert scores.previous_token[0, 0] > 0.95 and (scores.previous_token[0, 1:] < 2 / count).all()
    assert np.isnan(scores.copying).all()


def test_tables_say_what_is_left_out(folders: Any) -> None:
    circuits = TokenCircuits.of(readers("llama", folders("llama"))[1])
    table = circuits.table(1, 2, ["cat", "mat"])
    assert table["token"] == ("cat", "cat", "mat", "mat") and "leave out positions" in " ".join(table.notes)
    assert len(circuits.score_table(4)) == 4
    no_head = TokenCircuits.of(encoder()).table(0, 1, ["kids"])
    assert len(no_head) == 1 and "no unembedding" in no_head.notes[-1]


def test_what_cannot_be_read_is_refused(folders: Any) -> None:
    watched, own = readers("llama", folders("llama"))
    with pytest.raises(errors.Unsupported, match="which transformers runs"):
        TokenCircuits.of(watched)
    with pytest.raises(errors.Unsupported, match="no unembedding"):
        TokenCircuits.of(encoder()).writes(0, 0, "kids")
    with pytest.raises(errors.OutOfRange):
        TokenCircuits.of(own).looks_for(7, 0, "cat")
    for head in (7, 0), (0, 99):
        with pytest.raises(errors.OutOfRange):
            TokenCircuits.of(own).table(*head, ["cat"])
    with pytest.raises(errors.OptionError, match="`token` is ''; expected a token by its text or id"):
        TokenCircuits.of(own).looks_for(0, 0, "")
