"""JSON from files that nobody vouches for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.models.errors import broken, missing

LARGEST = 2**24  # bytes: an index of a million tensors; tokenisers, which may be larger, are not read here


def object_in(path: Path, expected: str) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise broken(path, f"{size} bytes are too many for {expected}")
        content = path.read_bytes()
    except FileNotFoundError:
        raise missing(path, expected) from None
    except OSError as problem:
        raise broken(path, f"it cannot be read ({(problem.strerror or str(problem)).lower()})") from None
    return object_of(content, path, "it")


def object_of(content: bytes, path: Path, what: str) -> dict[str, Any]:
    """The object that bytes spell; a name that comes twice is refused, for readers differ in which one counts."""
    try:
        parsed = json.loads(content.decode("utf-8"), object_pairs_hook=_without_doubles)
    except UnicodeDecodeError as problem:
        raise broken(path, f"{what} is no text in UTF-8 (byte {problem.start})") from None
    except json.JSONDecodeError as problem:
        raise broken(path, f"{what} is no JSON ({problem.msg.lower()} at character {problem.pos})") from None
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
            raise ValueError(f"{name[:80]!r} comes twice")
        made[name] = value
    return made
