"""A made-up reading of any length whose heads show what heads of real models do, for trying long texts.

The text is a row of eight documents; the second half of each repeats its first half, and the last four have the words
of the first four. Words are drawn from a vocabulary of 1,024. The mask is causal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.attention import Attention
from regard.masks import causal
from regard.reading.reading import Reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MODEL = "synthetic"
HEADS = (
    "the first token",
    "the previous token",
    "a window around the token",
    "the token's own document",
    "the token after an earlier occurrence of the word (induction)",
    "occurrences of the same word",
    "the first token and a window",
    "everything at random",
)
FIRST_SHOWN = 4  # of HEADS: induction, whose map shows the repeated documents
HEAD_DIM = 64
VOCABULARY = 1024
KINDS = (
    "red", "blue", "green", "black", "white", "grey", "brown", "golden", "old", "young", "small", "large", "tall",
    "short", "warm", "cold", "dry", "wet", "quiet", "loud", "quick", "slow", "round", "flat", "early", "late", "near",
    "far", "sweet", "bitter", "bright", "dark",
)  # fmt: skip
THINGS = (
    "house", "river", "garden", "table", "window", "letter", "road", "bridge", "forest", "lake", "horse", "bird",
    "cat", "dog", "apple", "stone", "boat", "train", "clock", "lamp", "book", "coat", "bell", "field", "hill", "ship",
    "tower", "wheel", "candle", "mirror", "basket", "ladder",
)  # fmt: skip
DOCUMENTS = 8  # at most, so that they are visible in a map of the whole text
SHORTEST = 8  # tokens of a document
TOKEN_DIM = 48  # of HEAD_DIM; the rest identifies the document

# Scores of a match. For random vectors of 64 numbers, exp(score) adds up to about n · exp(strength² / 128): each match
# stays above that sum up to a million tokens.
SHARP, WIDE, MATCH, WITHIN = 34.0, 16.0, 24.0, 11.0


def synthetic(count: int, seed: int = 0) -> Reading:
    """A reading of `count` tokens with one layer; `HEADS` says what each head attends to.

    >>> reading = synthetic(64)
    >>> reading.attention(0).shape, float(reading.attention(0)[1, 20, 19].round(2))
    ((8, 64, 64), 1.0)
    """
    rng = np.random.default_rng(seed)
    length = max(SHORTEST, 2 * -(-count // (2 * DOCUMENTS)))
    document = np.arange(count) // length
    half = length // 2
    drawn = rng.integers(VOCABULARY, size=(int(document[-1]) + 1, half))
    drawn[DOCUMENTS // 2 :] = drawn[: max(0, len(drawn) - DOCUMENTS // 2)]
    words = drawn[document, np.arange(count) % length % half]
    token = _unit(rng, VOCABULARY, TOKEN_DIM)[words]
    offset = _unit(rng, len(drawn), HEAD_DIM - TOKEN_DIM)[document]
    before = np.roll(token, 1, axis=0)
    before[0] = 0
    window = max(12.0, length / 4)  # weights fall to 0.6 at a quarter of it

    queries = rng.standard_normal((len(HEADS), count, HEAD_DIM), dtype=np.float32)
    keys = rng.standard_normal((len(HEADS), count, HEAD_DIM), dtype=np.float32)
    values = rng.standard_normal((len(HEADS), count, HEAD_DIM), dtype=np.float32)
    sink = float(np.log(count) + 3)
    _to_first(queries[0], keys[0], sink)
    _near(queries[1], keys[1], SHARP, width=0.8, offset=-1, rng=rng)
    _near(queries[2], keys[2], WIDE, width=window, offset=0, rng=rng)
    _match(queries[3], keys[3], np.pad(offset, ((0, 0), (TOKEN_DIM, 0))), None, MATCH)
    both = (token * np.sqrt(MATCH / WITHIN), offset)
    _match(queries[4], keys[4], np.hstack(both), np.hstack((before * np.sqrt(MATCH / WITHIN), offset)), WITHIN)
    _match(queries[5], keys[5], np.pad(token, ((0, 0), (0, HEAD_DIM - TOKEN_DIM))), None, MATCH)
    _near(queries[6], keys[6], WIDE, width=window / 2, offset=0, rng=rng)
    _to_first(queries[6], keys[6], WIDE + float(np.log(window / 6)))  # about half of the weight
    attention = Attention(queries, keys, mask=causal())
    return Reading.of(attention, values, words=_spelled(rng, words), model=MODEL)


def _spelled(rng: np.random.Generator, words: NDArray[np.int64]) -> list[str]:
    spelled = [f"{kind}-{thing}" for kind in KINDS for thing in THINGS]
    return [spelled[word] for word in rng.permutation(VOCABULARY)[words]]


def _unit(rng: np.random.Generator, count: int, size: int) -> Floats:
    drawn = rng.standard_normal((count, size), dtype=np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def _match(queries: Floats, keys: Floats, asked: Any, offered: Any, strength: float) -> None:
    """Scores of about `strength` · (asked · offered), with a little noise."""
    root = np.float32(np.sqrt(strength * np.sqrt(HEAD_DIM)))
    queries *= 0.3
    keys *= 0.3
    queries += root * asked
    keys += root * (asked if offered is None else offered)


def _near(queries: Floats, keys: Floats, strength: float, width: float, offset: int, rng: np.random.Generator) -> None:
    """Scores of `strength` · exp(−((key − query − offset) / width)² / 2), by random Fourier features."""
    frequencies = rng.standard_normal(HEAD_DIM // 2) / width
    positions = np.arange(len(queries))[:, None]

    def features(at: Any) -> Any:
        turns = at * frequencies
        return np.hstack((np.cos(turns), np.sin(turns))) / np.sqrt(HEAD_DIM // 2)

    queries *= 0.1
    keys *= 0.1
    root = np.sqrt(strength * np.sqrt(HEAD_DIM))
    queries += (root * features(positions + offset)).astype(np.float32)
    keys += (root * features(positions)).astype(np.float32)


def _to_first(queries: Floats, keys: Floats, strength: float) -> None:
    """The first key gets a score of about `strength` from every query."""
    queries[:, 0] = 4
    keys[:, 0] = 0
    keys[0] = 0
    keys[0, 0] = strength * np.sqrt(HEAD_DIM) / 4
