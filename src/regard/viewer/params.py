"""Validation of query parameters: a page's requests are untrusted input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard import errors, validate
from regard.errors import OptionError

MOST_CELLS = 1024  # along each side of a map
MOST_LINKS = 1000
MOST_KEYS = 4096  # vectors per answer
MOST_TOKENS = 64  # whose states of all layers are one answer
MOST_TEXT = 400_000  # characters of a text to read
MOST_GENERATED = 2048  # tokens
GENERATION = ("tokens", "temperature", "top_k", "top_p", "seed")
MOST_LETTERS = 10_000  # in a query to a dictionary


def parameters(given: Any, known: Sequence[str]) -> Mapping[str, Any]:
    """A mapping whose names are all known."""
    if not isinstance(given, Mapping):
        raise errors.option("parameters", given, "an object of names and values")
    for name in given:
        validate.choice("parameters", name, known)
    return given


def place(name: str, given: Any, count: int) -> int:
    """An integer from 0 to `count` − 1."""
    return validate.integer(name, given, 0, count - 1)


def places(name: str, given: Any, count: int, most: int | None = None) -> list[int]:
    """A non-empty list of integers from 0 to `count` − 1; all of them by default."""
    if given is None:
        return list(range(count))
    if not isinstance(given, list) or not given or len(given) > (count if most is None else most):
        raise errors.option(name, given, f"a list of 1 to {count if most is None else most} integers")
    return [place(name, number, count) for number in given]


def span(name: str, given: Any, count: int) -> tuple[int, int]:
    """A non-empty range [start, stop] within `count`; the whole range by default."""
    if given is None:
        return 0, count
    if not _is_pair(given) or not 0 <= given[0] < given[1] <= count:
        raise errors.option(name, given, f"[start, stop] with 0 ≤ start < stop ≤ {count}")
    return int(given[0]), int(given[1])


def cells(given: Any, rows: int, columns: int) -> tuple[int, int]:
    """[rows, columns] of a pooled map: at most one cell per weight, and at most MOST_CELLS."""
    most = (min(rows, MOST_CELLS), min(columns, MOST_CELLS))
    if not _is_pair(given) or not (1 <= given[0] <= most[0] and 1 <= given[1] <= most[1]):
        raise errors.option("shape", given, f"[rows, columns] from [1, 1] to [{most[0]}, {most[1]}]")
    return int(given[0]), int(given[1])


def word(name: str, given: Any, known: Sequence[str]) -> str:
    """One of several words; the first by default."""
    return known[0] if given is None else validate.choice(name, given, known)


def switch(name: str, given: Any, usual: bool) -> bool:
    if given is None:
        return usual
    if not isinstance(given, bool):
        raise errors.option(name, given, "true or false")
    return given


def count(name: str, given: Any, most: int, usual: int) -> int:
    """An integer from 1 to `most`."""
    return min(usual, most) if given is None else validate.integer(name, given, 1, most)


def number(name: str, given: Any) -> float | None:
    """A finite number ≥ 0, or None."""
    return None if given is None else validate.number(name, given, least=0)


def generation(given: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """How many tokens to generate, and how to sample them, as for `Model.generate`."""
    top_k, top_p = given.get("top_k"), given.get("top_p")
    return count("tokens", given.get("tokens"), MOST_GENERATED, 64), {
        "temperature": number("temperature", given.get("temperature")) or 0.0,
        "top_k": None if top_k is None else validate.integer("top_k", top_k, 1),
        "top_p": None if top_p is None else validate.number("top_p", top_p, above=0, most=1),
        "seed": place("seed", given.get("seed", 0), 1 << 31),
    }


def text(name: str, given: Any, most: int = MOST_TEXT) -> str:
    """A string of at most `most` characters that UTF-8 can encode."""
    if not isinstance(given, str):
        raise errors.option(name, given, "a string")
    if len(given) > most:
        raise OptionError(f"`{name}` has {len(given):,} characters; at most {most:,} are allowed.")
    if any("\ud800" <= letter <= "\udfff" for letter in given):
        raise OptionError(f"`{name}` contains an unpaired surrogate, which is not a valid character.")
    return given


def _is_pair(given: Any) -> bool:
    return isinstance(given, list) and len(given) == 2 and all(map(validate.is_integer, given))
