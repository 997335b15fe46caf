"""Llama and its relatives: Llama, Mistral, Qwen2, Qwen3, SmolLM2; from safetensors or GGUF.

Missing settings take the defaults of transformers for the family, and settings that transformers ignores in a family
are ignored here too: Llama has no sliding window, Mistral has one in every layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.arrays import Array
from regard.errors import unsupported
from regard.layers import Embedding, Encoder, FeedForward, MultiHead, Rotary, Transformer
from regard.models.files import Checkpoint
from regard.models.settings import REFUSED, Settings
from regard.models.tensors import Tensors

PREFIXES = ("model.", "")
ROPE_TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
THETA = 10000.0  # the default base
LOWEST_THETA = 1.0  # below, frequencies rise above one radian per position, where float32 angles lose all accuracy
LAYER_TYPES = {"full_attention": False, "attention": False, "sliding_attention": True}  # whether the window applies


@dataclass(frozen=True)
class Family:
    """The differences between the architectures, with the defaults of transformers 5.22."""

    hidden: int  # intermediate_size
    longest: int  # max_position_embeddings
    kv_heads: int | None = None  # None: as many as there are query heads
    head_dim: int | None = None  # None: hidden_size / num_attention_heads
    windows: Literal["none", "all", "by layer"] = "none"
    qkv_bias: bool = False
    attention_bias: bool = False  # whether a setting adds biases to q, k, v, o
    mlp_bias: bool = False  # whether a setting adds biases to gate, up, down
    qk_norm: bool = False


FAMILIES = {
    "llama": Family(11008, 2048, attention_bias=True, mlp_bias=True),
    "mistral": Family(14336, 131072, kv_heads=8, windows="all"),
    "qwen2": Family(22016, 32768, kv_heads=32, windows="by layer", qkv_bias=True),
    "qwen3": Family(
        22016, 32768, kv_heads=32, head_dim=128, windows="by layer", attention_bias=True, qk_norm=True
    ),
}  # fmt: skip


@dataclass(frozen=True)
class LlamaSizes:
    """The settings that all blocks share."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    epsilon: float
    activation: str
    qkv_bias: bool | None  # None: where the file has one
    o_bias: bool | None
    mlp_bias: bool | None
    qk_norm: bool


def transformer(checkpoint: Checkpoint) -> tuple[Transformer, int]:
    """Causal pre-norm blocks with rotary positions and a gated feed-forward; and the largest number of tokens."""
    family = FAMILIES[checkpoint.family]
    tensors = Tensors.under(checkpoint, PREFIXES, "embed_tokens.weight")
    settings = checkpoint.settings
    if not settings.flag("is_causal", True) or settings.part("per_layer_config").values:
        raise tensors.refuse("Bidirectional attention, or settings for single layers (per_layer_config),")
    longest = settings.integer("max_position_embeddings", family.longest)
    sizes = _sizes(tensors, family)
    count = settings.integer("num_hidden_layers", 32)
    # Shapes first: nothing of a claimed size is allocated before a tensor of that size was found.
    embedding = tensors.take("embed_tokens.weight", None, sizes.width)
    tensors.check("layers.0.self_attn.q_proj.weight", sizes.heads * sizes.head_dim, sizes.width)
    windows = _windows(tensors, family, count)
    positions = _positions(tensors, sizes, longest)
    blocks = tuple(_block(tensors, number, sizes, positions, windows(number)) for number in range(count))
    norm = tensors.rms_norm("norm", sizes.width, sizes.epsilon)
    tensors.finish([f"layers.{number}." for number in range(count)])
    tied = settings.flag("tie_word_embeddings", False)
    head = tensors.head(sizes.width, len(embedding), tied, embedding)
    return Transformer(Embedding(embedding), None, blocks, norm=norm, head=head), longest


def _sizes(tensors: Tensors, family: Family) -> LlamaSizes:
    settings = tensors.settings
    width, heads = settings.integer("hidden_size", 4096), settings.integer("num_attention_heads", 32)
    by_width = max(width // heads, 1)
    head_dim = settings.integer("head_dim", family.head_dim or by_width, null=REFUSED if family.head_dim else by_width)
    stated = family.attention_bias and settings.flag("attention_bias", False)
    mlp_bias = family.mlp_bias and settings.flag("mlp_bias", False)
    in_gguf = tensors.checkpoint.is_gguf
    return LlamaSizes(
        width,
        heads,
        settings.integer("num_key_value_heads", family.kv_heads or heads, null=heads),
        head_dim,
        settings.integer("intermediate_size", family.hidden),
        settings.number("rms_norm_eps", 1e-6),
        settings.activation("hidden_act", "silu"),
        None if in_gguf else family.qkv_bias or stated,
        None if in_gguf else stated,
        None if in_gguf else mlp_bias,
        family.qk_norm,
    )


def _windows(tensors: Tensors, family: Family, count: int) -> Callable[[int], int | None]:
    """The number of keys before its own that a query sees, by layer; files include the query's own key."""
    settings = tensors.settings
    if family.windows == "none":
        return lambda place: None
    by_layer = family.windows == "by layer"
    if by_layer and not settings.flag("use_sliding_window", False):
        window = None
    else:
        window = settings.integer("sliding_window", 4096, null=None)
    if not by_layer:
        return lambda place: None if window is None else window - 1
    kinds = settings.strings("layer_types", count)
    if kinds is None:
        first = settings.integer("max_window_layers", 28, least=0)
        return lambda place: window - 1 if window is not None and place >= first else None
    for kind in kinds:
        if kind not in LAYER_TYPES or (LAYER_TYPES[kind] and window is None):
            fix = "Set sliding_window." if kind in LAYER_TYPES else f"Known types are {', '.join(LAYER_TYPES)}."
            raise tensors.refuse(f"A layer of type {kind[:40]!r}", fix)
    return lambda place: window - 1 if window is not None and LAYER_TYPES[kinds[place]] else None


def _positions(tensors: Tensors, sizes: LlamaSizes, longest: int) -> Rotary:
    """Rotary positions; GGUF files may rotate only part of each head, or hold divisors of the frequencies."""
    settings = tensors.settings
    if not tensors.checkpoint.is_gguf:
        return rotary(settings, sizes.head_dim, longest)
    rotated = settings.integer("rope_dimension_count", sizes.head_dim, most=sizes.head_dim)
    if rotated != sizes.head_dim and tensors.checkpoint.family == "llama":  # llama.cpp refuses this as well
        raise tensors.refuse(f"A Llama whose rope.dimension_count is {rotated} for heads of {sizes.head_dim}")
    made = rotary(settings, rotated, longest)
    if not (name := settings.text("rope_divisors", "")):
        return made
    if made.frequencies is not None:
        raise tensors.refuse(f"Both {name} and scaled rotary positions")
    divisors = tensors.checkpoint.tensor(name, rotated // 2).astype(np.float64)
    if not (np.isfinite(divisors) & (divisors > 0)).all():
        raise tensors.fault(f"tensor {name!r} holds numbers that are not positive and finite")
    frequencies = made.base ** (-2.0 * np.arange(rotated // 2) / rotated) / divisors
    return Rotary(rotated, made.base, frequencies=tuple(frequencies.tolist()))


def _block(tensors: Tensors, place: int, sizes: LlamaSizes, positions: Rotary, window: int | None) -> Encoder:
    at, width = f"layers.{place}.", sizes.width
    outputs = [count * sizes.head_dim for count in (sizes.heads, sizes.kv_heads, sizes.kv_heads)]
    names = [f"{at}self_attn.{letter}_proj" for letter in "qkv"]
    q_norm, k_norm = (
        tensors.rms_norm(f"{at}self_attn.{letter}_norm", sizes.head_dim, sizes.epsilon) if sizes.qk_norm else None
        for letter in "qk"
    )
    attention = MultiHead(
        *tensors.query_key_value(names, outputs, width, sizes.qkv_bias),
        w_o=tensors.linear(f"{at}self_attn.o_proj", width, outputs[0], sizes.o_bias),
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        rotary=positions,
        q_norm=q_norm,
        k_norm=k_norm,
        causal=True,
        window=window,
    )
    gate, up = (tensors.linear(f"{at}mlp.{name}_proj", sizes.hidden, width, sizes.mlp_bias) for name in ("gate", "up"))
    down = tensors.linear(f"{at}mlp.down_proj", width, sizes.hidden, sizes.mlp_bias)
    return Encoder(
        attention,
        FeedForward(up, down, sizes.activation, gate),
        tensors.rms_norm(f"{at}input_layernorm", width, sizes.epsilon),
        tensors.rms_norm(f"{at}post_attention_layernorm", width, sizes.epsilon),
        norm_first=True,
    )


# Rotary positions for each RoPE type: formulas, defaults and names of settings follow `modeling_rope_utils.py` of
# transformers 5.22.


def rotary(settings: Settings, head_dim: int, longest: int) -> Rotary:
    """The rotary positions of a model with heads of `head_dim` that reads up to `longest` tokens."""
    if head_dim % 2:
        raise settings.fault(f"its heads have head_dim {head_dim}; expected an even number for rotary positions")
    scaling = settings.part("rope_scaling")
    scaling = scaling if scaling.values else settings.part("rope_parameters")
    kind = scaling.text("rope_type", scaling.text("type", "default"))
    if kind not in ROPE_TYPES:
        raise unsupported(
            f"Rotary positions of type {kind[:40]!r} in {settings.path}", f"Known types are {', '.join(ROPE_TYPES)}."
        )
    theta = (scaling if "rope_theta" in scaling else settings).number(
        "rope_theta", THETA, least=LOWEST_THETA, above=False
    )
    share = _share(scaling, settings)
    if kind == "default":  # in these architectures, transformers rotates whole heads here whatever the factor says
        return Rotary(head_dim, theta)
    if kind != "proportional" and int(head_dim * share) != head_dim:
        raise unsupported(
            f"Rotary positions of type {kind!r} for {share:g} of each head in {settings.path}",
            "transformers cannot compute this combination either: check the settings.",
        )
    frequencies = theta ** (-2.0 * np.arange(head_dim // 2) / head_dim)
    if kind == "dynamic":  # changes the base only beyond `longest`, which is not read
        scaling.number("factor", least=1.0, above=False)
        return Rotary(head_dim, theta)
    if kind == "linear":
        return _scaled(head_dim, theta, frequencies / scaling.number("factor", least=1.0, above=False))
    if kind == "proportional":
        rotated = int(share * head_dim // 2)
        frequencies[rotated:] = 0.0
        return _scaled(head_dim, theta, frequencies / scaling.number("factor", 1.0, least=1.0, above=False))
    original_length = "original_max_position_embeddings"  # that it was first trained on; outside, it takes precedence
    original = (settings if original_length in settings else scaling).integer(original_length, longest)
    if kind == "llama3":
        return _scaled(head_dim, theta, _llama3(frequencies, scaling, original))
    if kind == "yarn":
        return _yarn(head_dim, theta, frequencies, scaling, longest, original)
    return _longrope(head_dim, theta, frequencies, scaling, longest, original)


def _share(scaling: Settings, settings: Settings) -> float:
    holder = scaling if "partial_rotary_factor" in scaling else settings
    share: float = holder.number("partial_rotary_factor", 1.0, null=1.0)
    if share > 1:
        raise settings.fault(f"its setting 'partial_rotary_factor' is {share:g}; expected a number up to 1")
    return share


def _scaled(head_dim: int, theta: float, frequencies: Array) -> Rotary:
    return Rotary(head_dim, theta, frequencies=tuple(frequencies.tolist()))


def _llama3(frequencies: Array, scaling: Settings, original: int) -> Array:
    """Low frequencies are divided by the factor, high ones kept, those between interpolated."""
    factor = scaling.number("factor", least=1.0, above=False)
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    if high <= low:
        raise scaling.fault(f"its setting '{scaling.within}high_freq_factor' is {high:g}; expected more than {low:g}")
    rotations = original * frequencies / (2 * math.pi)  # within the original length
    kept = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return (1 - kept) * frequencies / factor + kept * frequencies


def _yarn(head_dim: int, theta: float, frequencies: Array, scaling: Settings, longest: int, original: int) -> Rotary:
    """YaRN (Peng et al., 2023): as above with a linear ramp over dimensions, and larger queries and keys."""
    factor = scaling.number("factor", null=longest / original)
    attention_factor = scaling.number("attention_factor", None, null=None)
    mscale = scaling.number("mscale", None, null=None, above=False)
    mscale_all_dim = scaling.number("mscale_all_dim", None, null=None, above=False)
    if attention_factor is None and mscale and mscale_all_dim:
        attention_factor = _mscale(factor, mscale) / _mscale(factor, mscale_all_dim)
    elif attention_factor is None:
        attention_factor = _mscale(factor, 1.0)
    fast = scaling.number("beta_fast", 32.0, null=32.0, above=False) or 32.0
    slow = scaling.number("beta_slow", 1.0, null=1.0, above=False) or 1.0
    if theta == 1:
        raise scaling.fault("its base 'rope_theta' is 1, where YaRN needs a larger one")

    def dimension(rotations: float) -> float:
        return head_dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(fast), dimension(slow)
    if scaling.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    high = high + 0.001 if low == high else high
    interpolated = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    mixed = interpolated * frequencies / factor + (1 - interpolated) * frequencies
    return Rotary(head_dim, theta, frequencies=tuple(mixed.tolist()), attention_factor=attention_factor)


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope(
    head_dim: int, theta: float, frequencies: Array, scaling: Settings, longest: int, original: int
) -> Rotary:
    """LongRoPE (Ding et al., 2024): a divisor for each frequency, others for texts beyond the original length."""
    short, long = (np.array(scaling.numbers(f"{name}_factor", head_dim // 2)) for name in ("short", "long"))
    factor = scaling.number("factor", None, null=None) or longest / original
    attention_factor = scaling.number("attention_factor", None, null=None)
    if attention_factor is None:
        if factor > 1 and original == 1:
            raise scaling.fault(f"its setting '{scaling.within}original_max_position_embeddings' is 1; expected more")
        attention_factor = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return Rotary(
        head_dim,
        theta,
        frequencies=tuple((frequencies / short).tolist()),
        attention_factor=attention_factor,
        long_frequencies=tuple((frequencies / long).tolist()),
        long_after=original,
    )
