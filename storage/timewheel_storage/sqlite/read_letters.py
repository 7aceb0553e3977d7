"""Reading dead letters, operations, and journal entries of one kind.

A call looks at a bounded number of rows, as those for jobs do (see `read_list`): newest first, all that are DEAD, the
discarded ones too; only those with one fingerprint have an index of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from timewheel.store.letters import LetterGroup, OperationRecord
from timewheel.store.port import EntryRow, JobPage, LetterFilter
from timewheel_storage.sqlite import read_list
from timewheel_storage.sqlite.codes import NONSENSE, OPERATION_STATES, ask, damaged, member, rows_of
from timewheel_storage.sqlite.read_list import NEWEST, SCAN
from timewheel_storage.sqlite.records import JOB, JOB_JOINS, job_of

if TYPE_CHECKING:
    import sqlite3

COUNT_SCAN = 20_000

# Parameters are NULL where anything goes.
_MATCHES = """
j.discarded_at IS NULL AND (:fingerprint IS NULL OR j.fingerprint = :fingerprint)
    AND (:queue IS NULL OR k.queue = :queue) AND (:task IS NULL OR k.task = :task)
    AND (:since IS NULL OR j.finished_at >= :since) AND (:until IS NULL OR j.finished_at <= :until)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(coalesce(j.tags, '[]')) AS t WHERE t.value = :tag))
"""
_DEAD = """
SELECT job_id FROM jobs WHERE state <> 0 AND state <> 3 AND state = 5 AND job_id < :before
ORDER BY job_id DESC LIMIT :scan
"""
_OF_FINGERPRINT = """
SELECT job_id FROM jobs
WHERE state = 5 AND discarded_at IS NULL AND fingerprint = :fingerprint AND job_id < :before
ORDER BY job_id DESC LIMIT :scan
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
LETTERS = _PAGE.format(candidates=_DEAD)
LETTERS_OF_FINGERPRINT = _PAGE.format(candidates=_OF_FINGERPRINT)

_GROUPS = f"""
WITH candidates AS MATERIALIZED ({{candidates}}),
groups AS MATERIALIZED (
    SELECT j.fingerprint, k.task, count(*) AS letters, min(j.finished_at) AS first_at, max(j.finished_at) AS last_at,
        max(j.job_id) AS newest
    FROM candidates AS c CROSS JOIN jobs AS j ON j.job_id = c.job_id CROSS JOIN kinds AS k ON k.kind = j.kind
    WHERE {_MATCHES} GROUP BY j.fingerprint, k.task
)
SELECT (SELECT count(*) FROM candidates), (SELECT min(job_id) FROM candidates), (
    SELECT json_group_array(json_array(g.fingerprint, g.task, CASE WHEN :errors THEN (
        SELECT n.error FROM jobs AS n WHERE n.job_id = g.newest
    ) END, g.letters, g.first_at, g.last_at, g.newest))
    FROM groups AS g
)
"""
GROUPS = _GROUPS.format(candidates=_DEAD)
GROUPS_OF_FINGERPRINT = _GROUPS.format(candidates=_OF_FINGERPRINT)

_OPERATION = "json_array(number, kind, state, request, progress, audit, created_at, updated_at, reason)"
ONE_OPERATION = f"SELECT {_OPERATION} FROM operations WHERE number = ?1"
OPERATIONS = f"""
SELECT json_group_array(json(operation)) FROM (
    SELECT {_OPERATION} AS operation FROM operations WHERE number < ?1 ORDER BY number DESC LIMIT ?2
)
"""
EVERY_OPERATION = f"SELECT json_group_array({_OPERATION}) FROM operations"
ENTRIES_OF = """
SELECT json_group_array(json_array(number, wall_us, kind, data)) FROM (
    SELECT * FROM entries WHERE kind = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3
)
"""

Groups: TypeAlias = dict[tuple[str | None, str], LetterGroup]  # by fingerprint and task


def _parameters(which: LetterFilter, before: int | None, scan: int) -> dict[str, Any]:
    return {**which._asdict(), "before": NEWEST if before is None else before, "scan": scan}


def letters(connection: sqlite3.Connection, which: LetterFilter, before: int | None, limit: int) -> JobPage:
    """See Store.letters."""
    if limit <= 0:
        return JobPage([], before)
    statement = LETTERS if which.fingerprint is None else LETTERS_OF_FINGERPRINT
    parameters = _parameters(which, before, SCAN) | {"limit": limit + 1}
    seen, last_seen, answer = connection.execute(statement, parameters).fetchone()
    found = [job_of(row) for row in rows_of(answer)]
    if len(found) > limit:
        return JobPage(found[:limit], found[limit - 1].job_id)
    return JobPage(found, last_seen if seen == SCAN else None)


def groups_of_some(
    connection: sqlite3.Connection, which: LetterFilter, before: int | None, *, errors: bool
) -> tuple[list[LetterGroup], int | None]:
    """The groups of those that match among the next COUNT_SCAN dead letters, and `before` for the rest or None.

    Without `errors` the groups have none: to read them takes longer than to count.
    """
    statement = GROUPS if which.fingerprint is None else GROUPS_OF_FINGERPRINT
    parameters = _parameters(which, before, COUNT_SCAN) | {"errors": errors}
    seen, last_seen, answer = connection.execute(statement, parameters).fetchone()
    return [LetterGroup(*row) for row in rows_of(answer)], last_seen if seen == COUNT_SCAN else None


def add_groups(groups: Groups, older: list[LetterGroup]) -> None:
    """Add the groups of older jobs to those of newer ones."""
    for group in older:
        key = (group.fingerprint, group.task)
        newer = groups.get(key)
        if newer is None:
            groups[key] = group
            continue
        groups[key] = newer._replace(
            letters=newer.letters + group.letters,
            first_at=min(newer.first_at, group.first_at),
            last_at=max(newer.last_at, group.last_at),
        )


def largest(groups: Groups, limit: int) -> list[LetterGroup]:
    """So many of the groups, in the order of Store.letter_groups."""
    return sorted(groups.values(), key=lambda group: (-group.letters, -group.newest))[: max(limit, 0)]


def operation(connection: sqlite3.Connection, number: int) -> OperationRecord | None:
    """See Store.operation."""
    row = ask(connection, ONE_OPERATION, (number,))
    return None if row is None else operation_of(rows_of(row[0]))


def operations(connection: sqlite3.Connection, before: int | None, limit: int) -> list[OperationRecord]:
    """See Store.operations."""
    values = (NEWEST if before is None else before, max(limit, 0))
    return [operation_of(row) for row in rows_of(ask(connection, OPERATIONS, values)[0])]


def everything(connection: sqlite3.Connection) -> dict[str, Any]:
    """The whole journal as one dict, for tests (see the memory model's `dump`)."""
    operations = {row[0]: operation_of(row) for row in rows_of(ask(connection, EVERY_OPERATION)[0])}
    return {**read_list.everything(connection), "operations": operations}


def operation_of(row: list[Any]) -> OperationRecord:
    """The record of a row of an operation."""
    number, kind, code, *rest = row
    try:
        state = member(OPERATION_STATES, code)
    except NONSENSE as error:
        raise damaged(f"operation {number}", error) from error
    return OperationRecord(number, kind, state, *rest)


def entries_of(connection: sqlite3.Connection, kind: str, before: int | None, limit: int) -> list[EntryRow]:
    """See Store.entries_of."""
    values = (kind, NEWEST if before is None else before, max(limit, 0))
    rows = rows_of(ask(connection, ENTRIES_OF, values)[0])
    return [(number, wall_us, kind, data) for number, wall_us, kind, data in rows]
