"""`verify(path)`: the audit of a journal that nobody has open. It reads only, and takes time in proportion to the file.

Each rule is a query for the jobs, or the schedules, that break it. SQLite's own integrity check compares every index,
the due index first, with its table. It does not look at the CHECKs of a database that is opened for reading, so they
are repeated here.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from timewheel.errors import JournalError
from timewheel.model import job_text
from timewheel_storage.sqlite import audit_flow, schema
from timewheel_storage.sqlite.audit_schedules import JOB_RULES, SCHEDULE_RULES, SCHEDULES_SINCE
from timewheel_storage.sqlite.codes import ask
from timewheel_storage.sqlite.faults import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHOWN = 5  # jobs or schedules named in one finding

RULES = {
    "is in a state that does not exist, or that does not agree with its end or its newest attempt": """
        SELECT job_id FROM jobs
        WHERE state NOT BETWEEN 0 AND 6 OR (state > 2) <> (finished_at IS NOT NULL)
            OR (state = 2) <> (attempt_state IS 0 OR attempt_state IS 1)
            OR (attempt = 0) <> (attempt_state IS NULL) OR attempt < 0 OR attempt_state NOT BETWEEN 0 AND 8
        UNION SELECT job_id FROM attempts WHERE state NOT BETWEEN 0 AND 8
    """,
    "belongs to no known kind or lane, or to a lane of another queue": """
        SELECT j.job_id FROM jobs AS j LEFT JOIN kinds AS k ON k.kind = j.kind LEFT JOIN lanes AS l ON l.lane = j.lane
        WHERE k.kind IS NULL OR l.lane IS NULL OR k.queue <> l.queue OR k.priority <> l.priority
    """,
    "has an id of an epoch that is yet to come": """
        SELECT job_id FROM jobs WHERE job_id >> 40 > (SELECT epoch FROM meta)
    """,
    "has attempts that are not numbered from 1 without a gap": """
        SELECT j.job_id FROM jobs AS j WHERE j.attempt > 1
            AND (SELECT count(*) FROM attempts AS a WHERE a.job_id = j.job_id AND a.number < j.attempt) <> j.attempt - 1
    """,
    "has an attempt beyond its newest one, or does not exist although it has attempts": """
        SELECT DISTINCT a.job_id FROM attempts AS a LEFT JOIN jobs AS j ON j.job_id = a.job_id
        WHERE j.job_id IS NULL OR a.number >= j.attempt OR a.number < 1
    """,
    "has more than one open attempt": """
        SELECT DISTINCT job_id FROM attempts WHERE state IN (0, 1)
    """,
    "was attempted under an epoch that never was": """
        SELECT job_id FROM jobs WHERE attempt > 0
            AND NOT coalesce(attempt_epoch BETWEEN 1 AND (SELECT epoch FROM meta), 0)
        UNION SELECT job_id FROM attempts WHERE epoch NOT BETWEEN 1 AND (SELECT epoch FROM meta)
    """,
    "was attempted under an older epoch than the attempt before": """
        SELECT b.job_id FROM attempts AS b CROSS JOIN attempts AS a ON a.job_id = b.job_id AND a.number = b.number - 1
        WHERE b.epoch < a.epoch
        UNION
        SELECT j.job_id FROM jobs AS j CROSS JOIN attempts AS a ON a.job_id = j.job_id AND a.number = j.attempt - 1
        WHERE j.attempt > 1 AND j.attempt_epoch < a.epoch
    """,
    "was tried again after an attempt that had succeeded": """
        SELECT DISTINCT job_id FROM attempts WHERE state = 2
    """,
    "is COMPLETED without an attempt that succeeded, or is not although one did": """
        SELECT job_id FROM jobs WHERE (state = 3) <> (attempt_state IS 2)
    """,
    "started before it was due": """
        SELECT job_id FROM jobs WHERE dispatch_lag_us < 0 OR start_lag_us < 0
        UNION SELECT job_id FROM attempts WHERE dispatch_lag_us < 0 OR start_lag_us < 0
    """,
    "has a clock for an attempt that no lane knows": """
        SELECT job_id FROM jobs WHERE attempt > 0 AND attempt_lane NOT IN (SELECT lane FROM lanes)
        UNION SELECT job_id FROM attempts WHERE lane NOT IN (SELECT lane FROM lanes)
    """,
    "is named by an idempotency key that is not its own": """
        SELECT h.job_id FROM keys AS h LEFT JOIN jobs AS j ON j.job_id = h.job_id
        LEFT JOIN kinds AS k ON k.kind = j.kind
        WHERE j.job_id IS NULL OR j.holds_key IS NOT 1 OR j.idempotency_key IS NOT h.key OR k.task IS NOT h.task
    """,
    "should be named by its idempotency key and is not": """
        SELECT j.job_id FROM jobs AS j LEFT JOIN kinds AS k ON k.kind = j.kind
        LEFT JOIN keys AS h ON h.task = k.task AND h.key = j.idempotency_key
        WHERE (j.holds_key = 1 AND h.job_id IS NOT j.job_id)
            OR (j.idempotency_key IS NOT NULL AND j.holds_key IS NULL AND j.state < 3
                AND j.version = 1) -- a job that is replayed may have given up its key
    """,
}


def verify(path: str) -> list[str]:
    """What is wrong with a journal, a sentence each; nothing when all is well.

    Raises JournalUnavailable when there is no such file; every other fault is a finding.
    """
    schema.refuse_at_sight(path)
    try:
        connection = schema.connect(path, "ro")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        schema.admit(connection, path)
        return list(_findings(connection))
    except JournalError as error:
        return [str(error)]
    except sqlite3.Error as error:
        return [str(translate(error, path))]
    finally:
        connection.close()


def _broken(connection: sqlite3.Connection, rules: dict[str, str], name: Callable[[Any], str]) -> Iterator[str]:
    for complaint, query in rules.items():
        (count,) = ask(connection, f"SELECT count(*) FROM ({query})")
        if count:
            shown = [name(one) for (one,) in connection.execute(f"{query} LIMIT {SHOWN}")]
            more = f" and {count - len(shown)} more" if count > len(shown) else ""
            yield f"{', '.join(shown)}{more}: {complaint}."


def _findings(connection: sqlite3.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(100)"):
        if line != "ok":
            yield f"SQLite finds: {line}."
    yield from _broken(connection, RULES, job_text)
    if ask(connection, "PRAGMA user_version")[0] >= SCHEDULES_SINCE:
        yield from _broken(connection, JOB_RULES, job_text)
        yield from _broken(connection, SCHEDULE_RULES, "schedule {!r}".format)
    if ask(connection, "PRAGMA user_version")[0] >= audit_flow.FLOW_SINCE:
        yield from _broken(connection, audit_flow.JOB_RULES, job_text)
        yield from _broken(connection, audit_flow.SCHEDULE_RULES, "schedule {!r}".format)
        yield from _broken(connection, audit_flow.OPERATION_RULES, "operation {}".format)
        yield from _broken(connection, audit_flow.ENTRY_RULES, "journal entry {}".format)
    entries, last = ask(connection, "SELECT count(*), coalesce(max(number), 0) FROM entries")
    if entries != last:
        yield f"{last - entries} journal entries are missing."
    commits, epoch = ask(connection, "SELECT commits, epoch FROM meta WHERE one = 1")
    if commits < epoch:
        yield f"The journal counts {commits} commits, fewer than its {epoch} owners."
