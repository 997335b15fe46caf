"""A model whose heads have hand-set weights, one for each pattern, and the same model with random weights.

A token is the sum of a one-hot vector of its id and one of its position; pieces of one word share a class. Queries and
keys pick what they compare out of these, so each head does exactly one thing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.layers import Embedding, Encoder, FeedForward, LayerNorm, Learned, Linear, MultiHead, Transformer
from regard.models.model import Model

from ..models.checkpoints import transformers, write

VOCABULARY, POSITIONS = 67, 128
WIDTH = 3 * VOCABULARY + POSITIONS  # token, class of its word, previous token (written by layer 0), position
TOKEN, CLASS, BEFORE, PLACE = 0, VOCABULARY, 2 * VOCABULARY, 3 * VOCABULARY
SIZE = VOCABULARY + POSITIONS + 1
ALWAYS = SIZE - 1  # a query's last number is the same for every token, by its bias
SHARP = 6.0  # the score of a match, times this

PLANTED = (
    "previous token", "next token", "itself", "first-token sink", "separator sink", "duplicate token", "same word",
    "local window", "broad",
)  # fmt: skip


def bidirectional(folder: Path, noise: float = 0, seed: int = 0) -> Model:
    """One layer, one head for each pattern but induction; noise: standard deviation of random scores, in nats."""
    base, generator = _base(folder, "bert"), np.random.default_rng(seed)
    heads = [_noisy(_compared(name), noise, generator) for name in PLANTED]
    return _model(base, [heads], causal=False)


def causal(folder: Path, noise: float = 0, seed: int = 0) -> Model:
    """Two layers: head 0.0 copies the previous token, head 1.0 looks where that is its own token: induction."""
    base, generator = _base(folder, "causal"), np.random.default_rng(seed)
    names = [["previous token", "broad"], ["induction", "broad"]]
    layers = [[_noisy(_compared(name), noise, generator) for name in layer] for layer in names]
    return _model(base, layers, causal=True)


def _noisy(heads: tuple[np.ndarray, np.ndarray], noise: float, generator: np.random.Generator) -> Any:
    """A match scores SHARP nats, where one number of a query meets one of a key; random numbers of deviation s in both
    give scores of deviation about 3 s² √SIZE · SHARP, because three numbers of a token are not 0."""
    spread = np.sqrt(noise / (3 * np.sqrt(SIZE) * SHARP))
    return tuple(part + spread * generator.normal(size=part.shape) for part in heads)


def random_weights(folder: Path, seed: int, kind: str = "bert") -> Model:
    """The shape of the planted model with random projections, large enough to give peaked weights."""
    base = _base(folder, kind)
    generator = np.random.default_rng(seed)
    count = len(PLANTED)
    heads = [tuple(generator.normal(size=(2, SIZE, WIDTH)) * 0.12) for _ in range(count)]  # scores of about ± 3
    return _model(base, [heads], causal=kind == "causal")


def _base(folder: Path, kind: str) -> Model:
    """The tokeniser of a tiny checkpoint."""
    if kind == "bert":
        config = transformers.BertConfig(
            vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
            max_position_embeddings=POSITIONS,
        )  # fmt: skip
        return write(folder, config, "bert", "BertModel").open()
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=POSITIONS,
    )  # fmt: skip
    return write(folder, config, "causal", "LlamaForCausalLM").open()


def _compared(name: str) -> tuple[np.ndarray, np.ndarray]:
    """W_q and W_k of a head, (SIZE, WIDTH)."""
    w_q, w_k = np.zeros((2, SIZE, WIDTH))
    tokens, places = np.arange(VOCABULARY), np.arange(POSITIONS)
    at = VOCABULARY + places  # rows that compare positions

    def positions(offsets, strength=1.0):
        for offset in offsets:
            inside = places[(places + offset >= 0) & (places + offset < POSITIONS)]
            w_q[VOCABULARY + inside + offset, PLACE + inside] = strength
        w_k[at, PLACE + places] = 1.0

    if name == "previous token":
        positions([-1])
    elif name == "next token":
        positions([1])
    elif name == "itself":
        positions([0])
    elif name == "local window":
        positions([-3, -2, -1, 1, 2, 3])
    elif name == "first-token sink":
        w_k[ALWAYS, PLACE] = 1.0
    elif name == "separator sink":
        w_k[ALWAYS, TOKEN + 3] = 1.0  # [SEP]
    elif name == "duplicate token":
        w_q[tokens, TOKEN + tokens] = w_k[tokens, TOKEN + tokens] = 1.0
        positions([0], -1.0)  # not itself
    elif name == "same word":
        w_q[tokens, CLASS + tokens] = w_k[tokens, CLASS + tokens] = 1.0
        positions([0], -1.0)
    elif name == "induction":
        w_q[tokens, TOKEN + tokens] = w_k[tokens, BEFORE + tokens] = 1.0
    return w_q, w_k


def _model(base: Model, layers: list[list[tuple[np.ndarray, np.ndarray]]], *, causal: bool) -> Model:
    table = np.zeros((VOCABULARY, WIDTH), np.float32)
    table[np.arange(VOCABULARY), TOKEN + np.arange(VOCABULARY)] = 1
    for number in range(VOCABULARY):  # ##word41 belongs to word40's class and so on: pairs
        table[number, CLASS + number // 2 * 2] = 1
    learned = np.zeros((POSITIONS, WIDTH), np.float32)
    learned[np.arange(POSITIONS), PLACE + np.arange(POSITIONS)] = 1
    blocks = tuple(_block(heads, causal) for heads in layers)
    transformer = Transformer(Embedding(table), Learned(learned), blocks)
    return replace(base, transformer=transformer, longest=POSITIONS)


def _block(heads: list[tuple[np.ndarray, np.ndarray]], causal: bool) -> Encoder:
    count = len(heads)
    # LayerNorm leaves a one-hot number of about √(WIDTH / 3), so a match scores about WIDTH / 3 before the scale.
    sharpness = np.sqrt(SHARP * 3 / WIDTH * np.sqrt(SIZE))
    w_q = np.concatenate([queries for queries, _ in heads]) * sharpness
    w_k = np.concatenate([keys for _, keys in heads]) * sharpness
    bias = np.tile(np.eye(SIZE)[ALWAYS], count) * sharpness * np.sqrt(WIDTH / 3)
    value = np.zeros((SIZE, WIDTH))
    value[np.arange(VOCABULARY), TOKEN + np.arange(VOCABULARY)] = 1
    w_v = np.concatenate([value] * count)
    w_o = np.zeros((WIDTH, count * SIZE))
    w_o[BEFORE + np.arange(VOCABULARY), np.arange(VOCABULARY)] = np.sqrt(3 / WIDTH)  # head 0 writes what it found
    return Encoder(
        MultiHead(
            Linear(w_q.astype(np.float32), bias.astype(np.float32)),
            Linear(w_k.astype(np.float32)),
            Linear(w_v.astype(np.float32)),
            Linear(w_o.astype(np.float32)),
            heads=count,
            causal=causal,
        ),
        FeedForward(Linear(np.zeros((2, WIDTH), np.float32)), Linear(np.zeros((WIDTH, 2), np.float32)), "relu"),
        LayerNorm.seeded(WIDTH),
        LayerNorm.seeded(WIDTH),
        norm_first=True,
    )
