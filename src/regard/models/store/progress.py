"""A download progress bar on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]  # bytes that are there, of all that are wanted


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """A function to be told how many bytes are there; it draws only in a terminal."""
    if not sys.stderr.isatty():
        yield lambda _there: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(None), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda there: progress.update(task, completed=there)


def note(line: str) -> None:
    """A line for whoever waits."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")
