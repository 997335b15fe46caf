"""Which token is meant: by word, by word and occurrence, or by position."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.trace import wording
from regard.validate import is_integer


def words_for(name: str, given: Sequence[Any] | None, count: int, what: str) -> tuple[str, ...]:
    """One word for each token; positions where none are given."""
    if given is None:
        return tuple(map(str, range(count)))
    if isinstance(given, str):
        raise wording.words_in_one_text(name, given)
    words = tuple(map(str, given))
    if len(words) != count:
        raise wording.words_do_not_fit(name, len(words), count, what)
    return words


def place_of(name: str, given: Any, words: Sequence[str]) -> int:
    """The position of a token among its words.

    >>> words = ("The", "kids", "saw", "the", "lions")
    >>> place_of("query", "kids", words), place_of("query", ("the", 2), words), place_of("query", -1, words)
    (1, 3, 4)
    """
    if isinstance(given, str):
        return _occurrence(name, given, 1, words)
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str):
        return _occurrence(name, given[0], _whole(name, given[1], given), words)
    position = _whole(name, given, given)
    if not -len(words) <= position < len(words):
        raise wording.no_such_position(name, position, words)
    return position % len(words)


def _occurrence(name: str, word: str, nth: int, words: Sequence[str]) -> int:
    """The nth of these words, as it is written; capital letters are overlooked where that does not find it."""
    exact = [place for place, other in enumerate(words) if other == word]
    if 1 <= nth <= len(exact):
        return exact[nth - 1]
    alike = [place for place, other in enumerate(words) if other.casefold() == word.casefold()]
    if 1 <= nth <= len(alike):
        return alike[nth - 1]
    if not alike:
        raise wording.no_such_word(name, word, words)
    raise wording.no_such_occurrence(name, word, nth, len(alike), words)


def _whole(name: str, number: Any, given: Any) -> int:
    if not is_integer(number):
        raise wording.not_a_place(name, given)
    return operator.index(number)


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
