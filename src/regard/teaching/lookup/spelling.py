"""Texts as vectors by their spelling: counts of letter trigrams, the same on every machine, without a model.

A text is split into words (runs of letters and digits, in lower case, so that `first_name` is *first name*). Each word
is put between < and >; its trigrams and the whole word are counted. The cosine of two such counts is 0 for texts that
share no trigram and 1 for texts of the same words: this compares spelling, not meaning.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

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
