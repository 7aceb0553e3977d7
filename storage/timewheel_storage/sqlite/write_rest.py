"""Writing the rest: changes that are rare or small, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from timewheel.store.changes import (
    DONE,
    KEY_KEEPING_US,
    AddEntry,
    Done,
    Outcome,
    PruneKeys,
    PutQueue,
    SaveLimits,
    Unheld,
    Unhold,
)
from timewheel_storage.sqlite.codes import ask, clean, do, encode, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import Any

    from timewheel.store.port import Stamp

SAVE_LIMITS = """
INSERT INTO limits (name, value) SELECT key, value FROM json_each(?1) WHERE true
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
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

Rest: TypeAlias = Unhold | SaveLimits | PutQueue | AddEntry | PruneKeys


class Others:
    """The changes of a batch that belong to no other topic, in their order."""

    def __init__(self, changes: Sequence[Rest]) -> None:
        self._changes = changes
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._outcomes = [_WAYS[type(change)](connection, change, stamp) for change in self._changes]

    @property
    def released(self) -> list[int]:
        """The jobs that Unholds made SCHEDULED."""
        places = [place for outcome in self._outcomes if isinstance(outcome, Unheld) for place in outcome.places]
        return [job_id for _, _, job_id in places]

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _save_limits(connection: sqlite3.Connection, change: SaveLimits, _: Stamp) -> Done:
    do(connection, SAVE_LIMITS, (encode(change.values),))
    return Done(len(change.values))


def _put_queue(connection: sqlite3.Connection, change: PutQueue, _: Stamp) -> Done:
    do(connection, PUT_QUEUE, (clean(change.queue), clean(change.settings)))
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
        do(connection, UNHOLD, (encode([job_id for _, _, job_id in places]),))
    return Unheld(places)


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
    PruneKeys: _prune_keys,
}
