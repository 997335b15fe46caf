"""Progress on standard error: a bar in a terminal, elsewhere nothing or a line; reports to an observing program."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial

PATIENCE = 0.5  # seconds before a bar appears: shorter work shows none
Advance = Callable[[int], None]  # takes the number of bytes that have arrived
Report = Callable[[str, int, int], None]  # what is downloaded, bytes that have arrived, bytes of the whole
_observer: ContextVar[Report | None] = ContextVar("observer", default=None)


@contextmanager
def observed(report: Report) -> Iterator[None]:
    """Downloads of this thread are reported; `report` may raise to cancel them.

    The share that has arrived never falls, whatever is downloaded again or from elsewhere.
    """
    most = 0.0

    def rising(what: str, arrived: int, total: int) -> None:
        nonlocal most
        most = max(most, arrived / max(total, 1))
        report(what, min(total, max(arrived, math.ceil(most * total))), total)

    before = _observer.set(rising)
    try:
        yield
    finally:
        _observer.reset(before)


def reporter(what: str, total: int) -> Advance:
    """A function that reports the number of bytes that have arrived to the observer, if there is one."""
    report = _observer.get()
    return (lambda _arrived: None) if report is None else lambda arrived: report(what, min(arrived, total), total)


@contextmanager
def steps(what: str, total: int, *, every: float | None = None) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of finished steps; it draws a bar after `PATIENCE` seconds.

    Outside a terminal it writes nothing, or a line after so many seconds with `every`: for work that takes hours in a
    batch system.
    """
    begun = last_line = time.monotonic()
    first: tuple[int, float] | None = None  # the first report, and when it came: what an earlier run did took no time
    update: Callable[..., None] | None = None
    with ExitStack() as bars:

        def advance(done: int) -> None:
            nonlocal update, last_line, first
            now = time.monotonic()
            first = (done, now) if first is None else first
            if every is not None and now - last_line >= every and done > first[0] and not sys.stderr.isatty():
                last_line = now
                left = f", about {_duration((now - first[1]) * (total - done) / (done - first[0]))} left"
                sys.stderr.write(f"{what}: {100 * done / max(total, 1):.0f}%{left}\n")
                sys.stderr.flush()
            if update is None and sys.stderr.isatty() and time.monotonic() - begun > PATIENCE:
                from rich.console import Console
                from rich.progress import Progress

                bar = bars.enter_context(Progress(console=Console(stderr=True), transient=True))
                update = partial(bar.update, bar.add_task(what, total=total))
            if update is not None:
                update(completed=done)

        yield advance


def _duration(seconds: float) -> str:
    """A rough duration in words.

    >>> _duration(40), _duration(400), _duration(40_000)
    ('40 s', '7 min', '11 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def note(line: str) -> None:
    """A line on standard error, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")
