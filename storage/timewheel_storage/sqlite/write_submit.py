"""Writing Submits: new jobs, their idempotency keys, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.flow import NO_FLOW
from timewheel.model import job_text
from timewheel.store.changes import Outcome, Reschedule, Rescheduled, Submit, Submitted, UniqueMet
from timewheel_storage.sqlite.admission import PLAINLY, Admission, pairs
from timewheel_storage.sqlite.codes import CANCELLED, SCHEDULED, WAITING, damaged, do, encode
from timewheel_storage.sqlite.kinds import Memory, add_importable
from timewheel_storage.sqlite.places import Places
from timewheel_storage.sqlite.records import origin_text
from timewheel_storage.sqlite.records_flow import flow_text
from timewheel_storage.sqlite.write_verbs import CANCELS, Reschedules, forget_waits

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.model import JobRequest
    from timewheel.store.port import Stamp

# Whoever asks json_each for a value makes it write the text anew: so once a row, not once a field.
_ROWS = "WITH r AS MATERIALIZED (SELECT value AS v FROM json_each(?1))"
PLAIN_JOBS = f"""
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at)
{_ROWS}
SELECT r.v ->> 0, k.kind, k.lane, r.v ->> 2, 0, r.v ->> 3, r.v ->> 2, ?2
FROM r CROSS JOIN kinds AS k ON k.kind = r.v ->> 1
"""
JOBS = f"""
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at,
    misfire_grace_us, tags, idempotency_key, holds_key, schedule, origin, concurrency_key, reason)
{_ROWS}
SELECT r.v ->> 0, k.kind, k.lane, r.v ->> 2, r.v ->> 11, r.v ->> 3, r.v ->> 2, ?2,
    r.v ->> 4, r.v ->> 5, r.v ->> 6, r.v ->> 7, r.v ->> 8, r.v ->> 9, r.v ->> 10,
    r.v ->> 12
FROM r CROSS JOIN kinds AS k ON k.kind = r.v ->> 1
"""
JOBS_WITH_FLOW = f"""
INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at,
    misfire_grace_us, tags, idempotency_key, holds_key, schedule, origin, concurrency_key, reason,
    finished_at, flow, unique_digest)
{_ROWS}
SELECT r.v ->> 0, k.kind, r.v ->> 13, r.v ->> 2, r.v ->> 11, r.v ->> 3,
    r.v ->> 2, ?2, r.v ->> 4, r.v ->> 5, r.v ->> 6, r.v ->> 7, r.v ->> 8, r.v ->> 9,
    r.v ->> 10, r.v ->> 12, CASE WHEN r.v ->> 11 > 2 THEN ?2 END, r.v ->> 14, r.v ->> 15
FROM r CROSS JOIN kinds AS k ON k.kind = r.v ->> 1
"""
ADD_WAITS = "INSERT INTO waits (on_job, job_id) SELECT value ->> 0, value ->> 1 FROM json_each(?1)"

FREE_OLD_HOLDERS = "UPDATE jobs SET holds_key = NULL WHERE job_id IN (SELECT value FROM json_each(?1))"
TAKE_KEYS = """
INSERT INTO keys (task, key, job_id, digest)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1) WHERE true
ON CONFLICT (task, key) DO UPDATE SET job_id = excluded.job_id, digest = excluded.digest
"""


class Submits:
    """The Submits of a batch.

    They are encoded before they cross to the connection's thread, unless they need an answer from the journal first:
    what a request names (a key, an equal job, one to wait for) must be asked for, and a combination of task, queue and
    policy, or a partition, may be one that the owner does not remember.
    """

    def __init__(self, submits: Sequence[Submit], memory: Memory) -> None:
        self._memory = memory
        self._requests = [one.request for one in submits]
        self._places = Places(self._requests, memory)
        self._admission = Admission(self._requests)
        self._ready = not self._admission.needed and self._places.known
        self._asked = [(one.request.task, place) for place, one in enumerate(submits) if one.importable]
        self._importable: set[str] = set()
        self._moved: dict[int, Outcome] = {}
        self._plain = self._full = self._flows = ""
        if self._ready:
            self._encode()

    def freed(self) -> list[int]:
        """The jobs that ended for a new one."""
        return [made.replaced[0] for made in self._admission.made.values() if made.replaced is not None]

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        if not self._ready:
            self._places.begin()
            if self._admission.needed:
                self._admission.judge(connection, stamp)
                self._take_keys(connection)
            made = [place for place in range(len(self._requests)) if place not in self._admission.refused]
            self._places.find(connection, made)
            self._encode()
        for statement, rows in ((PLAIN_JOBS, self._plain), (JOBS, self._full), (JOBS_WITH_FLOW, self._flows)):
            if rows:
                do(connection, statement, (rows, stamp.now.wall_us))
        if self._admission.needed:
            self._write_others(connection, stamp)
        names = {task for task, place in self._asked if place not in self._admission.refused}
        self._importable = names - self._memory.importable
        add_importable(connection, self._importable)

    def _take_keys(self, connection: sqlite3.Connection) -> None:
        """Take the keys of those that are made."""
        if self._admission.free:
            do(connection, FREE_OLD_HOLDERS, (encode(self._admission.free),))
        taken = [
            (one.task, one.idempotency_key, one.job_id, one.digest)
            for place, one in enumerate(self._requests)
            if one.idempotency_key is not None and place not in self._admission.refused
        ]
        if taken:
            do(connection, TAKE_KEYS, (encode(taken),))

    def _write_others(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write what becomes of jobs that were there: nobody is moved after he was replaced."""
        admission = self._admission
        waiting = [self._requests[place] for place, made in admission.made.items() if made.state == WAITING]
        if waiting:
            do(connection, ADD_WAITS, (encode(pairs(waiting)),))
        self._moved = {}
        for some in _rounds(admission.moves):
            moves = Reschedules([move for _, move in some])
            moves.write(connection, stamp)
            for (place, move), outcome in zip(some, moves.outcomes(), strict=True):
                self._moved[place] = _met(move.job_id, outcome)
        replaced = self.freed()
        if replaced:
            rows = encode([(job_id, "replaced", False) for job_id in replaced])
            do(connection, CANCELS, (rows, stamp.now.wall_us))
            forget_waits(connection, replaced)

    def _encode(self) -> None:
        plain: list[tuple[Any, ...]] = []
        full: list[tuple[Any, ...]] = []
        flows: list[tuple[Any, ...]] = []
        refused, made = self._admission.refused, self._admission.made
        lanes = self._places.lanes() if self._admission.flows else []
        for place, (one, kind) in enumerate(zip(self._requests, self._places.kinds(), strict=True)):
            if place in refused:
                continue
            if one.flow is not None:
                state, reason, _ = made.get(place, PLAINLY)
                flows.append(row_of_flow(one, kind, lanes[place], state, reason))
            elif _is_plain(one):
                plain.append((one.job_id, kind, one.scheduled_at, one.arguments))
            else:
                full.append(row_of(one, kind))
        self._plain = encode(plain) if plain else ""
        self._full = encode(full) if full else ""
        self._flows = encode(flows) if flows else ""

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Submits, after the commit."""
        self._places.learn(self._importable)
        lanes = self._places.lanes()
        outcomes: list[Outcome] = [
            Submitted(one.job_id, lane, created=True) for one, lane in zip(self._requests, lanes, strict=True)
        ]
        for place, made in self._admission.made.items():
            lane = lanes[place] if made.state == SCHEDULED else -1
            replaced, was_scheduled = made.replaced or (None, False)
            ended = made.state == CANCELLED
            outcomes[place] = Submitted(self._requests[place].job_id, lane, True, replaced, was_scheduled, ended)
        for place, outcome in (self._admission.refused | self._moved).items():
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


def row_of_flow(
    one: JobRequest, kind: int, lane: int, state: int = SCHEDULED, reason: str | None = None
) -> tuple[Any, ...]:
    """A new job with flow control as JOBS_WITH_FLOW takes it."""
    flow = one.flow or NO_FLOW
    digest = None if flow.unique is None else flow.unique.digest
    return (*row_of(one, kind, state, reason), lane, flow_text(flow), digest)


def _rounds(moves: Sequence[tuple[int, Reschedule]]) -> list[list[tuple[int, Reschedule]]]:
    """The moves in rounds, each with one of any job at most."""
    rounds: list[list[tuple[int, Reschedule]]] = []
    turns: dict[int, int] = {}
    for place, move in moves:
        turn = turns[move.job_id] = turns.get(move.job_id, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append((place, move))
    return rounds


def _met(job_id: int, moved: Outcome) -> UniqueMet:
    """What a submission says that moved the job in its way."""
    if not isinstance(moved, Rescheduled):
        raise damaged(f"the row of {job_text(job_id)}", LookupError("it lies in a lane that does not exist"))
    place = (moved.lane, moved.due_at) if moved.lane >= 0 else None
    return UniqueMet(job_id, False, place, moved.was_scheduled)
