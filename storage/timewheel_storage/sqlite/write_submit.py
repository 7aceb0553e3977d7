"""Writing Submits: new jobs, their idempotency keys, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.store.changes import KEY_KEEPING_US, KeyConflict, Outcome, Submit, Submitted
from timewheel_storage.sqlite.codes import SCHEDULED, ask, do, encode, rows_of
from timewheel_storage.sqlite.kinds import Kinds, Memory, add_importable
from timewheel_storage.sqlite.records import origin_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.model import JobRequest
    from timewheel.store.port import Stamp

PLAIN_JOBS = """
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at)
SELECT r.value ->> 0, k.kind, k.lane, r.value ->> 2, 0, r.value ->> 3, r.value ->> 2, ?2
FROM json_each(?1) AS r CROSS JOIN kinds AS k ON k.kind = r.value ->> 1
"""
JOBS = """
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at,
    misfire_grace_us, tags, idempotency_key, holds_key, schedule, origin, concurrency_key, reason)
SELECT r.value ->> 0, k.kind, k.lane, r.value ->> 2, r.value ->> 11, r.value ->> 3, r.value ->> 2, ?2,
    r.value ->> 4, r.value ->> 5, r.value ->> 6, r.value ->> 7, r.value ->> 8, r.value ->> 9, r.value ->> 10,
    r.value ->> 12
FROM json_each(?1) AS r CROSS JOIN kinds AS k ON k.kind = r.value ->> 1
"""

FREE_OLD_HOLDERS = """
UPDATE jobs SET holds_key = NULL WHERE finished_at <= ?2 AND job_id IN (
    SELECT k.job_id FROM json_each(?1) AS r CROSS JOIN keys AS k ON k.task = r.value ->> 0 AND k.key = r.value ->> 1
)
"""
TAKE_KEYS = """
INSERT INTO keys (task, key, job_id, digest)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1) WHERE true
ON CONFLICT (task, key) DO UPDATE SET job_id = excluded.job_id, digest = excluded.digest
WHERE (SELECT j.finished_at FROM jobs AS j WHERE j.job_id = keys.job_id) <= ?2
"""
HOLDERS = """
SELECT json_group_array(json_array(k.job_id, k.digest))
FROM json_each(?1) AS r CROSS JOIN keys AS k ON k.task = r.value ->> 0 AND k.key = r.value ->> 1
"""


class Submits:
    """The Submits of a batch.

    They are encoded before they cross to the connection's thread, unless they need an answer from the journal first:
    a key, or a combination of task, queue and policy that the owner does not remember.
    """

    def __init__(self, submits: Sequence[Submit], memory: Memory) -> None:
        self._memory = memory
        self._requests = [one.request for one in submits]
        self._kinds = Kinds(self._requests, memory)
        self._keyed = [place for place, one in enumerate(self._requests) if one.idempotency_key is not None]
        self._ready = not self._keyed and self._kinds.known
        self._asked = [(one.request.task, place) for place, one in enumerate(submits) if one.importable]
        self._importable: set[str] = set()
        self._refused: dict[int, Outcome] = {}
        self._plain = self._full = ""
        if self._ready:
            self._encode()

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        if not self._ready:
            self._kinds.begin()
            self._refused = self._take_keys(connection, stamp) if self._keyed else {}
            made = [kind for place, kind in enumerate(self._kinds.places) if place not in self._refused]
            self._kinds.find(connection, made)
            self._encode()
        if self._plain:
            do(connection, PLAIN_JOBS, (self._plain, stamp.now.wall_us))
        if self._full:
            do(connection, JOBS, (self._full, stamp.now.wall_us))
        names = {task for task, place in self._asked if place not in self._refused}
        self._importable = names - self._memory.importable
        add_importable(connection, self._importable)

    def _take_keys(self, connection: sqlite3.Connection, stamp: Stamp) -> dict[int, Outcome]:
        """Take the keys that are free, and say what becomes of the requests whose key is not."""
        asking = [self._requests[place] for place in self._keyed]
        rows = encode([(one.task, one.idempotency_key, one.job_id, one.digest) for one in asking])
        free_since = stamp.now.wall_us - KEY_KEEPING_US
        do(connection, FREE_OLD_HOLDERS, (rows, free_since))
        do(connection, TAKE_KEYS, (rows, free_since))
        holders = rows_of(ask(connection, HOLDERS, (rows,))[0])
        refused: dict[int, Outcome] = {}
        for place, one, (job_id, digest) in zip(self._keyed, asking, holders, strict=True):
            if job_id != one.job_id:
                same = digest == one.digest
                refused[place] = Submitted(job_id, -1, created=False) if same else KeyConflict(job_id)
        return refused

    def _encode(self) -> None:
        plain: list[tuple[Any, ...]] = []
        full: list[tuple[Any, ...]] = []
        numbers = self._kinds.numbers()
        for place, (one, kind) in enumerate(zip(self._requests, self._kinds.places, strict=True)):
            if place in self._refused:
                continue
            if _is_plain(one):
                plain.append((one.job_id, numbers[kind], one.scheduled_at, one.arguments))
            else:
                full.append(row_of(one, numbers[kind]))
        self._plain = encode(plain) if plain else ""
        self._full = encode(full) if full else ""

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Submits, after the commit."""
        self._kinds.learn(self._importable)
        lanes = self._kinds.lanes()
        outcomes: list[Outcome] = [
            Submitted(one.job_id, lanes[kind], created=True)
            for one, kind in zip(self._requests, self._kinds.places, strict=True)
        ]
        for place, outcome in self._refused.items():
            outcomes[place] = outcome
        return outcomes


def _is_plain(one: JobRequest) -> bool:
    return (
        one.idempotency_key is None
        and not one.tags
        and one.misfire_grace_us is None
        and one.concurrency_key is None
        and one.origin is None
    )


def row_of(one: JobRequest, kind: int, state: int = SCHEDULED, reason: str | None = None) -> tuple[Any, ...]:
    """A new job as JOBS takes it."""
    origin = one.origin
    return (
        one.job_id,
        kind,
        one.scheduled_at,
        one.arguments,
        one.misfire_grace_us,
        encode(one.tags) if one.tags else None,
        one.idempotency_key,
        1 if one.idempotency_key is not None else None,
        None if origin is None else origin.schedule,
        None if origin is None else origin_text(origin),
        one.concurrency_key,
        state,
        reason,
    )
