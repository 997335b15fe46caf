"""Files from untrusted folders: regular files of bounded size, never devices or pipes, and JSON objects in them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import reason_of
from regard.models.errors import broken, missing

# A FIFO opened without O_NONBLOCK waits for a writer; the type is checked before and after opening.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
LARGEST_JSON = 2**24  # bytes: an index of a million tensors; tokenisers, which may be larger, are not read here


def open_regular(path: Path, expected: str, fix: str = "") -> BinaryIO:
    """Open a file for reading; symbolic links are followed, and what they lead to must be a regular file."""
    try:
        if stat.S_ISREG(path.stat().st_mode):
            file = os.fdopen(os.open(path, FLAGS), "rb")
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file
            file.close()
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path, expected, fix) from None
    except (OSError, ValueError) as problem:  # ValueError: a null character in the name
        raise broken(path, f"it cannot be read ({reason_of(problem)})") from None
    raise broken(path, "it is not a regular file", f"Expected {expected}.")


def content_of(path: Path, most: int, expected: str, fix: str = "") -> bytes:
    """All bytes of a regular file, at most `most` of them."""
    with open_regular(path, expected, fix) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise broken(path, f"{size} bytes are too many for {expected}")
        try:
            content = file.read(size + 1)
        except OSError as problem:
            raise broken(path, f"it cannot be read ({reason_of(problem)})") from None
    if len(content) > size:  # it grows, or is one of those under /proc, whose size is not known
        raise broken(path, f"it holds more than the {size} bytes of its size")
    return content


def object_in(path: Path, expected: str) -> dict[str, Any]:
    """The object that a JSON file holds."""
    return object_of(content_of(path, LARGEST_JSON, expected), path, "it")


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
