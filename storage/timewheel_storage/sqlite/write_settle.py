"""Writing Settles: attempts end, and their jobs with them or not."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from timewheel.model import AttemptState, JobState
from timewheel.store.changes import Outcome, Settle, Settled, Stale
from timewheel_storage.sqlite.codes import (
    ATTEMPT_CODES,
    COMPLETED,
    JOB_CODES,
    JOB_STATES,
    SCHEDULED,
    ask,
    do,
    encode,
    rows_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.store.port import Stamp

SUCCESSES = """
UPDATE jobs SET
    state = 3, finished_at = ?2, result = r.v ->> 7, result_omitted = NULL, reason = NULL,
    failures = 0, losses = 0, first_failed_at = NULL,
    attempt_state = 2, judged_by = kind,
    dispatched_at = r.v ->> 2, started_at = r.v ->> 3, ended_at = r.v ->> 4,
    dispatch_lag_us = r.v ->> 5, start_lag_us = r.v ->> 6
FROM (SELECT value AS v FROM json_each(?1) LIMIT -1) AS r  -- a limit, so that a value is asked for once a row
WHERE jobs.job_id = r.v ->> 0 AND state = 2 AND attempt = r.v ->> 1 AND attempt_epoch = ?3
"""

# What becomes of a job in the long way. r: the Settle; j: its job, before.
_FINAL = "CASE WHEN r.state <> 3 AND j.cancel_requested IS NOT NULL THEN 4 ELSE r.state END"
_MOVES = f"(r.due_at IS NOT NULL AND {_FINAL} < 3)"  # its due time counts steady time from now on
_STEADY_LANE = """(
    SELECT x.lane FROM lanes AS l
    CROSS JOIN lanes AS x
        ON x.queue = l.queue AND x.priority = l.priority AND x.clock = 1 AND x.partition = l.partition
    WHERE l.lane = j.lane
)"""
_LANE = f"CASE WHEN {_MOVES} THEN {_STEADY_LANE} ELSE j.lane END"
_DUE_AT = f"CASE WHEN {_MOVES} THEN r.due_at ELSE j.due_at END"
_LIVE = "j.state = 2 AND j.attempt = r.attempt AND j.attempt_epoch = r.epoch"
_TEXTS = "t AS MATERIALIZED (SELECT key, value AS v FROM json_each(?1))"  # a value is asked for once a row
_PRECONDITIONS = f"""
WITH {_TEXTS},
r AS MATERIALIZED (
    SELECT key, v ->> 0 AS job_id, v ->> 1 AS attempt, v ->> 2 AS epoch, v ->> 3 AS state,
        v ->> 4 AS due_at
    FROM t
),
s AS (
    SELECT r.key, j.lane AS old_lane, {_FINAL} AS final, {_MOVES} AS moves, {_LANE} AS lane, {_DUE_AT} AS due_at
    FROM r CROSS JOIN jobs AS j ON j.job_id = r.job_id WHERE {_LIVE}
)
"""

PLACES = f"""
{_PRECONDITIONS}
SELECT json_group_array(json_array(key, final, lane, due_at)), count(*) > count(lane) FROM s
"""

NEW_LANES = f"""
{_PRECONDITIONS}
INSERT INTO lanes (queue, priority, clock, partition)
SELECT l.queue, l.priority, 1, l.partition FROM s CROSS JOIN lanes AS l ON l.lane = s.old_lane
WHERE s.lane IS NULL GROUP BY l.queue, l.priority, l.partition ORDER BY min(s.key)
"""

ANY_END = f"""
WITH {_TEXTS},
r AS MATERIALIZED (
    SELECT v ->> 0 AS job_id, v ->> 1 AS attempt, v ->> 2 AS epoch, v ->> 3 AS state,
        v ->> 4 AS due_at, v ->> 5 AS attempt_state, v ->> 6 AS failures, v ->> 7 AS losses,
        v ->> 8 AS first_failed_at, v ->> 9 AS reason, v ->> 10 AS dispatched_at,
        v ->> 11 AS started_at, v ->> 12 AS finished_at, v ->> 13 AS dispatch_lag_us,
        v ->> 14 AS start_lag_us, v ->> 15 AS result, v ->> 16 AS result_omitted,
        v ->> 17 AS error, v ->> 18 AS error_kind, v ->> 19 AS fault, v ->> 20 AS fingerprint
    FROM t
)
UPDATE jobs AS j SET
    state = {_FINAL}, lane = {_LANE}, due_at = {_DUE_AT},
    finished_at = CASE WHEN {_FINAL} > 2 THEN ?2 END,
    result = CASE WHEN r.state = 3 THEN r.result END,
    result_omitted = CASE WHEN r.state = 3 THEN r.result_omitted END,
    reason = CASE WHEN r.state = 3 THEN NULL WHEN j.cancel_requested IS NOT NULL THEN j.cancel_requested
        WHEN r.state = 0 THEN NULL ELSE r.reason END,
    failures = r.failures, losses = r.losses, first_failed_at = r.first_failed_at, error = coalesce(r.error, j.error),
    attempt_state = r.attempt_state, judged_by = j.kind,
    dispatched_at = r.dispatched_at, started_at = r.started_at, ended_at = r.finished_at,
    dispatch_lag_us = r.dispatch_lag_us, start_lag_us = r.start_lag_us,
    attempt_error = r.error, error_kind = r.error_kind, attempt_reason = r.reason, attempt_fault = r.fault,
    fault = coalesce(r.fault, j.fault),
    fingerprint = CASE WHEN r.fault IS NULL THEN j.fingerprint ELSE r.fingerprint END
FROM r WHERE j.job_id = r.job_id AND {_LIVE}
"""


class Again(Exception):
    """The batch must be written again from its start: one of its guesses did not come true. Nothing is written."""


class Settles:
    """The Settles of a batch.

    Nearly all settle a first attempt with success: those go by the short way, which only counts how many rows it
    changed. When one of them turns out to be stale, the batch is written again, every Settle by the long way.
    """

    def __init__(self, settles: Sequence[Settle]) -> None:
        self._settles = settles
        self._answer = "[]"
        self._successes: dict[int, str] = {}  # claim epoch -> rows
        self._sizes: dict[int, int] = {}
        others = self._sort()
        self._others = [settles[place] for place in others]
        self._places = others
        self._rows = encode([_row(one) for one in self._others]) if others else ""

    def _sort(self) -> list[int]:
        rows: dict[int, list[tuple[Any, ...]]] = {}
        others: list[int] = []
        for place, one in enumerate(self._settles):
            if _verdict(one) == _PLAIN:
                rows.setdefault(one.claim_epoch, []).append(_success(one))
            else:
                others.append(place)
        self._successes = {epoch: encode(some) for epoch, some in rows.items()}
        self._sizes = {epoch: len(some) for epoch, some in rows.items()}
        return others

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them. Raises Again when a success was stale."""
        wall_us = stamp.now.wall_us
        for epoch, rows in self._successes.items():
            if do(connection, SUCCESSES, (rows, wall_us, epoch)).rowcount != self._sizes[epoch]:
                self._take_the_long_way()
                raise Again
        if self._places:
            self._answer, lanes_missing = ask(connection, PLACES, (self._rows,))
            if lanes_missing:
                do(connection, NEW_LANES, (self._rows,))
                self._answer, _ = ask(connection, PLACES, (self._rows,))
            do(connection, ANY_END, (self._rows, wall_us))

    def _take_the_long_way(self) -> None:
        self._successes = {}
        self._others = list(self._settles)
        self._places = list(range(len(self._settles)))
        self._rows = encode([_row(one) for one in self._others])

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Settles."""
        completed = JOB_STATES[COMPLETED]
        outcomes: list[Outcome] = [Settled(one.job_id, completed) for one in self._settles]
        for place in self._places:
            outcomes[place] = Stale(self._settles[place].job_id)
        for key, state, lane, due_at in rows_of(self._answer):
            place = self._places[key]
            job_id = self._settles[place].job_id
            where = (lane, due_at) if state == SCHEDULED else ()
            outcomes[place] = Settled(job_id, JOB_STATES[state], *where)
        return outcomes


_verdict = attrgetter(
    "job_state",
    "attempt_state",
    "failures",
    "losses",
    "first_failed_at",
    "reason",
    "result_omitted",
    "error",
    "error_kind",
    "fault",
)
_PLAIN = (JobState.COMPLETED, AttemptState.SUCCEEDED, 0, 0, None, None, None, None, None, None)
_success = attrgetter(
    "job_id",
    "attempt",
    "dispatched_at",
    "started_at",
    "finished_at",
    "dispatch_lag_us",
    "start_lag_us",
    "result",
)


def _row(one: Settle) -> tuple[Any, ...]:
    return (
        one.job_id,
        one.attempt,
        one.claim_epoch,
        JOB_CODES[one.job_state],
        one.due_at,
        ATTEMPT_CODES[one.attempt_state],
        one.failures,
        one.losses,
        one.first_failed_at,
        one.reason,
        one.dispatched_at,
        one.started_at,
        one.finished_at,
        one.dispatch_lag_us,
        one.start_lag_us,
        one.result,
        one.result_omitted,
        one.error,
        one.error_kind,
        one.fault,
        one.fingerprint,
    )
