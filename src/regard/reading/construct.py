"""A reading from attentions that somebody has; what fits together; and its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.layers import Seen
from regard.reading import wording
from regard.reading.tokens import Token, Word, piece
from regard.trace.labels import words_for

if TYPE_CHECKING:
    from regard.reading.reading import Reading
    from regard.trace import Trace


def parts(
    attention: Any, values: Any, words: Sequence[Any] | None, text: str | None
) -> tuple[str, tuple[Token, ...], tuple[Seen, ...]]:
    """Text, tokens and what was seen in each layer."""
    several = isinstance(attention, (list, tuple))
    attentions, of_layers = (list(attention), list(values)) if several else ([attention], [values])
    if not attentions:
        raise wording.nothing_seen()
    if len(attentions) != len(of_layers):
        raise wording.not_one_each("values", len(of_layers), len(attentions), len(attentions))
    seen = tuple(_seen(one, its) for one, its in zip(attentions, of_layers, strict=True))
    if words is not None and not isinstance(words, str) and all(isinstance(word, Token) for word in words):
        return *(_spelled(words) if text is None else (text, tuple(words))), seen
    names = words_for("words", words, seen[0].attention.shape[-1], "key")
    return *_placed(names, text), seen


def _seen(attention: Any, values: Any) -> Seen:
    """Three axes for both."""
    if not isinstance(attention, Attention):
        raise errors.option("attention", attention, "an Attention, or a list of them, one a layer")
    if attention.ndim == 4:
        if attention.shape[0] != 1:
            raise wording.several_sequences(attention.shape[0])
        attention, values = attention.select(batch=0), values[0]
    if attention.ndim == 2:
        attention = replace(attention, queries=attention.queries[None], keys=attention.keys[None])
    values = values if hasattr(values, "ndim") else np.asarray(values, dtype=np.float64)
    return Seen(attention, values[None] if values.ndim == 2 else values)


def _spelled(tokens: Sequence[Token]) -> tuple[str, tuple[Token, ...]]:
    """A text that these tokens could stand in, and the tokens placed there; special ones stand nowhere."""
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
    """Words where they stand in a text, or with a blank between them."""
    whole, at = " ".join(names) if text is None else text, 0
    tokens = []
    for place, name in enumerate(names):
        found = whole.find(name, at)
        start, stop = (at, at) if found < 0 else (found, found + len(name))
        tokens.append(Token(name, place, start, stop))
        at = stop
    return whole, tuple(tokens)


def check(reading: Reading) -> None:
    """Whether all arrays are of these tokens."""
    count, layers = len(reading.tokens), len(reading.seen)
    if not layers:
        raise wording.nothing_seen()
    for place, (attention, values) in enumerate(reading.seen):
        if attention.ndim != 3 or attention.shape[1:] != (count, count):
            raise wording.does_not_fit(place, "The attention", attention.shape, count, "(head, query, key)")
        if values.ndim != 3 or values.shape[0] != attention.keys.shape[0] or values.shape[1] != count:
            raise wording.does_not_fit(place, "The array of values", tuple(values.shape), count, "(head, key, size)")
    for place, output in enumerate(reading.outputs):
        attention, values = reading.seen[min(place, layers - 1)]
        shape = (*attention.shape[:2], values.shape[-1])
        if tuple(output.shape) != shape:
            raise wording.does_not_fit(place, "The output", tuple(output.shape), count, str(shape))
    for place, state in enumerate(reading.states):
        if state.ndim != 2 or state.shape[0] != count:
            raise wording.does_not_fit(place, "The state", tuple(state.shape), count, "(token, width)")
    for name, expected in (("outputs", layers), ("states", layers + 1), ("blocks", layers)):
        came = len(getattr(reading, name))
        if came and came != expected:
            raise wording.not_one_each(name, came, layers, expected)


def sinks(tokens: Sequence[Token], attention: Attention) -> tuple[int, ...]:
    """Special tokens; and the first, where it alone is what the first query may see."""
    found = [place for place, token in enumerate(tokens) if token.special]
    if len(tokens) > 1 and attention.mask is not None and 0 not in found:
        first = numpy_of(attention.masked[0, 0, :])
        if np.isneginf(first[1:]).all() and not np.isneginf(first[0]):
            found.insert(0, 0)
    return tuple(found)


def span(reading: Reading, given: Any) -> range | None:
    """Some neighbouring words, from one up to another."""
    if given is None:
        return None
    total = len(reading.words)
    try:
        start, stop, step = slice(*given).indices(total)
    except (TypeError, ValueError):
        raise errors.option("words", given, f"(start, stop) among {total:,} words") from None
    if step != 1 or start >= stop:
        raise errors.option("words", given, f"(start, stop) with at least one of {total:,} words")
    return range(start, stop)


def explained(reading: Reading, query: Any, layer: int) -> Trace:
    """The trace of one layer, through the model's block where it is known."""
    layer = validate.index("layer", layer, reading.layers)
    word = None if query is None else reading.word(query)
    place = None if word is None else word.last - 1
    words = [piece(token, reading.text) for token in reading.tokens]
    note = f"{reading.model}, layer {layer}{_pieces(reading, word)}."
    trace: Trace
    if reading.blocks and reading.states:
        before: Array = reading.states[layer]
        trace = reading.blocks[layer].explain(before, words=words, query=place, note=note)
        return trace
    attention, values = reading.seen[layer]
    trace = attention.explain(values, query=place, words=words)
    return trace.noted(note)


def _pieces(reading: Reading, word: Word | None) -> str:
    """What is said where a word has several pieces: only one of them can ask."""
    if word is None or word.last - word.first == 1:
        return ""
    pieces = " + ".join(piece(token, reading.text) for token in reading.tokens[word.first : word.last])
    return f"; {word.text} is read as {pieces}, and the last of these asks"
