"""Settle, Cancel and Reschedule, applied to a journal in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import (
    FINAL_STATES,
    AttemptState,
    CancelAnswer,
    ClockKind,
    JobRecord,
    JobRequest,
    JobState,
    RescheduleAnswer,
    WaitingReason,
    new_job,
)
from timewheel.store import changes as ch
from timewheel_storage.memory_journal import OPEN, copy_attempt, copy_job, ensure

if TYPE_CHECKING:
    from timewheel.store.port import Stamp
    from timewheel_storage.memory_journal import Journal

_FROM_SETTLE = (
    "dispatched_at",
    "started_at",
    "finished_at",
    "dispatch_lag_us",
    "start_lag_us",
    "error",
    "error_kind",
    "reason",
    "fault",
)
_WAITS_FOR_ANOTHER = (WaitingReason.OVERLAP, WaitingReason.KEY, WaitingReason.TASK, WaitingReason.DEPENDENCY)


class Verbs:
    """What ends an attempt or moves a job."""

    def __init__(self, journal: Journal, stamp: Stamp) -> None:
        self._journal = journal
        self._stamp = stamp
        self._named: set[int] = set()  # jobs that may have ended, or given up what others wait for

    def _new(self, request: JobRequest, state: JobState = JobState.SCHEDULED, reason: str | None = None) -> JobRecord:
        """A new job as it is asked for."""
        return new_job(request, self._stamp.now.wall_us, state, reason)

    def _end(self, old: JobRecord, state: JobState, reason: str) -> None:
        """A job without an open attempt becomes final."""
        job = copy_job(old)
        job.state, job.reason, job.finished_at = state, reason, self._stamp.now.wall_us
        self._journal.replace(old, job)

    def _release(self, old: JobRecord) -> tuple[int, int, int]:
        """A WAITING job becomes SCHEDULED at its due time: where it then lies."""
        job = copy_job(old)
        job.state, job.reason = JobState.SCHEDULED, None
        self._journal.replace(old, job)
        return (self._lane_number(job), job.due_at, job.job_id)

    def settle(self, settle: ch.Settle) -> ch.Outcome:
        """End an attempt."""
        ensure(settle.attempt_state not in OPEN, "settled with an open attempt", settle.job_id)
        old = self._journal.jobs.get(settle.job_id)
        if old is None or old.state is not JobState.ACTIVE or old.attempt != settle.attempt:
            return ch.Stale(settle.job_id)
        attempt = self._journal.attempts[settle.job_id, settle.attempt]
        if attempt.epoch != settle.claim_epoch:
            return ch.Stale(settle.job_id)
        self._end_attempt(
            old,
            settle.attempt_state,
            policy=f"{old.retry.kind}/{old.retry.version}",
            **{name: getattr(settle, name) for name in _FROM_SETTLE},
        )
        job = self._judged(old, settle)
        self._journal.replace(old, job)
        if job.state is not JobState.SCHEDULED:
            return ch.Settled(job.job_id, job.state)
        return ch.Settled(job.job_id, job.state, self._lane_number(job), job.due_at)

    def _judged(self, old: JobRecord, settle: ch.Settle) -> JobRecord:
        """The job as a Settle leaves it."""
        job = copy_job(old)
        job.state, job.reason = settle.job_state, settle.reason
        job.failures, job.losses, job.first_failed_at = settle.failures, settle.losses, settle.first_failed_at
        if settle.error is not None:
            job.error = settle.error
        if settle.fault is not None:
            job.fault, job.fingerprint = settle.fault, settle.fingerprint
        if job.state is JobState.COMPLETED:
            job.result, job.result_omitted = settle.result, settle.result_omitted
        elif job.cancel_requested is not None:
            job.state, job.reason = JobState.CANCELLED, job.cancel_requested
        if job.state is JobState.COMPLETED or job.state is JobState.SCHEDULED:
            job.reason = None
        if job.state in FINAL_STATES:
            job.finished_at = self._stamp.now.wall_us
        elif settle.due_at is not None:
            job.due_clock, job.due_at = ClockKind.STEADY, settle.due_at
        return job

    def cancel(self, cancel: ch.Cancel) -> ch.Outcome:
        """Cancel a job, or keep the request."""
        old = self._journal.jobs.get(cancel.job_id)
        if old is None:
            return ch.Missing(cancel.job_id)
        if old.state in FINAL_STATES:
            return ch.Cancelled(old.job_id, CancelAnswer.TOO_LATE)
        job = copy_job(old)
        if old.state is JobState.ACTIVE and cancel.entered:
            job.cancel_requested = cancel.reason
            self._journal.replace(old, job)
            return ch.Cancelled(job.job_id, CancelAnswer.REQUESTED)
        ended = None
        if old.state is JobState.ACTIVE:
            ended = self._withdraw_attempt(old, AttemptState.CANCELLED, cancel.reason)
        job.state, job.reason, job.finished_at = JobState.CANCELLED, cancel.reason, self._stamp.now.wall_us
        self._journal.replace(old, job)
        return ch.Cancelled(job.job_id, CancelAnswer.CANCELLED, ended, old.state is JobState.SCHEDULED)

    def reschedule(self, move: ch.Reschedule) -> ch.Outcome:
        """Move a job."""
        return self._move(move)

    def _move(self, move: ch.Reschedule) -> ch.Rescheduled | ch.Missing:
        old = self._journal.jobs.get(move.job_id)
        if old is None:
            return ch.Missing(move.job_id)
        ended = None
        if old.state is JobState.ACTIVE and not move.entered:
            ended = self._withdraw_attempt(old, AttemptState.RELEASED, "rescheduled")
        elif old.state is not JobState.SCHEDULED and not (
            old.state is JobState.WAITING and old.reason in (WaitingReason.UNRESOLVABLE, *_WAITS_FOR_ANOTHER)
        ):
            return ch.Rescheduled(old.job_id, RescheduleAnswer.TOO_LATE)
        job = copy_job(old)
        job.version = old.version + 1
        job.clock = job.due_clock = move.clock
        job.scheduled_at = job.due_at = move.scheduled_at
        if old.state is JobState.WAITING and old.reason in _WAITS_FOR_ANOTHER:
            self._journal.replace(old, job)
            return ch.Rescheduled(job.job_id, RescheduleAnswer.MOVED)
        job.state, job.reason = JobState.SCHEDULED, None
        self._journal.replace(old, job)
        was_scheduled = old.state is JobState.SCHEDULED
        lane = self._lane_number(job)
        return ch.Rescheduled(job.job_id, RescheduleAnswer.MOVED, lane, job.due_at, ended, was_scheduled)

    def _withdraw_attempt(self, job: JobRecord, state: AttemptState, reason: str) -> int:
        self._end_attempt(job, state, reason=reason, finished_at=self._stamp.now.wall_us)
        return job.attempt

    def _end_attempt(self, job: JobRecord, state: AttemptState, **values: Any) -> None:
        old = self._journal.attempts[job.job_id, job.attempt]
        ensure(old.state in OPEN and state not in OPEN, "an attempt ends once", job.job_id, old.state, state)
        attempt = copy_attempt(old)
        attempt.state = state
        for name, value in values.items():
            setattr(attempt, name, value)
        self._journal.put(self._journal.attempts, (job.job_id, job.attempt), attempt)

    def _lane_number(self, job: JobRecord) -> int:
        return self._journal.lane(job).number
