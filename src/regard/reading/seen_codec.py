"""Attentions and tokens as JSON metadata and named tensors, for readings in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from regard import biases, codec
from regard.arrays import Array
from regard.attention import Attention
from regard.errors import RegardError
from regard.layers import LayerAttention
from regard.masks import kinds, mask, parameters
from regard.reading.words import Token

# What masks and lazy biases consist of, functions excepted.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        kinds.Causal, kinds.Window, kinds.Lengths, kinds.Prefix, kinds.Documents, kinds.Chunks, kinds.First,
        kinds.Allowed, mask.Both, mask.Either, mask.Inverse, parameters.Given, mask.SelectedMask, biases.PartOfBias,
        biases.AlibiBias, biases.RelativePositions,
    )
}  # fmt: skip
NO_FUNCTIONS = "Masks of `regard.masks.where` are functions: save `regard.masks.allowed(array)` instead."
OPTIONS = ("scale", "mask", "bias", "softcap", "sinks", "similarity", "offset")

T = TypeVar("T")


def add_tensors(names: str, arrays: tuple[Array, ...], tensors: dict[str, Array]) -> list[str]:
    """Add arrays to the tensors as "states.0", "states.1", …; their names."""
    named = {f"{names}.{number}": array for number, array in enumerate(arrays)}
    tensors |= named
    return list(named)


def describe_seen(name: str, seen: LayerAttention, tensors: dict[str, Array]) -> dict[str, Any]:
    """The attention and values of one layer."""
    attention, values = seen
    parts = {"queries": attention.queries, "keys": attention.keys, "values": values}
    tensors |= {f"{name}.{part}": array for part, array in parts.items()}
    described: dict[str, Any] = {part: f"{name}.{part}" for part in parts}
    for option in OPTIONS:
        value = getattr(attention, option)
        described[option] = codec.describe(f"{name}.{option}", value, tensors, KINDS, NO_FUNCTIONS)
    return described


def seen_of(described: dict[str, Any], tensors: dict[str, Array]) -> LayerAttention:
    """The attention and values that `describe_seen` described."""
    options = {name: codec.build(described[name], tensors, KINDS) for name in OPTIONS}
    queries, keys, values = (finite_tensor(described[name], tensors) for name in ("queries", "keys", "values"))
    return LayerAttention(Attention(queries, keys, **options), values)


def finite_tensor(name: Any, tensors: Mapping[str, Array]) -> Array:
    """The tensor of this name; a ValueError if it is missing or holds NaN or infinity."""
    array = codec.tensor(name, tensors)
    if not _is_finite(array):
        raise ValueError(f"{name} holds NaN or infinity")
    return array


def check_numbers(tensors: Mapping[str, Array]) -> None:
    """A ValueError for NaN and infinity; −inf may be in a layer's options: a bias or a sink that is off."""
    for name, array in tensors.items():
        if not _is_finite(array) and not (name.startswith("layers.") and bool((array < np.inf).all())):
            raise ValueError(f"{name} holds NaN or infinity")


def _is_finite(array: Array) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def describe_token(token: Token) -> list[Any]:
    """A token as a list of its fields."""
    return [token.text, token.id, token.start, token.stop, token.special, token.joined]


def token_of(described: Any, text: str) -> Token:
    """The token that `describe_token` described; a ValueError if it is not a span of the text."""
    if not isinstance(described, list) or len(described) != 6:
        raise ValueError("a token is not a list of text, id, start, stop, special, joined")
    spelling, number, start, stop, special, joined = described
    for value, kind in ((spelling, str), (number, int), (start, int), (stop, int), (special, bool), (joined, bool)):
        of_type("a field of a token", value, kind)
    if number < 0:
        raise ValueError(f"the id of a token is {number}")
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"a token spans characters {start} to {stop} of a text of {len(text)}")
    return Token(spelling, number, start, stop, special, joined)


def prompt_of(described: Any, tokens: int) -> int | None:
    """The number of tokens of the prompt; a ValueError if there are not so many."""
    if described is not None and not 0 <= of_type("the number", described, int) <= tokens:
        raise ValueError(f"the prompt has {described} of {tokens} tokens")
    return described  # type: ignore[no-any-return]


def field(metadata: Mapping[str, Any], name: str, build: Callable[[Any], T]) -> T:
    """What `build` makes of one field; an error names the field."""
    if name not in metadata:
        raise ValueError(f"`{name}` is missing")
    try:
        return build(metadata[name])
    except RegardError as problem:
        raise ValueError(f"`{name}`: {problem}") from problem
    except KeyError as problem:
        raise ValueError(f"`{name}` lacks {problem}") from problem
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as problem:
        raise ValueError(f"`{name}`: {problem}") from problem


def of_type(name: str, value: Any, kind: type[T]) -> T:
    """A value of this type; a ValueError for any other, True and False as integers included."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} is of type {type(value).__name__}, not {kind.__name__}")
    return value
