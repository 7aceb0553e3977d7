"""The loader: brings the next horizon of each lane from the journal's due index into memory.

Each lane has a *frontier*, a key (due_at, id): every SCHEDULED job whose key is not above it is in memory (in the
wheel, in ready, or hinted in a claim); the rest is only on disk. So ten million far jobs cost disk, not memory, and a
restart costs one page a lane. Two rules keep that law:

- the loader first raises the frontier to the horizon, then reads the page, then lowers the frontier to the last key of
  a full page. Whoever commits a job below the frontier, also while the page is read, puts it into memory (`placed`);
- a lane that overflows (`LANE_LIMIT`) lowers its frontier below the key that it has no room for.

A page that was not full is followed by a look at the first key behind the frontier (`beyond`). Until that comes near
there is nothing to load, so an idle lane is left alone; a job that is committed in between lifts the frontier itself.

Partitions make many lanes. Those that lie idle cost nothing between two looks: only lanes that have more due than they
have in memory (`_hungry`) are asked whether they want a page when jobs start, and a look passes over those of which all
is in memory (1,000 of them: 40 us a look, nothing a start). And the lanes of partitions share the
memory there is (see `frontier.share`).

Duplicates are allowed: they die at the claim. Losses are not: every 30 s `sweep` counts due jobs below the frontier
that are nowhere in memory, reports them, and puts them there; a page of each lane at a time, going on where it stopped
(see `timewheel.store.sweep`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.alarm import Alarm
from timewheel.events import Notices, SweepFound
from timewheel.model import SECOND_US, ZERO_KEY, ClockKind, DueKey, Now
from timewheel.store.frontier import FAR, LAST_ID, NOTHING, Book, share
from timewheel.store.sweep import Sweep

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.memories import Queued, Wheels
    from timewheel.store.port import Store

HORIZON_US = 300 * SECOND_US
PAGE = 10_000
LOW = PAGE // 2  # a lane with fewer entries in memory gets its next page
LANE_LIMIT = 2 * PAGE
RENEW_US = 60 * SECOND_US  # the horizon is moved on when it is this much nearer than it should be
STALE_FLOOR = 1_000
SWEEP_US = 30 * SECOND_US
LEAD_US = 20_000  # a lane whose frontier is this near is loaded: as far ahead as the wheels fire


class Loader:
    """See the module."""

    def __init__(
        self,
        store: Store,
        wheels: Wheels,
        queued: Queued,
        now: Callable[[], Now],
        clock: Clock,
        notices: Notices,
        in_trouble: Callable[[], bool],
    ) -> None:
        self._store, self._wheels, self._queued = store, wheels, queued
        self._now = now
        self._notices = notices
        self._sweep = Sweep(store, wheels, queued, now, clock, in_trouble)
        self._longest_sleep_s = clock.longest_sleep_s
        self._wakes: dict[ClockKind, float] = dict.fromkeys(ClockKind, 0)  # until when the loop sleeps, on each clock
        self._alarm = Alarm(clock)
        self._books: dict[int, Book] = {}
        self._hungry: list[Book] = []  # since the last look; those that were not are asked again at the next
        self._unknown_lane = True
        self._stale = 0
        self._next_sweep = now().steady_us + SWEEP_US
        self.loaded = asyncio.Event()  # every lane has had its first page

    # ---- what others tell --------------------------------------------------------------------------------------------

    def placed(self, lane: int, due_us: int, job_id: int) -> None:
        """A job was committed as SCHEDULED: put it into memory if it lies below the frontier."""
        book = self._books.get(lane)
        if book is None:
            self._unknown_lane = True
            self._alarm.ring()
            return
        if (due_us, job_id) > book.frontier and not self._lifted(book, DueKey(due_us, job_id)):
            return
        if book.room <= 0:
            book.room = min(LANE_LIMIT, self._held(book) + share(book.lane, self._in_memory(), LANE_LIMIT))
            book.room -= self._held(book)
        if book.room > 0:
            book.room -= 1
            self._wheels.insert(book.lane.clock, due_us, job_id, lane)
        else:
            book.lower(DueKey(due_us, job_id - 1))
            self._alarm.ring()

    def _lifted(self, book: Book, key: DueKey) -> bool:
        """Whether the frontier was lifted over a key above it, because nothing lies between and the key is near."""
        if book.hear(key, self._now().on(book.lane.clock) + HORIZON_US):
            return True
        if book.beyond == key and key.due_at - HORIZON_US + RENEW_US < self._wakes[book.lane.clock]:
            self._alarm.ring()
        return False

    def became_stale(self) -> None:
        """A job below some frontier was cancelled or moved: its old entry in memory is stale."""
        self._stale += 1

    def look(self) -> None:
        """See what is wanted now: a clock was set, or the machine slept."""
        self._alarm.ring()

    def drained(self) -> None:
        """Jobs were taken from ready: a lane may want its next page."""
        now = self._now()
        if any(self._wants_page(book, now) for book in self._hungry):
            self._alarm.ring()

    def reset(self, kind: ClockKind | None = None) -> None:
        """Drop what is in memory of one clock's lanes (None: of all) and load it afresh."""
        for each in ClockKind if kind is None else (kind,):
            self._wheels.drop(each)
        for book in self._books.values():
            if kind is None or book.lane.clock is kind:
                self._queued.clear(book.lane.number)
                book.lower(ZERO_KEY)
                book.generation += 1
        self._unknown_lane = True  # a batch of unknown outcome may have made one
        self._alarm.ring()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Load pages as lanes want them, for ever; ends by cancellation."""
        while True:
            if self._unknown_lane:
                await self._learn_lanes()
            for book in [book for book in self._books.values() if book.beyond is not NOTHING]:
                while self._wants_page(book, self._now()):
                    await self._load(book)
            self.loaded.set()
            if self._stale > len(self._wheels) // 2 + STALE_FLOOR:
                await self._rebuild()
            if self._now().steady_us >= self._next_sweep:
                self._next_sweep = self._now().steady_us + SWEEP_US
                await self.sweep()
            await self._alarm.wait(self._until_next_look_s())

    async def _learn_lanes(self) -> None:
        self._unknown_lane = False
        for lane in await self._store.lanes():
            if lane.number not in self._books:
                self._queued.add_lane(lane)
                self._books[lane.number] = Book(lane)

    def _held(self, book: Book) -> int:
        lane = book.lane
        return self._wheels.size(lane.clock, lane.number) + self._queued.ready_size(lane.number)

    def _in_memory(self) -> int:
        return len(self._wheels) + len(self._queued)

    def _wants_page(self, book: Book, instant: Now) -> bool:
        now = instant.on(book.lane.clock)
        covered = book.covered().due_at
        if covered >= now + HORIZON_US - RENEW_US:
            return False
        low = min(LOW, book.page // 2)
        if covered <= now + LEAD_US:  # due jobs are only on disk: ready must never run dry of them
            return self._queued.ready_size(book.lane.number) < low and not self._wheels.lags(book.lane.clock)
        return self._held(book) < low

    def _until_next_look_s(self) -> float:
        """A lane that was crowded when it was last looked at wants a page when its frontier comes near."""
        now = self._now()
        if any(self._wheels.lags(kind) for kind in ClockKind):
            self._hungry = list(self._books.values())
            return LEAD_US / SECOND_US
        sleep = self._longest_sleep_s * SECOND_US
        self._hungry = []
        for book in self._books.values():
            if book.beyond is NOTHING:
                continue  # all that there is of it is in memory: it costs no more than this
            left = book.covered().due_at - now.on(book.lane.clock)
            if left < HORIZON_US - RENEW_US:
                self._hungry.append(book)
            for near in (left - LEAD_US, left - HORIZON_US + RENEW_US):
                if near > 0:
                    sleep = min(sleep, near)
        if any(self._wants_page(book, now) for book in self._hungry):  # its jobs started during this look
            sleep = 0
        self._wakes = {kind: now.on(kind) + sleep for kind in ClockKind}
        return sleep / SECOND_US

    async def _load(self, book: Book) -> None:
        before, generation = book.frontier, book.generation
        most = share(book.lane, self._in_memory(), PAGE)
        span = HORIZON_US if self._held(book) < min(LOW, most) else SECOND_US  # a crowded lane takes only what is due
        until = self._now().on(book.lane.clock) + span
        book.beyond, book.frontier = None, DueKey(until - 1, LAST_ID)
        try:
            page = await self._store.due(book.lane.number, before, until, most)
        except BaseException:
            book.lower(before)
            raise
        if book.generation != generation:
            return
        book.page = most
        if len(page) == most:
            book.lower(DueKey(*page[-1]))
        self._wheels.extend(book.lane.clock, book.lane.number, page)
        if len(page) < most:
            frontier, book.heard = book.frontier, NOTHING
            first = await self._store.due(book.lane.number, frontier, FAR, 1)
            book.seen(frontier, DueKey(*first[0]) if first else NOTHING)
        await asyncio.sleep(0)

    async def _rebuild(self) -> None:
        async with self._wheels.rebuild():
            self._stale = 0
            for book in list(self._books.values()):
                await self._refill(book)

    async def _refill(self, book: Book) -> None:
        """Copy the lane's keys up to its frontier from the index into the fresh wheel."""
        after = ZERO_KEY
        while after < book.frontier:
            page = await self._store.due(book.lane.number, after, book.frontier.due_at + 1, PAGE)
            keys = [key for key in page if key <= book.frontier]
            self._wheels.extend(book.lane.clock, book.lane.number, keys, fresh=True)
            if len(page) < PAGE:
                return
            after = DueKey(*page[-1])

    async def sweep(self) -> int:
        """Find due jobs that are nowhere in memory, report them, put them there; how many there were."""
        found = 0
        async for book, due_us, job_id in self._sweep.missing(list(self._books.values())):
            found += 1
            self._wheels.insert(book.lane.clock, due_us, job_id, book.lane.number)
        if found:
            self._notices.emit(SweepFound(found))
        return found
