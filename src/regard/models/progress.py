"""A progress bar for work that takes longer than a moment: on standard error, and only in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

PATIENCE = 0.5  # seconds before a bar appears: shorter work shows none


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
