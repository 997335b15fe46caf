"""Long work in the background: its progress, its end, and an end for it when nobody asks any more."""

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
MOST = 4  # at once
PATIENCE = 20.0  # seconds that a question about a job waits for news
UNATTENDED = 45.0  # seconds after the last question: the tab was closed
LEFT = 5.0  # seconds after somebody went away while waiting for news
THREADS = 2
KEPT = 32  # jobs that are over


class Job:
    """One piece of long work."""

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
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def tell(self, **news: Any) -> None:
        """Something changed; from any thread. Gives up where nobody waits any more."""
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
        """Give it up."""
        self.wish.end()
        self._change(state="cancelled", message="Given up.")

    def run(self, work: Callable[[Job], dict[str, Any]]) -> None:
        """Do it, on this thread."""
        try:
            self.tell(state="running")
            result = work(self)
            self.tell(state="done", progress=1.0, result=result)
        except Cancelled:
            self._change(state="cancelled", message="Given up.")
        except (RegardError, Refused) as problem:
            self._change(state="failed", message=str(problem))
        except Exception as problem:  # noqa: BLE001 - whoever waits must hear of it, whatever went wrong
            self._change(state="failed", message=f"{type(problem).__name__}: {problem}")

    async def news(self, after: int) -> dict[str, Any]:
        """How it stands, as soon as more than `after` steps were made or it has waited long enough."""
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
        """Whoever waited for news went away; a page that is loaded again asks soon."""
        self.asked = time.monotonic() - UNATTENDED + LEFT

    def said(self) -> dict[str, Any]:
        """How it stands, as JSON can hold it."""
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
        """A new job, begun as soon as a thread is free."""
        self.tidy()
        if sum(not job.is_over for job in self._jobs.values()) >= MOST:
            raise Refused(429, f"{MOST} texts are being read already: wait for one, or give one up.")
        job = Job(asyncio.get_running_loop())
        self._jobs[job.name] = job
        self._threads.submit(job.run, work)
        return job

    def prepare(self, work: Callable[[], Any]) -> None:
        """Something that will be needed soon; what goes wrong with it is told to whoever needs it then."""
        self._threads.submit(work)

    def get(self, name: str) -> Job:
        """A job that is known."""
        if name not in self._jobs:
            raise Refused(404, "There is no such job.")
        return self._jobs[name]

    def tidy(self, now: float | None = None) -> None:
        """Give up jobs that nobody asks about, and forget old ones."""
        now = time.monotonic() if now is None else now
        for job in self._jobs.values():
            if not job.is_over and now - job.asked > UNATTENDED:
                job.cancel()
        over = [name for name, job in self._jobs.items() if job.is_over]
        for name in over[: max(0, len(over) - KEPT)]:
            del self._jobs[name]

    def close(self) -> None:
        """Give all of them up."""
        for job in self._jobs.values():
            job.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
