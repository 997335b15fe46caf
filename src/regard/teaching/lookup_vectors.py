"""Keys, values and queries of a look-up as vectors: checks, embeddings, similarities, softmax weights."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate
from regard.attention.attention import Attention
from regard.errors import count, kind_of

Floats = NDArray[np.float64]
Embed = Callable[[Any], Any]
METHODS = ("spelling", "model")
DEEPEST = 100  # levels of nested values


def keys_and_values(keys: Any, values: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those of a mapping, or one value per key."""
    if isinstance(keys, Mapping):
        if values is not None:
            raise errors.option("values", values, "None with a dictionary, which has its own values")
        _check_depth(keys)
        return tuple(keys.keys()), tuple(keys.values())
    for name, given in (("keys", keys), ("values", values)):
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise errors.TypeProblem(
                f"`{name}` are {kind_of(given)}; expected a dictionary, or keys and as many values.\n"
                'As in lookup({"brand": "Ford"}), or lookup([[1, 0], [0, 1]], ["first", "second"]).'
            )
    rows = tuple(_rows(keys)), tuple(_rows(values))
    _check_depth(rows)
    if len(rows[0]) != len(rows[1]):
        raise errors.ShapeError(
            f"`values` hold {count(len(rows[1]), 'value')} for {count(len(rows[0]), 'key')}.\nEach key needs one value."
        )
    return rows


def _check_depth(content: Any) -> None:
    """Refuse values nested deeper than recursion could follow."""
    level, depth = [content], 0
    while level:
        if depth > DEEPEST:
            raise errors.OptionError(
                f"The values are nested more than {DEEPEST} levels deep; expected a flat dictionary."
            )
        inside = (one.values() if isinstance(one, Mapping) else one for one in level)
        level = [part for parts in inside for part in parts if isinstance(part, (Mapping, list, tuple))]
        depth += 1


def _rows(given: Any) -> Iterable[Any]:
    rows: Iterable[Any] = arrays.numpy_of(given) if hasattr(given, "ndim") else given
    return rows


def _is_vector(thing: Any) -> bool:
    if hasattr(thing, "ndim"):
        return bool(thing.ndim) and "bool" not in str(thing.dtype)
    if not isinstance(thing, (list, tuple)) or not thing:
        return False
    return all(validate.is_number(part) or _is_vector(part) for part in thing)


def are_vectors(things: Sequence[Any]) -> bool:
    """Whether all are lists, tuples or arrays of numbers."""
    return bool(things) and all(_is_vector(thing) for thing in things)


def are_numbers(things: Sequence[Any]) -> bool:
    """Whether all are single numbers."""
    return bool(things) and all(validate.is_number(thing) for thing in things)


def numbers_of(name: str, things: Sequence[Any]) -> Floats:
    """One row per item, finite, of equal length."""
    rows = [np.asarray(arrays.numpy_of(thing) if hasattr(thing, "ndim") else _array(name, thing)) for thing in things]
    shapes = [row.shape for row in rows]
    for place, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise errors.ShapeError(
                f"`{name}` are of unequal length: {name}[0] has shape {shapes[0]}, {name}[{place}] has {shape}.\n"
                "All of them need the same number of numbers."
            )
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise errors.unsupported_dtype(name, rows[0].dtype) from None
    if not np.isfinite(array).all():
        place = int(np.argwhere(~np.isfinite(array))[0][0])
        raise errors.option(f"{name}[{place}]", things[place], "finite numbers")
    return array


def _array(name: str, thing: Any) -> NDArray[Any]:
    try:
        return np.asarray(thing)
    except ValueError:
        raise errors.ShapeError(f"`{name}` hold rows of unequal length: {thing!r}.\nGive rows of one length.") from None


def embedding(embed: Any) -> Embed | None:
    """The function from a key to a vector; None for the default, and for the spelling, which needs all keys."""
    if embed is None or embed == "spelling":
        return None
    if callable(embed):
        return embed  # type: ignore[no-any-return]
    validate.choice("embed", embed, METHODS)
    return by_model


def by_model(text: Any) -> Any:
    """The default model's embedding of a text, a vector of length 1."""
    return _default_model().embed(str(text))


@lru_cache(maxsize=1)
def _default_model() -> Any:
    from regard.models.model import model

    return model()


def embedded(things: Sequence[Any], name: str, embed: Embed) -> Floats:
    """The vectors, (item, component)."""
    vectors = numbers_of(name, [embed(thing) for thing in things])
    if vectors.ndim != 2:
        raise errors.ShapeError(f"`embed` gave shape {vectors.shape[1:]} for each key; expected one vector for each.")
    return vectors


# Texts as vectors by their spelling: counts of letter trigrams, the same on every machine, without a model.
#
# A text is split into words (runs of letters and digits, in lower case, so that `first_name` is *first name*). Each
# word is put between < and >; its trigrams and the whole word are counted. The cosine of two such counts is 0 for texts
# that share no trigram and 1 for texts of the same words: this compares spelling, not meaning.

LENGTH = 3  # characters of a piece

_WORD = re.compile(r"[^\W_]+")


def pieces(text: str) -> Counter[str]:
    """How many words of a text hold each piece: the trigrams of a word with its ends, and the whole word.

    >>> sorted(pieces("To_be"))
    ['<be', '<be>', '<to', '<to>', 'be>', 'to>']
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    words = _WORD.findall(text) or text.split()  # a text of punctuation alone consists of that
    found: Counter[str] = Counter()
    for word in words:
        ended = f"<{word}>"
        found.update({ended, *(ended[start : start + LENGTH] for start in range(len(ended) - LENGTH + 1))})
    return found


class Spelling:
    """From a text to its vector of length 1: one number per piece that occurs in the keys, one for all other pieces.

    Counting pieces exactly, instead of hashing them into a fixed number of places, keeps the cosine of texts that share
    no piece at 0.

    >>> spelling = Spelling(["Date of birth", "Name"])
    >>> date, name = map(spelling, ["Date of birth", "Name"])
    >>> round(float(date @ spelling("birth date")), 2), float(date @ name), float(name @ spelling("zzz"))
    (0.89, 0.0, 0.0)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        known = dict.fromkeys(piece for key in keys for piece in pieces(key))
        self.places = {piece: place for place, piece in enumerate(known)}

    def __call__(self, text: str) -> NDArray[np.float64]:
        found = pieces(text)
        vector = np.zeros(len(self.places) + 1)
        for piece in found.keys() & self.places.keys():
            vector[self.places[piece]] = found[piece]
        vector[-1] = math.sqrt(sum(found[piece] ** 2 for piece in found.keys() - self.places.keys()))
        length = math.sqrt(sum(count**2 for count in found.values()))
        return vector / length if length else vector


# Similarities of queries and keys, and the softmax weights of the keys

Named = Literal["dot", "scaled dot", "cosine", "negative distance"]
Similarity = Named | Callable[[Any, Any], float]
NAMES: tuple[Named, ...] = ("dot", "scaled dot", "cosine", "negative distance")
BY_ATTENTION = NAMES[:3]

# Larger scores: the maximum is subtracted before dividing by the temperature, which is exact.
SHARP = 2.0**20


def checked_similarity(similarity: Any) -> Similarity:
    """A function, or one of the names."""
    if callable(similarity):
        return similarity  # type: ignore[no-any-return]
    return validate.choice("similarity", similarity, NAMES)  # type: ignore[return-value]


def attention_for(queries: Floats, keys: Floats, similarity: Similarity, temperature: float) -> Attention | None:
    """The attention with the weights of the soft look-up; None for other similarities or scores above SHARP."""
    if similarity not in BY_ATTENTION or temperature == 0:
        return None
    scale = (keys.shape[1] ** -0.5 if similarity == "scaled dot" else 1.0) / temperature
    longest = 1.0 if similarity == "cosine" else _longest_vector(queries) * _longest_vector(keys)
    if not longest * scale <= SHARP:
        return None
    return Attention(queries, keys, scale=scale, similarity="cosine" if similarity == "cosine" else "dot")


def similarities_of_vectors(queries: Floats, keys: Floats, similarity: Named) -> Floats:
    """The similarity of each query to each key, (query, key); the same number for the same key."""
    # Equal keys are compared once: a matrix product may round the same row differently in two places.
    unique, where = np.unique(keys, axis=0, return_inverse=True)
    if similarity == "negative distance":
        found = np.array([-np.linalg.norm(unique - query, axis=1) for query in queries])
    else:
        scale = keys.shape[1] ** -0.5 if similarity == "scaled dot" else 1.0
        how: Literal["dot", "cosine"] = "cosine" if similarity == "cosine" else "dot"
        found = np.asarray(Attention(queries, unique, scale=scale, similarity=how).scaled.dense())
    return found[:, where.reshape(-1)]


def similarities_by_function(
    queries: Iterable[Any], keys: Iterable[Any], function: Callable[[Any, Any], float]
) -> Floats:
    """The function's value for each query and key, (query, key); −inf excludes a key."""
    found = np.array([[float(function(query, key)) for key in keys] for query in queries])
    if np.isnan(found).any() or np.isposinf(found).any():
        row, column = np.argwhere(np.isnan(found) | np.isposinf(found))[0]
        raise errors.option(
            "similarity(query, key)", float(found[row, column]), "a number, or −inf to exclude a key",
            f"That came for query {row} and key {column}.",
        )  # fmt: skip
    return found


def shares(scores: Floats, temperature: float) -> Floats:
    """softmax(scores / temperature) over the keys; at temperature 0 its limit, equal weights for the largest."""
    peak = scores.max(axis=1, keepdims=True)
    gap = np.where(np.isneginf(peak), -math.inf, scores - np.where(np.isneginf(peak), 0.0, peak))
    if temperature == 0:
        weights = (gap == 0).astype(np.float64)
    else:
        with np.errstate(over="ignore"):  # a gap that overflows is a weight of 0
            weights = np.exp(gap / temperature)
    total = weights.sum(axis=1, keepdims=True)
    shared: Floats = weights / np.where(total > 0, total, 1.0)
    return shared


def _longest_vector(vectors: Floats) -> float:
    return float(np.linalg.norm(vectors, axis=1).max(initial=0.0))
