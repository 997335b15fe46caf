"""Llama and its kind: Llama, Mistral, Qwen2, Qwen3, SmolLM2; from safetensors or GGUF."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.layers import Embedding, Encoder, FeedForward, Linear, MultiHead, Rotary, Transformer
from regard.models.files import Checkpoint
from regard.models.tensors import Tensors

PREFIXES = ("model.", "")
SCALINGS = ("default", "linear", "llama3")


def transformer(checkpoint: Checkpoint) -> Transformer:
    """Causal blocks with norms first, rotary positions, and a gate in the feed-forward part."""
    tensors = Tensors.under(checkpoint, PREFIXES, "embed_tokens.weight")
    width = tensors.number("hidden_size")
    epsilon = tensors.real("rms_norm_eps", 1e-6)
    embedding = tensors.take("embed_tokens.weight", None, width)
    blocks = tensors.number("num_hidden_layers")
    rotary = _rotary(tensors, width)  # one for all blocks
    return Transformer(
        Embedding(embedding),
        None,
        tuple(_block(tensors, place, width, epsilon, rotary) for place in range(blocks)),
        norm=tensors.rms_norm("norm", width, epsilon),
        head=_head(checkpoint, embedding),
    )


def _block(tensors: Tensors, place: int, width: int, epsilon: float, rotary: Rotary) -> Encoder:
    at = f"layers.{place}."
    heads = tensors.number("num_attention_heads")
    groups = tensors.number("num_key_value_heads", default=heads)
    size = _size(tensors, width)
    hidden = tensors.number("intermediate_size")
    names = [f"{at}self_attn.{letter}_proj" for letter in "qkv"]
    norms = [
        tensors.rms_norm(f"{at}self_attn.{letter}_norm", size, epsilon)
        if tensors.has(f"{at}self_attn.{letter}_norm.weight")
        else None
        for letter in "qk"
    ]
    attention = MultiHead(
        *tensors.query_key_value(names, [heads * size, groups * size, groups * size], width),
        w_o=tensors.linear(f"{at}self_attn.o_proj", width, heads * size),
        heads=heads,
        kv_heads=groups,
        rotary=rotary,
        q_norm=norms[0],
        k_norm=norms[1],
        causal=True,
        window=_window(tensors, place),
    )
    gate, up = (tensors.linear(f"{at}mlp.{name}_proj", hidden, width) for name in ("gate", "up"))
    down = tensors.linear(f"{at}mlp.down_proj", width, hidden)
    return Encoder(
        attention,
        FeedForward(up, down, tensors.activation("hidden_act", default="silu"), gate),
        tensors.rms_norm(f"{at}input_layernorm", width, epsilon),
        tensors.rms_norm(f"{at}post_attention_layernorm", width, epsilon),
        norm_first=True,
    )


def _size(tensors: Tensors, width: int) -> int:
    heads = tensors.number("num_attention_heads")
    return tensors.number("head_dim", default=width // heads if width >= heads else 1)


def _window(tensors: Tensors, place: int) -> int | None:
    """How many keys before its own a query sees; files count the query's own key as well."""
    window = tensors.setting("sliding_window")
    kinds = tensors.setting("layer_types")
    if isinstance(kinds, list) and place < len(kinds):
        slides = kinds[place] == "sliding_attention"
    elif tensors.setting("use_sliding_window") is not None:  # Qwen: the first layers see everything
        from_place = tensors.setting("max_window_layers", default=0)
        slides = bool(tensors.setting("use_sliding_window")) and place >= from_place
    else:
        slides = True
    return tensors.number("sliding_window") - 1 if slides and window is not None else None


def _rotary(tensors: Tensors, width: int) -> Rotary:
    """Rotary positions, stretched where the settings say so."""
    size = _size(tensors, width)
    told: Any = tensors.setting("rope_parameters", "rope_scaling", default={})
    if not isinstance(told, Mapping):
        raise tensors.fault(f"its setting 'rope_scaling' is {told!r}, where an object is expected")
    base = told.get("rope_theta", tensors.setting("rope_theta", default=10000.0))
    kind = told.get("rope_type", told.get("type", "default"))
    if kind not in SCALINGS:
        fix = f"Known ways to stretch positions are {', '.join(SCALINGS)}."
        raise tensors.refuse(f"Rotary positions of the kind {kind!r}", fix)
    share = told.get("partial_rotary_factor", tensors.setting("partial_rotary_factor", default=1.0))
    if share != 1.0:
        raise tensors.refuse(f"Rotary positions for {share} of a head")
    if kind == "default":
        return Rotary(size, float(base))
    speeds = float(base) ** (-2.0 * np.arange(size // 2) / size)
    try:
        slowed = _slowed(speeds, {name: float(told[name]) for name in told if _is_number(told[name])}, kind)
    except KeyError as missing:
        raise tensors.fault(f"its 'rope_scaling' of the kind {kind!r} lacks {missing}") from None
    return Rotary(size, float(base), frequencies=tuple(slowed.tolist()))


def _slowed(speeds: Array, told: Mapping[str, float], kind: str) -> Array:
    """What each pair turns by a position: all slower alike, or (Llama 3) the slow ones only, with a smooth passage."""
    slower = speeds / told["factor"]
    if kind == "linear":
        return slower
    trained, low, high = told["original_max_position_embeddings"], told["low_freq_factor"], told["high_freq_factor"]
    turns = trained * speeds / (2 * math.pi)  # whole turns within what the model was first trained on
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - share) * slower + share * speeds


def _is_number(thing: object) -> bool:
    return isinstance(thing, (int, float)) and not isinstance(thing, bool)


def _head(checkpoint: Checkpoint, embedding: Array) -> Linear:
    """Scores of the next token; the embedding itself where the file has no other."""
    own = Tensors(checkpoint)
    tied = own.setting("tie_word_embeddings", default=False) or not own.has("lm_head.weight")
    return Linear(embedding if tied else own.take("lm_head.weight", *embedding.shape))
