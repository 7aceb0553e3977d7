"""Calendars: saved under a name, shared by schedules. Those that name one are planned anew when it changes."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from timewheel.errors import InvalidRule
from timewheel.planning.carrying import carried
from timewheel.planning.definition import definition_from_text
from timewheel.planning.position import first_position
from timewheel.recurrence.calendar import Calendar
from timewheel.schedule_records import ScheduleState
from timewheel.store.changes import PlanOccurrences, PutCalendar

if TYPE_CHECKING:
    from timewheel.planning.accountant import Accountant
    from timewheel.planning.carrier import Carrier
    from timewheel.planning.kept import Kept
    from timewheel.planning.roster import Roster

_log = logging.getLogger("timewheel")


class Calendars:
    """See the module."""

    def __init__(self, roster: Roster, carrier: Carrier, accountant: Accountant) -> None:
        self._roster = roster
        self._carrier = carrier
        self._accountant = accountant

    async def load(self) -> None:
        """Read them at the start. One that cannot be read is left out: who names it is parked."""
        for name, text in (await self._roster.store.calendars()).items():
            try:
                self._roster.calendars[name] = Calendar.from_data(json.loads(text))
            except ValueError as error:
                _log.error("the calendar %s cannot be read: %s", name, error)

    async def put(self, calendar: Calendar) -> None:
        """Save a calendar, and plan those that name it anew from now. An equal one changes nothing."""
        roster, name = self._roster, calendar.name
        old = roster.calendars.get(name)
        if old == calendar:
            return
        await roster.ask(PutCalendar(name, json.dumps(calendar.to_data(), sort_keys=True)))
        roster.calendars[name] = calendar
        mark = json.dumps(name)
        for schedule in [kept.record.schedule for kept in roster if kept.record and mark in kept.record.definition]:
            async with roster.reserved(schedule) as kept:
                if kept.record is not None:
                    await self._change(kept, name, old)

    async def _change(self, kept: Kept, name: str, old: Calendar | None) -> None:
        """Account for what has come by the old calendar, and begin with the new one."""
        record, now = kept.here, self._roster.now()
        if old is not None and record.state is not ScheduleState.ENDED:
            self._read_with(kept, old)
            now = await self._accountant.leave(kept)
        kept.text, record = None, kept.here
        kept.retry = record.state is ScheduleState.PARKED
        definition = self._accountant.readable(kept)
        if kept.retry or definition is None or definition.calendar != name or record.state is ScheduleState.ENDED:
            return
        position = first_position(definition, now, self._carrier.tzdata, record.position)
        change = PlanOccurrences(record.schedule, record.version, position, [], [])
        await self._roster.write(kept, record.schedule, change)
        kept.record = carried(record, change)

    def _read_with(self, kept: Kept, old: Calendar) -> None:
        text = kept.here.definition
        if kept.text != text:
            try:
                kept.definition = definition_from_text(text, {**self._roster.calendars, old.name: old})
            except InvalidRule as error:
                _log.warning("the schedule %s cannot be read: %s", kept.here.schedule, error)
            else:
                kept.text = text
