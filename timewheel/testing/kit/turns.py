"""Threads for sync handlers in virtual time: real ones, but one at a time, and the event loop waits meanwhile.

So a sync handler is as deterministic as an async one that never awaits, and all that it may do in a thread works:
`scheduler.blocking`, locks, `threading.local`. The loop goes on when the handler has ended; when it waits for the loop
itself (`scheduler.blocking`); or after `TURN_S` real seconds, for a handler that waits for something else, such as
`current().cancel_requested`. From then on the thread runs beside the loop, as in production.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timewheel.testing.kit.takeover import Takeover

TURN_S = 1.0


class TurnThreads:
    """See the module; implements `timewheel.ports.Threads`. `takeover` is called on the loop, which must be virtual."""

    def __init__(self, limit: int, takeover: Callable[[], Takeover]) -> None:
        self._limit = limit
        self._takeover = takeover
        self._running = 0
        self._waiting: deque[Callable[[], Any]] = deque()
        self._closed = False

    def start(self, call: Callable[[], Any]) -> None:
        """Give the call its turn in a later turn of the loop."""
        asyncio.get_running_loop().call_soon(self._turn, call)

    def close(self) -> None:
        """Take no more calls."""
        self._closed = True
        self._waiting.clear()

    def _turn(self, call: Callable[[], Any]) -> None:
        if self._running >= self._limit:
            self._waiting.append(call)
            return
        takeover = self._takeover()
        handed = threading.Event()
        self._running += 1
        takeover.threads += 1
        thread = threading.Thread(target=self._run, args=(call, handed, takeover), name="timewheel-worker", daemon=True)
        thread.start()
        handed.wait(TURN_S)

    def _run(self, call: Callable[[], Any], handed: threading.Event, takeover: Takeover) -> None:
        takeover.handed[threading.get_ident()] = handed
        try:
            call()
        finally:
            takeover.handed.pop(threading.get_ident(), None)
            if not takeover.loop.is_closed():
                takeover.loop.call_soon_threadsafe(self._ended, takeover)
            handed.set()

    def _ended(self, takeover: Takeover) -> None:
        self._running -= 1
        takeover.threads -= 1
        if self._waiting and not self._closed:
            self._turn(self._waiting.popleft())
