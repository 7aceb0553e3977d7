"""Claims, and the taking over from jobs that have ended, applied to a journal in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import LAST_CHANCE_LOSSES, AttemptRecord, AttemptState, JobRecord, JobState, Now, WaitingReason
from timewheel.store import changes as ch
from timewheel_storage.memory_journal import OPEN, copy_job, ensure
from timewheel_storage.memory_verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterable


class Claims(Verbs):
    """What begins an attempt, and what lets jobs go on that waited for another's end."""

    def claim(self, claim: ch.Claim) -> ch.Outcome:
        """Open attempts."""
        claimed = ch.Claimed([], [], [], [])
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
            elif job.concurrency_key is not None and self._is_held(job.concurrency_key):
                self._wait_for_key(job)
                claimed.waiting.append(job_id)
            elif job.losses >= LAST_CHANCE_LOSSES and chances <= 0:
                claimed.held.append(job_id)
            else:
                chances -= job.losses >= LAST_CHANCE_LOSSES
                claimed.jobs.append(self._open_attempt(job))
        return claimed

    def take_over(self, take: ch.TakeOver) -> ch.Outcome:
        """Release the first of those that wait for a schedule's job or for a key."""
        journal = self._journal
        free = [job for schedule in self._schedules(take) for job in self._first_waiter(journal.unfinished[schedule])]
        for key in self._keys(take):
            if not self._is_held(key):
                free += self._first(journal.keyed[key], WaitingReason.KEY)
        places = [self._release(job) for job in sorted(free, key=lambda job: job.job_id)]
        return ch.Unheld(places)

    def _schedules(self, take: ch.TakeOver) -> Iterable[str]:
        unfinished = self._journal.unfinished
        if take.everything:
            return unfinished
        jobs = [self._journal.jobs[job_id] for job_id in self._named if job_id in self._journal.jobs]
        return unfinished.keys() & {job.origin.schedule for job in jobs if job.origin is not None}

    def _keys(self, take: ch.TakeOver) -> Iterable[str]:
        keyed = self._journal.keyed
        if take.everything:
            return keyed
        jobs = [self._journal.jobs[job_id] for job_id in self._named if job_id in self._journal.jobs]
        return keyed.keys() & {job.concurrency_key for job in jobs if job.concurrency_key is not None}

    def _first_waiter(self, unfinished: Iterable[int]) -> list[JobRecord]:
        """The first of a schedule's waiting jobs, if none of its others is unfinished."""
        jobs = [self._journal.jobs[job_id] for job_id in unfinished]
        if any(job.state is not JobState.WAITING or job.reason != WaitingReason.OVERLAP for job in jobs):
            return []
        return self._first(unfinished, WaitingReason.OVERLAP)

    def _first(self, job_ids: Iterable[int], reason: WaitingReason) -> list[JobRecord]:
        """The first of these jobs that wait for this reason, by (due_at, id); or none."""
        jobs = [self._journal.jobs[job_id] for job_id in job_ids]
        waiting = [job for job in jobs if job.state is JobState.WAITING and job.reason == reason]
        return sorted(waiting, key=lambda job: (job.due_at, job.job_id))[:1]

    def _is_held(self, key: str) -> bool:
        """Whether a job with this concurrency key is ACTIVE, or its handler cannot be stopped."""
        jobs = [self._journal.jobs[job_id] for job_id in self._journal.keyed.get(key, ())]
        return any(
            job.state is JobState.ACTIVE or (job.state is JobState.WAITING and job.reason == WaitingReason.OVERRUN)
            for job in jobs
        )

    def _wait_for_key(self, old: JobRecord) -> None:
        job = copy_job(old)
        job.state, job.reason = JobState.WAITING, WaitingReason.KEY.value
        self._journal.replace(old, job)

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
        )


def _misfired(job: JobRecord, watching_since: Now) -> bool:
    if job.misfire_grace_us is None or job.attempt > 0:
        return False
    return job.due_at + job.misfire_grace_us < watching_since.on(job.due_clock)
