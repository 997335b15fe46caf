"""Attentions and tokens as JSON metadata and named tensors, for readings in files."""

from __future__ import annotations

from typing import Any, TypeVar

from regard import biases, codec
from regard.arrays import Array
from regard.attention import Attention
from regard.layers import Seen
from regard.masks import kinds, mask, parameters
from regard.reading.words import Token

# What masks and lazy biases consist of, functions excepted.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        kinds.Causal, kinds.Window, kinds.Lengths, kinds.Prefix, kinds.Documents, kinds.Chunks, kinds.First,
        kinds.Allowed, mask.Both, mask.Either, mask.Inverse, parameters.Given, mask.Part, biases.PartOfBias,
        biases.Alibi, biases.RelativePositions,
    )
}  # fmt: skip
NO_FUNCTIONS = "Masks of `regard.masks.where` are functions: save `regard.masks.allowed(array)` instead."
OPTIONS = ("scale", "mask", "bias", "softcap", "sinks", "similarity", "offset")

T = TypeVar("T")


def kept(names: str, arrays: tuple[Array, ...], tensors: dict[str, Array]) -> list[str]:
    """Add arrays to the tensors as "states.0", "states.1", …; their names."""
    found = {f"{names}.{place}": array for place, array in enumerate(arrays)}
    tensors |= found
    return list(found)


def describe_seen(name: str, seen: Seen, tensors: dict[str, Array]) -> dict[str, Any]:
    """The attention and values of one layer."""
    attention, values = seen
    parts = {"queries": attention.queries, "keys": attention.keys, "values": values}
    tensors |= {f"{name}.{part}": array for part, array in parts.items()}
    described: dict[str, Any] = {part: f"{name}.{part}" for part in parts}
    for option in OPTIONS:
        value = getattr(attention, option)
        described[option] = codec.describe(f"{name}.{option}", value, tensors, KINDS, NO_FUNCTIONS)
    return described


def seen_of(described: dict[str, Any], tensors: dict[str, Array]) -> Seen:
    """The attention and values that `describe_seen` described."""
    options = {name: codec.build(described[name], tensors, KINDS) for name in OPTIONS}
    queries, keys, values = (codec.tensor(described[name], tensors) for name in ("queries", "keys", "values"))
    return Seen(Attention(queries, keys, **options), values)


def describe_token(token: Token) -> list[Any]:
    """A token as a list of its fields."""
    return [token.text, token.id, token.start, token.stop, token.special, token.joined]


def token_of(described: Any) -> Token:
    """The token that `describe_token` described."""
    text, number, start, stop, special, joined = described
    for value, kind in ((text, str), (number, int), (start, int), (stop, int), (special, bool), (joined, bool)):
        typed("a field of a token", value, kind)
    return Token(text, number, start, stop, special, joined)


def typed(name: str, value: Any, kind: type[T]) -> T:
    """A value of this type; a ValueError for any other, True and False as integers included."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} is of type {type(value).__name__}, not {kind.__name__}")
    return value
