"""The desk of schedules: from calls to definitions, to the planner, and back to handles.

It serves callers in the process and servers alike: a task may be a name, and every value plain data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from timewheel.checks import printable, shown, whole
from timewheel.declarations import Declaration, Declarations
from timewheel.errors import InvalidOption, InvalidRule, InvalidTime, JournalError, TimewheelError
from timewheel.job import Job
from timewheel.occurrences import Backfill
from timewheel.periodic import IN_CODE
from timewheel.planning.definition import Definition, declared_in
from timewheel.planning.options import schedule_options
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.zonal import Zonal
from timewheel.recurring import Call
from timewheel.schedule import Schedule
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.schedule_views import ScheduleViews
from timewheel.store.port import ScheduleFilter
from timewheel.times import rfc3339, when_us

if TYPE_CHECKING:
    from timewheel.desk import Desk
    from timewheel.engine import Engine
    from timewheel.store.port import Store

MOST_BACKFILLED = 1_000  # jobs of one backfill
MOST_NOTE = 1_000
NOT_DECLARED = "no longer declared"
_PAGE = 500
_LIVE = ScheduleFilter((ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.PARKED))
_log = logging.getLogger("timewheel")


class Standing(ScheduleViews):
    """See the module."""

    def __init__(
        self,
        desk: Desk,
        store: Store,
        guard: Callable[[bool], None],
        engine: Callable[[], Engine | None],
        declarations: Declarations,
    ) -> None:
        super().__init__(desk, store, guard, engine)
        self._declarations = declarations

    def _running(self) -> Engine:
        self._guard(True)
        engine = self._engine()
        assert engine is not None, "the guard let a write through without an engine"
        return engine

    # ---- declaring ---------------------------------------------------------------------------------------------------

    async def declaration(self, call: Call, *, declared: str | None = None) -> Declaration:
        """What a call declares, with the dates of its calendar; nothing is written. Raises as `declare` does."""
        declaration = self._declarations.declare(call, declared=declared)
        definition = declaration.definition
        rule = await self._looked_up(definition.rule)
        return replace(declaration, definition=replace(definition, rule=rule))

    async def imagined(self, rule: Rule, options: dict[str, Any]) -> Definition:
        """The definition of a schedule that is not to be made. Raises InvalidRule, InvalidOption, InvalidTime."""
        zoned = rule.with_zone(self._declarations.tz) if isinstance(rule, Zonal) else rule
        return schedule_options(options).applied(Definition(rule=await self._looked_up(zoned), task=""))

    async def declare(self, declaration: Declaration) -> Schedule[Any]:
        """Make one schedule durable, or bring it to what is declared. Raises ScheduleIdRequired, ScheduleExists."""
        engine = self._running()
        return Schedule(self, await self._declare(engine, declaration))

    async def _declare(self, engine: Engine, declaration: Declaration) -> ScheduleRecord:
        definition = declaration.definition
        fresh = self._declarations.claim_unnamed(declaration)
        try:
            rule = await self._with_calendar(engine, definition.rule)
            return await engine.planner.declare(
                declaration.schedule,
                replace(definition, rule=rule),
                if_exists=declaration.if_exists,
                importable=declaration.importable,
            )
        except BaseException:
            if fresh:
                self._declarations.forget_unnamed(declaration.schedule)
            raise

    async def _with_calendar(self, engine: Engine, rule: Rule) -> Rule:
        """The rule with the dates of its calendar: one that it brings is saved, a mere name is looked up."""
        if not isinstance(rule, Zonal) or rule.calendar is None:
            return rule
        if isinstance(rule.calendar, Calendar):
            await self._bring(engine, rule.calendar)
            return rule
        return await self._looked_up(rule)

    async def _bring(self, engine: Engine, calendar: Calendar) -> None:
        """Save a calendar that a rule brings. Raises InvalidRule where this process has another one of its name."""
        fresh = self._declarations.claim_calendar(calendar)
        try:
            if (await self._read_calendars()).get(calendar.name) != calendar:
                await engine.planner.put_calendar(calendar)
        except BaseException:
            if fresh:
                self._declarations.forget_calendar(calendar.name)
            raise

    async def apply_all(self, declarations: list[Declaration], *, prune: bool) -> None:
        """At the start, before anything runs: apply what is declared in code; with `prune` end what no longer is.

        A schedule that cannot be made is named in the log and holds up no other. Raises a JournalError.
        """
        engine = self._engine()
        assert engine is not None, "an engine starts"
        for declaration in declarations:  # a calendar that one brings is there for all that name it
            if isinstance(calendar := getattr(declaration.definition.rule, "calendar", None), Calendar):
                self._declarations.claim_calendar(calendar, instead=True)
                await engine.planner.put_calendar(calendar)
        for declaration in declarations:
            await self._apply(engine, declaration)
        if prune:
            await self._prune(engine, {declaration.schedule for declaration in declarations})

    async def apply(self, declaration: Declaration) -> None:
        """Apply what code declared after the start."""
        engine = self._engine()
        if engine is not None:
            await self._apply(engine, declaration)

    async def _apply(self, engine: Engine, declaration: Declaration) -> None:
        try:
            await self._declare(engine, declaration)
        except JournalError:
            raise
        except TimewheelError as error:
            _log.error("the schedule %s, declared in code, is not applied: %s", declaration.schedule, error)

    async def _prune(self, engine: Engine, declared: set[str]) -> None:
        after = None
        while records := await self._store.schedules(_LIVE, after=after, limit=_PAGE):
            after = records[-1].schedule
            for record in records:
                if record.schedule not in declared and declared_in(record.definition) == IN_CODE:
                    await engine.planner.end_schedule(record.schedule, NOT_DECLARED)

    async def put_calendar(self, calendar: Calendar) -> None:
        """See Timetable.save_calendar."""
        if not isinstance(calendar, Calendar):
            raise InvalidRule(
                f"{shown(calendar)} is no Calendar: write Calendar(name, exclude=[...])", field="calendar"
            )
        await self._running().planner.put_calendar(calendar)
        self._declarations.claim_calendar(calendar, instead=True)

    # ---- one schedule ------------------------------------------------------------------------------------------------

    async def update(
        self,
        schedule: str,
        rule: str | Rule | None,
        options: dict[str, Any],
        if_version: int | None,
        stays: Collection[str] | None = None,
    ) -> Schedule[Any]:
        """See Schedule.update; and Declarations.change for `stays`."""
        engine = self._running()
        change = self._declarations.change(rule, options, stays)
        if change.rule is not None:
            change = change._replace(rule=await self._with_calendar(engine, change.rule))
        record = await engine.planner.edit(schedule, change.apply, if_version=_version(if_version))
        return Schedule(self, record)

    async def trigger(self, schedule: str, *, force: bool) -> Job[Any] | None:
        """See Schedule.trigger."""
        if not isinstance(force, bool):
            raise InvalidOption(f"force={shown(force)}: it must be a bool")
        job_id = await self._running().planner.trigger(schedule, force=force)
        return None if job_id is None else await self._desk.fetch(job_id)

    async def backfill(
        self,
        schedule: str,
        start: datetime | float,
        end: datetime | float,
        *,
        dry_run: bool = True,
        at_once: int = 1,
        most: int = MOST_BACKFILLED,
    ) -> Backfill[Job[Any]]:
        """See Schedule.backfill."""
        start_us, end_us = when_us(start), when_us(end)
        if end_us <= start_us:
            raise InvalidTime(f"the end {rfc3339(end_us)} is not after the start {rfc3339(start_us)}")
        if not isinstance(dry_run, bool):
            raise InvalidOption(f"dry_run={shown(dry_run)}: it must be a bool")
        whole("at_once", at_once, 1, MOST_BACKFILLED)
        whole("most", most, 1, MOST_BACKFILLED)
        done = await self._running().planner.backfill(
            schedule, start_us, end_us, dry_run=dry_run, at_once=at_once, most=most
        )
        jobs = tuple([await self._desk.fetch(job_id) for job_id in done.job_ids])
        return Backfill(done.slots, done.already_ran, done.made, done.left_out, jobs, dry_run)

    async def pause(
        self,
        schedule: str,
        note: str | None = None,
        until: datetime | float | None = None,
        if_version: int | None = None,
    ) -> Schedule[Any]:
        """See Schedule.pause."""
        engine = self._running()
        if note is not None:
            printable("note", note, MOST_NOTE)
        until_us = None if until is None else when_us(until, "datetime.now(UTC) + timedelta(seconds={})")
        if until_us is not None and until_us <= engine.now().wall_us:
            raise InvalidTime(f"until={rfc3339(until_us)} is past already: give an instant to come, or none")
        record = await engine.planner.pause(schedule, note, until_us, if_version=_version(if_version))
        return Schedule(self, record)

    async def resume(self, schedule: str, if_version: int | None = None) -> Schedule[Any]:
        """See Schedule.resume."""
        return Schedule(self, await self._running().planner.resume(schedule, if_version=_version(if_version)))

    async def delete(self, schedule: str, if_version: int | None = None) -> None:
        """See Schedule.delete."""
        await self._running().planner.drop(schedule, if_version=_version(if_version))
        self._declarations.forget_unnamed(schedule)


def _version(if_version: int | None) -> int | None:
    return None if if_version is None else whole("if_version", if_version, 1, 1 << 62)
