"""An alarm: what a doer waits on, by the injected clock."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timewheel.ports import Clock

_FOR_EVER = (None, math.inf)


class Alarm:
    """Wakes the one task that waits for it: when rung, or when its time is up, whichever comes first.

    A ring while nobody waits is kept for the next wait. Rings are not counted.
    """

    __slots__ = ("_clock", "_future", "_rung")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._future: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        """Wake the waiting task, or make its next wait return at once."""
        self._rung = True
        self._wake()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a ring, `timeout_s` awake seconds at most (None or infinite: for ever). Whether it rang."""
        if not self._rung:
            self._future = asyncio.get_running_loop().create_future()
            timer = None if timeout_s in _FOR_EVER else self._clock.call_later(timeout_s, self._wake)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
