"""Who waits for which job to become final, in this process."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class Waiters:
    """Futures by job id. A waiter looks at the journal itself once it is woken: this only says when to look."""

    def __init__(self) -> None:
        self._futures: dict[int, list[asyncio.Future[None]]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._futures)

    def join(self, job_id: int) -> asyncio.Future[None]:
        """A future that is done when the job may have become final; give it back with `leave`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[job_id].append(future)
        return future

    def leave(self, job_id: int, future: asyncio.Future[None]) -> None:
        """Wait no more."""
        futures = self._futures.get(job_id)
        if futures is not None and future in futures:
            futures.remove(future)
            if not futures:
                del self._futures[job_id]

    def final(self, job_id: int) -> None:
        """The job is final: wake who waits for it."""
        for future in self._futures.pop(job_id, ()):
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        """Have everybody look again: the scheduler stopped, failed, or re-read its journal."""
        for job_id in list(self._futures):
            self.final(job_id)
