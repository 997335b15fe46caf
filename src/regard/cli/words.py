"""From a text to its words, and from what somebody typed to one of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from regard.output.printable import printable

# Signs that stand for a word each, in texts that put no blanks between them.
_IDEOGRAPH = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_OCCURRENCE = re.compile(r"(.+):(\d{1,9})", re.DOTALL)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, with punctuation at their ends as words of its own; ideographs are words each.

    >>> words_of("The lions, so they left... C'est fini!")
    ('The', 'lions', ',', 'so', 'they', 'left', '...', "C'est", 'fini', '!')
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # bytes that were no characters
    chunks = _IDEOGRAPH.sub(r" \1 ", text).split()
    return tuple(word for chunk in chunks for word in _apart(chunk) if printable(word).strip())


def _apart(chunk: str) -> list[str]:
    """A chunk between blanks: signs before it, the word, signs behind it."""
    start, end = 0, len(chunk)
    while start < end and _is_sign(chunk[start]):
        start += 1
    while end > start and _is_sign(chunk[end - 1]):
        end -= 1
    return [*_runs(chunk[:start]), *([chunk[start:end]] if start < end else []), *_runs(chunk[end:])]


def _runs(signs: str) -> list[str]:
    """Equal signs in a row together: ... is one word."""
    return [found.group() for found in re.finditer(r"(.)\1*", signs)]


def _is_sign(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def asked_for(given: str | None, words: Sequence[str]) -> Any:
    """What --query or --key means: a word, a word's occurrence as in them:2, or a position from 0.

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
