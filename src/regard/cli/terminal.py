"""What the command line prints, and where: coloured in a terminal, plain in a pipe, errors on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.errors import shortened
from regard.output import characters, text
from regard.output.characters import printable
from regard.tables import Table

NARROWEST, WIDEST = 20, 10_000  # columns: narrower layouts are unreadable; rich pads lines to the width


def prepare() -> None:
    """Make standard output and error spell in ASCII what their encoding lacks, and replace streams that are closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=characters.FALLBACK)


def show(parts: Iterable[Any], full: bool = False) -> None:
    """Print tables, lines and rich renderables, separated by blank lines."""
    console = _console()
    is_complete = characters.is_complete(console.encoding)
    parts = list(parts)
    tables = [part for part in parts if isinstance(part, Table)]
    if not is_complete:
        tables = [characters.encodable_table(table, console.encoding) for table in tables]
    rendered = iter(text.render_all(tables, full=full))
    for number, part in enumerate(parts):
        if number:
            console.print()
        shown = next(rendered) if isinstance(part, Table) else part
        if isinstance(shown, str):
            console.print(shown, markup=False, soft_wrap=not console.is_terminal)
        elif console.is_terminal and is_complete:
            console.print(shown)
        else:  # without the blanks that rich pads lines with
            lines = text.plain(shown, console.width)
            lines = lines if is_complete else characters.encodable_lines(lines, console.encoding)
            console.print(lines, markup=False, soft_wrap=True)


def _console() -> Console:
    console = Console(highlight=False)
    if not os.environ.get("COLUMNS", "1").strip("0"):  # COLUMNS=0 means that the width is not known
        console.width = text.USUAL_WIDTH
    console.width = min(max(console.width, NARROWEST), WIDEST)
    return console


def raw(content: str | bytes) -> None:
    """Print the content of a file: in a pipe as it is, in UTF-8, whatever the terminal's encoding is."""
    if isinstance(content, str):
        content = content if content.endswith("\n") else content + "\n"
        if is_terminal() or not hasattr(sys.stdout, "buffer"):
            sys.stdout.write(content)
            return
        content = content.encode("utf-8", "replace")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def is_terminal() -> bool:
    return sys.stdout.isatty()


def remark(line: str) -> None:
    """A line for people on standard error, beside what a program reads from standard output."""
    with suppress(OSError, ValueError):  # full, or closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def complain(message: str) -> None:
    """An error message on standard error; control characters that came from a file are made visible."""
    remark("regard: " + "\n".join(printable(line) for line in shortened(message).splitlines()))
