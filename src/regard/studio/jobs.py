"""Computation on threads, so that the server stays responsive: requests that wait for their answer, and long jobs."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from regard.errors import RegardError
from regard.studio.auth import Refused

T = TypeVar("T")
ANSWER_THREADS = 4
MOST_AT_ONCE = 24  # requests computing or waiting
CLOSED = 499  # nginx's status for a client that closed the connection


class Cancelled(Exception):
    """The work was cancelled."""


class CancelToken(threading.Event):
    """Set once some work is cancelled."""

    def stop(self) -> None:
        """Called between steps of a computation: raises `Cancelled` once cancelled."""
        if self.is_set():
            raise Cancelled


class Workers:
    """A few threads; the kernels they call use all cores and release the GIL."""

    def __init__(self, threads: int = ANSWER_THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, "regard-studio")
        self._tokens: set[CancelToken] = set()

    @property
    def busy(self) -> int:
        return len(self._tokens)

    async def answer(self, work: Callable[[CancelToken], T], gone: Callable[[], Awaitable[None]], seconds: float) -> T:
        """The result of `work`; it is cancelled if the client disconnects or it takes too long."""
        if len(self._tokens) >= MOST_AT_ONCE:
            raise Refused(429, f"More than {MOST_AT_ONCE} requests are being answered: try again shortly.")
        token = CancelToken()
        self._tokens.add(token)
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, token)
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
            token.set()
            watching.cancel()
            future.add_done_callback(lambda done: self._settle(token, done))

    def close(self) -> None:
        for token in list(self._tokens):
            token.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _settle(self, token: CancelToken, done: asyncio.Future[Any]) -> None:
        self._tokens.discard(token)
        if not done.cancelled():
            done.exception()  # already reported, or the client is gone


# Long work in the background: progress, results, and cancellation when the client is gone

State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST_JOBS = 4  # running at once
PATIENCE = 20.0  # seconds that a status request waits for progress
UNATTENDED = 45.0  # seconds after the last status request: the tab was closed
LEFT = 5.0  # seconds after a client disconnected during a status request
JOB_THREADS = 2
KEPT_JOBS = 32  # finished jobs


class Job:
    """One background job."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.name = secrets.token_hex(8)
        self.state: State = "waiting"
        self.step = 0
        self.progress: float | None = None
        self.message = ""
        self.text: str | None = None
        self.result: dict[str, Any] = {}
        self.token = CancelToken()
        self.last_asked = time.monotonic()
        self._loop = loop
        self._news = asyncio.Event()
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether it has finished, failed or been cancelled."""
        return self.state in ("done", "failed", "cancelled")

    def tell(self, **news: Any) -> None:
        """Report progress, from any thread; raises `Cancelled` if the job was cancelled."""
        self.token.stop()
        self._change(**news)

    def _change(self, **news: Any) -> None:
        with self._lock:
            if self.is_over:
                return
            for name, value in news.items():
                setattr(self, name, value)
            self.step += 1
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    def cancel(self) -> None:
        self.token.set()
        self._change(state="cancelled", message="Cancelled.")

    def run(self, work: Callable[[Job], dict[str, Any]]) -> None:
        try:
            self.tell(state="running")
            result = work(self)
            self.tell(state="done", progress=1.0, result=result)
        except Cancelled:
            self.cancel()
        except Exception as problem:  # noqa: BLE001 - every failure must reach the waiting client
            is_ours = isinstance(problem, (Refused, RegardError))
            message = str(problem) if is_ours else f"{type(problem).__name__}: {problem}"
            self._change(state="failed", message=message, result=getattr(problem, "details", {}))

    async def news(self, after: int) -> dict[str, Any]:
        """The status, as soon as it is past step `after` or the wait times out."""
        until = time.monotonic() + PATIENCE
        while self.step <= after and not self.is_over and (left := until - time.monotonic()) > 0:
            self._news.clear()
            if self.step > after:
                break
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                break
        self.last_asked = time.monotonic()
        return self.status()

    def client_left(self) -> None:
        """The client disconnected; a reloaded page asks again soon."""
        self.last_asked = time.monotonic() - UNATTENDED + LEFT

    def status(self) -> dict[str, Any]:
        with self._lock:
            report = {"state": self.state, "step": self.step, "progress": self.progress, "message": self.message}
            if self.text is not None:
                report["text"] = self.text
            if self.state == "failed":
                report["error"] = self.message
            return {**report, **self.result}


class Jobs:
    """All jobs, by name."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(JOB_THREADS, "regard-job")
        self._jobs: dict[str, Job] = {}

    @property
    def running(self) -> int:
        return sum(not job.is_over for job in self._jobs.values())

    def start(self, work: Callable[[Job], dict[str, Any]]) -> Job:
        """Start a job as soon as a thread is free."""
        self.tidy()
        if self.running >= MOST_JOBS:
            raise Refused(429, f"{MOST_JOBS} jobs are running already: wait for one, or cancel one.")
        job = Job(asyncio.get_running_loop())
        self._jobs[job.name] = job
        self._threads.submit(job.run, work)
        return job

    def prepare(self, work: Callable[[], Any]) -> None:
        """Run something ahead of time; errors surface when it is needed."""
        self._threads.submit(work)

    def get(self, name: str) -> Job:
        if name not in self._jobs:
            raise Refused(404, "There is no such job.")
        return self._jobs[name]

    def tidy(self, now: float | None = None) -> None:
        """Cancel unattended jobs and forget old ones."""
        now = time.monotonic() if now is None else now
        for job in self._jobs.values():
            if not job.is_over and now - job.last_asked > UNATTENDED:
                job.cancel()
        over = [name for name, job in self._jobs.items() if job.is_over]
        for name in over[: max(0, len(over) - KEPT_JOBS)]:
            del self._jobs[name]

    def close(self) -> None:
        for job in self._jobs.values():
            job.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
