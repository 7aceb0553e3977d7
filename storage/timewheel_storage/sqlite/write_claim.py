"""Writing Claims: attempts begin."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from timewheel.model import LAST_CHANCE_LOSSES, job_text
from timewheel.store.changes import Candidate, Claim, Claimed, ClaimedJob, Outcome
from timewheel_storage.sqlite.codes import (
    CLOCKS,
    DEAD,
    NONSENSE,
    SKIPPED,
    ask,
    damaged,
    do,
    encode,
    retry_of,
    rows_of,
)
from timewheel_storage.sqlite.keys import Keys
from timewheel_storage.sqlite.records import origin_of
from timewheel_storage.sqlite.records_flow import flow_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from timewheel.flow import Flow
    from timewheel.model import Origin
    from timewheel.store.changes import Governed
    from timewheel.store.port import Stamp


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
    count(j.flow), count(*)
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
    CROSS JOIN lanes AS l ON l.lane = j.lane CROSS JOIN kinds AS k ON k.kind = j.kind
WHERE j.state = 0 AND j.due_at <= CASE l.clock WHEN 0 THEN ?2 ELSE ?3 END
"""
SPECIAL = f"""
SELECT json_group_array(json_array({_MISFIRED}, j.concurrency_key, l.queue))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value CROSS JOIN lanes AS l ON l.lane = j.lane
WHERE j.state = 0 AND j.due_at <= CASE l.clock WHEN 0 THEN ?2 ELSE ?3 END
"""
EXTRAS = """
SELECT json_group_array(json_array(j.job_id, j.schedule, j.origin, j.flow))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
WHERE j.state = 0 AND (j.schedule IS NOT NULL OR j.flow IS NOT NULL)
"""
ENDS = """
UPDATE jobs SET state = r.value ->> 1, reason = r.value ->> 2, finished_at = ?2
FROM json_each(?1) AS r WHERE jobs.job_id = r.value ->> 0
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
        self._outcome = Claimed([], [], [])

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        claim = self._claim
        until = (stamp.now.wall_us + claim.ahead_us, stamp.now.steady_us + claim.ahead_us)
        answer, attempts, last_chances, misfires, keys, origins, flows, found = ask(
            connection, CANDIDATES, (self._hints, *until, *claim.watching_since)
        )
        jobs = [_claimed(row) for row in rows_of(answer)]  # before anything is written: a row may be damaged
        self._outcome = Claimed(jobs, [], [])
        if not found:
            return
        if origins or flows:
            self._add_extras(connection, jobs)
        hints = self._hints
        if misfires or keys:
            (answer,) = ask(connection, SPECIAL, (hints, *until, *claim.watching_since))
            self._judge(connection, stamp, jobs, rows_of(answer))
        elif last_chances or (flows and any(map(_may_be_late, jobs))) or self._governs_any(jobs):
            self._judge(connection, stamp, jobs, repeat(_NOTHING_SPECIAL, len(jobs)))
        if self._outcome.jobs is not jobs:
            hints = encode([job.job_id for job in self._outcome.jobs])
        if attempts:
            do(connection, MAKE_ROOM, (hints, *until))
        do(connection, OPEN, (hints, *until, stamp.epoch))

    def _add_extras(self, connection: sqlite3.Connection, jobs: list[ClaimedJob]) -> None:
        extras = {row[0]: row for row in rows_of(ask(connection, EXTRAS, (self._hints,))[0])}
        for place, job in enumerate(jobs):
            if job.job_id in extras:
                origin, flow = _extras(*extras[job.job_id])
                jobs[place] = job._replace(origin=origin, flow=flow)

    def _governs_any(self, jobs: list[ClaimedJob]) -> bool:
        governed = self._claim.governed
        return governed is not None and any(_governs(governed, job) for job in jobs)

    def _judge(
        self, connection: sqlite3.Connection, stamp: Stamp, jobs: list[ClaimedJob], special: Iterable[list[Any]]
    ) -> None:
        """Say what becomes of each candidate, and write it of those that begin no attempt."""
        claim, chances, out = self._claim, self._claim.last_chances, Claimed([], [], [], [], [], [])
        rows = list(zip(jobs, special, strict=True))
        keys = Keys(connection, {key for _, (_, key, _) in rows if key is not None}, claim.key_limits)
        ends: list[tuple[int, int, str]] = []
        for job, (misfired, key, queue) in rows:
            last_chance = job.losses >= LAST_CHANCE_LOSSES
            if misfired:
                ends.append((job.job_id, SKIPPED, "misfire"))
            elif (end := _late(job, stamp.now.wall_us)) is not None:
                ends.append((job.job_id, *end))
            elif claim.governed is not None and _governs(claim.governed, job):
                out.asked.append(_candidate(job))
            elif key is not None and keys.room(key, job.task, queue) < 1:
                out.waiting.append(job.job_id)
            elif last_chance and chances <= 0:
                out.held.append(job.job_id)
            else:
                chances -= last_chance
                if key is not None:
                    keys.take(job.job_id, key, job.task, queue)
                out.jobs.append(job if key is None else job._replace(concurrency_key=key))
        out.skipped.extend(job_id for job_id, state, _ in ends if state == SKIPPED)
        out.given_up.extend(job_id for job_id, state, _ in ends if state == DEAD)
        if ends:
            do(connection, ENDS, (encode(ends), stamp.now.wall_us))
        if out.waiting:
            do(connection, WAITS, (encode(out.waiting),))
        self._outcome = out

    def outcome(self) -> Claimed:
        """What came of it."""
        return self._outcome


_NOTHING_SPECIAL: list[Any] = [0, None, None]  # as a row of SPECIAL


def _claimed(row: list[Any]) -> ClaimedJob:
    try:
        row[5] = CLOCKS[row[5]]
        row[7] = retry_of(row[7])
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(row[0])}", error) from error
    return ClaimedJob._make((*row, None, None, None))


def _extras(
    job_id: int, schedule: str | None, origin: str | None, flow: str | None
) -> tuple[Origin | None, Flow | None]:
    try:
        return origin_of(schedule, origin), flow_of(flow)
    except NONSENSE as error:
        raise damaged(f"the row of {job_text(job_id)}", error) from error


def _may_be_late(job: ClaimedJob) -> bool:
    return job.flow is not None and (job.flow.deadline is not None or job.flow.expires_at is not None)


def _late(job: ClaimedJob, wall_us: int) -> tuple[int, str] | None:
    """The end of a job that is too late to start, if it is."""
    if job.flow is None:
        return None
    deadline, expires_at = job.flow.deadline, job.flow.expires_at
    if deadline is not None and deadline <= wall_us:
        return (DEAD, "deadline")
    if expires_at is not None and expires_at <= wall_us and not job.failures and not job.losses:
        return (SKIPPED, "expired")
    return None


def _governs(governed: Governed, job: ClaimedJob) -> bool:
    return (
        job.task in governed.tasks
        or (governed.retries and job.failures > 0)
        or (governed.rate_keys and job.flow is not None and job.flow.rate_key is not None)
    )


def _candidate(job: ClaimedJob) -> Candidate:
    return Candidate(job.job_id, job.task, job.lane, job.clock, job.due_at, job.attempt - 1, job.failures, job.flow)
