"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from regard.errors import OptionError


def write(path: str | os.PathLike[str], content: str | bytes | Iterator[str]) -> Path:
    """Write a file; if that fails, a file that was there before is unchanged.

    The content goes to a temporary file in the same folder, which then replaces `path` in one step. A symbolic link
    stays a link, permissions are kept, and a device or a pipe such as /dev/stdout is written to directly.
    """
    path = Path(path)
    pieces: Iterable[str | bytes] = [content] if isinstance(content, (str, bytes)) else content
    data = (piece.encode("utf-8", "replace") if isinstance(piece, str) else piece for piece in pieces)
    try:
        target = path.resolve()
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with target.open("wb") as file:  # a folder raises here
                file.writelines(data)
        else:
            _replace(target, data, mode)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise OptionError(f"{str(path)!r} cannot be written: {reason.lower()}.") from None
    return path


def _replace(target: Path, data: Iterable[bytes], mode: int | None) -> None:
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "permission denied")  # a rename would replace even a read-only file
    handle, name = tempfile.mkstemp(prefix=".regard-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
        Path(name).chmod(_usual_mode() if mode is None else stat.S_IMODE(mode))
        Path(name).replace(target)
    finally:
        with suppress(OSError):
            Path(name).unlink()


def _usual_mode() -> int:
    mask = os.umask(0)  # there is no way to ask for it without setting it
    os.umask(mask)
    return 0o666 & ~mask
