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
        self._wake(self._vacancies())

    def close(self) -> None:
        """Nobody will be admitted any more: wake everybody, to be told so."""
        self._wake(len(self._waiters))

    def _wake(self, places: int) -> None:
        while places > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():  # one that was cancelled takes no place
                waiter.set_result(None)
                places -= 1
