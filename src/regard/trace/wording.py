"""What goes wrong when somebody asks a trace for a word or a step, in words."""

from __future__ import annotations

from collections.abc import Sequence

from regard.errors import OptionError, OutOfRange, ShapeError, TooLarge
from regard.errors.wording import count, did_you_mean, shown, size_in_bytes, there_are

MOST_WORDS = 20


def listed(words: Sequence[str]) -> str:
    """Words with their positions, the first and the last where there are many.

    >>> listed(["The", "cat", "sat"])
    '0 The, 1 cat, 2 sat'
    """
    places = [f"{place} {word}" for place, word in enumerate(words[:MOST_WORDS])]
    if len(words) > MOST_WORDS:
        places = [*places[:-1], "…", f"{len(words) - 1} {words[-1]}"]
    return ", ".join(places)


def no_such_word(name: str, word: str, words: Sequence[str]) -> OptionError:
    """A word that is not there."""
    guess = did_you_mean(word, words[:1000])
    return OptionError(f"`{name}` is {word!r}, which is not among the words.{guess}\nThe words: {listed(words)}.")


def no_such_occurrence(name: str, word: str, nth: int, found: int, words: Sequence[str]) -> OptionError:
    """The third of two."""
    return OptionError(
        f"`{name}` asks for {word!r} number {nth}; it occurs {found} time{'' if found == 1 else 's'}, counted from 1.\n"
        f"The words: {listed(words)}."
    )


def not_a_place(name: str, given: object) -> OptionError:
    """Neither word nor position."""
    return OptionError(
        f"`{name}` is {shown(given)}; expected a word, a word and which of its occurrences as in ('the', 2), or a "
        "position counted from 0."
    )


def place_needed(name: str, step: str, words: Sequence[str]) -> OptionError:
    """Nobody said which query, or which key."""
    return OptionError(f"Which `{name}`? The trace's {step} has several: {listed(words)}.")


def no_such_position(name: str, position: int, words: Sequence[str]) -> OutOfRange:
    """A position past the end."""
    return OutOfRange(
        f"`{name}` is {position}; there {there_are(len(words), 'word')}, counted from 0.\nThe words: {listed(words)}."
    )


def only_this_query(position: int, first: int, words: Sequence[str]) -> OutOfRange:
    """A query that this trace was not made for."""
    return OutOfRange(
        f"`query` is {position}, but this trace holds only query {first}, {words[0]!r}.\n"
        "Explain that query instead, or leave `query` out of explain(...) for all of them."
    )


def no_such_step(name: str, names: Sequence[str], known: Sequence[str]) -> OptionError:
    """A step that does not exist, or not in this trace."""
    there = f"The steps: {', '.join(names)}."
    if name in known:
        return OptionError(f"There is no {name!r} in this trace: nothing of that kind was computed.\n{there}")
    return OptionError(f"There is no step {name!r}.{did_you_mean(name, names)}\n{there}")


def words_do_not_fit(name: str, words: int, tokens: int, what: str) -> ShapeError:
    """Not one word for each key or query."""
    return ShapeError(
        f"`{name}` holds {count(words, 'word')} for {count(tokens, what)}.\nGive one word for each {what}, or none."
    )


def words_in_one_text(name: str, text: str) -> OptionError:
    """A sentence where a list of words is wanted."""
    return OptionError(
        f"`{name}` is the text {shown(text)}; expected a list of words, as in {shown(text.split()[:3])}."
    )


def several_sequences(batch: int) -> ShapeError:
    """A batch where one sequence is wanted."""
    return ShapeError(
        f"There are {batch} sequences; a trace is of one.\n"
        "Choose one: A.select(batch=0).explain(values[0]), or layer.explain(x[0])."
    )


def too_large_to_trace(needed: int, limit: int, queries: int) -> TooLarge:
    """All steps of too many queries."""
    return TooLarge(
        f"All steps of {count(queries, 'query')} would take {size_in_bytes(needed)}, the limit is "
        f"{size_in_bytes(limit)}.\nExplain one of them, which takes O(n): explain(..., query=0)."
    )


def weighted_values_too_large(needed: int, limit: int) -> TooLarge:
    """Every value times every weight."""
    return TooLarge(
        f"The weighted values of all queries would take {size_in_bytes(needed)}, the limit is {size_in_bytes(limit)}.\n"
        "Take those of one query: trace.weighted_values(query=0, head=0), or explain(..., query=0)."
    )
