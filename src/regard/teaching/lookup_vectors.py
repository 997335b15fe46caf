"""Keys, queries and values of a look-up as vectors: numbers as they are, texts by spelling, a model or a function."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors, validate

Floats = NDArray[np.float64]
Embed = Callable[[Any], Any]
PIECE = 3  # characters
_WORD = re.compile(r"[^\W_]+")


def are_numbers(things: Sequence[Any]) -> bool:
    """Whether all are single numbers."""
    return bool(things) and all(map(validate.is_number, things))


def are_vectors(things: Sequence[Any]) -> bool:
    """Whether all are lists, tuples or arrays of numbers."""
    return bool(things) and all(map(_is_vector, things))


def _is_vector(thing: Any) -> bool:
    if hasattr(thing, "ndim"):
        return bool(thing.ndim) and "bool" not in str(thing.dtype)
    is_list = isinstance(thing, (list, tuple)) and bool(thing)
    return is_list and all(validate.is_number(part) or _is_vector(part) for part in thing)


def have_one_shape(things: Sequence[Any]) -> bool:
    """Whether lists have equal lengths at every level."""
    try:
        return len({np.shape(thing) for thing in things}) <= 1
    except ValueError:
        return False


def numbers_of(name: str, things: Sequence[Any]) -> Floats:
    """One row per item, finite, of equal length."""
    if not have_one_shape(things):
        raise errors.ShapeError(f"`{name}` are of unequal length.\nAll of them need the same number of numbers.")
    rows = [arrays.numpy_of(thing) if hasattr(thing, "ndim") else np.asarray(thing) for thing in things]
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise errors.unsupported_dtype(name, rows[0].dtype) from None
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise errors.option(f"{name}[{row}]", things[row], "finite numbers")
    return array


def as_numbers(thing: Any) -> Any:
    """A vector or a number as it is."""
    if not (validate.is_number(thing) or _is_vector(thing)):
        raise errors.TypeProblem(f"`query` is {thing!r}; expected numbers, as the keys are.")
    return thing


def embed_by_model(text: Any) -> Any:
    """The default model's embedding of a text, a vector of length 1."""
    return _default_model().embed(str(text))


@lru_cache(maxsize=1)
def _default_model() -> Any:
    from regard.models.model import model

    return model()


def pieces(text: str) -> Counter[str]:
    """How many words of a text hold each piece: the trigrams of a word with its ends, and the whole word.

    Words are runs of letters and digits, in lower case, so that `first_name` is *first name*.

    >>> sorted(pieces("To_be"))
    ['<be', '<be>', '<to', '<to>', 'be>', 'to>']
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    counts: Counter[str] = Counter()
    for word in _WORD.findall(text) or text.split():  # a text of punctuation alone consists of that
        ended = f"<{word}>"
        counts.update({ended, *(ended[start : start + PIECE] for start in range(len(ended) - PIECE + 1))})
    return counts


class Spelling:
    """From a text to its vector of length 1: one number per piece that occurs in the keys, one for all other pieces.

    The cosine of two texts is 0 if they share no trigram and 1 if they have the same words: this compares spelling, not
    meaning. Counting pieces exactly, instead of hashing them, keeps the cosine of texts that share no piece at 0.

    >>> spelling = Spelling(["Date of birth", "Name"])
    >>> date, name = map(spelling, ["Date of birth", "Name"])
    >>> round(float(date @ spelling("birth date")), 2), float(date @ name), float(name @ spelling("zzz"))
    (0.89, 0.0, 0.0)
    """

    def __init__(self, keys: Iterable[str]) -> None:
        distinct = dict.fromkeys(piece for key in keys for piece in pieces(key))
        self.index = {piece: at for at, piece in enumerate(distinct)}

    def __call__(self, text: Any) -> Floats:
        if not isinstance(text, str):
            raise errors.TypeProblem(f"`query` is {text!r}; expected a text, as the keys are.")
        counts = pieces(text)
        vector = np.zeros(len(self.index) + 1)
        for piece in counts.keys() & self.index.keys():
            vector[self.index[piece]] = counts[piece]
        vector[-1] = math.sqrt(sum(counts[piece] ** 2 for piece in counts.keys() - self.index.keys()))
        length = math.sqrt(sum(count**2 for count in counts.values()))
        return vector / length if length else vector
