"""A bounded queue's waiting room: who finds no place waits here until there is one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Room:
    """`vacancies()` is how many places there are; nobody waits while there is one."""

    def __init__(self, vacancies: Callable[[], int]) -> None:
        self._vacancies = vacancies
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait until there is a place."""
        while self._vacancies() <= 0:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def admit(self) -> None:
        """There may be places: wake as many as there are."""
        for _ in range(min(len(self._waiters), max(0, self._vacancies()))):
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
