"""Progress bars on standard error, drawn only in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

PATIENCE = 0.5  # seconds before a bar appears: shorter work shows none
Advance = Callable[[int], None]  # takes the number of bytes that have arrived


@contextmanager
def steps(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of finished steps; it draws a bar after `PATIENCE` seconds."""
    begun = time.monotonic()
    update: Callable[..., None] | None = None
    with ExitStack() as bars:

        def advance(done: int) -> None:
            nonlocal update
            if update is None and sys.stderr.isatty() and time.monotonic() - begun > PATIENCE:
                from rich.console import Console
                from rich.progress import Progress

                bar = bars.enter_context(Progress(console=Console(stderr=True), transient=True))
                update = partial(bar.update, bar.add_task(what, total=total))
            if update is not None:
                update(completed=done)

        yield advance


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """A download bar: a function to call with the number of bytes that have arrived."""
    if not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(None), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda arrived: progress.update(task, completed=arrived)


def note(line: str) -> None:
    """A line on standard error, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")
