"""Readings made of random numbers, and the plain NumPy calculations that say what they should answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention import Attention
from regard.layers import LayerAttention, Transformer
from regard.masks import Mask
from regard.reading import Reading, Token

from ..dense import dense_weights

Numbers = NDArray[np.float64]
TEXT = "Keeping the cats watchingly, the end"
PIECES = (
    Token("[CLS]", 101, 0, 0, special=True),
    Token("keep", 1, 0, 4),
    Token("ing", 2, 4, 7, joined=True),
    Token("the", 3, 8, 11),
    Token("cats", 4, 12, 16),
    Token("watch", 5, 17, 22),
    Token("ing", 2, 22, 25, joined=True),
    Token("ly", 6, 25, 27, joined=True),
    Token(",", 7, 27, 28),
    Token("the", 3, 29, 32),
    Token("end", 8, 33, 36),
    Token("[SEP]", 102, 0, 0, special=True),
)
PLAIN = tuple(token for token in PIECES if not token.special)
LAYERS, HEADS, KEY_HEADS, SIZE, VALUE_SIZE = 3, 6, 2, 5, 7


def made(
    tokens: tuple[Token, ...] = PIECES, mask: Mask | None = None, sinks: Any = None, seed: int = 7, **options: Any
) -> Reading:
    """A reading of several layers whose heads share keys."""
    rng = np.random.default_rng(seed)
    count = len(tokens)

    def draw(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    seen = tuple(
        LayerAttention(
            Attention(2 * draw(HEADS, count, SIZE), draw(KEY_HEADS, count, SIZE), mask=mask, sinks=sinks, **options),
            draw(KEY_HEADS, count, VALUE_SIZE),
        )
        for _ in range(LAYERS)
    )
    return Reading(TEXT, tokens, seen)


def run_of(transformer: Transformer, tokens: tuple[Token, ...] = PIECES, text: str = TEXT) -> Reading:
    """A reading by a transformer with random weights."""
    run = transformer.run([token.id % 11 for token in tokens])
    outputs = tuple(seen.attention @ seen.values for seen in run.seen)
    return Reading(text, tokens, run.seen, outputs, run.states, transformer.encoders, "seeded")


@dataclass(frozen=True)
class Truth:
    """Dense weights of every layer, by hand: (layer, head, query, key) in float64."""

    reading: Reading

    def of_layer(self, layer: int) -> Numbers:
        attention = self.reading.seen[layer].attention
        seen: Any = True
        if attention.mask is not None:
            visible = attention.mask.visible(queries=attention.shape[-2], keys=attention.shape[-1])
            seen = visible.tile(slice(None), slice(None))[0]
        return dense_weights(attention.queries, attention.keys, seen=seen, sinks=attention.sinks)

    def by_word(self, layer: int) -> Numbers:
        """Sum over the pieces looked at, mean over the pieces that look."""
        tokens, words = self.of_layer(layer), self.reading.words
        found = np.zeros((len(tokens), len(words), len(words)))
        for row, asking in enumerate(words):
            for column, key in enumerate(words):
                part = tokens[:, asking.first : asking.last, key.first : key.last]
                found[:, row, column] = part.sum(axis=2).mean(axis=1)
        return found

    def averaged(self) -> Numbers:
        """Over all heads of all layers: (word, word)."""
        found: Numbers = np.mean([self.by_word(layer) for layer in range(self.reading.layers)], axis=(0, 1))
        return found
