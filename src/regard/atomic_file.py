"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import OptionError, RegardError, reason_of


def write(path: str | os.PathLike[str], content: str | bytes | Iterator[str]) -> Path:
    """Write a file; if that fails, a file that was there before is unchanged. See `replacing`."""
    pieces: Iterable[str | bytes] = [content] if isinstance(content, (str, bytes)) else content
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(piece.encode("utf-8", "replace") if isinstance(piece, str) else piece for piece in pieces)
    return Path(path)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file in the same folder, which replaces `path` in one step when the block ends without an error.

    A symbolic link stays a link, permissions are kept, and a device or a pipe such as /dev/stdout is written to
    directly.
    """
    path = Path(path)
    try:
        target = path.resolve()
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            yield target  # a folder raises when it is opened
            return
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(0, "permission denied")  # a rename would replace even a read-only file
        handle, name = tempfile.mkstemp(prefix=".regard-", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            rename(temporary, target, _usual_mode() if mode is None else stat.S_IMODE(mode))
        finally:
            temporary.unlink(missing_ok=True)
    except RegardError:
        raise
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        raise OptionError(f"{str(path)!r} cannot be written: {reason_of(problem)}.") from None


def rename(temporary: Path, target: Path, mode: int | None = None) -> None:
    """Give a file its name, and permissions, once it is on the disk: a power cut would leave a name without content."""
    _flush(temporary, os.O_RDWR)
    if mode is not None:
        temporary.chmod(mode)
    temporary.replace(target)
    if os.name == "posix":
        with suppress(OSError):  # some network file systems cannot flush a folder
            _flush(target.parent, os.O_RDONLY)


def _flush(path: Path, mode: int) -> None:
    handle = os.open(path, mode)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _usual_mode() -> int:
    mask = os.umask(0)  # there is no way to ask for it without setting it
    os.umask(mask)
    return 0o666 & ~mask
