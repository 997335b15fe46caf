"""Rotary positions from the settings of a checkpoint: frequencies as transformers computes them, for each RoPE type.

Formulas and defaults follow `modeling_rope_utils.py` of transformers 5.22, whose key names these are.
"""

from __future__ import annotations

import math

import numpy as np

from regard.arrays import Array
from regard.errors import Unsupported, unsupported
from regard.layers import Rotary
from regard.models.settings import Settings

TYPES = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
THETA = 10000.0  # the default base
LOWEST_THETA = 1.0  # below, frequencies rise above one radian per position, where float32 angles lose all accuracy


def rotary(settings: Settings, head_dim: int, longest: int) -> Rotary:
    """The rotary positions of a model with heads of `head_dim` that reads up to `longest` tokens."""
    if head_dim % 2:
        raise settings.fault(f"its heads have head_dim {head_dim}; expected an even number for rotary positions")
    told = settings.part("rope_scaling")
    told = told if told.values else settings.part("rope_parameters")
    kind = told.text("rope_type", told.text("type", "default"))
    if kind not in TYPES:
        raise unsupported(
            f"Rotary positions of type {kind[:40]!r} in {settings.path}", f"Known types are {', '.join(TYPES)}."
        )
    theta = (told if "rope_theta" in told else settings).number("rope_theta", THETA, least=LOWEST_THETA, above=False)
    share = _share(told, settings)
    if kind == "default":  # in these architectures, transformers rotates whole heads here whatever the factor says
        return Rotary(head_dim, theta)
    if kind != "proportional" and int(head_dim * share) != head_dim:
        raise _partial(kind, share, settings)
    frequencies = theta ** (-2.0 * np.arange(head_dim // 2) / head_dim)
    if kind == "dynamic":  # changes the base only beyond `longest`, which is not read
        told.number("factor", least=1.0, above=False)
        return Rotary(head_dim, theta)
    if kind == "linear":
        return _scaled(head_dim, theta, frequencies / told.number("factor", least=1.0, above=False))
    if kind == "proportional":
        rotated = int(share * head_dim // 2)
        frequencies[rotated:] = 0.0
        return _scaled(head_dim, theta, frequencies / told.number("factor", 1.0, least=1.0, above=False))
    original = _original_length(told, settings, longest)
    if kind == "llama3":
        return _scaled(head_dim, theta, _llama3(frequencies, told, original))
    if kind == "yarn":
        return _yarn(head_dim, theta, frequencies, told, longest, original)
    return _longrope(head_dim, theta, frequencies, told, longest, original)


def _share(told: Settings, settings: Settings) -> float:
    holder = told if "partial_rotary_factor" in told else settings
    share: float = holder.number("partial_rotary_factor", 1.0, null=1.0)
    if share > 1:
        raise settings.fault(f"its setting 'partial_rotary_factor' is {share:g}; expected a number up to 1")
    return share


def _partial(kind: str, share: float, settings: Settings) -> Unsupported:
    return unsupported(
        f"Rotary positions of type {kind!r} for {share:g} of each head in {settings.path}",
        "transformers cannot compute this combination either: check the settings.",
    )


def _original_length(told: Settings, settings: Settings, longest: int) -> int:
    """The length the model was first trained on; a value outside the RoPE parameters takes precedence."""
    name = "original_max_position_embeddings"
    found: int = (settings if name in settings else told).integer(name, longest)
    return found


def _scaled(head_dim: int, theta: float, frequencies: Array) -> Rotary:
    return Rotary(head_dim, theta, frequencies=tuple(frequencies.tolist()))


def _llama3(frequencies: Array, told: Settings, original: int) -> Array:
    """Low frequencies are divided by the factor, high ones kept, those between interpolated."""
    factor = told.number("factor", least=1.0, above=False)
    low, high = told.number("low_freq_factor"), told.number("high_freq_factor")
    if high <= low:
        raise told.fault(f"its setting '{told.within}high_freq_factor' is {high:g}; expected more than {low:g}")
    rotations = original * frequencies / (2 * math.pi)  # within the original length
    kept = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return (1 - kept) * frequencies / factor + kept * frequencies


def _yarn(head_dim: int, theta: float, frequencies: Array, told: Settings, longest: int, original: int) -> Rotary:
    """YaRN (Peng et al., 2023): as above with a linear ramp over dimensions, and larger queries and keys."""
    factor = told.number("factor", null=longest / original)
    attention_factor = told.number("attention_factor", None, null=None)
    mscale = told.number("mscale", None, null=None, above=False)
    mscale_all_dim = told.number("mscale_all_dim", None, null=None, above=False)
    if attention_factor is None and mscale and mscale_all_dim:
        attention_factor = _mscale(factor, mscale) / _mscale(factor, mscale_all_dim)
    elif attention_factor is None:
        attention_factor = _mscale(factor, 1.0)
    fast = told.number("beta_fast", 32.0, null=32.0, above=False) or 32.0
    slow = told.number("beta_slow", 1.0, null=1.0, above=False) or 1.0
    if theta == 1:
        raise told.fault("its base 'rope_theta' is 1, where YaRN needs a larger one")

    def dimension(rotations: float) -> float:
        return head_dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(fast), dimension(slow)
    if told.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    high = high + 0.001 if low == high else high
    interpolated = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0, 1)
    mixed = interpolated * frequencies / factor + (1 - interpolated) * frequencies
    return Rotary(head_dim, theta, frequencies=tuple(mixed.tolist()), attention_factor=attention_factor)


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope(head_dim: int, theta: float, frequencies: Array, told: Settings, longest: int, original: int) -> Rotary:
    """LongRoPE (Ding et al., 2024): a divisor for each frequency, others for texts beyond the original length."""
    short, long = (np.array(told.numbers(f"{name}_factor", head_dim // 2)) for name in ("short", "long"))
    factor = told.number("factor", None, null=None) or longest / original
    attention_factor = told.number("attention_factor", None, null=None)
    if attention_factor is None:
        if factor > 1 and original == 1:
            raise told.fault(f"its setting '{told.within}original_max_position_embeddings' is 1; expected more")
        attention_factor = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return Rotary(
        head_dim,
        theta,
        frequencies=tuple((frequencies / short).tolist()),
        attention_factor=attention_factor,
        long_frequencies=tuple((frequencies / long).tolist()),
        long_after=original,
    )
