"""JSON objects from untrusted files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.models.errors import broken
from regard.models.regular_file import content_of

LARGEST = 2**24  # bytes: an index of a million tensors; tokenisers, which may be larger, are not read here


def object_in(path: Path, expected: str) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return object_of(content_of(path, LARGEST, expected), path, "it")


def object_of(content: bytes, path: Path, what: str) -> dict[str, Any]:
    """The object that bytes spell; a name that occurs twice is refused, since readers differ in which one they use."""
    try:
        parsed = json.loads(content.decode("utf-8"), object_pairs_hook=_without_doubles)
    except UnicodeDecodeError as problem:
        raise broken(path, f"{what} is not UTF-8 text (byte {problem.start})") from None
    except json.JSONDecodeError as problem:
        raise broken(path, f"{what} is not JSON ({problem.msg.lower()} at character {problem.pos})") from None
    except (RecursionError, ValueError) as problem:
        why = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise broken(path, f"{what} cannot be used: {why}") from None
    if not isinstance(parsed, dict):
        raise broken(path, f"{what} holds a {type(parsed).__name__}, not an object")
    return parsed


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"{name[:80]!r} occurs twice")
        made[name] = value
    return made
