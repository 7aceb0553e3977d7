"""HTTP/1.1 on a socket, with the limits that uvicorn leaves open.

uvicorn bounds how long a connection may be idle between two requests, but neither how long a client may take to send
the head of one, nor how many connections there are. Here both are limited, and what is no HTTP gets a problem document.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import orjson
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from timewheel.serve.problems import CONTENT_TYPE, Problem

HEAD_S = 10.0
HEAD_BYTES = 16 * 1024  # request line and headers together
IDLE_S = 30
CONNECTIONS = 2_000
LEAVE_S = 2  # for answers under way when the server stops


class BoundedProtocol(H11Protocol):
    """One connection; see the module."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, or close at once when there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.close()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head that is complete ends its time limit; the first byte of another begins one."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_came()
        elif self._head_timer is None and not self.transport.is_closing():
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has too large a head."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        detail = f"{msg} The request line and the headers may have {HEAD_BYTES} bytes in all."
        body = orjson.dumps(Problem(400, "http", detail).document())
        headers = [("content-type", CONTENT_TYPE), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.close)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class QuietServer(Server):
    """A uvicorn server that leaves the process's signals and logging alone. `listening` is set once it accepts."""

    def __init__(self, app: Any) -> None:
        super().__init__(
            Config(
                app,
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=IDLE_S,
                timeout_graceful_shutdown=LEAVE_S,
                h11_max_incomplete_event_size=HEAD_BYTES,
            )
        )
        self.listening = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Begin to accept."""
        await super().startup(sockets)
        self.listening.set()

    async def run_on(self, listener: Any) -> None:
        """Serve on a bound socket until `should_exit`."""
        await self._serve([listener])
