"""Submits applied to a journal in memory: what stands in a new job's way, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from timewheel.flow import NO_FLOW, Dependencies, DependencyFails, OnConflict, Uniqueness
from timewheel.model import FINAL_STATES, ClockKind, JobRecord, JobRequest, JobState, WaitingReason
from timewheel.store import changes as ch
from timewheel_storage.memory_journal import ensure
from timewheel_storage.memory_verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_BEGUN = (JobState.SCHEDULED, JobState.WAITING)


class Fate(NamedTuple):
    """What becomes of a job for the sake of those that it waits for."""

    state: JobState
    reason: str | None = None


GOES = Fate(JobState.SCHEDULED)
WAITS = Fate(JobState.WAITING, WaitingReason.DEPENDENCY.value)
ENDS = Fate(JobState.CANCELLED, "dependency")


def fate_of(dependencies: Dependencies, states: Iterable[JobState]) -> Fate:
    """What becomes of a job whose dependencies have these states."""
    states = set(states)
    if states - FINAL_STATES:
        return WAITS
    if not states - {JobState.COMPLETED} or dependencies.if_one_fails is DependencyFails.RUN:
        return GOES
    return ENDS if dependencies.if_one_fails is DependencyFails.CANCEL else WAITS


class Submits(Verbs):
    """What makes a job that a caller asked for."""

    def submit(self, submit: ch.Submit) -> ch.Outcome:
        """Make a job, unless something stands in its way."""
        request = submit.request
        flow = request.flow or NO_FLOW
        ensure(request.job_id not in self._journal.jobs, "the job exists", request.job_id)
        if refusal := self._key_is_held(request):
            return refusal
        other = None if flow.unique is None else self._in_the_way(flow.unique)
        if flow.unique is not None and other is not None:
            replaces = flow.unique.on_conflict is OnConflict.REPLACE and other.state in NOT_BEGUN
            if not replaces:
                return self._meet(other, request, flow.unique.on_conflict)
        for job_id in flow.wait_for.job_ids if flow.wait_for is not None else ():
            if job_id not in self._journal.jobs:
                return ch.Missing(job_id)
        if other is not None:
            self._end(other, JobState.CANCELLED, "replaced")
            self._named.add(other.job_id)
        return self._make_asked(submit, other)

    def _make_asked(self, submit: ch.Submit, replaced: JobRecord | None) -> ch.Submitted:
        request, journal = submit.request, self._journal
        fate = GOES
        if request.flow is not None and request.flow.wait_for is not None:
            wait_for = request.flow.wait_for
            fate = fate_of(wait_for, [journal.jobs[job_id].state for job_id in wait_for.job_ids])
        job = self._new(request, *fate)
        if job.state in FINAL_STATES:
            job.finished_at = self._stamp.now.wall_us
        journal.replace(None, job)
        if request.idempotency_key is not None:
            journal.put(journal.keys, (request.task, request.idempotency_key), (request.job_id, request.digest))
        if submit.importable:
            journal.put(journal.importable, job.task, None)
        lane = self._lane_number(job) if job.state is JobState.SCHEDULED else -1
        made = ch.Submitted(job.job_id, lane, created=True, ended=job.state in FINAL_STATES)
        if replaced is None:
            return made
        return made._replace(replaced=replaced.job_id, replaced_was_scheduled=replaced.state is JobState.SCHEDULED)

    def _key_is_held(self, request: JobRequest) -> ch.Outcome | None:
        """What a request is answered whose idempotency key another job holds."""
        if request.idempotency_key is None:
            return None
        key = (request.task, request.idempotency_key)
        holder = self._holder(key)
        if holder is None:
            return None
        if self._journal.keys[key][1] != request.digest:
            return ch.KeyConflict(holder)
        return ch.Submitted(holder, -1, created=False)

    def _holder(self, key: tuple[str, str]) -> int | None:
        """The job that still holds an idempotency key."""
        if key not in self._journal.keys:
            return None
        job_id = self._journal.keys[key][0]
        ended = self._journal.jobs[job_id].finished_at
        if ended is None or self._stamp.now.wall_us - ended < ch.KEY_KEEPING_US:
            return job_id
        return None

    def _in_the_way(self, unique: Uniqueness) -> JobRecord | None:
        """The newest job that stands in the way of another with this digest."""
        now = self._stamp.now.wall_us
        jobs = [self._journal.jobs[job_id] for job_id in self._journal.unique.get(unique.digest, ())]
        found = [
            job
            for job in jobs
            if job.state in unique.states and (unique.period_us is None or now - job.created_at < unique.period_us)
        ]
        return max(found, key=lambda job: (job.created_at, job.job_id), default=None)

    def _meet(self, other: JobRecord, request: JobRequest, on_conflict: OnConflict) -> ch.UniqueMet:
        if on_conflict is not OnConflict.RESCHEDULE or other.state not in NOT_BEGUN:
            return ch.UniqueMet(other.job_id, on_conflict is OnConflict.FAIL)
        clock = ClockKind(request.clock)
        moved = self._move(ch.Reschedule(other.job_id, clock, request.scheduled_at, entered=False))
        ensure(isinstance(moved, ch.Rescheduled), "there it was", other.job_id)
        if not isinstance(moved, ch.Rescheduled) or moved.lane < 0:
            return ch.UniqueMet(other.job_id, conflict=False)
        return ch.UniqueMet(other.job_id, False, (moved.lane, moved.due_at), moved.was_scheduled)
