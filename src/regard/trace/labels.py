"""Tokens named by word, by word and occurrence, or by position."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.errors import OptionError, OutOfRange, ShapeError, did_you_mean, shown, there_are
from regard.errors import count as counted
from regard.validate import is_integer

MOST_WORDS = 20  # listed in a message
_NUMBERED = re.compile(r"(.+):(\d{1,9})", re.DOTALL)  # a word with its occurrence: the:2


def words_for(name: str, words: Sequence[Any] | None, count: int, what: str) -> tuple[str, ...]:
    """One word per token; positions if no words are given."""
    if words is None:
        return tuple(map(str, range(count)))
    if isinstance(words, str):
        raise OptionError(
            f"`{name}` is the text {shown(words)}; expected a list of words, as in {shown(words.split()[:3])}."
        )
    words = tuple(map(str, words))
    if len(words) != count:
        raise ShapeError(
            f"`{name}` holds {counted(len(words), 'word')} for {counted(count, what)}.\n"
            f"Give one word for each {what}, or none."
        )
    return words


def place_of(name: str, label: Any, words: Sequence[str]) -> int:
    """The position of a token among its words.

    >>> words = ("The", "kids", "saw", "the", "lions")
    >>> place_of("query", "kids", words), place_of("query", ("the", 2), words), place_of("query", -1, words)
    (1, 3, 4)
    >>> place_of("query", "the:2", words)  # as tables label it
    3
    """
    if isinstance(label, str):
        numbered_word = _NUMBERED.fullmatch(label)
        if numbered_word and not any(word.casefold() == label.casefold() for word in words):
            return _occurrence(name, numbered_word[1], int(numbered_word[2]), words)
        return _occurrence(name, label, 1, words)
    is_pair = isinstance(label, (tuple, list)) and len(label) == 2 and isinstance(label[0], str)
    number = label[1] if is_pair else label
    if not is_integer(number):
        raise OptionError(
            f"`{name}` is {shown(label)}; expected a word, a word and which of its occurrences as in ('the', 2), or a "
            "position counted from 0."
        )
    position = operator.index(number)
    if is_pair:
        return _occurrence(name, label[0], position, words)
    if not -len(words) <= position < len(words):
        raise OutOfRange(
            f"`{name}` is {position}; there {there_are(len(words), 'word')}, counted from 0.\n"
            f"The words: {listed(words)}."
        )
    return position % len(words)


def _occurrence(name: str, word: str, nth: int, words: Sequence[str]) -> int:
    """The nth occurrence of a word; case is ignored if the exact spelling does not occur."""
    exact = [index for index, other in enumerate(words) if other == word]
    alike = [index for index, other in enumerate(words) if other.casefold() == word.casefold()]
    for occurrences in (exact, alike):
        if 1 <= nth <= len(occurrences):
            return occurrences[nth - 1]
    if not alike:
        came = f"is {word!r}, which is not among the words.{did_you_mean(word, words[:1000])}"
    else:
        came = f"asks for {word!r} number {nth}; it occurs {counted(len(alike), 'time')}, counted from 1."
    raise OptionError(f"`{name}` {came}\nThe words: {listed(words)}.")


def numbered(labels: Sequence[str]) -> list[str]:
    """Labels with repeated words numbered.

    >>> numbered(["the", "cat", "the"])
    ['the', 'cat', 'the:2']
    """
    seen: Counter[str] = Counter()
    named = []
    for label in labels:
        seen[label] += 1
        named.append(label if seen[label] == 1 else f"{label}:{seen[label]}")
    return named


def listed(words: Sequence[str]) -> str:
    """Words with their positions; of many, the first ones and the last.

    >>> listed(["The", "cat", "sat"])
    '0 The, 1 cat, 2 sat'
    """
    entries = [f"{index} {word}" for index, word in enumerate(words[:MOST_WORDS])]
    if len(words) > MOST_WORDS:
        entries = [*entries[:-1], "…", f"{len(words) - 1} {words[-1]}"]
    return ", ".join(entries)
