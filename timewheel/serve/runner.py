"""Run a scheduler and its HTTP API until a signal or a fault ends it. Exits and logs are the caller's.

The first SIGTERM or SIGINT begins the drain: nothing new starts, writes over HTTP answer 503, reads go on answering,
and handlers that run have `grace_s` to end. A second one ends the grace at once. A third finds the default handler.
`run` returns once every outcome is durable; it raises what made the scheduler fail.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from timewheel.serve.protocol import QuietServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from timewheel.scheduler import Scheduler

_log = logging.getLogger("timewheel.serve")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def is_loopback(host: str) -> bool:
    """Whether a host to bind to is this machine alone."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to a loopback address; port 0 takes a free one. Raises OSError."""
    address = "127.0.0.1" if host.lower() == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
    except BaseException:
        listener.close()
        raise
    return listener


class _Signals:
    """The process's signals while it runs: how many came."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._loop.add_signal_handler(number, self._came)

    def _came(self) -> None:
        if not self.first.is_set():
            self.first.set()
            return
        self.second.set()
        self.release()

    def release(self) -> None:
        """Leave the signals to their default handlers."""
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)


async def run(
    scheduler: Scheduler, app: ASGIApp, listener: socket.socket, *, grace_s: float, ready: Callable[[], None]
) -> None:
    """Start the scheduler, serve `app` on `listener`, call `ready`, stay until a signal or a fault; see the module."""
    signals = _Signals()
    try:
        await scheduler.start()
        server = QuietServer(app)
        living = asyncio.create_task(_live(scheduler))
        serving = asyncio.create_task(server.run_on(listener))
        try:
            await _first(serving, living, server.listening.wait())
            if server.listening.is_set():
                ready()
            await _first(serving, living, signals.first.wait())
        finally:
            await _drain(scheduler, living, signals, grace_s)
            server.should_exit = True
            server.force_exit = signals.second.is_set()
            await serving
        await living
    finally:
        listener.close()
        signals.release()


async def _live(scheduler: Scheduler) -> None:
    """Return when the scheduler has stopped, raise what made it fail."""
    try:
        await scheduler.run_forever()
    except KeyboardInterrupt:  # raised by a handler; inside a task it would tear the event loop down
        _log.warning("a handler raised KeyboardInterrupt: the scheduler has stopped, as it asked")


async def _drain(scheduler: Scheduler, living: asyncio.Task[None], signals: _Signals, grace_s: float) -> None:
    """Stop the scheduler in order, at once after a second signal."""
    stopping = asyncio.create_task(scheduler.stop(grace_s=grace_s))
    await _first(stopping, signals.second.wait())
    if not stopping.done():
        await scheduler.stop(grace_s=0)
    await stopping
    await asyncio.wait([living])


async def _first(*waited: asyncio.Task[None] | Coroutine[Any, Any, Any]) -> None:
    """Wait until one of these has ended. Coroutines are then cancelled, tasks go on."""
    own = [asyncio.create_task(each) for each in waited if not isinstance(each, asyncio.Task)]
    tasks = [each for each in waited if isinstance(each, asyncio.Task)]
    try:
        await asyncio.wait([*own, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in own:
            each.cancel()
