"""Input files of bounded size, and their text: what cannot be read is an error in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from regard.errors import OptionError, reason_of

LARGEST = 1 << 28  # bytes: no table or text that Regard reads is larger


def read(source: str | Path | BinaryIO, name: str = "") -> bytes:
    """The content of a file or of an open stream, at most `LARGEST` bytes: an endless device does not fill the memory.

    name    what the source is called in errors; its path by default
    """
    name = name or repr(str(source))
    try:
        if isinstance(source, (str, Path)):
            with Path(source).open("rb") as file:
                content = file.read(LARGEST + 1)
        else:
            content = source.read(LARGEST + 1)
    except FileNotFoundError:
        raise OptionError(f"There is no file {name}.") from None
    except IsADirectoryError:
        raise OptionError(f"{name} is a folder; expected a file.") from None
    except OSError as problem:
        raise OptionError(f"{name} cannot be read: {reason_of(problem)}.") from None
    except ValueError:  # a null character or a lone surrogate
        raise OptionError(f"{name} is not a valid file name.") from None
    if len(content) > LARGEST:
        raise OptionError(f"{name} holds more than {LARGEST >> 20} MiB; expected a smaller file.")
    return content


def read_text(source: str | Path | BinaryIO, name: str = "", fix: str = "") -> str:
    """The text of a file or of an open stream in UTF-8; `fix` is the end of the error where it is not."""
    return decode(read(source, name), name or repr(str(source)), fix)


def decode(content: bytes, name: str, fix: str = "") -> str:
    """Text in UTF-8, without a byte order mark; `name` is what it comes from."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise OptionError(f"{name} is not UTF-8 text: byte {problem.start:,} is invalid.{fix}") from None
