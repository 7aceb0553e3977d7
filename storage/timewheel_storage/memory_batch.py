"""How a batch is applied to a journal in memory: `timewheel.store.changes`, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import LAST_CHANCE_LOSSES, AttemptRecord, AttemptState, JobRecord, JobState, Now
from timewheel.store import changes as ch
from timewheel_storage.memory_journal import OPEN, copy_job, ensure
from timewheel_storage.memory_verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.store.port import Stamp
    from timewheel_storage.memory_journal import Journal

_ONE_A_JOB = (ch.Settle, ch.Cancel, ch.Reschedule)


class Batch(Verbs):
    """The changes of one commit, applied one by one."""

    def __init__(self, journal: Journal, stamp: Stamp) -> None:
        super().__init__(journal, stamp)
        self._touched: set[int] = set()

    def apply(self, change: ch.Change) -> ch.Outcome:
        """Write one change. Raises AssertionError when a batch or the journal is not as it must be."""
        if isinstance(change, _ONE_A_JOB):
            ensure(change.job_id not in self._touched, "two changes of one job in one batch", change.job_id)
            self._touched.add(change.job_id)
        outcome: ch.Outcome = _VERBS[type(change)](self, change)
        return outcome

    def _submit(self, submit: ch.Submit) -> ch.Outcome:
        request, journal = submit.request, self._journal
        ensure(request.job_id not in journal.jobs, "the job exists", request.job_id)
        if request.idempotency_key is not None:
            key = (request.task, request.idempotency_key)
            holder = self._holder(key)
            if holder is not None and journal.keys[key][1] != request.digest:
                return ch.KeyConflict(holder)
            if holder is not None:
                return ch.Submitted(holder, -1, created=False)
            journal.put(journal.keys, key, (request.job_id, request.digest))
        job = JobRecord(
            job_id=request.job_id,
            task=request.task,
            arguments=request.arguments,
            queue=request.queue,
            priority=request.priority,
            clock=request.clock,
            scheduled_at=request.scheduled_at,
            due_clock=request.clock,
            due_at=request.scheduled_at,
            state=JobState.SCHEDULED,
            created_at=self._stamp.now.wall_us,
            retry=request.retry,
            timeout_us=request.timeout_us,
            misfire_grace_us=request.misfire_grace_us,
            tags=tuple(request.tags),
            idempotency_key=request.idempotency_key,
        )
        journal.replace(None, job)
        if submit.importable and job.task not in journal.importable:
            journal.put(journal.importable, job.task, None)
        return ch.Submitted(job.job_id, self._lane_number(job), created=True)

    def _holder(self, key: tuple[str, str]) -> int | None:
        """The job that still holds an idempotency key."""
        if key not in self._journal.keys:
            return None
        job_id = self._journal.keys[key][0]
        ended = self._journal.jobs[job_id].finished_at
        if ended is None or self._stamp.now.wall_us - ended < ch.KEY_KEEPING_US:
            return job_id
        return None

    def _claim(self, claim: ch.Claim) -> ch.Outcome:
        claimed = ch.Claimed([], [], [])
        chances = claim.last_chances
        for job_id in dict.fromkeys(claim.job_ids):
            job = self._journal.jobs.get(job_id)
            if job is None or job.state is not JobState.SCHEDULED:
                continue
            if job.due_at > self._stamp.now.on(job.due_clock) + claim.ahead_us:
                continue
            if _misfired(job, claim.watching_since):
                self._skip(job)
                claimed.skipped.append(job_id)
            elif job.losses >= LAST_CHANCE_LOSSES and chances <= 0:
                claimed.held.append(job_id)
            else:
                chances -= job.losses >= LAST_CHANCE_LOSSES
                claimed.jobs.append(self._open_attempt(job))
        return claimed

    def _skip(self, old: JobRecord) -> None:
        job = copy_job(old)
        job.state, job.reason, job.finished_at = JobState.SKIPPED, "misfire", self._stamp.now.wall_us
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
        )

    def _unhold(self, unhold: ch.Unhold) -> ch.Outcome:
        places: list[tuple[int, int, int]] = []
        for job_id in sorted(self._journal.held[JobState.WAITING]):
            if len(places) >= unhold.limit:
                break
            old = self._journal.jobs[job_id]
            if old.reason != unhold.reason or (unhold.tasks is not None and old.task not in unhold.tasks):
                continue
            if unhold.job_ids is not None and job_id not in unhold.job_ids:
                continue
            job = copy_job(old)
            job.state, job.reason = JobState.SCHEDULED, None
            self._journal.replace(old, job)
            places.append((self._lane_number(job), job.due_at, job_id))
        return ch.Unheld(places)

    def _save_limits(self, save: ch.SaveLimits) -> ch.Outcome:
        for name, value in save.values.items():
            self._journal.put(self._journal.limits, name, value)
        return ch.Done(len(save.values))

    def _put_queue(self, put: ch.PutQueue) -> ch.Outcome:
        self._journal.put(self._journal.queues, put.queue, put.settings)
        return ch.DONE

    def _add_entry(self, entry: ch.AddEntry) -> ch.Outcome:
        number = len(self._journal.entries) + 1
        self._journal.put(self._journal.entries, number, (number, self._stamp.now.wall_us, entry.kind, entry.data))
        return ch.DONE

    def _prune_keys(self, prune: ch.PruneKeys) -> ch.Outcome:
        """The keys of the jobs that ended first go first."""
        before = self._stamp.now.wall_us - ch.KEY_KEEPING_US
        jobs = self._journal.jobs
        old = [
            (ended, job_id, key)
            for key, (job_id, _) in self._journal.keys.items()
            if (ended := jobs[job_id].finished_at) is not None and ended < before
        ]
        forgotten = sorted(old)[: max(prune.limit, 0)]
        for _, _, key in forgotten:
            self._journal.drop(self._journal.keys, key)
        return ch.Done(len(forgotten))


_VERBS: dict[type, Callable[[Batch, Any], ch.Outcome]] = {
    ch.Settle: Batch.settle,
    ch.Cancel: Batch.cancel,
    ch.Reschedule: Batch.reschedule,
    ch.Submit: Batch._submit,
    ch.Claim: Batch._claim,
    ch.Unhold: Batch._unhold,
    ch.SaveLimits: Batch._save_limits,
    ch.PutQueue: Batch._put_queue,
    ch.AddEntry: Batch._add_entry,
    ch.PruneKeys: Batch._prune_keys,
}


def _misfired(job: JobRecord, watching_since: Now) -> bool:
    if job.misfire_grace_us is None or job.attempt > 0:
        return False
    return job.due_at + job.misfire_grace_us < watching_since.on(job.due_clock)
