"""The words of a text."""

from __future__ import annotations

import re
import unicodedata

# Ideographs: each is a word, in scripts without spaces.
_IDEOGRAPH = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")


def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words; punctuation before and after a word is separate, and each ideograph is a word.

    >>> words_of("The lions, so they left... C'est fini!")
    ('The', 'lions', ',', 'so', 'they', 'left', '...', "C'est", 'fini', '!')
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # lone surrogates
    chunks = _IDEOGRAPH.sub(r" \1 ", text).split()
    return tuple(word for chunk in chunks for word in _apart(chunk) if _is_visible(word))


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
    return [match.group() for match in re.finditer(r"(.)\1*", marks)]


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _is_visible(word: str) -> bool:
    """Whether a word has more than format characters, which are not printed."""
    return any(unicodedata.category(letter) != "Cf" or letter in "\u200c\u200d" for letter in word)
