"""Writing Cancels and Reschedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import CancelAnswer, RescheduleAnswer
from timewheel.store.changes import Cancel, Cancelled, Missing, Outcome, Reschedule, Rescheduled
from timewheel_storage.sqlite.codes import ACTIVE, FINAL_FROM, SCHEDULED, ask, do, encode, rows_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.store.port import Stamp

BEFORE_CANCELS = """
SELECT json_group_array(json_array(r.key, j.state, j.attempt)), max(j.state = 1 AND j.reason = 'dependency')
FROM json_each(?1) AS r CROSS JOIN jobs AS j ON j.job_id = r.value ->> 0
"""

CANCELS = """
WITH r AS MATERIALIZED (
    SELECT value ->> 0 AS job_id, value ->> 1 AS reason, value ->> 2 AS entered FROM json_each(?1)
)
UPDATE jobs SET
    state = CASE WHEN state = 2 AND r.entered THEN 2 ELSE 4 END,
    reason = CASE WHEN state = 2 AND r.entered THEN jobs.reason ELSE r.reason END,
    finished_at = CASE WHEN state = 2 AND r.entered THEN NULL ELSE ?2 END,
    cancel_requested = CASE WHEN state = 2 AND r.entered THEN r.reason ELSE cancel_requested END,
    attempt_state = CASE WHEN state = 2 AND NOT r.entered THEN 6 ELSE attempt_state END,
    attempt_reason = CASE WHEN state = 2 AND NOT r.entered THEN r.reason ELSE attempt_reason END,
    ended_at = CASE WHEN state = 2 AND NOT r.entered THEN ?2 ELSE ended_at END
FROM r WHERE jobs.job_id = r.job_id AND state < 3
"""

_MOVES = """
r AS MATERIALIZED (
    SELECT key, value ->> 0 AS job_id, value ->> 1 AS clock, value ->> 2 AS scheduled_at, value ->> 3 AS entered
    FROM json_each(?1)
),
m AS MATERIALIZED (
    SELECT r.*, l.queue, l.priority, l.partition, j.attempt, j.state,
        j.state = 1 AND j.reason IN ('overlap', 'key', 'task', 'dependency') AS stays,
        j.state = 0 OR (j.state = 1 AND j.reason IN ('unresolvable', 'overlap', 'key', 'task', 'dependency'))
        OR (j.state = 2 AND NOT r.entered) AS moves
    FROM r CROSS JOIN jobs AS j ON j.job_id = r.job_id CROSS JOIN lanes AS l ON l.lane = j.lane
)
"""

_ITS_LANE = "l.queue = m.queue AND l.priority = m.priority AND l.clock = m.clock AND l.partition = m.partition"
LANES_OF_MOVES = f"""
WITH {_MOVES}
INSERT INTO lanes (queue, priority, clock, partition)
SELECT m.queue, m.priority, m.clock, m.partition FROM m
WHERE m.moves AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE {_ITS_LANE})
GROUP BY m.queue, m.priority, m.clock, m.partition ORDER BY min(m.key)
"""

BEFORE_MOVES = f"""
WITH {_MOVES}
SELECT json_group_array(json_array(m.key, m.moves, m.stays, m.state, m.attempt, l.lane))
FROM m LEFT JOIN lanes AS l ON {_ITS_LANE}
"""

MOVES = f"""
WITH {_MOVES}
UPDATE jobs SET
    state = CASE WHEN m.stays THEN 1 ELSE 0 END, reason = CASE WHEN m.stays THEN jobs.reason END,
    version = version + 1, clock = m.clock, scheduled_at = m.scheduled_at,
    lane = (SELECT l.lane FROM lanes AS l WHERE {_ITS_LANE}),
    due_at = m.scheduled_at,
    attempt_state = CASE WHEN jobs.state = 2 THEN 7 ELSE attempt_state END,
    attempt_reason = CASE WHEN jobs.state = 2 THEN 'rescheduled' ELSE attempt_reason END,
    ended_at = CASE WHEN jobs.state = 2 THEN ?2 ELSE ended_at END
FROM m WHERE jobs.job_id = m.job_id AND m.moves
"""

FORGET_WAITS = "DELETE FROM waits WHERE job_id IN (SELECT value FROM json_each(?1))"


def forget_waits(connection: sqlite3.Connection, job_ids: Sequence[int]) -> None:
    """Forget for whom these jobs waited, if they did: they do so no longer."""
    do(connection, FORGET_WAITS, (encode(job_ids),))


class Cancels:
    """The Cancels of a batch."""

    def __init__(self, cancels: Sequence[Cancel]) -> None:
        self._cancels = cancels
        self._answer = "[]"
        self._rows = encode([(one.job_id, one.reason, one.entered) for one in cancels])

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._answer, waits = ask(connection, BEFORE_CANCELS, (self._rows,))
        do(connection, CANCELS, (self._rows, stamp.now.wall_us))
        if waits:
            forget_waits(connection, [one.job_id for one in self._cancels])

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Cancels."""
        outcomes: list[Outcome] = [Missing(one.job_id) for one in self._cancels]
        for key, state, attempt in rows_of(self._answer):
            outcomes[key] = _answered(self._cancels[key], state, attempt)
        return outcomes


def _answered(one: Cancel, state: int, attempt: int) -> Cancelled:
    if state >= FINAL_FROM:
        return Cancelled(one.job_id, CancelAnswer.TOO_LATE)
    if state == ACTIVE and one.entered:
        return Cancelled(one.job_id, CancelAnswer.REQUESTED)
    ended = attempt if state == ACTIVE else None
    return Cancelled(one.job_id, CancelAnswer.CANCELLED, ended, state == SCHEDULED)


class Reschedules:
    """The Reschedules of a batch."""

    def __init__(self, moves: Sequence[Reschedule]) -> None:
        self._moves = moves
        self._answer = "[]"
        self._rows = encode([(one.job_id, int(one.clock), one.scheduled_at, one.entered) for one in moves])

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        do(connection, LANES_OF_MOVES, (self._rows,))
        self._answer = ask(connection, BEFORE_MOVES, (self._rows,))[0]
        do(connection, MOVES, (self._rows, stamp.now.wall_us))

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Reschedules."""
        outcomes: list[Outcome] = [Missing(one.job_id) for one in self._moves]
        for key, *found in rows_of(self._answer):
            outcomes[key] = _moved(self._moves[key], *found)
        return outcomes


def _moved(one: Reschedule, moves: int, stays: int, state: int, attempt: int, lane: Any) -> Rescheduled:
    if not moves:
        return Rescheduled(one.job_id, RescheduleAnswer.TOO_LATE)
    if stays:
        return Rescheduled(one.job_id, RescheduleAnswer.MOVED)
    ended = attempt if state == ACTIVE else None
    return Rescheduled(one.job_id, RescheduleAnswer.MOVED, lane, one.scheduled_at, ended, state == SCHEDULED)
