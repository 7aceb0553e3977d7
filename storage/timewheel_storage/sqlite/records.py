"""Jobs and attempts as SQLite gives them out: one JSON array each, its fields in the order of the record's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from timewheel.model import AttemptRecord, JobRecord, Missed, Origin, job_text
from timewheel_storage.sqlite.codes import (
    ATTEMPT_STATES,
    CLOCKS,
    JOB_STATES,
    NONSENSE,
    ORIGIN_CODES,
    ORIGIN_KINDS,
    damaged,
    member,
    retry_of,
)
from timewheel_storage.sqlite.records_flow import flow_of

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = """
json_array(j.job_id, k.task, j.arguments, k.queue, k.priority, coalesce(j.clock, k.clock), j.scheduled_at, l.clock,
    j.due_at, j.state, j.created_at, k.retry, k.timeout_us, j.misfire_grace_us, j.tags, j.idempotency_key, j.schedule,
    j.origin, j.concurrency_key, j.flow, j.version, j.attempt, j.failures, j.losses, j.first_failed_at, j.reason,
    j.cancel_requested, j.finished_at, j.result, j.result_omitted, j.error, j.fault, j.fingerprint, j.discarded_at)
"""
JOB_JOINS = "CROSS JOIN kinds AS k ON k.kind = j.kind CROSS JOIN lanes AS l ON l.lane = j.lane"
JOB_TABLES = f"jobs AS j {JOB_JOINS}"

_POLICY = "(SELECT (p.retry ->> 6) || '/' || (p.retry ->> 7) FROM kinds AS p WHERE p.kind = {table}.judged_by)"
NEWEST_ATTEMPT = f"""
json_array(j.job_id, j.attempt, j.attempt_state, j.attempt_epoch,
    (SELECT c.clock FROM lanes AS c WHERE c.lane = j.attempt_lane), j.attempt_due_at, j.dispatched_at, j.started_at,
    j.ended_at, j.dispatch_lag_us, j.start_lag_us, j.attempt_error, j.error_kind, j.attempt_reason,
    {_POLICY.format(table="j")}, j.attempt_fault)
"""
OLDER_ATTEMPT = f"""
json_array(a.job_id, a.number, a.state, a.epoch, (SELECT c.clock FROM lanes AS c WHERE c.lane = a.lane), a.due_at,
    a.dispatched_at, a.started_at, a.ended_at, a.dispatch_lag_us, a.start_lag_us, a.error, a.error_kind, a.reason,
    {_POLICY.format(table="a")}, a.fault)
"""


def job_of(row: Sequence[Any]) -> JobRecord:
    """The record of a row of JOB."""
    values = list(row)
    try:
        values[5] = CLOCKS[values[5]]
        values[7] = CLOCKS[values[7]]
        values[9] = JOB_STATES[values[9]]
        values[11] = retry_of(values[11])
        values[14] = () if values[14] is None else _tags_of(values[14])
        values[16:18] = [origin_of(values[16], values[17])]
        if values[18] is not None:
            values[18] = flow_of(values[18])
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(values[0])}", error) from error
    return JobRecord(*values)


def _tags_of(text: str) -> tuple[str, ...]:
    tags = orjson.loads(text)
    if type(tags) is not list or not all(type(tag) is str for tag in tags):
        raise TypeError(f"no tags: {text[:80]}")
    return tuple(tags)


def origin_text(origin: Origin) -> str:
    """An origin as it is stored, beside its schedule.

    >>> origin_text(Origin("report", CLOCKS[0], 60, missed=Missed(30, 50, 3)))
    '[0,60,0,0,0,30,50,3]'
    """
    rest = (int(origin.clock), origin.nominal_at, origin.turn, ORIGIN_CODES[origin.kind], int(origin.catch_up))
    return orjson.dumps((*rest, *(origin.missed or ()))).decode()


def origin_of(schedule: str | None, text: str | None) -> Origin | None:
    """The origin that was stored. Raises one of NONSENSE for a text that is none."""
    if schedule is None:
        return None
    clock, nominal_at, turn, kind, catch_up, *missed = orjson.loads(text or "")
    if not all(type(value) is int for value in (nominal_at, turn, *missed)):
        raise TypeError(f"no origin: {text}")
    slots = Missed(*missed) if missed else None
    return Origin(schedule, member(CLOCKS, clock), nominal_at, turn, member(ORIGIN_KINDS, kind), bool(catch_up), slots)


def attempt_of(row: Sequence[Any]) -> AttemptRecord:
    """The record of a row of NEWEST_ATTEMPT or OLDER_ATTEMPT."""
    values = list(row)
    try:
        values[2] = ATTEMPT_STATES[values[2]]
        values[4] = CLOCKS[values[4]]
    except NONSENSE as error:
        raise damaged(f"attempt {values[1]} of {job_text(values[0])}", error) from error
    return AttemptRecord(*values)
