"""Models of a few thousand seeded weights with a tokeniser of whole words: one that writes, and one that does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tokenizers

from regard.layers import Encoder, FeedForward, Linear, MultiHead, RMSNorm, Rotary, Transformer
from regard.layers.layer import Layer
from regard.models import tokens
from regard.models.model import Model

WORDS = [
    "the", "kids", "were", "scared", "of", "lions", ",", "so", "they", "left", "right", "away", ".", "love", "apple",
    "phones", "pie", "a", "cat", "sat", "on", "mat", "keys", "table", "belong", "to", "sarah", "once", "upon", "time",
    "there", "was", "king", "dog", "and", "he", "ran", "home",
]  # fmt: skip
SPECIAL = {"bert": ["[UNK]", "[CLS]", "[SEP]"], "llama": ["<unk>", "<end>"]}
AnyLayer = TypeVar("AnyLayer", bound=Layer)


def tokeniser(kind: str) -> tokens.Tokeniser:
    """Whole words in lower case; [CLS] and [SEP] around them for BERT, spaces kept as ▁ for Llama."""
    written = kind == "llama"
    spelled = [f"▁{word}" if written and word.isalpha() else word for word in WORDS]
    vocabulary = {word: number for number, word in enumerate([*SPECIAL[kind], *spelled])}
    made: Any = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=SPECIAL[kind][0]))
    made.normalizer = tokenizers.normalizers.Lowercase()
    split = tokenizers.pre_tokenizers
    made.pre_tokenizer = split.Sequence([split.Metaspace(), split.Punctuation()]) if written else split.Whitespace()
    made.add_special_tokens(SPECIAL[kind])
    if written:
        made.decoder = tokenizers.decoders.Metaspace()
    else:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    return tokens.of(made, Path("tokenizer.json"))


@cache
def writer(layers: int = 3, heads: int = 4, kv_heads: int = 2) -> Model:
    """As Llama: causal, RoPE, shared key heads, RMS norm first, gated feed-forward, a head tied to the embedding."""
    width = 16
    model = Transformer.seeded(len(WORDS) + 2, width, heads, encoders=layers, positions="rotary", seed=5)
    blocks = tuple(_llama(block, width, heads, kv_heads, place) for place, block in enumerate(model.encoders))
    table = model.embedding.weight
    model = replace(model, encoders=blocks, norm=_norm(width, 99), head=Linear(table), positions=None)
    return Model("small-writer", "llama", model, tokeniser("llama"), {}, 64, "none", frozenset({1}))


@cache
def encoder(layers: int = 2, heads: int = 4) -> Model:
    """As BERT: bidirectional, learned positions, layer norm last."""
    model = Transformer.seeded(
        len(WORDS) + 3, 16, heads, encoders=layers, positions="learned", longest=64, activation="gelu", seed=3
    )
    return Model("small-encoder", "bert", _louder(model), tokeniser("bert"), {}, 64, "none")


def _llama(block: Encoder, width: int, heads: int, kv_heads: int, place: int) -> Encoder:
    attention = MultiHead.seeded(
        width, heads, kv_heads=kv_heads, bias=False, rotary=Rotary(width // heads), causal=True, seed=place
    )
    fed = FeedForward.seeded(width, 24, activation="silu", gated=True, bias=False, seed=place)
    return _louder(Encoder(attention, fed, _norm(width, place), _norm(width, place + 50), norm_first=True))


def _norm(width: int, seed: int) -> RMSNorm:
    return RMSNorm(np.random.default_rng(seed).uniform(0.5, 1.5, width).astype(np.float32))


def _louder(layer: AnyLayer) -> AnyLayer:
    """Larger weights and biases that are not 0, so that nothing is nearly uniform."""
    rng = np.random.default_rng(1)
    return layer.map(lambda array: np.asarray(array * 2.5 + rng.normal(size=array.shape) * 0.05, np.float32))
