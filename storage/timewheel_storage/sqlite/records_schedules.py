"""Schedules and rows of ledgers as SQLite gives them out: one JSON array each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from timewheel.model import ClockKind, OriginKind
from timewheel.schedule_records import (
    LedgerEntry,
    OccurrenceRecord,
    Position,
    ScheduleRecord,
    ScheduleState,
    UnfinishedJob,
)
from timewheel_storage.sqlite.codes import (
    CLOCKS,
    FATE_CODES,
    FATES,
    JOB_STATES,
    NONSENSE,
    ORIGIN_CODES,
    ORIGIN_KINDS,
    SCHEDULE_STATES,
    clean,
    damaged,
    member,
)
from timewheel_storage.sqlite.records import origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEDULE = """
json_array(s.schedule, s.task, s.queue, s.definition, s.state, s.version, s.position, s.created_at, s.updated_at,
    s.reason, s.until)
"""
ROW = """
json_array(w.schedule, w.clock, w.first_at, w.last_at, w.count, w.turn, w.kind, w.fate, w.recorded_at, w.reason,
    w.job_id)
"""


UNREADABLE = Position(ClockKind.WALL, -1)
"""The position of a schedule whose row makes no sense; to write it leaves what the row says of position and rule."""


def position_text(position: Position) -> str:
    """A position as it is stored: its fields in their order."""
    return orjson.dumps((int(position.clock), *position[1:-1], clean(position.tzdata))).decode()


def position_of(text: str) -> Position:
    """The position that was stored. Raises one of NONSENSE for a text that is none."""
    clock, at, turn, next_at, made, catch_up_until, catch_up_at, offset_us, tzdata = orjson.loads(text)
    if not all(type(value) is int for value in (at, turn, made, offset_us)) or type(tzdata) is not str:
        raise TypeError(f"no position: {text[:80]}")
    if not all(value is None or type(value) is int for value in (next_at, catch_up_until, catch_up_at)):
        raise TypeError(f"no position: {text[:80]}")
    return Position(member(CLOCKS, clock), at, turn, next_at, made, catch_up_until, catch_up_at, offset_us, tzdata)


def schedule_of(name: bytes, row: bytes) -> ScheduleRecord:
    """The record of a row of SCHEDULE; `name` is its id.

    A row that makes no sense is set apart, so that it does not stop the others: PARKED, with the reason, and without
    its definition and position, so that nobody goes on with what a damaged file says. To declare it again mends it.
    """
    values: list[Any] = []
    try:
        values = orjson.loads(row)
        values[4] = member(SCHEDULE_STATES, values[4])
        values[6] = position_of(values[6])
        return ScheduleRecord(*values)
    except NONSENSE as error:
        version = values[5] if len(values) > 5 and type(values[5]) is int else 1
        schedule = name.decode("utf-8", "replace")
        return ScheduleRecord(
            schedule=schedule,
            task=_text(values, 1),
            queue=_text(values, 2),
            definition="",
            state=ScheduleState.PARKED,
            version=version,
            position=UNREADABLE,
            created_at=0,
            updated_at=0,
            reason=f"its row in the journal is damaged: {error}; declare it again",
        )


def _text(values: Sequence[Any], place: int) -> str:
    return values[place] if len(values) > place and type(values[place]) is str else ""


def row_values(row: OccurrenceRecord) -> tuple[Any, ...]:
    """A row of a ledger as it is stored, in the order of ROW."""
    return (
        row.schedule,
        int(row.clock),
        row.first_at,
        row.last_at,
        row.count,
        row.turn,
        ORIGIN_CODES[row.kind],
        FATE_CODES[row.fate],
        row.recorded_at,
        row.reason,
        row.job_id,
    )


def occurrence_of(row: Sequence[Any]) -> OccurrenceRecord:
    """The record of a row of ROW."""
    values = list(row)
    try:
        values[1] = member(CLOCKS, values[1])
        values[6] = member(ORIGIN_KINDS, values[6])
        values[7] = member(FATES, values[7])
    except NONSENSE as error:
        raise damaged(f"a row of the ledger of {values[0]}", error) from error
    return OccurrenceRecord(*values)


def entry_of(number: int, row: Sequence[Any], job_state: int | None) -> LedgerEntry:
    """A row of a ledger with its number and the state of its job."""
    try:
        state = None if job_state is None else member(JOB_STATES, job_state)
    except NONSENSE as error:
        raise damaged(f"the state of the job of row {number} of the ledger", error) from error
    return LedgerEntry(number, occurrence_of(row), state)


def unfinished_of(job_id: int, state: int, reason: str | None, rest: Sequence[Any]) -> UnfinishedJob:
    """A job that is not final; `rest`: its schedule, the rest of its origin, scheduled_at, whether a cancel waits.

    A job whose origin makes no sense is in the way of others all the same, and counts as one of the rule: the schedule
    goes on. Whoever reads the job itself is told.
    """
    schedule, text, scheduled_at, cancel_requested = rest
    nominal_at, kind = scheduled_at, OriginKind.RULE
    try:
        origin = origin_of(schedule, text)
    except NONSENSE:
        origin = None
    if origin is not None:
        nominal_at, kind = origin.nominal_at, origin.kind
    return UnfinishedJob(job_id, JOB_STATES[state], reason, nominal_at, kind, bool(cancel_requested))
