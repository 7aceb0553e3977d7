"""What follows from a durable batch: places in memory, waiters woken, notices made. One turn of the loop, no awaits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from timewheel.events import AttemptsEnded, JobsEnded, JobsScheduled, Notices, OccurrencesRecorded
from timewheel.model import FINAL_STATES, AttemptState, CancelAnswer, FaultClass, JobState, RescheduleAnswer
from timewheel.store.changes import (
    Cancelled,
    Change,
    Claimed,
    Outcome,
    Planned,
    PlanOccurrences,
    Rescheduled,
    Settle,
    Settled,
    Stale,
    Submitted,
    Unheld,
    UniqueMet,
)
from timewheel.store.letters import Replayed

if TYPE_CHECKING:
    from timewheel.schedule_records import Fate
    from timewheel.store.loader import Loader
    from timewheel.waiters import Waiters


Told: TypeAlias = tuple[str, str, int, bool]
"""What a settlement does not say itself: queue, dependency, retry_after_us, and whether its lags are left out."""
_NOTHING: Told = ("", "", 0, False)


class Consequences:
    """See the module. `ended(job_id, schedule)` hears of the jobs in `awaited` once they are final."""

    def __init__(self, loader: Loader, waiters: Waiters, notices: Notices, ended: Callable[[int, str], None]) -> None:
        self._loader = loader
        self._waiters = waiters
        self._notices = notices
        self._ended = ended
        self.awaited: dict[int, str] = {}  # job id -> schedule
        self.told: dict[int, Told] = {}  # of the settlements under way, by job id; kept only while notices are wanted
        self._handlers: dict[type, Callable[[Any, Any], None]] = {
            Submitted: self._submitted,
            UniqueMet: self._unique_met,
            Settled: self._settled,
            Stale: self._stale,
            Cancelled: self._cancelled,
            Rescheduled: self._rescheduled,
            Replayed: self._replayed,
            Claimed: self._claimed,
            Unheld: self._unheld,
            Planned: self._planned,
        }

    def draw(self, changes: list[Change], outcomes: list[Outcome]) -> None:
        """Act on a batch that is durable."""
        handlers = self._handlers
        for change, outcome in zip(changes, outcomes, strict=True):
            handler = handlers.get(type(outcome))
            if handler is not None:
                handler(change, outcome)
        if self._notices.wanted:
            self._notify(changes, outcomes)

    def _submitted(self, change: Any, outcome: Submitted) -> None:
        if outcome.created and outcome.lane >= 0:
            self._loader.placed(outcome.lane, change.request.scheduled_at, outcome.job_id)
        if outcome.replaced is not None:
            if outcome.replaced_was_scheduled:
                self._loader.became_stale()
            self._final(outcome.replaced)

    def _unique_met(self, _: Any, outcome: UniqueMet) -> None:
        if outcome.was_scheduled:
            self._loader.became_stale()
        if outcome.place is not None:
            self._loader.placed(*outcome.place, outcome.job_id)

    def _settled(self, _: Settle, outcome: Settled) -> None:
        if outcome.job_state is JobState.SCHEDULED:
            self._loader.placed(outcome.lane, outcome.due_at, outcome.job_id)
        elif outcome.job_state in FINAL_STATES and (self._waiters or self.awaited):
            self._final(outcome.job_id)

    def _stale(self, _: Settle, outcome: Stale) -> None:
        self.told.pop(outcome.job_id, None)
        self._final(outcome.job_id)  # it was settled before, by a batch whose outcome was unknown

    def _cancelled(self, _: Any, outcome: Cancelled) -> None:
        if outcome.was_scheduled:
            self._loader.became_stale()
        if outcome.answer is CancelAnswer.CANCELLED:
            self._final(outcome.job_id)

    def _rescheduled(self, _: Any, outcome: Rescheduled) -> None:
        if outcome.was_scheduled:
            self._loader.became_stale()
        if outcome.answer is RescheduleAnswer.MOVED and outcome.lane >= 0:
            self._loader.placed(outcome.lane, outcome.due_at, outcome.job_id)

    def _replayed(self, _: Any, outcome: Replayed) -> None:
        self._loader.placed(outcome.lane, outcome.due_at, outcome.job_id)

    def _claimed(self, _: Any, outcome: Claimed) -> None:
        for job_id in (*outcome.skipped, *outcome.given_up):
            self._final(job_id)

    def _planned(self, _: Any, outcome: Planned) -> None:
        for job_id in outcome.superseded:
            self._final(job_id)
        for lane, due_at, job_id in outcome.places:
            self._loader.placed(lane, due_at, job_id)

    def _final(self, job_id: int) -> None:
        if self._waiters:
            self._waiters.final(job_id)
        if (schedule := self.awaited.pop(job_id, None)) is not None:
            self._ended(job_id, schedule)

    def _unheld(self, _: Any, outcome: Unheld) -> None:
        for job_id in outcome.cancelled:
            self._final(job_id)
        for lane, due_at, job_id in outcome.places:
            self._loader.placed(lane, due_at, job_id)

    def _notify(self, changes: list[Change], outcomes: list[Outcome]) -> None:
        scheduled: Counter[str] = Counter()
        occurrences: Counter[tuple[Fate, str]] = Counter()
        ended = AttemptsEnded(*([] for _ in AttemptsEnded._fields))
        final: Counter[JobState] = Counter()
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, Submitted):
                if outcome.created:
                    scheduled[change.request.queue] += 1  # type: ignore[union-attr]  # a Submit has this outcome
            elif isinstance(outcome, Settled) and isinstance(change, Settle):
                self._note_ending(ended, change, outcome)
            elif isinstance(outcome, Planned) and isinstance(change, PlanOccurrences):
                for job in change.jobs:
                    scheduled[job.queue] += 1
                for row in change.rows:
                    occurrences[row.fate, row.reason or ""] += row.count
            for state, jobs in _ended_by(outcome):
                final[state] += jobs
        if scheduled:
            self._notices.emit(JobsScheduled(dict(scheduled)))
        if occurrences:
            self._notices.emit(OccurrencesRecorded(dict(occurrences)))
        if ended.queues:
            self._notices.emit(ended)
        for state, jobs in final.items():
            if jobs:
                self._notices.emit(JobsEnded(state, jobs))

    def _note_ending(self, ended: AttemptsEnded, change: Settle, outcome: Settled) -> None:
        queue, dependency, retry_after_us, late = self.told.pop(change.job_id, _NOTHING)
        fault = change.fault
        throttled = fault is not None and fault == FaultClass.THROTTLED
        ended.queues.append(queue)
        ended.attempt_states.append(change.attempt_state)
        ended.job_states.append(outcome.job_state)
        ended.dispatch_lags_us.append(None if late else change.dispatch_lag_us)
        ended.start_lags_us.append(None if late else change.start_lag_us)
        ended.dependencies.append(dependency)
        ended.faults.append(fault)
        ended.retry_afters_us.append((retry_after_us or None) if throttled else None)
        ended.attempts.append(_spent_by(change))


def _spent_by(change: Settle) -> int:
    """How many attempts the job has spent with this one; one that was given back counts only as a failure."""
    state, spent = change.attempt_state, change.failures + change.losses
    if state is AttemptState.SUCCEEDED or state is AttemptState.CANCELLED:
        return spent + 1
    return spent + (state is AttemptState.RELEASED and change.fault is not None)  # its job was not to be tried again


def _ended_by(outcome: Outcome) -> tuple[tuple[JobState, int], ...]:
    """How many jobs became final by this change, without an attempt of their own ending."""
    if isinstance(outcome, Submitted):
        return ((JobState.CANCELLED, outcome.ended + (outcome.replaced is not None)),)
    if isinstance(outcome, Claimed):
        return (JobState.SKIPPED, len(outcome.skipped)), (JobState.DEAD, len(outcome.given_up))
    if isinstance(outcome, Planned):
        return ((JobState.SKIPPED, len(outcome.superseded)),)
    if isinstance(outcome, Cancelled):
        return ((JobState.CANCELLED, int(outcome.answer is CancelAnswer.CANCELLED)),)
    return ((JobState.CANCELLED, len(outcome.cancelled)),) if isinstance(outcome, Unheld) else ()
