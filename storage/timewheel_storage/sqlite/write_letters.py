"""Writing what becomes of jobs that have ended: Replays and Discards, Prunes, and the operations that do it to many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from timewheel.model import ClockKind
from timewheel.store.changes import DONE, Done, Missing, Outcome
from timewheel.store.letters import Discard, Prune, Pruned, PruneRule, PutOperation, Replay, Replayed, TooLate
from timewheel_storage.sqlite.codes import (
    CANCELLED,
    DEAD,
    FINAL_FROM,
    JOB_CODES,
    OPERATION_CODES,
    SKIPPED,
    ask,
    clean,
    do,
    encode,
    rows_of,
)
from timewheel_storage.sqlite.kinds import find_lane
from timewheel_storage.sqlite.records_flow import DEADLINE, EXPIRES_AT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.store.port import Stamp

Letter: TypeAlias = Replay | Discard

FOUND = """
SELECT json_group_array(
    json_array(h.key, j.state, j.discarded_at IS NOT NULL, l.queue, l.priority, l.partition, x.lane)
)
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value CROSS JOIN lanes AS l ON l.lane = j.lane
    LEFT JOIN lanes AS x ON x.queue = l.queue AND x.priority = l.priority AND x.clock = 1 AND x.partition = l.partition
"""
REPLAYS = f"""
UPDATE jobs SET
    state = 0, lane = r.value ->> 1, due_at = r.value ->> 2, arguments = coalesce(r.value ->> 3, arguments),
    flow = CASE WHEN json_valid(flow) THEN json_set(flow, '$[{EXPIRES_AT}]', NULL, '$[{DEADLINE}]', NULL) ELSE flow END,
    version = version + 1, failures = 0, losses = 0, first_failed_at = NULL, reason = NULL, error = NULL, fault = NULL,
    fingerprint = NULL, cancel_requested = NULL, finished_at = NULL, discarded_at = NULL
FROM json_each(?1) AS r WHERE jobs.job_id = r.value ->> 0
"""
DISCARDS = "UPDATE jobs SET discarded_at = ?2 WHERE job_id IN (SELECT value FROM json_each(?1))"
ADD_AUDITS = """
INSERT INTO entries (wall_us, kind, data) SELECT ?2, 'audit', value FROM json_each(?1) ORDER BY key
"""

# ?1 after, ?2 limit, ?3 rules
TO_FORGET = f"""
WITH rules AS MATERIALIZED (
    SELECT value ->> 0 AS state, value ->> 1 AS ended_before, value ->> 2 AS queue, value ->> 3 AS letters
    FROM json_each(?3)
),
seen AS MATERIALIZED (SELECT job_id FROM jobs WHERE job_id > ?1 ORDER BY job_id LIMIT ?2)
SELECT (SELECT count(*) FROM seen), (SELECT max(job_id) FROM seen), (
    SELECT json_group_array(j.job_id) FROM seen CROSS JOIN jobs AS j ON j.job_id = seen.job_id
    WHERE j.state >= {FINAL_FROM} AND j.holds_key IS NULL AND EXISTS (
        SELECT 1 FROM rules AS r WHERE r.state = j.state AND j.finished_at < r.ended_before
            AND (r.queue IS NULL OR r.queue = (SELECT k.queue FROM kinds AS k WHERE k.kind = j.kind))
            AND (j.state <> {DEAD} OR r.letters OR j.discarded_at < r.ended_before)
    ) AND NOT EXISTS (SELECT 1 FROM waits AS o WHERE o.on_job = j.job_id)
)
"""
FORGET_ATTEMPTS = "DELETE FROM attempts WHERE job_id IN (SELECT value FROM json_each(?1))"
FORGET_JOBS = "DELETE FROM jobs WHERE job_id IN (SELECT value FROM json_each(?1))"
COUNT_FORGOTTEN = "UPDATE meta SET pruned = pruned + ?1 WHERE one = 1"

PUT_OPERATION = """
INSERT INTO operations (number, kind, state, request, progress, audit, created_at, updated_at, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (number) DO UPDATE SET
    kind = excluded.kind, state = excluded.state, request = excluded.request, progress = excluded.progress,
    audit = excluded.audit, created_at = excluded.created_at, updated_at = excluded.updated_at, reason = excluded.reason
"""


class Letters:
    """The Replays and Discards of a batch. They are of different jobs, and so of any order but that of their audits."""

    def __init__(self, letters: Sequence[Letter]) -> None:
        self._letters = letters
        self._job_ids = encode([one.job_id for one in letters])
        self._outcomes: list[Outcome] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._outcomes = [Missing(one.job_id) for one in self._letters]
        replays: list[tuple[int, int, int, str | None]] = []
        discards: list[int] = []
        audits: dict[int, str] = {}  # by place, of those that are done
        lanes: dict[tuple[str, int, str], int] = {}  # that were found missing
        for place, state, discarded, *lane in rows_of(ask(connection, FOUND, (self._job_ids,))[0]):
            one = self._letters[place]
            if not _may_be(one, state, discarded):
                self._outcomes[place] = TooLate(one.job_id)
                continue
            audits[place] = one.audit
            if isinstance(one, Discard):
                discards.append(one.job_id)
                self._outcomes[place] = DONE
                continue
            steady = _steady_lane(connection, lane, lanes)
            replays.append((one.job_id, steady, one.due_at, one.arguments))
            self._outcomes[place] = Replayed(one.job_id, steady, one.due_at)
        if replays:
            do(connection, REPLAYS, (encode(replays),))
        if discards:
            do(connection, DISCARDS, (encode(discards), stamp.now.wall_us))
        if audits:
            in_order = [audit for _, audit in sorted(audits.items())]
            do(connection, ADD_AUDITS, (encode(in_order), stamp.now.wall_us))

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the changes."""
        return self._outcomes


def _may_be(one: Letter, state: int, discarded: int) -> bool:
    """Whether the job is in a state for this."""
    if isinstance(one, Replay):
        return state in (CANCELLED, DEAD, SKIPPED)
    return state == DEAD and not discarded


def _steady_lane(connection: sqlite3.Connection, lane: list[Any], made: dict[tuple[str, int, str], int]) -> int:
    """The lane on the steady clock beside a lane, made when there is none; `lane` ends with its number, or None."""
    queue, priority, partition, number = lane
    if number is not None:
        return int(number)
    key = (queue, priority, partition)
    if key not in made:
        made[key] = find_lane(connection, (queue, priority, ClockKind.STEADY, partition))
    return made[key]


def prune(connection: sqlite3.Connection, change: Prune, _: Stamp) -> Pruned:
    """Write a Prune. What it forgets is counted in the journal, for the audit of what still names it."""
    rules = encode([_rule(one) for one in change.rules])
    seen, last, job_ids = ask(connection, TO_FORGET, (change.after, change.limit, rules))
    forgotten = len(rows_of(job_ids))
    if forgotten:
        do(connection, FORGET_ATTEMPTS, (job_ids,))
        do(connection, FORGET_JOBS, (job_ids,))
        do(connection, COUNT_FORGOTTEN, (forgotten,))
    return Pruned(forgotten, last if seen == change.limit else None)


def _rule(rule: PruneRule) -> tuple[Any, ...]:
    return (JOB_CODES[rule.state], rule.ended_before, rule.queue, rule.letters)


def put_operation(connection: sqlite3.Connection, change: PutOperation, _: Stamp) -> Done:
    """Write a PutOperation."""
    one = change.record
    texts = (clean(one.request), clean(one.progress), clean(one.audit))
    reason = None if one.reason is None else clean(one.reason)
    values = (one.number, one.kind, OPERATION_CODES[one.state], *texts, one.created_at, one.updated_at, reason)
    do(connection, PUT_OPERATION, values)
    return DONE
