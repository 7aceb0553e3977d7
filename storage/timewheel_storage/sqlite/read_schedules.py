"""Reading schedules, what is unfinished of them, their ledgers, and calendars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.schedule_records import ScheduleRecord, UnfinishedJob
from timewheel.store.port import LedgerPage, ScheduleFilter
from timewheel_storage.sqlite.codes import SCHEDULE_CODES, ask, clean, encode, rows_of
from timewheel_storage.sqlite.records_schedules import (
    ROW,
    SCHEDULE,
    entry_of,
    occurrence_of,
    schedule_of,
    unfinished_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

LEDGER_SCAN = 5_000  # rows that one call looks at
NEWEST = (1 << 63) - 1

# Blobs, row by row: so a text that is none spoils its own row and no other.
_ONE_BY_ONE = f"CAST(s.schedule AS BLOB), CAST({SCHEDULE} AS BLOB)"
ONE_SCHEDULE = f"SELECT {_ONE_BY_ONE} FROM schedules AS s WHERE s.schedule = ?1"
_MATCHES = """
(json_array_length(:states) = 0 OR s.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR s.task = :task) AND (:queue IS NULL OR s.queue = :queue)
"""
SCHEDULES_AFTER = f"""
SELECT {_ONE_BY_ONE} FROM schedules AS s WHERE s.schedule > :after AND {_MATCHES} ORDER BY s.schedule LIMIT :limit
"""
SCHEDULES = f"SELECT {_ONE_BY_ONE} FROM schedules AS s WHERE {_MATCHES} ORDER BY s.schedule LIMIT :limit"
COUNT_SCHEDULES = f"SELECT count(*) FROM schedules AS s WHERE {_MATCHES}"

UNFINISHED = """
SELECT json_group_array(json_array(j.job_id, j.state, j.reason, json_array(j.schedule, j.origin, j.scheduled_at,
    j.cancel_requested IS NOT NULL)))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id IN (
    SELECT u.job_id FROM jobs AS u INDEXED BY jobs_unfinished
    WHERE u.schedule = h.value AND u.state IN (0, 1, 2) ORDER BY u.job_id LIMIT ?2
)
"""

LEDGER = f"""
WITH page AS MATERIALIZED (
    SELECT number FROM ledger WHERE schedule = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?6
)
SELECT (SELECT count(*) FROM page), (SELECT min(number) FROM page), (
    SELECT json_group_array(json_array(number, json(row), state)) FROM (
        SELECT w.number, {ROW} AS row, j.state
        FROM page AS p CROSS JOIN ledger AS w ON w.number = p.number LEFT JOIN jobs AS j ON j.job_id = w.job_id
        WHERE (?3 IS NULL OR w.last_at >= ?3) AND (?4 IS NULL OR w.first_at <= ?4)
        ORDER BY p.number DESC LIMIT ?5
    )
)
"""
CALENDARS = "SELECT json_group_array(json_array(name, data)) FROM calendars"


def schedule(connection: sqlite3.Connection, name: str) -> ScheduleRecord | None:
    """See Store.schedule."""
    row = ask(connection, ONE_SCHEDULE, (clean(name),))
    return None if row is None else schedule_of(*row)


def schedules(
    connection: sqlite3.Connection, which: ScheduleFilter, after: str | None, limit: int
) -> list[ScheduleRecord]:
    """See Store.schedules. Those whose row makes no sense are set apart: PARKED, with the reason."""
    parameters = _parameters(which) | {"limit": max(limit, 0)}
    if after is None:
        rows = connection.execute(SCHEDULES, parameters)
    else:
        rows = connection.execute(SCHEDULES_AFTER, parameters | {"after": clean(after)})
    return [schedule_of(name, row) for name, row in rows]


def count_schedules(connection: sqlite3.Connection, which: ScheduleFilter) -> int:
    """See Store.count_schedules."""
    (count,) = connection.execute(COUNT_SCHEDULES, _parameters(which)).fetchone()
    return int(count)


def _parameters(which: ScheduleFilter) -> dict[str, Any]:
    states = encode([SCHEDULE_CODES[state] for state in which.states])
    return {"states": states, "task": which.task, "queue": which.queue}


def unfinished(connection: sqlite3.Connection, names: Sequence[str], limit: int) -> dict[str, list[UnfinishedJob]]:
    """See Store.unfinished."""
    found: dict[str, list[UnfinishedJob]] = {}
    (answer,) = ask(connection, UNFINISHED, (encode(list(dict.fromkeys(names))), max(limit, 0)))
    for job_id, state, reason, rest in rows_of(answer):
        found.setdefault(rest[0], []).append(unfinished_of(job_id, state, reason, rest))
    for jobs in found.values():
        jobs.sort()  # SQLite happens to find them so, and does not say that it will
    return found


def ledger(
    connection: sqlite3.Connection, name: str, between: tuple[int | None, int | None], before: int | None, limit: int
) -> LedgerPage:
    """See Store.ledger; a call looks at LEDGER_SCAN rows at most."""
    if limit <= 0:
        return LedgerPage([], before)
    values = (clean(name), NEWEST if before is None else before, *between, limit + 1, LEDGER_SCAN)
    seen, last_seen, answer = ask(connection, LEDGER, values)
    found = [entry_of(*row) for row in rows_of(answer)]
    if len(found) > limit:
        return LedgerPage(found[:limit], found[limit - 1].number)
    return LedgerPage(found, last_seen if seen == LEDGER_SCAN else None)


def calendars(connection: sqlite3.Connection) -> dict[str, str]:
    """See Store.calendars."""
    return dict(rows_of(ask(connection, CALENDARS)[0]))


_EVERY_SCHEDULE = f"SELECT {_ONE_BY_ONE} FROM schedules AS s"
_EVERY_ROW = f"SELECT json_group_array({ROW}) FROM ledger AS w"


def everything(connection: sqlite3.Connection) -> dict[str, Any]:
    """The part of `read_list.everything` that tells of schedules."""
    rows = [occurrence_of(row) for row in rows_of(ask(connection, _EVERY_ROW)[0])]
    records = [schedule_of(name, row) for name, row in connection.execute(_EVERY_SCHEDULE)]
    return {
        "schedules": {one.schedule: one for one in records},
        "ledger": {(row.schedule, row.clock, row.first_at, row.turn, row.kind): row for row in rows},
        "calendars": calendars(connection),
    }
