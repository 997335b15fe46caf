"""Computation on threads, so that the server stays responsive; cancelled when the client disconnects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from regard.studio.auth import Refused

T = TypeVar("T")
THREADS = 4
MOST_AT_ONCE = 24  # requests computing or waiting
CLOSED = 499  # nginx's status for a client that closed the connection


class Cancelled(Exception):
    """The work was cancelled."""


class CancelToken:
    """Whether some work was cancelled."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def end(self) -> None:
        """Cancel the work."""
        self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether the work was cancelled."""
        return self._over.is_set()

    def stop(self) -> None:
        """Called between steps of a computation: raises `Cancelled` once cancelled."""
        if self._over.is_set():
            raise Cancelled


class Workers:
    """A few threads; the kernels they call use all cores and release the GIL."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, "regard-studio")
        self._wishes: set[CancelToken] = set()

    @property
    def busy(self) -> int:
        """Number of requests computing or waiting."""
        return len(self._wishes)

    async def answer(self, work: Callable[[CancelToken], T], gone: Callable[[], Awaitable[None]], seconds: float) -> T:
        """The result of `work`; it is cancelled if the client disconnects or it takes too long."""
        if len(self._wishes) >= MOST_AT_ONCE:
            raise Refused(429, f"More than {MOST_AT_ONCE} requests are being answered: try again shortly.")
        wish = CancelToken()
        self._wishes.add(wish)
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, wish)
        watching = asyncio.ensure_future(gone())
        try:
            both: set[asyncio.Future[Any]] = {future, watching}
            await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            if watching.done():
                raise Refused(CLOSED, "The client disconnected.")
            raise Refused(503, f"Cancelled after {seconds:g} seconds: ask for a smaller part.")
        finally:
            wish.end()
            watching.cancel()
            future.add_done_callback(lambda done: self._settle(wish, done))

    def close(self) -> None:
        """Cancel everything."""
        for wish in list(self._wishes):
            wish.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _settle(self, wish: CancelToken, done: asyncio.Future[Any]) -> None:
        self._wishes.discard(wish)
        if not done.cancelled():
            done.exception()  # already reported, or the client is gone
