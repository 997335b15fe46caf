"""Tokens named by word, by word and occurrence, or by position."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from regard.errors import OptionError, OutOfRange, ShapeError, did_you_mean, shown, there_are
from regard.errors import count as counted
from regard.validate import is_integer

MOST_WORDS = 20  # listed in a message
_NUMBERED = re.compile(r"(.+):(\d{1,9})", re.DOTALL)  # a word with its occurrence: the:2


def words_for(name: str, given: Sequence[Any] | None, count: int, what: str) -> tuple[str, ...]:
    """One word per token; positions if no words are given."""
    if given is None:
        return tuple(map(str, range(count)))
    if isinstance(given, str):
        raise OptionError(
            f"`{name}` is the text {shown(given)}; expected a list of words, as in {shown(given.split()[:3])}."
        )
    words = tuple(map(str, given))
    if len(words) != count:
        raise ShapeError(
            f"`{name}` holds {counted(len(words), 'word')} for {counted(count, what)}.\n"
            f"Give one word for each {what}, or none."
        )
    return words


def place_of(name: str, given: Any, words: Sequence[str]) -> int:
    """The position of a token among its words.

    >>> words = ("The", "kids", "saw", "the", "lions")
    >>> place_of("query", "kids", words), place_of("query", ("the", 2), words), place_of("query", -1, words)
    (1, 3, 4)
    >>> place_of("query", "the:2", words)  # as tables label it
    3
    """
    if isinstance(given, str):
        numbered_word = _NUMBERED.fullmatch(given)
        if numbered_word and not any(word.casefold() == given.casefold() for word in words):
            return _occurrence(name, numbered_word[1], int(numbered_word[2]), words)
        return _occurrence(name, given, 1, words)
    if isinstance(given, (tuple, list)) and len(given) == 2 and isinstance(given[0], str):
        return _occurrence(name, given[0], _whole(name, given[1], given), words)
    position = _whole(name, given, given)
    if not -len(words) <= position < len(words):
        raise OutOfRange(
            f"`{name}` is {position}; there {there_are(len(words), 'word')}, counted from 0.\n"
            f"The words: {listed(words)}."
        )
    return position % len(words)


def _occurrence(name: str, word: str, nth: int, words: Sequence[str]) -> int:
    """The nth occurrence of a word; case is ignored if the exact spelling does not occur."""
    exact = [place for place, other in enumerate(words) if other == word]
    if 1 <= nth <= len(exact):
        return exact[nth - 1]
    alike = [place for place, other in enumerate(words) if other.casefold() == word.casefold()]
    if 1 <= nth <= len(alike):
        return alike[nth - 1]
    if not alike:
        guess = did_you_mean(word, words[:1000])
        raise OptionError(f"`{name}` is {word!r}, which is not among the words.{guess}\nThe words: {listed(words)}.")
    raise OptionError(
        f"`{name}` asks for {word!r} number {nth}; it occurs {counted(len(alike), 'time')}, counted from 1.\n"
        f"The words: {listed(words)}."
    )


def _whole(name: str, number: Any, given: Any) -> int:
    if not is_integer(number):
        raise OptionError(
            f"`{name}` is {shown(given)}; expected a word, a word and which of its occurrences as in ('the', 2), or a "
            "position counted from 0."
        )
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


def listed(words: Sequence[str]) -> str:
    """Words with their positions; of many, the first ones and the last.

    >>> listed(["The", "cat", "sat"])
    '0 The, 1 cat, 2 sat'
    """
    places = [f"{place} {word}" for place, word in enumerate(words[:MOST_WORDS])]
    if len(words) > MOST_WORDS:
        places = [*places[:-1], "…", f"{len(words) - 1} {words[-1]}"]
    return ", ".join(places)


# Queries and keys of a trace


class Words(Protocol):
    """The words of a trace."""

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
        raise _several("query", step, trace.query_words)
    if trace.first_query and not isinstance(query, (str, tuple, list)):
        position = place_of("query", query, range(trace.first_query + count))  # type: ignore[arg-type]
        if position < trace.first_query:
            raise OutOfRange(
                f"`query` is {position}, but this trace holds only query {trace.first_query}, "
                f"{trace.query_words[0]!r}.\n"
                "Explain that query instead, or leave `query` out of explain(...) for all of them."
            )
        return position - trace.first_query
    return place_of("query", query, trace.query_words)


def key_of(trace: Words, key: Any, step: str) -> int:
    """The position of a key."""
    if key is None and len(trace.words) > 1:
        raise _several("key", step, trace.words)
    return place_of("key", 0 if key is None else key, trace.words)


def own_key_of(trace: Words, row: int) -> int | None:
    """The position of a query's own key, or None if it has none."""
    own = None if trace.own_key is None else trace.own_key + row
    return own if own is not None and own < len(trace.words) else None


def query_label(trace: Words, row: int) -> str:
    """The word of a query, with its occurrence if the same word occurs before it: `the:2`."""
    if trace.own_key is not None:
        return numbered(trace.words)[trace.own_key + row]
    return numbered(trace.query_words)[row]


def _several(name: str, step: str, words: Sequence[str]) -> OptionError:
    return OptionError(f"Which `{name}`? The trace's {step} has several: {listed(words)}.")
