"""What can be seen of schedules, also while another process owns them: lists, what is to come, what became of it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from timewheel.checks import shown, whole
from timewheel.errors import InvalidRule, ScheduleNotFound
from timewheel.handles import Page, Pages, Query
from timewheel.lists import check_page_size, number_token, read_number_token, schedule_query
from timewheel.model import ZERO_KEY, ClockKind, DueKey, Now
from timewheel.occurrences import Occurrence, Upcoming, occurrence_of, upcoming_of
from timewheel.planning.definition import Definition, definition_from_text
from timewheel.planning.preview import upcoming
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.zonal import Zonal
from timewheel.schedule import Schedule
from timewheel.schedule_records import Position, ScheduleRecord, ScheduleState
from timewheel.store.port import ScheduleFilter
from timewheel.times import when_us

if TYPE_CHECKING:
    from timewheel.desk import Desk
    from timewheel.engine import Engine
    from timewheel.store.port import Store

MOST_UPCOMING = 1_000  # of one preview
_DUE_PAGE = 10_000
_log = logging.getLogger("timewheel")


class ScheduleViews:
    """See the module. `guard`, `engine` and `store` are those of the desk of jobs."""

    def __init__(
        self, desk: Desk, store: Store, guard: Callable[[bool], None], engine: Callable[[], Engine | None]
    ) -> None:
        self._desk = desk
        self._store = store
        self._guard = guard
        self._engine = engine
        self._calendars: dict[str, Calendar] = {}  # as they were when last read

    def offset_us(self) -> int:
        """Wall minus steady at present."""
        return self._desk.offset_us()

    def _as_desk(self) -> Any:
        return self  # a StandingDesk is this class and the verbs of a schedule

    def definition_of(self, record: ScheduleRecord) -> Definition:
        """What the record declares. Raises InvalidRule when it cannot be read here."""
        return definition_from_text(record.definition, self._calendars)

    async def fetch(self, schedule: str) -> Schedule[Any]:
        """A new snapshot. Raises ScheduleNotFound."""
        self._guard(False)
        record = await self._store.schedule(schedule) if isinstance(schedule, str) else None
        if record is None:
            raise unknown(schedule)
        await self.calendars()
        return Schedule(self._as_desk(), record)

    async def calendars(self) -> dict[str, Calendar]:
        """The saved calendars by name."""
        self._guard(False)
        return await self._read_calendars()

    async def _read_calendars(self) -> dict[str, Calendar]:
        engine = self._engine()
        if engine is not None:  # what is planned by: a look into the journal may come back older than that
            self._calendars = engine.planner.calendars
            return self._calendars
        found: dict[str, Calendar] = {}
        for name, text in (await self._store.calendars()).items():
            try:
                found[name] = Calendar.from_data(json.loads(text))
            except ValueError as error:
                _log.error("the calendar %s cannot be read: %s", name, error)
        self._calendars = found
        return found

    async def _looked_up(self, rule: Rule) -> Rule:
        """The rule with the dates of the calendar that it names. Raises InvalidRule when none is saved so."""
        if not isinstance(rule, Zonal) or not isinstance(rule.calendar, str):
            return rule
        saved = await self._read_calendars()
        if rule.calendar not in saved:
            names = ", ".join(sorted(saved)[:10]) or "none"
            raise InvalidRule(
                f"no calendar is saved as {rule.calendar!r} (saved: {names}): give the Calendar object once, which "
                f"saves it under its name, or save it with `calendars put` or PUT /api/v1/calendars",
                field="calendar",
            )
        return rule.with_calendar(saved[rule.calendar])

    async def preview(self, schedule: str, n: int = 10, after: datetime | float | None = None) -> list[Upcoming]:
        """See Schedule.preview."""
        whole("n", n, 1, MOST_UPCOMING)
        after_us = None if after is None else when_us(after)
        record = (await self.fetch(schedule)).record
        if record.state is ScheduleState.ENDED:
            return []
        return self.previewed(self.definition_of(record), schedule, record.position, n, after_us)

    def previewed(
        self, definition: Definition, schedule: str, position: Position | None, n: int, after_us: int | None
    ) -> list[Upcoming]:
        """The preview of a definition; `position` None: as if it were made now, or at `after_us` if that is past."""
        now = self.now()
        if position is None and after_us is not None and after_us < now.wall_us:
            now = Now(after_us, now.steady_us - (now.wall_us - after_us))
        return [upcoming_of(line) for line in upcoming(definition, schedule, position, now, n, after_us)]

    def now(self) -> Now:
        """Both clocks; while another process keeps the steady time, the wall clock for both."""
        engine = self._engine()
        wall_us = self._desk.wall_us()
        return Now(wall_us, wall_us) if engine is None else engine.now()

    async def due_times(self, until_us: int) -> AsyncIterator[list[int]]:
        """When the jobs of the due index are due that are due before that instant (both wall), page by page."""
        self._guard(False)
        for lane in await self._store.lanes():
            shift = self.offset_us() if lane.clock is ClockKind.STEADY else 0
            after = ZERO_KEY
            while page := await self._store.due(lane.number, after, until_us - shift, _DUE_PAGE):
                yield [due_at + shift for due_at, _ in page]
                after = DueKey(*page[-1])

    def occurrences(self, schedule: str, page_size: int = 100, page_token: str | None = None) -> Pages[Occurrence]:
        """See Schedule.occurrences."""
        check_page_size(page_size)
        if page_token is not None:
            read_number_token(page_token)

        async def read(token: str | None) -> Page[Occurrence]:
            self._guard(False)
            before = None if token is None else read_number_token(token)
            rows: list[Occurrence] = []
            while len(rows) < page_size:
                found = await self._store.ledger(schedule, before=before, limit=page_size - len(rows))
                rows += [occurrence_of(entry, self.offset_us()) for entry in found.entries]
                before = found.next_before
                if before is None:
                    break
            if not rows:
                await self.fetch(schedule)  # one that never was has no empty ledger: ScheduleNotFound
            return Page(tuple(rows), None if before is None else number_token(before))

        return Pages(read, page_token)

    def query(self, which: ScheduleFilter, page_size: int, page_token: str | None) -> Query[Schedule[Any]]:
        """A list of schedules, by id."""
        return schedule_query(self._as_desk(), self._store, lambda: self._guard(False), which, (page_size, page_token))


def unknown(schedule: object) -> ScheduleNotFound:
    """The error of an id that no schedule has."""
    return ScheduleNotFound(f"there is no schedule {shown(schedule)} in this journal", schedule=str(schedule))
