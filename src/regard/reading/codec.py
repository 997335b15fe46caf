"""Readings in safetensors files: arrays by name, and the rest as JSON metadata."""

from __future__ import annotations

import os
from typing import Any

from regard import biases, codec
from regard.arrays import Array
from regard.attention import Attention, selection
from regard.layers import Encoder, Seen
from regard.layers.codec import KINDS as LAYER_KINDS
from regard.masks import kinds, mask, parameters
from regard.reading.reading import Reading
from regard.reading.tokens import Token

# What masks and lazy biases consist of, functions excepted.
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        kinds.Causal, kinds.Window, kinds.Lengths, kinds.Prefix, kinds.Documents, kinds.Chunks, kinds.First,
        kinds.Allowed, mask.Both, mask.Either, mask.Inverse, parameters.Given, selection.Part, selection.PartOfBias,
        biases.Alibi, biases.RelativePositions,
    )
}  # fmt: skip
NO_FUNCTIONS = "Masks of `regard.masks.where` are functions: save `regard.masks.allowed(array)` instead."
OPTIONS = ("scale", "mask", "bias", "softcap", "sinks", "similarity", "offset")


def save(reading: Reading, path: str | os.PathLike[str], blocks: bool = False) -> None:
    """Write a reading to a file; with `blocks`, the weights of the model's blocks as well."""
    tensors: dict[str, Array] = {}
    metadata = _structure(reading, tensors, blocks)
    codec.save(path, tensors, metadata, kind="reading")


def load(path: str | os.PathLike[str]) -> Reading:
    """Read what `save` wrote, as NumPy arrays."""
    return codec.load_as(path, "reading", _reading)


def _structure(reading: Reading, stored: dict[str, Array], blocks: bool) -> dict[str, Any]:
    def keep(name: str, array: Array) -> str:
        stored[name] = array
        return name

    layers = []
    for place, (attention, values) in enumerate(reading.seen):
        name = f"layers.{place}"
        described: dict[str, Any] = {
            "queries": keep(f"{name}.queries", attention.queries),
            "keys": keep(f"{name}.keys", attention.keys),
            "values": keep(f"{name}.values", values),
        }
        for option in OPTIONS:
            value = getattr(attention, option)
            described[option] = codec.describe(f"{name}.{option}", value, stored, KINDS, NO_FUNCTIONS)
        layers.append(described)
    written = reading.blocks if blocks else ()
    return {
        "text": reading.text,
        "tokens": [[one.text, one.id, one.start, one.stop, one.special, one.joined] for one in reading.tokens],
        "layers": layers,
        "outputs": [keep(f"outputs.{place}", array) for place, array in enumerate(reading.outputs)],
        "states": [keep(f"states.{place}", array) for place, array in enumerate(reading.states)],
        "blocks": [codec.describe(f"blocks.{place}", one, stored, LAYER_KINDS) for place, one in enumerate(written)],
        "model": reading.model,
        "given": reading.given,
    }


# Out of a file


def _reading(stored: dict[str, Array], described: dict[str, Any]) -> Reading:
    given_tokens = described["given"]
    if given_tokens is not None and (isinstance(given_tokens, bool) or not isinstance(given_tokens, int)):
        raise ValueError("'given' is not a number of tokens")
    blocks = tuple(codec.build(one, stored, LAYER_KINDS) for one in described["blocks"])
    if not all(isinstance(block, Encoder) for block in blocks):
        raise ValueError("a block is not an encoder")
    return Reading(
        _a("text", described["text"], str),
        tuple(_token(one) for one in described["tokens"]),
        tuple(_seen(layer, stored) for layer in described["layers"]),
        tuple(codec.tensor(name, stored) for name in described["outputs"]),
        tuple(codec.tensor(name, stored) for name in described["states"]),
        blocks,
        _a("model", described["model"], str),
        given_tokens,
    )


def _token(described: Any) -> Token:
    text, number, start, stop, special, joined = described
    for value, kind in ((text, str), (number, int), (start, int), (stop, int), (special, bool), (joined, bool)):
        _a("a token's part", value, kind)
    return Token(text, number, start, stop, special, joined)


def _seen(described: dict[str, Any], stored: dict[str, Array]) -> Seen:
    options = {name: codec.build(described[name], stored, KINDS) for name in OPTIONS}
    queries, keys = codec.tensor(described["queries"], stored), codec.tensor(described["keys"], stored)
    return Seen(Attention(queries, keys, **options), codec.tensor(described["values"], stored))


def _a(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value
