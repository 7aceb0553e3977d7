"""The roster: every schedule of the journal in memory, who holds it at the moment, and when it is to be planned.

Whoever changes a schedule holds it (`held`, `try_take`) until the outcome of the commit is known, and then gives it
back, which enters it into the agenda anew. One whose record may differ from the journal's is `stale`, and is read again
before anything else is done with it. So at rest the records here are those of the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from timewheel.errors import ScheduleNotFound, VersionConflict
from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.planning.agenda import Agenda
from timewheel.planning.definition import Definition, definition_from_text
from timewheel.planning.kept import NOBODY, SETTLED, Kept, edited_at
from timewheel.planning.position import wake_at
from timewheel.planning.writing import Writer, ask
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.zonal import Zonal
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.store import changes

if TYPE_CHECKING:
    from timewheel.recurrence.rule import Rule
    from timewheel.store.port import Store

_log = logging.getLogger("timewheel")
REST_US = SECOND_US  # after a plan that could not be written


class Roster:
    """See the module."""

    def __init__(self, store: Store, writer: Writer, now: Callable[[], Now], awake: Callable[[], None]) -> None:
        """`awake` is called when the agenda has something new."""
        self.store = store
        self.writer = writer
        self.now = now
        self.agenda = Agenda()
        self.calendars: dict[str, Calendar] = {}
        self.parked: set[str] = set()
        self._awake = awake
        self._all: dict[str, Kept] = {}

    def __iter__(self) -> Iterator[Kept]:
        return iter(list(self._all.values()))

    def find(self, schedule: str) -> Kept | None:
        """A schedule, held by whomever."""
        return self._all.get(schedule)

    def add(self, record: ScheduleRecord) -> Kept:
        """A schedule that was read at the start."""
        kept = self._all[record.schedule] = Kept(record)
        kept.retry = record.state is ScheduleState.PARKED
        self.enter(kept)
        return kept

    def definition(self, kept: Kept) -> Definition:
        """What the schedule declares. Raises InvalidRule when it cannot be read here."""
        text = kept.here.definition
        if kept.definition is None or kept.text != text:
            kept.definition, kept.text = definition_from_text(text, self.calendars), text
        return kept.definition

    # ---- custody -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def held(self, schedule: str, if_version: int | None = None) -> AsyncIterator[Kept]:
        """Hold an existing schedule. Raises ScheduleNotFound, VersionConflict."""
        async with self.reserved(schedule) as kept:
            if kept.record is None:
                raise ScheduleNotFound(f"there is no schedule {schedule!r} in this journal", schedule=schedule)
            if if_version is not None and if_version != kept.record.version:
                raise conflict(schedule, kept.record.version)
            yield kept

    @asynccontextmanager
    async def reserved(self, schedule: str) -> AsyncIterator[Kept]:
        """Hold a schedule, or the place of one that is not there."""
        kept = self._all.setdefault(schedule, Kept(None))
        await kept.custody.take()
        try:
            if kept.stale:
                await self.read_again(kept, schedule)
            yield kept
        finally:
            self.give(kept, schedule)

    async def read_again(self, kept: Kept, schedule: str) -> None:
        """Take the journal's record for true, once it holds every write of this schedule that is under way."""
        for settled in kept.unsettled:
            await settled.wait()
        kept.unsettled = SETTLED
        kept.record = await self.store.schedule(schedule)
        kept.edited_at = edited_at(kept.record)
        kept.stale = kept.started = False
        kept.attending = NOBODY

    def give(self, kept: Kept, schedule: str) -> None:
        """Hold it no more."""
        self.enter(kept, schedule)
        if kept.record is None and not kept.stale and not kept.custody.wanted:
            self._all.pop(schedule, None)
        kept.custody.give()

    # ---- when --------------------------------------------------------------------------------------------------------

    def enter(self, kept: Kept, schedule: str | None = None) -> None:
        """Enter a schedule into the agenda as it stands."""
        name = kept.here.schedule if schedule is None else schedule
        self.parked.discard(name)
        time = self._time(kept)
        if kept.record is not None and kept.record.state is ScheduleState.PARKED:
            self.parked.add(name)
        if time is None:
            self.agenda.drop(name)
            return
        if kept.rest_until is not None:
            time = ClockKind.STEADY, kept.rest_until
        self.agenda.put(name, *time)
        self._awake()

    def at_once(self, kept: Kept) -> None:
        """Have it looked at now, or as soon as who holds it has given it back."""
        if kept.record is not None:
            kept.look = True
            self.agenda.put(kept.record.schedule, ClockKind.STEADY, self.now().steady_us)
            self._awake()

    def rest(self, kept: Kept) -> None:
        """It could not be written: not again before a second has passed."""
        kept.rest_until = self.now().steady_us + REST_US

    def _time(self, kept: Kept) -> tuple[ClockKind, int] | None:
        at_once = ClockKind.STEADY, 0
        record = kept.record
        if kept.stale or (kept.look and record is not None):
            return at_once
        if record is None:
            return None
        if record.state is ScheduleState.PAUSED:
            return None if record.until is None else (ClockKind.WALL, record.until)
        if record.state is ScheduleState.PARKED:
            return at_once if kept.retry else None
        if record.state is ScheduleState.ENDED:
            return None
        wake = wake_at(record.position)
        if wake is None:  # of a fixed delay, when the job that runs has ended
            return None if kept.attending else at_once
        return wake.clock, wake.at

    # ---- writing -----------------------------------------------------------------------------------------------------

    async def put(
        self, kept: Kept, record: ScheduleRecord, definition: Definition | None = None, *, importable: bool = False
    ) -> ScheduleRecord:
        """Write the record of a schedule that is held, and what it now declares, if that is new.

        Raises VersionConflict, and what the journal raises.
        """
        expected = 0 if kept.record is None else kept.record.version
        await self.write(kept, record.schedule, changes.PutSchedule(record, expected, importable))
        kept.record = record
        if definition is not None:
            kept.definition, kept.text, kept.started = definition, record.definition, True
            if self._is_of_old_dates(definition.rule):
                kept.text, kept.look = None, True
        return record

    def _is_of_old_dates(self, rule: Rule) -> bool:
        """Whether the calendar of a rule was saved with other dates since it was looked up."""
        dates = rule.calendar if isinstance(rule, Zonal) else None
        return isinstance(dates, Calendar) and self.calendars.get(dates.name, dates) != dates

    async def write(self, kept: Kept, schedule: str, change: changes.Standing | changes.PlanOccurrences) -> Any:
        """Write a change of a schedule that is held; its outcome. Raises VersionConflict, and what the journal raises.

        After either the record is read again before anything else is done with it.
        """
        try:
            outcome = await self.ask(change, kept)
            if isinstance(outcome, changes.VersionConflict):
                raise conflict(schedule, outcome.version)
        except BaseException:
            kept.stale = True
            raise
        kept.rest_until = None
        return outcome

    async def write_all(self, kept: Kept, all_of: list[changes.Standing | changes.PlanOccurrences]) -> None:
        """Write several changes of a schedule that is held; as `write`."""
        try:
            asked = (self.ask(change, kept) for change in all_of)
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                if isinstance(outcome, changes.VersionConflict):
                    raise conflict(kept.here.schedule, outcome.version)
        except BaseException:
            kept.stale = True
            raise
        kept.rest_until = None

    async def ask(self, change: changes.Standing | changes.PlanOccurrences, kept: Kept | None = None) -> Any:
        """Write a change and return its outcome; see `timewheel.planning.writing`."""
        return await ask(self.writer, change, kept)


def conflict(schedule: str, version: int) -> VersionConflict:
    """The error of an edit that came too late."""
    message = (
        f"the schedule {schedule!r} has version {version} by now: look at it again, and repeat the edit if need be"
    )
    return VersionConflict(message, schedule=schedule, version=version)
