"""Writing schedules and calendars themselves: changes that people make, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from timewheel.store.changes import (
    DONE,
    Done,
    DropSchedule,
    Outcome,
    PutCalendar,
    PutSchedule,
    VersionConflict,
)
from timewheel_storage.sqlite.codes import SCHEDULE_CODES, ask, clean, do
from timewheel_storage.sqlite.kinds import add_importable
from timewheel_storage.sqlite.records_schedules import UNREADABLE, position_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import Any

    from timewheel.schedule_records import ScheduleRecord
    from timewheel.store.port import Stamp

VERSION = "SELECT version FROM schedules WHERE schedule = ?1"
PUT_SCHEDULE = """
INSERT INTO schedules (schedule, state, version, updated_at, until, reason, position, task, queue, created_at,
    definition)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (schedule) DO UPDATE SET
    state = excluded.state, version = excluded.version, position = excluded.position, task = excluded.task,
    queue = excluded.queue, created_at = excluded.created_at, updated_at = excluded.updated_at,
    until = excluded.until, reason = excluded.reason, definition = excluded.definition
"""
PUT_SET_APART = """
UPDATE schedules SET state = ?2, version = ?3, updated_at = ?4, until = ?5, reason = ?6 WHERE schedule = ?1
"""
DROP_SCHEDULE = "DELETE FROM schedules WHERE schedule = ?1"
PUT_CALENDAR = """
INSERT INTO calendars (name, data) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET data = excluded.data
"""

Standing: TypeAlias = PutSchedule | DropSchedule | PutCalendar


class Standings:
    """The changes of a batch to schedules and calendars, in their order."""

    def __init__(self, changes: Sequence[Standing]) -> None:
        self._changes = changes
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:  # noqa: ARG002  as every part has it
        """Write them."""
        self._outcomes = [_WAYS[type(change)](connection, change) for change in self._changes]

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _conflict(connection: sqlite3.Connection, schedule: str, expected: int) -> VersionConflict | None:
    found = ask(connection, VERSION, (clean(schedule),))
    version = 0 if found is None else found[0]
    return None if version == expected else VersionConflict(schedule, version)


def _put_schedule(connection: sqlite3.Connection, put: PutSchedule) -> Outcome:
    record = put.record
    if conflict := _conflict(connection, record.schedule, put.expected_version):
        return conflict
    if record.version <= put.expected_version:
        raise AssertionError("a version that is not newer", record)
    values = _values(record)
    if record.position == UNREADABLE:
        do(connection, PUT_SET_APART, values[:6])
    else:
        do(connection, PUT_SCHEDULE, values)
    if put.importable:
        add_importable(connection, {record.task})
    return DONE


def _values(record: ScheduleRecord) -> tuple[Any, ...]:
    return (
        clean(record.schedule),
        SCHEDULE_CODES[record.state],
        record.version,
        record.updated_at,
        record.until,
        None if record.reason is None else clean(record.reason),
        position_text(record.position),
        clean(record.task),
        clean(record.queue),
        record.created_at,
        clean(record.definition),
    )


def _drop_schedule(connection: sqlite3.Connection, drop: DropSchedule) -> Outcome:
    if conflict := _conflict(connection, drop.schedule, drop.expected_version):
        return conflict
    return Done(do(connection, DROP_SCHEDULE, (clean(drop.schedule),)).rowcount)


def _put_calendar(connection: sqlite3.Connection, put: PutCalendar) -> Outcome:
    do(connection, PUT_CALENDAR, (clean(put.name), clean(put.data)))
    return DONE


_WAYS: dict[type, Callable[[sqlite3.Connection, Any], Outcome]] = {
    PutSchedule: _put_schedule,
    DropSchedule: _drop_schedule,
    PutCalendar: _put_calendar,
}
