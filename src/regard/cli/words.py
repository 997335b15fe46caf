"""The words of a text, and the word that --query or --key names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from regard.output.characters import printable

# Ideographs: each is a word, in scripts without spaces.
_IDEOGRAPH = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_OCCURRENCE = re.compile(r"(.+):(\d{1,9})", re.DOTALL)


def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words; punctuation before and after a word is separate, and each ideograph is a word.

    >>> words_of("The lions, so they left... C'est fini!")
    ('The', 'lions', ',', 'so', 'they', 'left', '...', "C'est", 'fini', '!')
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates
    chunks = _IDEOGRAPH.sub(r" \1 ", text).split()
    return tuple(word for chunk in chunks for word in _apart(chunk) if printable(word).strip())


def _apart(chunk: str) -> list[str]:
    """Split a chunk into leading punctuation, word and trailing punctuation."""
    start, end = 0, len(chunk)
    while start < end and _is_punctuation(chunk[start]):
        start += 1
    while end > start and _is_punctuation(chunk[end - 1]):
        end -= 1
    return [*_runs(chunk[:start]), *([chunk[start:end]] if start < end else []), *_runs(chunk[end:])]


def _runs(marks: str) -> list[str]:
    """Group repeated punctuation: ... is one word."""
    return [found.group() for found in re.finditer(r"(.)\1*", marks)]


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def asked_for(given: str | None, words: Sequence[str]) -> Any:
    """Interpret --query or --key: a word, an occurrence as in the:2, or a position from 0.

    >>> words = ("The", "kids", "saw", "the", "lions", ":")
    >>> asked_for("kids", words), asked_for("the:2", words), asked_for("4", words), asked_for(":", words)
    ('kids', ('the', 2), 4, ':')
    """
    if given is None or given in words:
        return given
    if re.fullmatch(r"-?\d{1,9}", given):
        return int(given)
    found = _OCCURRENCE.fullmatch(given)
    if found and any(word.casefold() == found[1].casefold() for word in words):
        return found[1], int(found[2])
    return given
