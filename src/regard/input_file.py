"""Input files of bounded size: an endless device or a huge file is refused before it fills the memory."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from regard.errors import OptionError

LARGEST = 1 << 28  # bytes: no table or text that Regard reads is larger


def read(source: str | Path | BinaryIO, name: str = "") -> bytes:
    """The content of a file or of an open stream, at most `LARGEST` bytes."""
    if isinstance(source, (str, Path)):
        with Path(source).open("rb") as file:
            return read(file, name or str(source))
    content = source.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OptionError(f"{name!r} holds more than {LARGEST >> 20} MiB; expected a smaller file.")
    return content
