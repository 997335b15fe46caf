"""Long work in the background: progress, results, and cancellation when the client is gone."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from regard.errors import RegardError
from regard.studio.auth import Refused
from regard.studio.workers import Cancelled, CancelToken

State = Literal["waiting", "running", "done", "failed", "cancelled"]
MOST = 4  # running at once
PATIENCE = 20.0  # seconds that a status request waits for progress
UNATTENDED = 45.0  # seconds after the last status request: the tab was closed
LEFT = 5.0  # seconds after a client disconnected during a status request
THREADS = 2
KEPT = 32  # finished jobs


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
        self.wish = CancelToken()
        self.asked = time.monotonic()
        self._loop = loop
        self._news = asyncio.Event()
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether it has finished, failed or been cancelled."""
        return self.state in ("done", "failed", "cancelled")

    def tell(self, **news: Any) -> None:
        """Report progress, from any thread; raises `Cancelled` if the job was cancelled."""
        self.wish.stop()
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
        """Cancel the job."""
        self.wish.end()
        self._change(state="cancelled", message="Cancelled.")

    def run(self, work: Callable[[Job], dict[str, Any]]) -> None:
        """Run the work on this thread."""
        try:
            self.tell(state="running")
            result = work(self)
            self.tell(state="done", progress=1.0, result=result)
        except Cancelled:
            self._change(state="cancelled", message="Cancelled.")
        except (RegardError, Refused) as problem:
            self._change(state="failed", message=str(problem))
        except Exception as problem:  # noqa: BLE001 - every failure must reach the waiting client
            self._change(state="failed", message=f"{type(problem).__name__}: {problem}")

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
        self.asked = time.monotonic()
        return self.said()

    def left_alone(self) -> None:
        """The client disconnected; a reloaded page asks again soon."""
        self.asked = time.monotonic() - UNATTENDED + LEFT

    def said(self) -> dict[str, Any]:
        """The status, ready for JSON."""
        with self._lock:
            found = {"state": self.state, "step": self.step, "progress": self.progress, "message": self.message}
            if self.text is not None:
                found["text"] = self.text
            if self.state == "failed":
                found["error"] = self.message
            return {**found, **(self.result if self.state == "done" else {})}


class Jobs:
    """All jobs, by name."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "regard-job")
        self._jobs: dict[str, Job] = {}

    def start(self, work: Callable[[Job], dict[str, Any]]) -> Job:
        """Start a job as soon as a thread is free."""
        self.tidy()
        if sum(not job.is_over for job in self._jobs.values()) >= MOST:
            raise Refused(429, f"{MOST} jobs are running already: wait for one, or cancel one.")
        job = Job(asyncio.get_running_loop())
        self._jobs[job.name] = job
        self._threads.submit(job.run, work)
        return job

    def prepare(self, work: Callable[[], Any]) -> None:
        """Run something ahead of time; errors surface when it is needed."""
        self._threads.submit(work)

    def get(self, name: str) -> Job:
        """A job by name."""
        if name not in self._jobs:
            raise Refused(404, "There is no such job.")
        return self._jobs[name]

    def tidy(self, now: float | None = None) -> None:
        """Cancel unattended jobs and forget old ones."""
        now = time.monotonic() if now is None else now
        for job in self._jobs.values():
            if not job.is_over and now - job.asked > UNATTENDED:
                job.cancel()
        over = [name for name, job in self._jobs.items() if job.is_over]
        for name in over[: max(0, len(over) - KEPT)]:
            del self._jobs[name]

    def close(self) -> None:
        """Cancel all jobs."""
        for job in self._jobs.values():
            job.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
