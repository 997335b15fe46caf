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


def parameters(content: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """A mapping whose names are all known."""
    if not isinstance(content, Mapping):
        raise errors.option("parameters", content, "an object of names and values")
    for name in content:
        validate.choice("parameters", name, names)
    return content


def place(name: str, value: Any, count: int) -> int:
    """An integer from 0 to `count` − 1."""
    return validate.integer(name, value, 0, count - 1)


def places(name: str, value: Any, count: int, most: int | None = None) -> list[int]:
    """A non-empty list of integers from 0 to `count` − 1; all of them by default."""
    if value is None:
        return list(range(count))
    if not isinstance(value, list) or not value or len(value) > (count if most is None else most):
        raise errors.option(name, value, f"a list of 1 to {count if most is None else most} integers")
    return [place(name, number, count) for number in value]


def span(name: str, value: Any, count: int) -> tuple[int, int]:
    """A non-empty range [start, stop] within `count`; the whole range by default."""
    if value is None:
        return 0, count
    if not _is_pair(value) or not 0 <= value[0] < value[1] <= count:
        raise errors.option(name, value, f"[start, stop] with 0 ≤ start < stop ≤ {count}")
    return int(value[0]), int(value[1])


def cells(value: Any, rows: int, columns: int) -> tuple[int, int]:
    """[rows, columns] of a pooled map: at most one cell per weight, and at most MOST_CELLS."""
    most = (min(rows, MOST_CELLS), min(columns, MOST_CELLS))
    if not _is_pair(value) or not (1 <= value[0] <= most[0] and 1 <= value[1] <= most[1]):
        raise errors.option("shape", value, f"[rows, columns] from [1, 1] to [{most[0]}, {most[1]}]")
    return int(value[0]), int(value[1])


def word(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of several words; the first by default."""
    return choices[0] if value is None else validate.choice(name, value, choices)


def switch(name: str, value: Any, usual: bool) -> bool:
    if value is None:
        return usual
    if not isinstance(value, bool):
        raise errors.option(name, value, "true or false")
    return value


def count(name: str, value: Any, most: int, usual: int) -> int:
    """An integer from 1 to `most`."""
    return min(usual, most) if value is None else validate.integer(name, value, 1, most)


def number(name: str, value: Any) -> float | None:
    """A finite number ≥ 0, or None."""
    return None if value is None else validate.number(name, value, least=0)


def generation(values: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """How many tokens to generate, and how to sample them, as for `Model.generate`."""
    top_k, top_p = values.get("top_k"), values.get("top_p")
    return count("tokens", values.get("tokens"), MOST_GENERATED, 64), {
        "temperature": number("temperature", values.get("temperature")) or 0.0,
        "top_k": None if top_k is None else validate.integer("top_k", top_k, 1),
        "top_p": None if top_p is None else validate.number("top_p", top_p, above=0, most=1),
        "seed": place("seed", values.get("seed", 0), 1 << 31),
    }


def text(name: str, value: Any, most: int = MOST_TEXT) -> str:
    """A string of at most `most` characters that UTF-8 can encode."""
    if not isinstance(value, str):
        raise errors.option(name, value, "a string")
    if len(value) > most:
        raise OptionError(f"`{name}` has {len(value):,} characters; at most {most:,} are allowed.")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise OptionError(f"`{name}` contains an unpaired surrogate, which is not a valid character.")
    return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(validate.is_integer, value))
