"""Reading lists of jobs: pages, counts, and everything at once (for tests).

A call looks at SCAN rows at most, so that no reader holds an old state of the journal for long. States that few jobs
are in have an index; for all others the rows are gone through, newest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import JobState
from timewheel.store.port import JobFilter, JobPage
from timewheel_storage.sqlite import read, read_schedules
from timewheel_storage.sqlite.codes import JOB_CODES, ask, encode, rows_of
from timewheel_storage.sqlite.records import (
    JOB,
    JOB_JOINS,
    JOB_TABLES,
    NEWEST_ATTEMPT,
    OLDER_ATTEMPT,
    attempt_of,
    job_of,
)

if TYPE_CHECKING:
    import sqlite3

SCAN = 5_000
COUNT_SCAN = 50_000
NEWEST = (1 << 63) - 1
INDEXED = frozenset({JobState.WAITING, JobState.ACTIVE, JobState.CANCELLED, JobState.DEAD, JobState.SKIPPED})

# :states is a JSON array of codes; the others are NULL where anything goes
_MATCHES = """
(json_array_length(:states) = 0 OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:queue IS NULL OR k.queue = :queue) AND (:task IS NULL OR k.task = :task)
    AND (:key IS NULL OR j.idempotency_key = :key) AND (:schedule IS NULL OR j.schedule = :schedule)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(coalesce(j.tags, '[]')) AS t WHERE t.value = :tag))
"""
_ALL = "SELECT job_id FROM jobs WHERE job_id < :before ORDER BY job_id DESC LIMIT :scan"
_OF_KEY = """
SELECT job_id FROM jobs WHERE idempotency_key = :key AND job_id < :before ORDER BY job_id DESC LIMIT :scan
"""
_OF_SCHEDULE = """
SELECT job_id FROM jobs WHERE schedule = :schedule AND job_id < :before ORDER BY job_id DESC LIMIT :scan
"""
_OF_STATE = """
SELECT job_id FROM (
    SELECT job_id FROM jobs WHERE state <> 0 AND state <> 3 AND state = {code} AND job_id < :before
    ORDER BY job_id DESC LIMIT :scan
)
"""
_PAGE = f"""
WITH candidates AS MATERIALIZED ({{candidates}})
SELECT (SELECT count(*) FROM candidates), (SELECT min(job_id) FROM candidates), (
    SELECT json_group_array(json(job)) FROM (
        SELECT {JOB} AS job FROM (
            SELECT c.job_id FROM candidates AS c CROSS JOIN jobs AS j ON j.job_id = c.job_id
            CROSS JOIN kinds AS k ON k.kind = j.kind WHERE {_MATCHES} ORDER BY c.job_id DESC LIMIT :limit
        ) AS m CROSS JOIN jobs AS j ON j.job_id = m.job_id {JOB_JOINS} ORDER BY m.job_id DESC
    )
)
"""
PAGE = _PAGE.format(candidates=_ALL)
PAGE_OF_KEY = _PAGE.format(candidates=_OF_KEY)
PAGE_OF_SCHEDULE = _PAGE.format(candidates=_OF_SCHEDULE)
_COUNT = f"""
SELECT count(*), min(j.job_id), sum({_MATCHES})
FROM (SELECT * FROM jobs WHERE job_id < :before ORDER BY job_id DESC LIMIT :scan) AS j
CROSS JOIN kinds AS k ON k.kind = j.kind
"""


def page_of_states(codes: list[int]) -> str:
    """The statement for a page of jobs in some of the indexed states."""
    parts = " UNION ALL ".join(_OF_STATE.format(code=int(code)) for code in codes)
    return _PAGE.format(candidates=f"SELECT job_id FROM ({parts}) ORDER BY job_id DESC LIMIT :scan")


def _parameters(which: JobFilter, before: int | None, scan: int) -> dict[str, Any]:
    return {
        "states": encode([JOB_CODES[state] for state in which.states]),
        "queue": which.queue,
        "task": which.task,
        "tag": which.tag,
        "key": which.idempotency_key,
        "schedule": which.schedule,
        "before": NEWEST if before is None else before,
        "scan": scan,
    }


def jobs(connection: sqlite3.Connection, which: JobFilter, before: int | None, limit: int) -> JobPage:
    """See Store.jobs."""
    if limit <= 0:
        return JobPage([], before)
    statement = PAGE
    if which.idempotency_key is not None:
        statement = PAGE_OF_KEY
    elif which.schedule is not None:
        statement = PAGE_OF_SCHEDULE
    elif which.states and INDEXED.issuperset(which.states):
        statement = page_of_states(sorted({JOB_CODES[state] for state in which.states}))
    parameters = _parameters(which, before, SCAN) | {"limit": limit + 1}
    seen, last_seen, answer = connection.execute(statement, parameters).fetchone()
    found = [job_of(row) for row in rows_of(answer)]
    if len(found) > limit:
        return JobPage(found[:limit], found[limit - 1].job_id)
    return JobPage(found, last_seen if seen == SCAN else None)


def count_some(connection: sqlite3.Connection, which: JobFilter, before: int | None) -> tuple[int, int | None]:
    """(how many match among the next COUNT_SCAN jobs, `before` for the rest or None)."""
    parameters = _parameters(which, before, COUNT_SCAN)
    seen, last_seen, matching = connection.execute(_COUNT, parameters).fetchone()
    return matching or 0, last_seen if seen == COUNT_SCAN else None


_EVERY_JOB = f"SELECT json_group_array({JOB}) FROM {JOB_TABLES}"
_EVERY_ATTEMPT = f"SELECT json_group_array({OLDER_ATTEMPT}) FROM attempts AS a"
_EVERY_NEWEST = f"SELECT json_group_array({NEWEST_ATTEMPT}) FROM jobs AS j WHERE j.attempt > 0"
_EVERY_KEY = "SELECT json_group_array(json_array(task, key, job_id, digest)) FROM keys"


def everything(connection: sqlite3.Connection) -> dict[str, Any]:
    """The part of `read_letters.everything` that tells of jobs, schedules and limits."""

    def rows(statement: str) -> list[Any]:
        return rows_of(ask(connection, statement)[0])

    older = [attempt_of(row) for row in rows(_EVERY_ATTEMPT)]
    newest = [attempt_of(row) for row in rows(_EVERY_NEWEST)]
    return {
        "jobs": {row[0]: job_of(row) for row in rows(_EVERY_JOB)},
        "attempts": {(one.job_id, one.number): one for one in older + newest},
        "keys": {(task, key): (job_id, digest) for task, key, job_id, digest in rows(_EVERY_KEY)},
        "limits": read.limits(connection),
        "queues": read.queues(connection),
        "importable": read.importable(connection),
        **read_schedules.everything(connection),
    }
