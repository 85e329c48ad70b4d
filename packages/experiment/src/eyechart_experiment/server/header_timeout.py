"""Close connections that do not send the headers of a request in time.

uvicorn waits for them without a limit, so that a few hundred slow connections would use up the
server's sockets.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
"""Seconds within which the headers of a request must arrive, from its first byte or the opening of
the connection."""


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a limit on the time that the headers of a request may take."""

    header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the headers are complete; further bytes do not reset it."""
        super().data_received(data)
        # uvicorn creates the cycle of a request once its headers are complete.
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.header_timer is None and not self.transport.is_closing():
            # The first bytes of another request on the same connection.
            self._start()

    def on_response_complete(self) -> None:
        """Leave an idle connection to the limit for idle connections."""
        self._stop()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self.header_timer = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None
