"""HTTP connections with time limits: uvicorn alone waits forever for the rest of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # from the first byte, or the connection, to the end of a request's headers


class LimitedConnection(H11Protocol):  # type: ignore[misc]
    """Closed if the headers of a request, or a body that is no longer read, take longer than `HEADER_SECONDS`.

    Between requests uvicorn's own limit holds (timeout_keep_alive), and while a body is read the application's.
    """

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client connected."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request arrived."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock unless it runs, while no request is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEADER_SECONDS, self._expire)

    def _expire(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
