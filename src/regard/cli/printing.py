"""Where commands print: coloured in a terminal, plain in a pipe, complaints on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from rich.console import Console

from regard import atomic_file
from regard.cli import files
from regard.errors import OptionError
from regard.output import text
from regard.output.printable import printable
from regard.tables import Table

PATIENCE = 0.5  # seconds that nobody minds


def show(parts: Iterable[Any], full: bool = False) -> None:
    """Tables, lines and whatever rich prints below each other, a blank line between them."""
    console = Console(highlight=False)
    for place, part in enumerate(parts):
        if place:
            console.print()
        shown: Any = text.render(part, full=full) if isinstance(part, Table) else part
        if isinstance(shown, str):
            console.print(shown, markup=False, soft_wrap=not console.is_terminal)
        elif console.is_terminal:
            console.print(shown)
        else:  # without the blanks that rich fills lines up with
            console.print(text.plain(shown, console.width), markup=False, soft_wrap=True)


def plain(tables: Iterable[Table], full: bool = False) -> str:
    """Tables as a text file."""
    return "\n\n".join(str(text.render(table, full=full)) for table in tables) + "\n"


def raw(content: str | bytes) -> None:
    """A file's content as it is, for a pipe."""
    if isinstance(content, bytes):
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(content if content.endswith("\n") else content + "\n")


def deliver(content: str | bytes, out: str | None) -> None:
    """Content into a file, or into the pipe where none is named."""
    if out is None and isinstance(content, bytes) and is_terminal():
        raise OptionError("A PNG is not text: name a file for it, as in --out figure.png.")
    if out is None or out == files.STANDARD:
        raw(content)
        return
    atomic_file.write(out, content)
    show([f"Wrote {out}."])


def is_terminal() -> bool:
    """Whether somebody sees what is printed."""
    return sys.stdout.isatty()


@contextmanager
def progress(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """A function to be called after each step; a bar on standard error, where somebody looks and has to wait for it."""
    begun, done = time.monotonic(), 0
    advance: Callable[..., None] | None = None
    with ExitStack() as bars:

        def one_more() -> None:
            nonlocal done, advance
            done += 1
            if advance is None and sys.stderr.isatty() and time.monotonic() - begun > PATIENCE:
                from rich.progress import Progress

                bar = bars.enter_context(Progress(console=Console(stderr=True), transient=True))
                task = bar.add_task(what, total=steps)
                advance = partial(bar.update, task)
            if advance is not None:
                advance(completed=done)

        yield one_more


def remark(line: str) -> None:
    """A line for people, beside what a program reads."""
    sys.stderr.write(f"{line}\n")


def complain(message: str) -> None:
    """What went wrong, on standard error; control characters that somebody's file held stay harmless."""
    lines = [printable(line) for line in message.splitlines()]
    sys.stderr.write("regard: " + "\n".join(lines) + "\n")
