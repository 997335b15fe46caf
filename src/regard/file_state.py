"""Whether a file has changed since it was read, without reading it again."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

SETTLED_SECONDS = 2.0  # the coarsest times of file systems

State = tuple[int, ...]


def state_of(path: Path) -> State:
    """What changes with a file's content: size, inode, and the times of the last change of content and of inode."""
    status = path.stat()
    return status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def is_settled(state: State) -> bool:
    """Whether any later change will show; one that follows another at once may leave the same times.

    To be called before the content is read.
    """
    return time.time_ns() - max(state[2:]) > SETTLED_SECONDS * 1e9


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
