"""Computation on threads of its own, so that the server goes on answering; given up when nobody waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from regard.studio.auth import Refused

T = TypeVar("T")
THREADS = 4
MOST_AT_ONCE = 24  # requests that compute or wait for it
CLOSED = 499  # what others call a request whose client went away


class Cancelled(Exception):
    """Nobody waits for this any more."""


class CancelToken:
    """Whether somebody still waits for an answer."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def end(self) -> None:
        """Nobody waits any more."""
        self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self._over.is_set()

    def stop(self) -> None:
        """Between two steps of a computation: give up where nobody waits."""
        if self._over.is_set():
            raise Cancelled


class Workers:
    """A few threads; the kernels they call use all cores and leave Python's lock alone."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, "regard-studio")
        self._wishes: set[CancelToken] = set()

    @property
    def busy(self) -> int:
        """How many requests compute or wait for it."""
        return len(self._wishes)

    async def answer(self, work: Callable[[CancelToken], T], gone: Callable[[], Awaitable[None]], seconds: float) -> T:
        """What `work` gives, unless the client goes away or it takes too long; then it is told to give up."""
        if len(self._wishes) >= MOST_AT_ONCE:
            raise Refused(429, f"More than {MOST_AT_ONCE} requests are being answered: ask again in a moment.")
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
                raise Refused(CLOSED, "The client went away.")
            raise Refused(503, f"That took more than {seconds:g} seconds and was given up: ask for less at once.")
        finally:
            wish.end()
            watching.cancel()
            future.add_done_callback(lambda done: self._settle(wish, done))

    def close(self) -> None:
        """Give everything up."""
        for wish in list(self._wishes):
            wish.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _settle(self, wish: CancelToken, done: asyncio.Future[Any]) -> None:
        self._wishes.discard(wish)
        if not done.cancelled():
            done.exception()  # whoever asked has heard of it, or is gone
