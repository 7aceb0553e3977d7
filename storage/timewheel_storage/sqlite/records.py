"""Jobs and attempts as SQLite gives them out: one JSON array each, its fields in the order of the record's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from timewheel.model import AttemptRecord, ClockKind, JobRecord, job_text
from timewheel_storage.sqlite.codes import ATTEMPT_STATES, JOB_STATES, NONSENSE, damaged, retry_of

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB = """
json_array(j.job_id, k.task, j.arguments, k.queue, k.priority, coalesce(j.clock, k.clock), j.scheduled_at, l.clock,
    j.due_at, j.state, j.created_at, k.retry, k.timeout_us, j.misfire_grace_us, j.tags, j.idempotency_key, j.version,
    j.attempt, j.failures, j.losses, j.first_failed_at, j.reason, j.cancel_requested, j.finished_at, j.result,
    j.result_omitted, j.error)
"""
JOB_JOINS = "CROSS JOIN kinds AS k ON k.kind = j.kind CROSS JOIN lanes AS l ON l.lane = j.lane"
JOB_TABLES = f"jobs AS j {JOB_JOINS}"

_POLICY = "(SELECT (p.retry ->> 6) || '/' || (p.retry ->> 7) FROM kinds AS p WHERE p.kind = {table}.judged_by)"
NEWEST_ATTEMPT = f"""
json_array(j.job_id, j.attempt, j.attempt_state, j.attempt_epoch,
    (SELECT c.clock FROM lanes AS c WHERE c.lane = j.attempt_lane), j.attempt_due_at, j.dispatched_at, j.started_at,
    j.ended_at, j.dispatch_lag_us, j.start_lag_us, j.attempt_error, j.error_kind, j.attempt_reason,
    {_POLICY.format(table="j")})
"""
OLDER_ATTEMPT = f"""
json_array(a.job_id, a.number, a.state, a.epoch, (SELECT c.clock FROM lanes AS c WHERE c.lane = a.lane), a.due_at,
    a.dispatched_at, a.started_at, a.ended_at, a.dispatch_lag_us, a.start_lag_us, a.error, a.error_kind, a.reason,
    {_POLICY.format(table="a")})
"""

_CLOCKS = (ClockKind.WALL, ClockKind.STEADY)


def job_of(row: Sequence[Any]) -> JobRecord:
    """The record of a row of JOB."""
    values = list(row)
    try:
        values[5] = _CLOCKS[values[5]]
        values[7] = _CLOCKS[values[7]]
        values[9] = JOB_STATES[values[9]]
        values[11] = retry_of(values[11])
        values[14] = () if values[14] is None else _tags_of(values[14])
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(values[0])}", error) from error
    return JobRecord(*values)


def _tags_of(text: str) -> tuple[str, ...]:
    tags = orjson.loads(text)
    if type(tags) is not list or not all(type(tag) is str for tag in tags):
        raise TypeError(f"no tags: {text[:80]}")
    return tuple(tags)


def attempt_of(row: Sequence[Any]) -> AttemptRecord:
    """The record of a row of NEWEST_ATTEMPT or OLDER_ATTEMPT."""
    values = list(row)
    try:
        values[2] = ATTEMPT_STATES[values[2]]
        values[4] = _CLOCKS[values[4]]
    except NONSENSE as error:
        raise damaged(f"attempt {values[1]} of {job_text(values[0])}", error) from error
    return AttemptRecord(*values)
