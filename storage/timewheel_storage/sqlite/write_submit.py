"""Writing Submits: new jobs, their idempotency keys, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from timewheel.store.changes import KEY_KEEPING_US, KeyConflict, Outcome, Submit, Submitted
from timewheel_storage.sqlite.codes import ask, clean, do, encode, retry_text, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from timewheel.model import ClockKind, JobRequest, RetryPolicy
    from timewheel.store.port import Stamp

    KindKey: TypeAlias = tuple[str, str, int, ClockKind, RetryPolicy, int | None]

FIND_KIND = """
SELECT kind, lane FROM kinds
WHERE task = ?1 AND queue = ?2 AND priority = ?3 AND clock = ?4 AND retry = ?5 AND timeout_us IS ?6
"""
ADD_KIND = "INSERT INTO kinds (task, queue, priority, clock, retry, timeout_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
ADD_LANE = "INSERT INTO lanes (queue, priority, clock) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING"
FIND_LANE = "SELECT lane FROM lanes WHERE queue = ?1 AND priority = ?2 AND clock = ?3"
SET_LANE = "UPDATE kinds SET lane = ?2 WHERE kind = ?1"

PLAIN_JOBS = """
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at)
SELECT r.value ->> 0, k.kind, k.lane, r.value ->> 2, 0, r.value ->> 3, r.value ->> 2, ?2
FROM json_each(?1) AS r CROSS JOIN kinds AS k ON k.kind = r.value ->> 1
"""
JOBS = """
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at,
    misfire_grace_us, tags, idempotency_key, holds_key)
SELECT r.value ->> 0, k.kind, k.lane, r.value ->> 2, 0, r.value ->> 3, r.value ->> 2, ?2,
    r.value ->> 4, r.value ->> 5, r.value ->> 6, r.value ->> 7
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

ADD_IMPORTABLE = "INSERT INTO importable (task) SELECT value FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING"


class Kind(NamedTuple):
    """Where the common part of some requests is kept, and the lane their jobs begin in (None: not used yet)."""

    number: int
    lane: int | None


class Memory:
    """What the owner remembers of committed rows, so as not to look them up again. Losing it costs only time."""

    LIMIT = 10_000

    def __init__(self) -> None:
        self.kinds: dict[KindKey, Kind] = {}
        self.importable: set[str] = set()

    def learn(self, kinds: dict[KindKey, Kind], importable: Iterable[str]) -> None:
        """Remember what a commit wrote or found."""
        if len(self.kinds) + len(kinds) > self.LIMIT:
            self.kinds.clear()
        if len(self.importable) > self.LIMIT:
            self.importable.clear()
        self.kinds.update(kinds)
        self.importable.update(importable)


class Submits:
    """The Submits of a batch.

    They are encoded before they cross to the connection's thread, unless they need an answer from the journal first:
    a key, or a combination of task, queue and policy that the owner does not remember.
    """

    def __init__(self, submits: Sequence[Submit], memory: Memory) -> None:
        self._memory = memory
        self._requests = [one.request for one in submits]
        kinds: dict[KindKey, int] = {}
        self._kind_of = [kinds.setdefault(_kind_key(one), len(kinds)) for one in self._requests]  # by request
        self._kind_keys = list(kinds)
        self._remembered = [memory.kinds.get(key) for key in kinds]
        self._kinds = self._remembered
        self._keyed = [place for place, one in enumerate(self._requests) if one.idempotency_key is not None]
        self._ready = not self._keyed and all(kind and kind.lane for kind in self._kinds)
        self._asked = [(one.request.task, place) for place, one in enumerate(submits) if one.importable]
        self._importable: set[str] = set()
        self._refused: dict[int, Outcome] = {}
        self._plain = self._full = ""
        if self._ready:
            self._encode()

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        if not self._ready:
            self._kinds = list(self._remembered)  # what an attempt before this one made was rolled back with it
            self._refused = self._take_keys(connection, stamp) if self._keyed else {}
            self._find_kinds(connection)
            self._encode()
        if self._plain:
            do(connection, PLAIN_JOBS, (self._plain, stamp.now.wall_us))
        if self._full:
            do(connection, JOBS, (self._full, stamp.now.wall_us))
        names = {task for task, place in self._asked if place not in self._refused}
        self._importable = names - self._memory.importable
        if self._importable:
            do(connection, ADD_IMPORTABLE, (encode(sorted(self._importable)),))

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

    def _find_kinds(self, connection: sqlite3.Connection) -> None:
        """Look up, or make, every kind and lane that the jobs to be made need."""
        for kind in dict.fromkeys(kind for place, kind in enumerate(self._kind_of) if place not in self._refused):
            known = self._kinds[kind]
            if known is None or known.lane is None:
                self._kinds[kind] = _find_kind(connection, self._kind_keys[kind])

    def _encode(self) -> None:
        plain: list[tuple[Any, ...]] = []
        full: list[tuple[Any, ...]] = []
        numbers = [0 if kind is None else kind.number for kind in self._kinds]  # 0: only of refused requests
        for place, (one, kind) in enumerate(zip(self._requests, self._kind_of, strict=True)):
            if place in self._refused:
                continue
            if one.idempotency_key is None and not one.tags and one.misfire_grace_us is None:
                plain.append((one.job_id, numbers[kind], one.scheduled_at, one.arguments))
            else:
                full.append((one.job_id, numbers[kind], one.scheduled_at, one.arguments, *_rarities(one)))
        self._plain = encode(plain) if plain else ""
        self._full = encode(full) if full else ""

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Submits, after the commit."""
        found = zip(self._kind_keys, self._kinds, strict=True)
        self._memory.learn({key: kind for key, kind in found if kind is not None}, self._importable)
        lanes = [-1 if kind is None or kind.lane is None else kind.lane for kind in self._kinds]
        outcomes: list[Outcome] = [
            Submitted(one.job_id, lanes[kind], created=True)
            for one, kind in zip(self._requests, self._kind_of, strict=True)
        ]
        for place, outcome in self._refused.items():
            outcomes[place] = outcome
        return outcomes


def _kind_key(one: JobRequest) -> KindKey:
    return (one.task, one.queue, one.priority, one.clock, one.retry, one.timeout_us)


def _rarities(one: JobRequest) -> tuple[Any, ...]:
    tags = encode(one.tags) if one.tags else None
    return (one.misfire_grace_us, tags, one.idempotency_key, 1 if one.idempotency_key is not None else None)


def _find_kind(connection: sqlite3.Connection, key: KindKey) -> Kind:
    task, queue, priority, clock, retry, timeout_us = key
    values = (clean(task), clean(queue), priority, int(clock), retry_text(retry), timeout_us)
    found = ask(connection, FIND_KIND, values)
    number, lane = found or (int(do(connection, ADD_KIND, values).lastrowid or 0), None)
    if lane is None:
        do(connection, ADD_LANE, values[1:4])
        (lane,) = ask(connection, FIND_LANE, values[1:4])
        do(connection, SET_LANE, (number, lane))
    return Kind(number, lane)
