"""The end of a model: probabilities of the next token, and how a change in one layer reaches it.

A change silences heads, or alters one head's divisor, temperature or mask; it holds for all tokens, and everything
after it is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.heads.ablation_effects import without_heads
from regard.layers import Heads, MultiHead, Transformer
from regard.layers.encoder import result_of
from regard.masks import causal
from regard.models.forward import packed, run
from regard.reading import Reading
from regard.reading.reader import Reader
from regard.viewer import params
from regard.viewer.frames import Floats, Parts

NAMED = 200  # of the most likely tokens, whose texts are sent
LONGEST = 2048  # tokens of a text whose layers are computed again
ROWS = 256  # tokens whose logits are computed at once
MASKS = ("model", "none", "causal")


@dataclass(frozen=True)
class Changes:
    """What is changed: silenced heads (layer, head), and one head's divisor, temperature and mask."""

    silenced: tuple[tuple[int, int], ...] = ()
    layer: int = 0
    head: int = 0
    divisor: float | None = None
    temperature: float = 1.0
    mask: str = "model"

    @property
    def of_head(self) -> bool:
        """Whether one head attends differently."""
        return self.divisor is not None or self.temperature != 1.0 or self.mask != "model"

    @property
    def first(self) -> int | None:
        """The first layer that is changed; None without a change."""
        layers = [layer for layer, _ in self.silenced] + ([self.layer] if self.of_head else [])
        return min(layers, default=None)


def reader_of(reading: Reading) -> Reader:
    """The model that read the text."""
    if reading.reader is None:
        raise errors.Unsupported("The model that read this text is not at hand: read the text again.")
    return reading.reader


def transformer_of(reading: Reading) -> Transformer:
    """The layers of the model that read the text."""
    transformer = reader_of(reading).transformer
    if transformer is None:
        raise errors.unsupported(
            f"Computing layers of {reading.model} again", "Read the text with a model that Regard computes itself."
        )
    return transformer


def changes_of(reading: Reading, given: Mapping[str, Any]) -> Changes:
    """The changes that a page asks for, checked."""
    layer = params.place("layer", given.get("layer", 0), reading.layers)
    heads = reading.seen[layer].attention.shape[0]
    pairs = given.get("silenced", [])
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise errors.option("silenced", pairs, "a list of [layer, head]")
    off = []
    for pair in pairs:
        place = params.place("silenced", pair[0], reading.layers)
        off.append((place, params.place("silenced", pair[1], reading.seen[place].attention.shape[0])))
    divisor = given.get("divisor")
    return Changes(
        tuple(sorted(set(off))),
        layer,
        params.place("head", given.get("head", 0), heads),
        None if divisor is None else validate.number("divisor", divisor, above=0),
        validate.number("temperature", given.get("temperature", 1.0), above=0),
        params.word("mask", given.get("mask"), MASKS),
    )


def next_token(reading: Reading, query: int) -> Parts:
    """The logits of the token after one position, largest first, and the texts of the most likely tokens."""
    return _next_logits(reading, query, numpy_of(reading.states[-1])[query])


def likelihood(reading: Reading, stop: Callable[[], None]) -> Parts:
    """How likely the model found each token after those before it: probability and rank, from 0; the first has none."""
    model, states = reader_of(reading), numpy_of(reading.states[-1])
    ids = [token.id for token in reading.tokens]
    count = len(ids)
    found = np.full((2, count), np.nan, np.float32)
    for first in range(0, count - 1, ROWS):
        stop()
        rows = slice(first, min(first + ROWS, count - 1))
        logits = numpy_of(model.next_logits(states[rows])).astype(np.float64)
        own = logits[np.arange(len(logits)), ids[rows.start + 1 : rows.stop + 1]][:, None]
        top = logits.max(axis=1, keepdims=True)
        places = slice(rows.start + 1, rows.stop + 1)
        found[0, places] = (np.exp(own - top) / np.exp(logits - top).sum(axis=1, keepdims=True))[:, 0]
        found[1, places] = (logits > own).sum(axis=1)
    return {}, {"probability": found[0], "rank": found[1]}


def flow(reading: Reading, changes: Changes, query: int, stop: Callable[[], None]) -> Parts:
    """How far a change moves one token's vector after every layer; and where the model writes, the next token.

    moved (layer + 1,): ‖h′ − h‖ / ‖h‖ of the embedding and after each layer.
    """
    if len(reading.tokens) > LONGEST:
        raise errors.OptionError(
            f"The text has {len(reading.tokens):,} tokens; changes are followed through texts of at most {LONGEST:,}."
        )
    states = _changed_states(reading, changes, stop)
    moved = []
    for before, after in zip(reading.states, states, strict=True):
        one, other = (numpy_of(rows)[query].astype(np.float64) for rows in (before, after))
        moved.append(float(np.linalg.norm(other - one)) / max(float(np.linalg.norm(one)), 1e-30))
    found: Parts = ({"query": query}, {})
    if reader_of(reading).writes:
        found = _next_logits(reading, query, numpy_of(states[-1])[query])
    return found[0], {**found[1], "moved": np.array(moved, np.float32)}


def _changed_states(reading: Reading, changes: Changes, stop: Callable[[], None]) -> list[Array]:
    """The states after every layer, computed again from the first layer that is changed."""
    first = changes.first
    if first is None:
        return list(reading.states)
    model = without_heads(transformer_of(reading), changes.silenced)
    together = packed([[token.id for token in reading.tokens]])
    states, at = list(reading.states[: first + 1]), first
    if changes.of_head:
        for step in run(model, together, changes.layer, first=at, states=states[-1]):
            stop()
            states.append(step.result)
        block = model.encoders[changes.layer]
        states.append(result_of(block.observe(states[-1], attend=_attend_changed(changes))))
        at = changes.layer + 1
    for step in run(model, together, first=at, states=states[-1]):
        stop()
        states.append(step.result)
    return states


def _attend_changed(changes: Changes) -> Callable[[MultiHead, Array], Heads]:
    def attend(layer: MultiHead, x: Array) -> Heads:
        attention, values = layer.attention(x)
        outputs = np.array(attention @ values)
        group = attention.shape[0] // len(values)
        changed = changed_head(attention.select(head=changes.head), changes)
        outputs[changes.head] = changed @ values[changes.head // group]
        return Heads(layer.concatenate(outputs), None)

    return attend


def changed_head(attention: Attention, changes: Changes) -> Attention:
    """One head's attention with another divisor, temperature or mask; the temperature divides what softmax gets."""
    scale = attention.scores.scale if changes.divisor is None else 1 / changes.divisor
    if changes.temperature != 1.0 and (attention.softcap is not None or attention.bias is not None):
        raise errors.unsupported("A temperature for scores with a bias or a softcap", "Change the divisor instead.")
    mask = {"model": attention.mask, "none": None, "causal": causal()}[changes.mask]
    return replace(attention, scale=scale / changes.temperature, mask=mask)


def _next_logits(reading: Reading, query: int, state: Floats) -> Parts:
    model = reader_of(reading)
    logits = numpy_of(model.next_logits(state[None]))[0].astype(np.float32)
    order = np.argsort(-logits, kind="stable")
    follows = query + 1 < len(reading.tokens)
    rank = int(np.nonzero(order == reading.tokens[query + 1].id)[0][0]) if follows else None
    named = [*order[:NAMED].tolist(), *([reading.tokens[query + 1].id] if follows else [])]
    pieces = [model.tokeniser.piece(number) for number in named]
    header = {
        "query": query,
        "tokens": [{"text": text, "begins": begins} for text, begins in pieces[: min(NAMED, len(order))]],
        "ids": order[:NAMED].tolist(),
        "follows": {"text": pieces[-1][0], "begins": pieces[-1][1], "rank": rank} if follows else None,
    }
    return header, {"logits": logits[order]}
