"""Reading by key: what the core asks for all the time. Each answer is one row, made in one short statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import SECOND_US, AttemptRecord, ClockKind, DueKey, JobRecord, Lane, Now
from timewheel.store.port import LaneDepth
from timewheel_storage.sqlite.codes import NONSENSE, ask, damaged, rows_of
from timewheel_storage.sqlite.records import (
    JOB,
    JOB_TABLES,
    NEWEST_ATTEMPT,
    OLDER_ATTEMPT,
    attempt_of,
    job_of,
)

if TYPE_CHECKING:
    import sqlite3

LANES = """
SELECT json_group_array(json_array(lane, queue, priority, clock, partition)) FROM (SELECT * FROM lanes ORDER BY lane)
"""
DUE = """
SELECT json_group_array(json_array(due_at, job_id)) FROM (
    SELECT * FROM (
        SELECT due_at, job_id FROM jobs
        WHERE state = 0 AND lane = ?1 AND due_at = ?2 AND ?2 < ?4 AND job_id > ?3 ORDER BY job_id LIMIT ?5
    )
    UNION ALL
    SELECT * FROM (
        SELECT due_at, job_id FROM jobs
        WHERE state = 0 AND lane = ?1 AND due_at > ?2 AND due_at < ?4 ORDER BY due_at, job_id LIMIT ?5
    )
    LIMIT ?5
)
"""
ONE_JOB = f"SELECT {JOB} FROM {JOB_TABLES} WHERE j.job_id = ?1"
ATTEMPTS = f"""
SELECT json_group_array(json(attempt)) FROM (
    SELECT {OLDER_ATTEMPT} AS attempt, a.number FROM attempts AS a WHERE a.job_id = ?1
    UNION ALL
    SELECT {NEWEST_ATTEMPT}, j.attempt FROM jobs AS j WHERE j.job_id = ?1 AND j.attempt > 0
    ORDER BY 2
)
"""
OPEN_ATTEMPTS = f"""
SELECT json_group_array(json_array(json(job), json(attempt))) FROM (
    SELECT {JOB} AS job, {NEWEST_ATTEMPT} AS attempt FROM {JOB_TABLES}
    WHERE j.state <> 0 AND j.state <> 3 AND j.state = 2 AND j.job_id > ?1 AND j.attempt_epoch < ?2
    ORDER BY j.job_id LIMIT ?3
)
"""
DEPTHS = """
SELECT json_group_array(
    json_array(d.lane, l.queue, l.priority, l.clock, l.partition, d.scheduled, d.due, d.oldest)
) FROM (
    SELECT j.lane, count(*) AS scheduled, min(j.due_at) AS oldest,
        sum(j.due_at <= CASE WHEN j.lane IN (SELECT lane FROM lanes WHERE clock = 1) THEN ?2 ELSE ?1 END) AS due
    FROM jobs AS j WHERE j.state = 0 GROUP BY j.lane ORDER BY j.lane
) AS d CROSS JOIN lanes AS l ON l.lane = d.lane
"""
FULLEST_SECOND = f"""
SELECT coalesce(sum(jobs), 0), coalesce(max(jobs), 0) FROM (
    SELECT count(*) AS jobs FROM (
        SELECT (j.due_at - CASE l.clock WHEN 0 THEN ?1 ELSE ?2 END) / {SECOND_US} AS second
        FROM lanes AS l CROSS JOIN jobs AS j ON j.lane = l.lane
        WHERE j.state = 0 AND j.due_at >= CASE l.clock WHEN 0 THEN ?1 ELSE ?2 END
            AND j.due_at < CASE l.clock WHEN 0 THEN ?1 ELSE ?2 END + ?3
    ) GROUP BY second
)
"""
LIMITS = "SELECT json_group_object(name, value) FROM limits"
QUEUES = "SELECT json_group_array(json_array(queue, settings)) FROM queues"
IMPORTABLE = "SELECT json_group_array(task) FROM (SELECT task FROM importable ORDER BY task)"
ENTRIES = """
SELECT json_group_array(json_array(number, wall_us, kind, data)) FROM (
    SELECT * FROM entries WHERE number > ?1 ORDER BY number LIMIT ?2
)
"""


def lanes(connection: sqlite3.Connection) -> list[Lane]:
    """See Store.lanes."""
    return [_lane(row) for row in rows_of(ask(connection, LANES)[0])]


def _lane(row: list[Any]) -> Lane:
    number, queue, priority, clock, partition = row
    try:
        return Lane(number, queue, priority, ClockKind(clock), partition)
    except NONSENSE as error:
        raise damaged(f"lane {number}", error) from error


def due(connection: sqlite3.Connection, lane: int, after: DueKey, until_us: int, limit: int) -> list[tuple[int, int]]:
    """See Store.due."""
    rows = rows_of(ask(connection, DUE, (lane, after.due_at, after.job_id, until_us, max(limit, 0)))[0])
    return [(due_at, job_id) for due_at, job_id in rows]


def job(connection: sqlite3.Connection, job_id: int) -> JobRecord | None:
    """See Store.job."""
    row = ask(connection, ONE_JOB, (job_id,))
    return None if row is None else job_of(rows_of(row[0]))


def attempts(connection: sqlite3.Connection, job_id: int) -> list[AttemptRecord]:
    """See Store.attempts."""
    return [attempt_of(row) for row in rows_of(ask(connection, ATTEMPTS, (job_id,))[0])]


def open_attempts(
    connection: sqlite3.Connection, below_epoch: int, after: int, limit: int
) -> list[tuple[JobRecord, AttemptRecord]]:
    """See Store.open_attempts."""
    rows = rows_of(ask(connection, OPEN_ATTEMPTS, (after, below_epoch, max(limit, 0)))[0])
    return [(job_of(one), attempt_of(attempt)) for one, attempt in rows]


def depths(connection: sqlite3.Connection, now: Now) -> list[LaneDepth]:
    """See Store.depths."""
    rows = rows_of(ask(connection, DEPTHS, now)[0])
    return [
        LaneDepth(_lane(lane), scheduled, due_jobs, oldest if due_jobs else None)
        for *lane, scheduled, due_jobs, oldest in rows
    ]


def fullest_second(connection: sqlite3.Connection, now: Now, span_us: int) -> tuple[int, int]:
    """See Store.fullest_second; seconds are counted from now, so that both clocks fall together."""
    total, most = ask(connection, FULLEST_SECOND, (*now, span_us))
    return total, most


def limits(connection: sqlite3.Connection) -> dict[str, int]:
    """See Store.limits."""
    return dict(rows_of(ask(connection, LIMITS)[0]))


def queues(connection: sqlite3.Connection) -> dict[str, str]:
    """See Store.queues."""
    return dict(rows_of(ask(connection, QUEUES)[0]))


def importable(connection: sqlite3.Connection) -> list[str]:
    """See Store.importable."""
    return rows_of(ask(connection, IMPORTABLE)[0])


def entries(connection: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, int, str, str]]:
    """See Store.entries."""
    rows = rows_of(ask(connection, ENTRIES, (after, max(limit, 0)))[0])
    return [(number, wall_us, kind, data) for number, wall_us, kind, data in rows]
