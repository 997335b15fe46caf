"""Opening files from untrusted folders: regular files of a bounded size, never devices, pipes or sockets."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from regard.models.errors import broken, missing

# A FIFO opened without O_NONBLOCK waits for a writer; the type is checked before and after opening.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


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
        raise broken(path, f"it cannot be read ({_reason(problem)})") from None
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
            raise broken(path, f"it cannot be read ({_reason(problem)})") from None
    if len(content) > size:  # it grows, or is one of those under /proc, whose size is not known
        raise broken(path, f"it holds more than the {size} bytes of its size")
    return content


def _reason(problem: Exception) -> str:
    return (getattr(problem, "strerror", None) or str(problem)).lower()
