"""Vectors from a file: embeddings of words, with matrices or without, or queries, keys and values themselves."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.cli.words import words_of
from regard.errors import OptionError
from regard.layers.seeding import Seed

Numbers = NDArray[np.float64]
MATRICES = ("w_q", "w_k", "w_v", "w_o")
PARTS = ("queries", "keys", "values")
MOST_NAMED = 8


@dataclass(frozen=True, eq=False, slots=True)
class Vectors:
    """Words, and the vectors that they have."""

    words: tuple[str, ...]
    embeddings: Numbers | None = None  # (word, width)
    matrices: Mapping[str, Numbers] = field(default_factory=dict)  # W_q, W_k, W_v, W_O, each (out, in)
    parts: tuple[Numbers, Numbers, Numbers] | None = None  # queries, keys and values, each (word, size)


def from_content(content: Any, text: str | None, source: str) -> Vectors:
    """Vectors from what a file holds, for the words of a text or for its own.

    >>> from_content({"The": [1, 0], "cat": [0, 1]}, "The cat", "a.json").embeddings.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    words = None if text is None else words_of(text)
    if isinstance(content, dict) and {*PARTS} <= content.keys():
        return _of_parts(content, words, source)
    if isinstance(content, dict) and "embeddings" in content:
        if words is None and "words" in content:
            words = _listed(content["words"], source)
        embeddings = content["embeddings"]
    else:
        embeddings = content
    if not isinstance(embeddings, (dict, list)) or not embeddings:
        raise OptionError(
            f"{source} holds no embeddings; expected an object of words and vectors, "
            'as {"The": [1, 0], "cat": [0, 1]}, or a list of vectors.'
        )
    if isinstance(embeddings, dict):
        words = tuple(embeddings) if words is None else words
        table = matrix([_of_word(word, embeddings, source) for word in words], words, source)
    else:
        words = tuple(map(str, range(len(embeddings)))) if words is None else words
        _one_each(words, embeddings, "vector", source)
        table = matrix(embeddings, words, source)
    beside = content if isinstance(content, dict) and embeddings is not content else {}
    given = {name.lower(): rows for name, rows in beside.items() if name.lower() in MATRICES}
    return Vectors(words, table, {name: _weights(rows, name, source) for name, rows in given.items()})


def from_seed(words: Sequence[str], width: int, seed: int) -> Vectors:
    """Random vectors: one for each word, the same wherever the word stands."""
    start = Seed(seed).part("embedding")
    rows = {word: start.part(word).normal((width,), np.float64) for word in dict.fromkeys(words)}
    return Vectors(tuple(words), np.stack([rows[word] for word in words]))


def matrix(rows: Sequence[Any], names: Sequence[str], source: str) -> Numbers:
    """Rows of finite numbers, all of the same length."""
    for row, name in zip(rows, names, strict=True):
        if not isinstance(row, list) or not row:
            raise OptionError(f"{source}: the vector of {name!r} is {_short(row)}; expected a list of numbers.")
        for place, number in enumerate(row):
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise OptionError(f"{source}: number {place} of {name!r} is {_short(number)}; expected a number.")
            if not _is_finite(number):
                raise OptionError(f"{source}: number {place} of {name!r} is {_short(number)}, which is not finite.")
        if len(row) != len(rows[0]):
            raise OptionError(
                f"{source}: the vectors are of unequal length: {names[0]!r} has {len(rows[0])} numbers, "
                f"{name!r} has {len(row)}."
            )
    return np.array(rows, dtype=np.float64)


def _of_parts(content: Mapping[str, Any], words: tuple[str, ...] | None, source: str) -> Vectors:
    parts: list[Numbers] = []
    for name in PARTS:
        rows = content[name]
        if not isinstance(rows, list) or not rows:
            raise OptionError(f"{source}: {name!r} is {_short(rows)}; expected a list of vectors.")
        parts.append(matrix(rows, [f"{name} {place}" for place in range(len(rows))], source))
    if words is None and "words" in content:
        words = _listed(content["words"], source)
    words = tuple(map(str, range(len(parts[1])))) if words is None else words
    for name, part in zip(PARTS, parts, strict=True):
        _one_each(words, part, f"vector of {name!r}", source)
    queries, keys, values = parts
    return Vectors(words, parts=(queries, keys, values))


def _of_word(word: str, embeddings: Mapping[str, Any], source: str) -> Any:
    """A word's vector; capitals, and how accents are composed, are overlooked where the word itself is not there."""
    if word in embeddings:
        return embeddings[word]
    plain = _plain(word)
    for other, vector in embeddings.items():
        if _plain(other) == plain:
            return vector
    known = [repr(name) for name in embeddings]
    shown = ", ".join([*known[:MOST_NAMED], *(["…"] if len(known) > MOST_NAMED else [])])
    raise OptionError(f"{source} has no vector for {word!r}; it has {shown}.")


def _plain(word: str) -> str:
    return unicodedata.normalize("NFC", word).casefold()


def _listed(words: Any, source: str) -> tuple[str, ...]:
    if isinstance(words, str):
        return words_of(words)
    if not isinstance(words, list) or not words:
        raise OptionError(f"{source}: 'words' is {_short(words)}; expected a list of words.")
    return tuple(map(str, words))


def _weights(given: Any, name: str, source: str) -> Numbers:
    if not isinstance(given, list) or not given:
        raise OptionError(f"{source}: {name!r} is {_short(given)}; expected a list of rows.")
    return matrix(given, [f"{name} row {place}" for place in range(len(given))], source)


def _one_each(words: Sequence[str], vectors: Any, what: str, source: str) -> None:
    if len(words) != len(vectors):
        raise OptionError(
            f"{source} holds {len(vectors)} vectors for {len(words)} words: give one {what} for each of "
            f"{' '.join(words[:MOST_NAMED])}{' …' if len(words) > MOST_NAMED else ''}."
        )


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number past the largest double
        return False


def _short(thing: object) -> str:
    shown = repr(thing)
    return shown if len(shown) <= 40 else shown[:39] + "…"
