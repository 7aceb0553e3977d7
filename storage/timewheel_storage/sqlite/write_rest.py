"""Writing the rest: changes that are rare or small, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from timewheel.model import WaitingReason
from timewheel.store.changes import (
    DONE,
    KEY_KEEPING_US,
    AddEntry,
    Defer,
    Done,
    Outcome,
    PruneKeys,
    PutQueue,
    SaveLimits,
    Unheld,
    Unhold,
)
from timewheel.store.letters import Prune, PutOperation
from timewheel_storage.sqlite.codes import ask, clean, do, encode, rows_of
from timewheel_storage.sqlite.write_letters import prune, put_operation
from timewheel_storage.sqlite.write_verbs import forget_waits

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import Any

    from timewheel.store.port import Stamp

SAVE_LIMITS = """
INSERT INTO limits (name, value) SELECT key, value FROM json_each(?1) WHERE type <> 'null'
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
FORGET_LIMITS = "DELETE FROM limits WHERE name IN (SELECT key FROM json_each(?1) WHERE type = 'null')"
PUT_QUEUE = """
INSERT INTO queues (queue, settings) VALUES (?1, ?2) ON CONFLICT (queue) DO UPDATE SET settings = excluded.settings
"""
ADD_ENTRY = "INSERT INTO entries (wall_us, kind, data) VALUES (?1, ?2, ?3)"

# ?1 reason, ?2 tasks or NULL, ?3 ids or NULL, ?4 limit
_TASKS = "(?2 IS NULL OR (SELECT task FROM kinds AS k WHERE k.kind = j.kind) IN (SELECT value FROM json_each(?2)))"
WAITING = f"""
SELECT json_group_array(json_array(lane, due_at, job_id)) FROM (
    SELECT j.lane, j.due_at, j.job_id FROM jobs AS j
    WHERE j.state <> 0 AND j.state <> 3 AND j.state = 1 AND j.reason = ?1 AND ?3 IS NULL AND {_TASKS}
    ORDER BY j.job_id LIMIT ?4
)
"""
WAITING_OF_THESE = f"""
SELECT json_group_array(json_array(lane, due_at, job_id)) FROM (
    SELECT j.lane, j.due_at, j.job_id FROM json_each(?3) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
    WHERE j.state = 1 AND j.reason = ?1 AND {_TASKS}
    GROUP BY j.job_id ORDER BY j.job_id LIMIT ?4
)
"""
UNHOLD = "UPDATE jobs SET state = 0, reason = NULL WHERE job_id IN (SELECT value FROM json_each(?1))"

# r: a row of a Defer, if it still holds; with the steady lane of its job
_DEFERRED = """
r AS MATERIALIZED (
    SELECT d.key, d.value ->> 2 AS due_at, j.job_id, l.queue, l.priority, l.partition FROM json_each(?1) AS d
    CROSS JOIN jobs AS j ON j.job_id = d.value ->> 0 CROSS JOIN lanes AS l ON l.lane = j.lane
    WHERE j.state = 0 AND j.due_at = d.value ->> 1
)
"""
_STEADY = "x.queue = r.queue AND x.priority = r.priority AND x.clock = 1 AND x.partition = r.partition"
LANES_OF_DEFERRED = f"""
WITH {_DEFERRED}
INSERT INTO lanes (queue, priority, clock, partition)
SELECT r.queue, r.priority, 1, r.partition FROM r
WHERE r.due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lanes AS x WHERE {_STEADY})
GROUP BY r.queue, r.priority, r.partition ORDER BY min(r.key)
"""
BEFORE_DEFERS = f"""
WITH {_DEFERRED}
SELECT json_group_array(json_array(x.lane, r.due_at, r.job_id)) FROM r CROSS JOIN lanes AS x ON {_STEADY}
WHERE r.due_at IS NOT NULL
"""
DEFERS = f"""
WITH {_DEFERRED}
UPDATE jobs SET
    state = r.due_at IS NULL, reason = CASE WHEN r.due_at IS NULL THEN 'task' END,
    due_at = coalesce(r.due_at, jobs.due_at),
    lane = CASE WHEN r.due_at IS NULL THEN jobs.lane ELSE (SELECT x.lane FROM lanes AS x WHERE {_STEADY}) END
FROM r WHERE jobs.job_id = r.job_id
"""

OLD_HOLDERS = """
SELECT json_group_array(job_id) FROM (
    SELECT job_id FROM jobs WHERE holds_key = 1 AND finished_at < ?1 ORDER BY finished_at, job_id LIMIT ?2
)
"""
FORGET_KEYS = """
DELETE FROM keys WHERE (task, key) IN (
    SELECT k.task, j.idempotency_key FROM json_each(?1) AS h
    CROSS JOIN jobs AS j ON j.job_id = h.value CROSS JOIN kinds AS k ON k.kind = j.kind
)
"""
FREE_HOLDERS = "UPDATE jobs SET holds_key = NULL WHERE job_id IN (SELECT value FROM json_each(?1))"

Rest: TypeAlias = Unhold | Defer | SaveLimits | PutQueue | AddEntry | PruneKeys | Prune | PutOperation


class Others:
    """The changes of a batch that belong to no other topic, in their order."""

    def __init__(self, changes: Sequence[Rest]) -> None:
        self._changes = changes
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._outcomes = [_WAYS[type(change)](connection, change, stamp) for change in self._changes]

    def freed(self) -> list[int]:
        """The jobs that Unholds made SCHEDULED: an overrun that ends gives up its key."""
        pairs = zip(self._changes, self._outcomes, strict=True)
        unheld = [outcome for change, outcome in pairs if isinstance(change, Unhold)]
        return [job_id for one in unheld if isinstance(one, Unheld) for _, _, job_id in one.places]

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _save_limits(connection: sqlite3.Connection, change: SaveLimits, _: Stamp) -> Done:
    values = encode(change.values)
    do(connection, SAVE_LIMITS, (values,))
    if None in change.values.values():
        do(connection, FORGET_LIMITS, (values,))
    return Done(len(change.values))


def _put_queue(connection: sqlite3.Connection, change: PutQueue, stamp: Stamp) -> Done:
    do(connection, PUT_QUEUE, (clean(change.queue), clean(change.settings)))
    if change.audit is not None:
        do(connection, ADD_ENTRY, (stamp.now.wall_us, "audit", clean(change.audit)))
    return DONE


def _add_entry(connection: sqlite3.Connection, change: AddEntry, stamp: Stamp) -> Done:
    do(connection, ADD_ENTRY, (stamp.now.wall_us, clean(change.kind), clean(change.data)))
    return DONE


def _unhold(connection: sqlite3.Connection, change: Unhold, _: Stamp) -> Unheld:
    tasks = None if change.tasks is None else encode(change.tasks)
    job_ids = None if change.job_ids is None else encode(change.job_ids)
    statement = WAITING if job_ids is None else WAITING_OF_THESE
    (answer,) = ask(connection, statement, (change.reason.value, tasks, job_ids, max(change.limit, 0)))
    places = [(lane, due_at, job_id) for lane, due_at, job_id in rows_of(answer)]
    if places:
        released = [job_id for _, _, job_id in places]
        do(connection, UNHOLD, (encode(released),))
        if change.reason is WaitingReason.DEPENDENCY:
            forget_waits(connection, released)
    return Unheld(places)


def _defer(connection: sqlite3.Connection, change: Defer, _: Stamp) -> Unheld:
    rows = encode(change.rows)
    do(connection, LANES_OF_DEFERRED, (rows,))
    (answer,) = ask(connection, BEFORE_DEFERS, (rows,))
    do(connection, DEFERS, (rows,))
    return Unheld([(lane, due_at, job_id) for lane, due_at, job_id in rows_of(answer)])


def _prune_keys(connection: sqlite3.Connection, change: PruneKeys, stamp: Stamp) -> Done:
    ended_before = stamp.now.wall_us - KEY_KEEPING_US
    (answer,) = ask(connection, OLD_HOLDERS, (ended_before, max(change.limit, 0)))
    rows = len(rows_of(answer))
    if rows:
        do(connection, FORGET_KEYS, (answer,))
        do(connection, FREE_HOLDERS, (answer,))
    return Done(rows)


_WAYS: dict[type, Callable[[sqlite3.Connection, Any, Stamp], Outcome]] = {
    SaveLimits: _save_limits,
    PutQueue: _put_queue,
    AddEntry: _add_entry,
    Unhold: _unhold,
    Defer: _defer,
    PruneKeys: _prune_keys,
    Prune: prune,
    PutOperation: put_operation,
}
