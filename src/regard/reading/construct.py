"""Readings from attentions and words: conversion of what is given, and checks that everything fits together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import errors
from regard.arrays import numpy_of
from regard.attention import Attention
from regard.errors import count as count_of
from regard.layers import Seen
from regard.reading.tokens import Token
from regard.trace.labels import words_for

if TYPE_CHECKING:
    from regard.reading.reading import Reading


def parts(
    attention: Any, values: Any, words: Sequence[Any] | None, text: str | None
) -> tuple[str, tuple[Token, ...], tuple[Seen, ...]]:
    """Text, tokens, and the attention and values of each layer."""
    several = isinstance(attention, (list, tuple))
    attentions, of_layers = (list(attention), list(values)) if several else ([attention], [values])
    if not attentions:
        raise _no_layer()
    if len(attentions) != len(of_layers):
        raise _not_one_each("values", len(of_layers), len(attentions), len(attentions))
    seen = tuple(_seen(one, its) for one, its in zip(attentions, of_layers, strict=True))
    if words is not None and not isinstance(words, str) and all(isinstance(word, Token) for word in words):
        return *(_spelled(words) if text is None else (text, tuple(words))), seen
    names = words_for("words", words, seen[0].attention.shape[-1], "key")
    return *_placed(names, text), seen


def _seen(attention: Any, values: Any) -> Seen:
    """With three axes each."""
    if not isinstance(attention, Attention):
        raise errors.option("attention", attention, "an Attention, or a list of them, one per layer")
    if attention.ndim == 4:
        if attention.shape[0] != 1:
            raise errors.ShapeError(
                f"There are {attention.shape[0]} sequences; a reading holds one.\n"
                "Choose one: Reading.of(A.select(batch=0), values[0])."
            )
        attention, values = attention.select(batch=0), values[0]
    if attention.ndim == 2:
        attention = replace(attention, queries=attention.queries[None], keys=attention.keys[None])
    values = values if hasattr(values, "ndim") else np.asarray(values, dtype=np.float64)
    return Seen(attention, values[None] if values.ndim == 2 else values)


def _spelled(tokens: Sequence[Token]) -> tuple[str, tuple[Token, ...]]:
    """A text made of these tokens, and the tokens with their positions in it; special ones have empty spans."""
    text, placed = "", []
    for token in tokens:
        if token.special:
            placed.append(replace(token, start=len(text), stop=len(text)))
            continue
        text += "" if token.joined or not text else " "
        placed.append(replace(token, start=len(text), stop=len(text) + len(token.text)))
        text += token.text
    return text, tuple(placed)


def _placed(names: tuple[str, ...], text: str | None) -> tuple[str, tuple[Token, ...]]:
    """Words with their positions in a text, or joined by spaces where none is given."""
    whole, at = " ".join(names) if text is None else text, 0
    tokens = []
    for place, name in enumerate(names):
        found = whole.find(name, at)
        start, stop = (at, at) if found < 0 else (found, found + len(name))
        tokens.append(Token(name, place, start, stop))
        at = stop
    return whole, tuple(tokens)


def check(reading: Reading) -> None:
    """Refuse arrays whose shapes do not fit the tokens and layers."""
    count, layers = len(reading.tokens), len(reading.seen)
    if not layers:
        raise _no_layer()
    for place, (attention, values) in enumerate(reading.seen):
        if attention.ndim != 3 or attention.shape[1:] != (count, count):
            raise _misfit(place, "The attention", attention.shape, count, "(head, query, key)")
        if values.ndim != 3 or values.shape[0] != attention.keys.shape[0] or values.shape[1] != count:
            raise _misfit(place, "The array of values", tuple(values.shape), count, "(head, key, head_dim)")
    for place, output in enumerate(reading.outputs):
        attention, values = reading.seen[min(place, layers - 1)]
        shape = (*attention.shape[:2], values.shape[-1])
        if tuple(output.shape) != shape:
            raise _misfit(place, "The output", tuple(output.shape), count, str(shape))
    for place, state in enumerate(reading.states):
        if state.ndim != 2 or state.shape[0] != count:
            raise _misfit(place, "The state", tuple(state.shape), count, "(token, width)")
    for name, expected in (("outputs", layers), ("states", layers + 1), ("blocks", layers)):
        came = len(getattr(reading, name))
        if came and came != expected:
            raise _not_one_each(name, came, layers, expected)


def sinks(tokens: Sequence[Token], attention: Attention) -> tuple[int, ...]:
    """Special tokens, and the first token where it is the only one that the first query sees."""
    found = [place for place, token in enumerate(tokens) if token.special]
    if len(tokens) > 1 and attention.mask is not None and 0 not in found:
        first = numpy_of(attention.masked[0, 0, :])
        if np.isneginf(first[1:]).all() and not np.isneginf(first[0]):
            found.insert(0, 0)
    return tuple(found)


def _no_layer() -> errors.ShapeError:
    return errors.ShapeError("`seen` holds no layer; a reading needs the attention of at least one.")


def _not_one_each(what: str, came: int, layers: int, expected: int) -> errors.ShapeError:
    return errors.ShapeError(f"`{what}` holds {came} for {count_of(layers, 'layer')}; expected {expected}, or none.")


def _misfit(layer: int, what: str, shape: tuple[int, ...], tokens: int, expected: str) -> errors.ShapeError:
    return errors.ShapeError(
        f"{what} of layer {layer} has shape {shape}; expected {expected} for {count_of(tokens, 'token')}.\n"
        "In every layer, each token of the text is one query and one key."
    )
