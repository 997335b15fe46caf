"""HTTP connections with limits: uvicorn alone waits forever for the rest of a request, and accepts any number.

Of more than `MOST` connections the oldest that is not being answered is closed: a flood costs neither the descriptors
of this process nor the user's own connection, and is reported once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # from the first byte, or the connection, to the end of a request's headers
STALLED_SECONDS = 60.0  # that an answer waits to be read
LOG = logging.getLogger("regard.studio")


def most_connections() -> int:
    """128, or a quarter of the file descriptors that this process may have."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are not file descriptors
        return 128
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 128 if limit == resource.RLIM_INFINITY else max(8, min(128, limit // 4))


MOST = most_connections()


class ReportedOnce(logging.Filter):
    """Lets the first record of its kind pass, as one line, and no other."""

    def __init__(self, level: int, part: str, line: str) -> None:
        super().__init__()
        self._level, self._part, self._line, self._has_reported = level, part, line, False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != self._level or self._part not in record.getMessage():
            return True
        record.msg, record.args, record.exc_info = self._line, (), None
        is_first, self._has_reported = not self._has_reported, True
        return is_first


# asyncio logs a traceback at every attempt to accept a connection, uvicorn every malformed request of anyone.
NO_DESCRIPTORS = "No connection can be accepted: this process has all the file descriptors it may have."
MALFORMED = "Some requests are not HTTP, or ask for what is not served. This is reported once."
REPORTED_ONCE = {
    "asyncio": ReportedOnce(logging.ERROR, "out of system resource", NO_DESCRIPTORS),
    "uvicorn.error": ReportedOnce(logging.WARNING, "", MALFORMED),
}


class LimitedConnection(H11Protocol):  # type: ignore[misc]
    """Closed if the headers of a request, or a body that is no longer read, take longer than `HEADER_SECONDS`, and if
    the client has read nothing of an answer for `STALLED_SECONDS`.

    Between requests uvicorn's own limit holds (timeout_keep_alive), and while a body is read the application's.
    """

    _timer: asyncio.TimerHandle | None = None
    _is_stalled = False
    _since = 0.0
    has_reported = False  # whether there were too many connections

    def connection_made(self, transport: Any) -> None:
        """A client connected; of too many, the oldest that is not being answered or does not read its answer leaves."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._watch()
        if len(self.connections) <= MOST:
            return
        if not LimitedConnection.has_reported:
            LOG.warning("More than %d connections at once: the oldest are closed. This is reported once.", MOST)
            LimitedConnection.has_reported = True
        waiting = (each for each in self.connections if each._is_stalled or not each._is_answering)
        idle = [each for each in waiting if not each.transport.is_closing()]
        min(idle, key=lambda each: each._since, default=self).transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        self._stop()
        self._is_stalled = True
        self._timer = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read enough for the rest."""
        self._stop()
        super().resume_writing()

    def _watch(self) -> None:
        """Start the clock unless it runs, while no request is being answered."""
        if self._is_answering and not self._is_stalled:
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._expire)

    def _expire(self) -> None:
        if not self._is_answering:
            self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._is_stalled = None, False
