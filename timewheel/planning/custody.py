"""Custody: who may change a schedule at the moment. One at a time, in the order of asking.

It is kept over a commit: whoever changes a schedule holds it until the outcome is known, so that what is in memory is
what the journal holds. A planner that finds it taken goes on to the next schedule.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Custody:
    """See the module."""

    __slots__ = ("_taken", "_waiters")

    def __init__(self) -> None:
        self._taken = False
        self._waiters: deque[asyncio.Future[None]] | None = None  # most are never waited for, and there are many

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiters)

    def try_take(self) -> bool:
        """Take it if it is free; whether it was."""
        if self._taken:
            return False
        self._taken = True
        return True

    async def take(self) -> None:
        """Take it, after those that asked before."""
        if self.try_take():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = deque()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.give()  # it had been handed over already
            elif waiter in self._waiters:  # else `give` has passed it over already
                self._waiters.remove(waiter)
            raise

    def give(self) -> None:
        """Give it to who waits longest, or leave it free."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._taken = False
