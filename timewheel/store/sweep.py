"""The sweep: the search for due jobs that the loader's law says are in memory, and that are nowhere in it.

It looks at a page of each lane, going on where it stopped, and at no more than `SWEEP_LANES` lanes at a time: of 1,000
lanes each is looked at every tenth time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.alarm import Alarm
from timewheel.model import SECOND_US, ZERO_KEY, DueKey, JobState, Now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from timewheel.ports import Clock
    from timewheel.store.frontier import Book
    from timewheel.store.memories import Queued, Wheels
    from timewheel.store.port import Store

SWEEP_PAGE = 1_000
SWEEP_LANES = 100
LOOK_AGAIN_S, LOOKS = 0.25, 12  # so long may the outcome of a slow commit take


class Sweep:
    """See the module."""

    def __init__(
        self,
        store: Store,
        wheels: Wheels,
        queued: Queued,
        now: Callable[[], Now],
        clock: Clock,
        in_trouble: Callable[[], bool],
    ) -> None:
        self._store, self._wheels, self._queued = store, wheels, queued
        self._now = now
        self._in_trouble = in_trouble
        self._alarm = Alarm(clock)
        self._first = 0  # of the lanes that come next

    async def missing(self, books: Sequence[Book]) -> AsyncIterator[tuple[Book, int, int]]:
        """The jobs that are missing, as (book, due_us, job_id); the caller puts each into memory at once."""
        first = self._first if self._first < len(books) else 0
        self._first = first + SWEEP_LANES if len(books) > SWEEP_LANES else 0
        for book in [*books[first:], *books[:first]][:SWEEP_LANES]:
            generation, suspects = book.generation, await self._missing(book)
            for _ in range(LOOKS if suspects else 0):  # a batch may be written whose outcome has not arrived
                await self._alarm.wait(LOOK_AGAIN_S)
                suspects = [key for key in suspects if await self._still_missing(book, key)]
            if self._in_trouble() or book.generation != generation:
                continue  # nobody knows what was written, or it is being read afresh
            for due_us, job_id in suspects:
                yield book, due_us, job_id

    async def _missing(self, book: Book) -> list[tuple[int, int]]:
        number = book.lane.number
        known = set(self._queued.known_ids(number))
        covered = book.covered()
        kind = book.lane.clock
        until = min(self._now().on(kind) - SECOND_US, self._wheels.fired_until_us(kind))
        page = await self._store.due(number, book.swept, until, SWEEP_PAGE)
        book.swept = DueKey(*page[-1]) if len(page) == SWEEP_PAGE else ZERO_KEY
        known.update(self._queued.known_ids(number))
        return [key for key in page if key <= covered and key[1] not in known]

    async def _still_missing(self, book: Book, key: tuple[int, int]) -> bool:
        """A job that was claimed, or given back, while the page was read is not missing."""
        due_us, job_id = key
        job = await self._store.job(job_id)
        known = self._queued.known_ids(book.lane.number)
        return job is not None and (job.state, job.due_at) == (JobState.SCHEDULED, due_us) and job_id not in known
