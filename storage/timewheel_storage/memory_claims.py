"""Claims, and the taking over from jobs that have ended, applied to a journal in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from timewheel.flow import NO_FLOW
from timewheel.model import (
    LAST_CHANCE_LOSSES,
    AttemptRecord,
    AttemptState,
    ClockKind,
    JobRecord,
    JobState,
    Now,
    WaitingReason,
)
from timewheel.store import changes as ch
from timewheel_storage.memory_flow import ENDS, WAITS, fate_of
from timewheel_storage.memory_journal import OPEN, copy_job, ensure
from timewheel_storage.memory_verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from timewheel.store.key_limits import KeyHolder, KeyLimits


class Claims(Verbs):
    """What begins an attempt, and what lets jobs go on that waited for another's end."""

    def claim(self, claim: ch.Claim) -> ch.Outcome:
        """Open attempts."""
        claimed = ch.Claimed([], [], [], [], [], [])
        chances = claim.last_chances
        self._named.update(claim.job_ids)
        for job_id in dict.fromkeys(claim.job_ids):
            job = self._journal.jobs.get(job_id)
            if job is None or job.state is not JobState.SCHEDULED:
                continue
            if job.due_at > self._stamp.now.on(job.due_clock) + claim.ahead_us:
                continue
            if _misfired(job, claim.watching_since):
                self._end(job, JobState.SKIPPED, "misfire")
                claimed.skipped.append(job_id)
            elif _gives_up_at(job) <= self._stamp.now.wall_us:
                self._end(job, JobState.DEAD, "deadline")
                claimed.given_up.append(job_id)
            elif _expires_at(job) <= self._stamp.now.wall_us:
                self._end(job, JobState.SKIPPED, "expired")
                claimed.skipped.append(job_id)
            elif claim.governed is not None and _is_governed(job, claim.governed):
                claimed.asked.append(self._candidate(job))
            elif self._is_held(job, claim.key_limits):
                self._wait(job, WaitingReason.KEY)
                claimed.waiting.append(job_id)
            elif job.losses >= LAST_CHANCE_LOSSES and chances <= 0:
                claimed.held.append(job_id)
            else:
                chances -= job.losses >= LAST_CHANCE_LOSSES
                claimed.jobs.append(self._open_attempt(job))
        return claimed

    def take_over(self, take: ch.TakeOver) -> ch.Outcome:
        """Release the first of those that wait for a schedule's job, a key, a task or other jobs."""
        journal = self._journal
        named = [journal.jobs[job_id] for job_id in self._named if job_id in journal.jobs]
        schedules: Iterable[str] = journal.unfinished
        keys: AbstractSet[str] = journal.keyed.keys()
        if not take.everything:
            schedules = journal.unfinished.keys() & {job.origin.schedule for job in named if job.origin is not None}
            keys = journal.keyed.keys() & {job.concurrency_key for job in named if job.concurrency_key is not None}
            keys |= journal.keyed.keys() & take.keys
        free = [job for schedule in schedules for job in self._first_waiter(journal.unfinished[schedule])]
        free += [job for key in keys for job in self._first_of_key(journal.keyed[key], take.key_limits)]
        for task, slots in take.tasks.items():
            mine = (job_id for job_id in journal.held[JobState.WAITING] if journal.jobs[job_id].task == task)
            free += self._first_of_lanes(self._waiting(mine, WaitingReason.TASK), slots)
        met, cancelled = self._dependencies_met(list(journal.waiters) if take.everything else [*self._named])
        places = [self._release(job) for job in sorted([*free, *met], key=lambda job: job.job_id)]
        return ch.Unheld(places, sorted(cancelled))

    def defer(self, defer: ch.Defer) -> ch.Outcome:
        """Let candidates wait."""
        places = []
        for job_id, seen_at, due_at in defer.rows:
            old = self._journal.jobs.get(job_id)
            if old is None or old.state is not JobState.SCHEDULED or old.due_at != seen_at:
                continue
            if due_at is None:
                self._wait(old, WaitingReason.TASK)
                continue
            job = copy_job(old)
            job.due_clock, job.due_at = ClockKind.STEADY, due_at
            self._journal.replace(old, job)
            places.append((self._lane_number(job), job.due_at, job_id))
        return ch.Unheld(places)

    def _first_waiter(self, unfinished: Iterable[int]) -> list[JobRecord]:
        """The first of a schedule's waiting jobs, if none of its others is unfinished."""
        jobs = [self._journal.jobs[job_id] for job_id in unfinished]
        if any(job.state is not JobState.WAITING or job.reason != WaitingReason.OVERLAP for job in jobs):
            return []
        return self._waiting(unfinished, WaitingReason.OVERLAP)[:1]

    def _first_of_key(self, keyed: Iterable[int], limits: KeyLimits) -> list[JobRecord]:
        """Of each lane as many of a key's waiting jobs as the key has room for."""
        waiting = self._waiting(keyed, WaitingReason.KEY)
        return self._first_of_lanes(waiting, self._room(waiting[0], limits) if waiting else 0)

    def _first_of_lanes(self, jobs: list[JobRecord], most: int) -> list[JobRecord]:
        """Of each lane the first so many."""
        taken: Counter[int] = Counter()
        first = []
        for job in jobs:
            lane = self._lane_number(job)
            if taken[lane] < most:
                taken[lane] += 1
                first.append(job)
        return first

    def _waiting(self, job_ids: Iterable[int], reason: WaitingReason) -> list[JobRecord]:
        """Those of these jobs that wait for this reason, by (due_at, id)."""
        jobs = [self._journal.jobs[job_id] for job_id in job_ids]
        waiting = [job for job in jobs if job.state is JobState.WAITING and job.reason == reason]
        return sorted(waiting, key=lambda job: (job.due_at, job.job_id))

    def _is_held(self, job: JobRecord, limits: KeyLimits) -> bool:
        """Whether as many jobs with a job's concurrency key run as may."""
        return job.concurrency_key is not None and self._room(job, limits) <= 0

    def _room(self, job: JobRecord, limits: KeyLimits) -> int:
        """How many more jobs with a job's concurrency key may begin, by its own limit and by each holder's."""
        keyed = self._journal.keyed.get(job.concurrency_key or "", set()) - limits.overran.keys()
        holders = [other for other in (self._journal.jobs[job_id] for job_id in keyed) if _holds_its_key(other)]
        overran = [holder for holder in limits.overran.values() if holder.key == job.concurrency_key]
        running: list[JobRecord | KeyHolder] = [*holders, *overran]
        return min(limits.of(one.task, one.queue) for one in (job, *running)) - len(running)

    def _dependencies_met(self, ended: list[int]) -> tuple[list[JobRecord], list[int]]:
        """Those of the jobs that wait for these which may go on; and the ids of those that have ended for it."""
        journal = self._journal
        met: dict[int, JobRecord] = {}
        cancelled = []
        while ended:
            for job_id in list(journal.waiters.get(ended.pop(), ())):
                job = journal.jobs[job_id]
                flow = job.flow or NO_FLOW
                ensure(flow.wait_for is not None, "waits for no jobs", job_id)
                if flow.wait_for is None:
                    continue
                fate = fate_of(flow.wait_for, [journal.jobs[other].state for other in flow.wait_for.job_ids])
                if fate is ENDS:
                    self._end(job, JobState.CANCELLED, "dependency")
                    cancelled.append(job_id)
                    ended.append(job_id)
                elif fate is not WAITS:
                    met[job_id] = job
        return list(met.values()), cancelled

    def _wait(self, old: JobRecord, reason: WaitingReason) -> None:
        job = copy_job(old)
        job.state, job.reason = JobState.WAITING, reason.value
        self._journal.replace(old, job)

    def _candidate(self, job: JobRecord) -> ch.Candidate:
        lane = self._lane_number(job)
        return ch.Candidate(
            job.job_id, job.task, lane, job.due_clock, job.due_at, job.attempt, job.failures, flow=job.flow
        )

    def _open_attempt(self, old: JobRecord) -> ch.ClaimedJob:
        job = copy_job(old)
        job.state, job.attempt = JobState.ACTIVE, old.attempt + 1
        key, attempts = (job.job_id, job.attempt), self._journal.attempts
        ensure(key not in attempts, "the attempt exists", key)
        if old.attempt > 0:
            before = attempts.get((job.job_id, old.attempt))
            ensure(before and before.state not in OPEN, "the attempt before is missing or open", key)
        epoch = self._stamp.epoch
        attempt = AttemptRecord(*key, AttemptState.QUEUED, epoch, job.due_clock, scheduled_at=job.due_at)
        self._journal.put(attempts, key, attempt)
        self._journal.replace(old, job)
        return ch.ClaimedJob(
            job.job_id,
            job.attempt,
            job.task,
            job.arguments,
            self._lane_number(job),
            job.due_clock,
            job.due_at,
            job.retry,
            job.timeout_us,
            job.failures,
            job.losses,
            job.first_failed_at,
            job.origin,
            job.flow,
            job.concurrency_key,
        )


NEVER = 1 << 62


def _gives_up_at(job: JobRecord) -> int:
    deadline = (job.flow or NO_FLOW).deadline
    return NEVER if deadline is None else deadline


def _expires_at(job: JobRecord) -> int:
    expires_at = (job.flow or NO_FLOW).expires_at
    return NEVER if expires_at is None or job.failures or job.losses else expires_at


def _is_governed(job: JobRecord, governed: ch.Governed) -> bool:
    rated = governed.rate_keys and (job.flow or NO_FLOW).rate_key is not None
    return job.task in governed.tasks or rated or (governed.retries and job.failures > 0)


def _holds_its_key(job: JobRecord) -> bool:
    """Whether a job is ACTIVE, or its handler cannot be stopped."""
    return job.state is JobState.ACTIVE or (job.state is JobState.WAITING and job.reason == WaitingReason.OVERRUN)


def _misfired(job: JobRecord, watching_since: Now) -> bool:
    if job.misfire_grace_us is None or job.attempt > 0:
        return False
    return job.due_at + job.misfire_grace_us < watching_since.on(job.due_clock)
