"""Which token is meant: by word, by word and occurrence, or by position."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

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


# Queries and keys of a trace


class Words(Protocol):
    """What a trace knows of its tokens."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def query_words(self) -> tuple[str, ...]: ...
    @property
    def first_query(self) -> int: ...
    @property
    def own_key(self) -> int | None: ...


def row_of(trace: Words, query: Any, step: str = "table") -> int:
    """The row of a query in a trace, by word, by word and occurrence, or by its position among all queries."""
    count = len(trace.query_words)
    if query is None:
        if count == 1:
            return 0
        raise wording.place_needed("query", step, trace.query_words)
    if trace.first_query and not isinstance(query, (str, tuple, list)):
        position = place_of("query", query, range(trace.first_query + count))  # type: ignore[arg-type]
        if position < trace.first_query:
            raise wording.only_this_query(position, trace.first_query, trace.query_words)
        return position - trace.first_query
    return place_of("query", query, trace.query_words)


def key_of(trace: Words, key: Any, step: str) -> int:
    """The position of a key."""
    if key is None and len(trace.words) > 1:
        raise wording.place_needed("key", step, trace.words)
    return place_of("key", 0 if key is None else key, trace.words)


def own_key_of(trace: Words, row: int) -> int | None:
    """The position of a query's own key, where it has one."""
    own = None if trace.own_key is None else trace.own_key + row
    return own if own is not None and own < len(trace.words) else None


def query_label(trace: Words, row: int) -> str:
    """The word of a query, with its occurrence if the same word occurs before it: `the:2`."""
    if trace.own_key is not None:
        return numbered(trace.words)[trace.own_key + row]
    return numbered(trace.query_words)[row]
