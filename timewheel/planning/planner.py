"""The planner: has every schedule planned when a slot of it has come, and carries out what the plan says.

It sleeps until the earliest time in its agenda, on either clock. What has come is planned a portion at a time: the jobs
of the portion's schedules that are not final are read, each schedule is planned by itself, and the changes go to the
committer without waiting for one another. No portion holds the loop up, whatever its size. A schedule that cannot be
planned is parked with the reason, and no other notices.

A plan that was refused (a full journal) is made again a second later; one whose outcome is unknown, or that an edit
overtook, after the schedule was read again. Planning twice is harmless: occurrences have names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from timewheel import zones
from timewheel.alarm import Alarm
from timewheel.errors import InvalidRule, NotStarted
from timewheel.model import SECOND_US, Now
from timewheel.planning.accountant import Accountant
from timewheel.planning.by_hand import Backfill, ByHand
from timewheel.planning.calendars import Calendars
from timewheel.planning.carrier import Carrier, Surroundings
from timewheel.planning.definition import Definition
from timewheel.planning.edits import Edits
from timewheel.planning.kept import NOBODY
from timewheel.planning.review import Review
from timewheel.planning.roster import Roster
from timewheel.planning.rounds import Rounds
from timewheel.planning.writing import Writer
from timewheel.schedule_records import ScheduleRecord
from timewheel.store.aftermath import let_others_run
from timewheel.store.port import ScheduleFilter

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.recurrence.calendar import Calendar
    from timewheel.store.port import Store

T = TypeVar("T")
PAGE = 500  # schedules that are read at a time, at the start
PORTION = 200  # schedules whose unfinished jobs are read at a time
FULL_S = 1.0
_log = logging.getLogger("timewheel")


class Planner:
    """See the module. The verbs are written to the end, though their caller may stop waiting."""

    def __init__(
        self, store: Store, writer: Writer, surroundings: Surroundings, now: Callable[[], Now], clock: Clock
    ) -> None:
        self._store = store
        self._writer = writer
        self._now = now
        self._clock = clock
        self._alarm = Alarm(clock)
        self._roster = Roster(store, writer, now, self._alarm.ring)
        self._carrier = Carrier(self._roster, surroundings)
        accountant = Accountant(self._roster, self._carrier)
        self._edits = Edits(self._roster, self._carrier, accountant)
        self._by_hand = ByHand(self._roster, self._carrier, accountant)
        self._calendars = Calendars(self._roster, self._carrier, accountant)
        self._rounds = Rounds(self._roster, self._carrier, clock, self._edits.resume, self._errand, self._alarm.ring)
        self._review = Review(self._roster, clock.boot_us)
        self._clocks_changed = False
        self._ended = False
        self._errands: dict[asyncio.Task[Any], None] = {}  # in the order of beginning

    # ---- the verbs ---------------------------------------------------------------------------------------------------

    async def declare(
        self, schedule: str, definition: Definition, *, if_exists: str = "update", importable: bool = False
    ) -> ScheduleRecord:
        """Make a schedule; of one that exists, change what differs. Equal: nothing changes, an overdue slot stays due.

        Raises ScheduleExists for `if_exists` "fail"; "keep" leaves it as it is. `importable`: see PutSchedule.
        """
        return await self._surely(self._edits.declare(schedule, definition, if_exists, importable))

    async def edit(
        self, schedule: str, change: Callable[[Definition], Definition], *, if_version: int | None = None
    ) -> ScheduleRecord:
        """Change what is declared. Raises ScheduleNotFound, VersionConflict; InvalidRule if it is unreadable."""
        return await self._surely(self._edits.edit(schedule, change, if_version))

    async def pause(
        self, schedule: str, note: str | None = None, until_us: int | None = None, *, if_version: int | None = None
    ) -> ScheduleRecord:
        """Make nothing until `resume`, or until that instant (wall). Raises ScheduleNotFound, VersionConflict."""
        return await self._surely(self._edits.pause(schedule, note, until_us, if_version))

    async def resume(self, schedule: str, *, if_version: int | None = None) -> ScheduleRecord:
        """Go on: the slots of the pause are missed, and follow the misfire policy. As `pause`."""
        return await self._surely(self._edits.resume(schedule, if_version))

    async def drop(self, schedule: str, *, if_version: int | None = None) -> None:
        """Forget a schedule; its jobs and its ledger stay. As `pause`."""
        await self._surely(self._edits.drop(schedule, if_version))

    async def end_schedule(self, schedule: str, reason: str) -> ScheduleRecord:
        """Have it make nothing more, for a reason, until it is declared again. Raises ScheduleNotFound."""
        return await self._surely(self._edits.end(schedule, reason))

    async def trigger(self, schedule: str, *, force: bool = False) -> int | None:
        """Make one job now; its id, or None when the overlap policy skipped it. `force`: it is not asked."""
        return await self._surely(self._by_hand.trigger(schedule, force=force))

    async def backfill(
        self,
        schedule: str,
        start_us: int,
        end_us: int,
        *,
        dry_run: bool = True,
        at_once: int = 1,
        most: int = 1_000,
    ) -> Backfill:
        """Make up for slots with start <= nominal < end (wall) that did not run; see ByHand.backfill."""
        work = self._by_hand.backfill(schedule, start_us, end_us, dry_run=dry_run, at_once=at_once, most=most)
        return await self._surely(work)

    @property
    def calendars(self) -> dict[str, Calendar]:
        """The saved calendars by name, as they are planned by."""
        return self._roster.calendars

    async def put_calendar(self, calendar: Calendar) -> None:
        """Save a calendar under its name; schedules that name it are planned anew from now."""
        await self._surely(self._calendars.put(calendar))

    async def _surely(self, work: Coroutine[Any, Any, T]) -> T:
        errand = self._errand(work)
        try:
            return await asyncio.shield(errand)
        except asyncio.CancelledError:
            if errand.cancelled() and self._ended:  # by `abandon`, and nobody cancelled the caller
                raise NotStarted("the scheduler stopped while a schedule was being edited") from None
            raise

    async def abandon(self) -> None:
        """End the edits that are still under way after everything was written; their callers get NotStarted."""
        for errand in self._errands:
            errand.cancel()
        if self._errands:
            await asyncio.wait(self._errands)

    def _errand(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name="timewheel edit of a schedule")
        self._errands[task] = None
        task.add_done_callback(self._errand_done)
        return task

    def _errand_done(self, task: asyncio.Task[Any]) -> None:
        self._errands.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("an edit of a schedule failed: %s", error)  # its caller is told, if he still waits

    # ---- what others tell --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """A clock was set, or the machine slept: what was to come may have come, or be far again."""
        self._clocks_changed = True
        self._alarm.ring()

    def task_registered(self, name: str) -> None:
        """A task became known: the schedules that were parked for it go on."""
        for schedule in list(self._roster.parked):
            kept = self._roster.find(schedule)
            if kept is not None and kept.record is not None and kept.record.task == name:
                kept.retry = True
                self._roster.at_once(kept)

    def finished(self, job_id: int, schedule: str) -> None:
        """A job is final whose end a fixed delay waits for."""
        kept = self._roster.find(schedule)
        if kept is None or job_id not in kept.attending:
            return
        kept.attending -= {job_id}
        if not kept.attending:
            kept.finished_at = self._now().steady_us
            self._roster.at_once(kept)

    def journal_unknown(self) -> None:
        """Any job may have ended, and nobody was told: what fixed delays wait for is read again."""
        for kept in self._roster:
            if kept.attending:
                kept.attending = NOBODY
                self._roster.at_once(kept)

    def end(self) -> None:
        """Plan nothing any more: the scheduler drains."""
        self._ended = True
        self._alarm.ring()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read every schedule, before anything is planned. What is read there is looked at once `run` runs."""
        try:
            self._carrier.tzdata = zones.version()
        except InvalidRule as missing:
            _log.info("no time zones: %s", missing)
        await self._calendars.load()
        after = None
        while True:
            page = await self._store.schedules(ScheduleFilter(), after=after, limit=PAGE)
            for record in page:
                self._roster.add(record)
                self._review.add(record, self._carrier.tzdata)
            if len(page) < PAGE:
                break
            after = page[-1].schedule
            await let_others_run()
        self._review.tell_of_zones(self._carrier.tzdata)

    async def run(self) -> None:
        """Plan what comes, until `end`; ends by cancellation, too."""
        while not self._ended:
            now = self._now()
            if self._clocks_changed:
                self._clocks_changed = False
                self._review.look_back(now)
            hindered = self._writer.full or self._rounds.crowded
            if not hindered and (names := self._roster.agenda.take(now, PORTION)):
                await self._rounds.serve(names)
                await let_others_run()
            elif self._review:
                self._review.read_some(now, self._carrier.tzdata)
                await let_others_run()
            else:
                await self._alarm.wait(self._pause_s(now, hindered))

    def _pause_s(self, now: Now, hindered: bool) -> float:
        longest_s = self._clock.longest_sleep_s
        if hindered:
            return min(longest_s, FULL_S)
        wait_us = self._roster.agenda.wait_us(now)
        return longest_s if wait_us is None else min(longest_s, wait_us / SECOND_US)
