"""Writing Claims: attempts begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import job_text
from timewheel.store.changes import Claim, Claimed, ClaimedJob, Outcome
from timewheel_storage.sqlite.codes import CLOCKS, NONSENSE, ask, damaged, do, encode, retry_of, rows_of
from timewheel_storage.sqlite.records import origin_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from timewheel.model import Origin
    from timewheel.store.port import Stamp


def held(key: str) -> str:
    """The condition that a job holds a concurrency key: it is ACTIVE, or its handler cannot be stopped."""
    holder = f"SELECT 1 FROM jobs AS o WHERE o.concurrency_key = {key} AND o.state IN (1, 2)"
    return f"EXISTS ({holder} AND o.state = 2) OR EXISTS ({holder} AND o.state = 1 AND o.reason = 'overrun')"


# ?2, ?3: until when a job is due, in wall and in steady time; ?4, ?5: since when the owner watches
_MISFIRED = (
    "j.attempt = 0 AND j.misfire_grace_us IS NOT NULL"
    " AND j.due_at + j.misfire_grace_us < CASE l.clock WHEN 0 THEN ?4 ELSE ?5 END"
)
CANDIDATES = f"""
SELECT
    json_group_array(json_array(j.job_id, j.attempt + 1, k.task, j.arguments, j.lane, l.clock, j.due_at, k.retry,
        k.timeout_us, j.failures, j.losses, j.first_failed_at)),
    max(j.attempt), max(j.losses) >= 3, max({_MISFIRED}), count(j.concurrency_key), count(j.schedule),
    count(*)
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
    CROSS JOIN lanes AS l ON l.lane = j.lane CROSS JOIN kinds AS k ON k.kind = j.kind
WHERE j.state = 0 AND j.due_at <= CASE l.clock WHEN 0 THEN ?2 ELSE ?3 END
"""
SPECIAL = f"""
SELECT json_group_array(json_array(j.job_id, {_MISFIRED}, j.losses >= 3, j.concurrency_key,
    j.concurrency_key IS NOT NULL AND ({held("j.concurrency_key")})))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value CROSS JOIN lanes AS l ON l.lane = j.lane
WHERE j.state = 0 AND j.due_at <= CASE l.clock WHEN 0 THEN ?2 ELSE ?3 END
"""
ORIGINS = """
SELECT json_group_array(json_array(j.job_id, j.schedule, j.origin))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value WHERE j.state = 0 AND j.schedule IS NOT NULL
"""
SKIPS = """
UPDATE jobs SET state = 6, reason = 'misfire', finished_at = ?2 WHERE job_id IN (SELECT value FROM json_each(?1))
"""
WAITS = "UPDATE jobs SET state = 1, reason = 'key' WHERE job_id IN (SELECT value FROM json_each(?1))"

_TO_OPEN = """
job_id IN (SELECT value FROM json_each(?1)) AND state = 0
    AND due_at <= CASE WHEN lane IN (SELECT lane FROM lanes WHERE clock = 1) THEN ?3 ELSE ?2 END
"""
MAKE_ROOM = f"""
INSERT INTO attempts (job_id, number, state, epoch, lane, due_at, judged_by, dispatched_at, started_at, ended_at,
    dispatch_lag_us, start_lag_us, error, error_kind, reason, fault)
SELECT job_id, attempt, attempt_state, attempt_epoch, attempt_lane, attempt_due_at, judged_by, dispatched_at,
    started_at, ended_at, dispatch_lag_us, start_lag_us, attempt_error, error_kind, attempt_reason, attempt_fault
FROM jobs WHERE {_TO_OPEN} AND attempt > 0
"""
OPEN = f"""
UPDATE jobs SET
    state = 2, attempt = attempt + 1,
    attempt_state = 0, attempt_epoch = ?4, attempt_lane = lane, attempt_due_at = due_at, judged_by = NULL,
    dispatched_at = NULL, started_at = NULL, ended_at = NULL, dispatch_lag_us = NULL, start_lag_us = NULL,
    attempt_error = NULL, error_kind = NULL, attempt_reason = NULL, attempt_fault = NULL
WHERE {_TO_OPEN}
"""


class Claims:
    """The Claims of a batch, one after the other."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._claims = [_Claim(one) for one in claims]

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        for claim in self._claims:
            claim.write(connection, stamp)

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the Claims."""
        return [claim.outcome() for claim in self._claims]


class _Claim:
    """One Claim."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._hints = encode(list(dict.fromkeys(claim.job_ids)))
        self._begin()

    def _begin(self) -> None:
        self._jobs: list[ClaimedJob] = []
        self._skipped: list[int] = []
        self._held: list[int] = []
        self._waiting: list[int] = []

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        claim = self._claim
        until = (stamp.now.wall_us + claim.ahead_us, stamp.now.steady_us + claim.ahead_us)
        self._begin()
        answer, attempts, last_chances, misfires, keys, origins, found = ask(
            connection, CANDIDATES, (self._hints, *until, *claim.watching_since)
        )
        self._jobs = [_claimed(row) for row in rows_of(answer)]  # before anything is written: a row may be damaged
        if not found:
            return
        if origins:
            self._add_origins(connection)
        hints = self._hints
        if last_chances or misfires or keys:
            hints = encode(self._sort_out(connection, until))
            if self._skipped:
                do(connection, SKIPS, (encode(self._skipped), stamp.now.wall_us))
            if self._waiting:
                do(connection, WAITS, (encode(self._waiting),))
        if attempts:
            do(connection, MAKE_ROOM, (hints, *until))
        do(connection, OPEN, (hints, *until, stamp.epoch))

    def _add_origins(self, connection: sqlite3.Connection) -> None:
        origins = {row[0]: row for row in rows_of(ask(connection, ORIGINS, (self._hints,))[0])}
        for place, job in enumerate(self._jobs):
            if job.job_id in origins:
                self._jobs[place] = job._replace(origin=_origin(*origins[job.job_id]))

    def _sort_out(self, connection: sqlite3.Connection, until: tuple[int, int]) -> list[int]:
        """The hints to open, when some of them must be skipped, held, or wait for a key."""
        chances, opened, taken = self._claim.last_chances, [], set()
        (answer,) = ask(connection, SPECIAL, (self._hints, *until, *self._claim.watching_since))
        for job_id, misfired, last_chance, key, key_is_held in rows_of(answer):
            if misfired:
                self._skipped.append(job_id)
            elif key_is_held or key in taken:
                self._waiting.append(job_id)
            elif last_chance and chances <= 0:
                self._held.append(job_id)
            else:
                chances -= last_chance
                opened.append(job_id)
                if key is not None:
                    taken.add(key)
        return opened

    def outcome(self) -> Claimed:
        """What came of it."""
        out = {*self._skipped, *self._held, *self._waiting}
        jobs = [job for job in self._jobs if job.job_id not in out] if out else self._jobs
        return Claimed(jobs, self._skipped, self._held, self._waiting)


def _claimed(row: list[Any]) -> ClaimedJob:
    try:
        row[5] = CLOCKS[row[5]]
        row[7] = retry_of(row[7])
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(row[0])}", error) from error
    return ClaimedJob._make((*row, None, None))


def _origin(job_id: int, schedule: str, text: str | None) -> Origin | None:
    try:
        return origin_of(schedule, text)
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(job_id)}", error) from error
