"""From a run that ended to the Settle that says so. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from timewheel.codec import dumps_result
from timewheel.failures import error_text
from timewheel.model import AttemptState, JobState, Now
from timewheel.store.changes import Settle
from timewheel.work.classify import classify
from timewheel.work.fingerprint import fingerprint
from timewheel.work.lifecycle import NO_TERMS, Counters, Decision, Ending, EndingKind, Terms
from timewheel.work.run import Run, Stopping
from timewheel.work.runner import is_cancellation

if TYPE_CHECKING:
    from timewheel.dispatch.gate import Claimant

MOST_ERROR = 4096  # characters of an error
STOPPED = "stopped at the end of the grace, and not tried again: it is not idempotent"
_RETURNED = Ending(EndingKind.RETURNED)


class Ledger(Protocol):
    """Where endings go."""

    epoch: int

    def settle(self, change: Settle, claimant: Claimant, *, retry_after_us: int = 0, catch_up: bool = False) -> None:
        """Have a settlement written. `retry_after_us`: how long a throttled attempt was told to wait; `catch_up`: its
        lags say nothing of how punctual this process is."""

    def ended(self, claimant: Claimant, decision: Decision, retry_after_us: int) -> None:
        """An attempt has ended so; `retry_after_us`: how long a throttled one was told to wait."""

    def slot_free(self, claimant: Claimant) -> None:
        """A job that passed the gate has ended, its handler too: it holds its slots no more."""

    def overruns(self, claimant: Claimant) -> None:
        """A handler has timed out and does not stop: its concurrency key stays held until `overran`."""

    def overran(self, job_id: int, attempt: int, waiting: bool) -> None:
        """A handler that had timed out ended at last; `waiting`: its job waits for that."""

    def came_early(self, claimant: Claimant) -> None:
        """A job that passed the gate has not been entered after all: the wall clock was set back meanwhile."""

    def interrupted(self) -> None:
        """A handler raised KeyboardInterrupt: the scheduler stops in order."""


def counters_of(run: Run) -> Counters:
    """What the job had spent when it was claimed."""
    return Counters(run.job.failures, run.job.losses, run.job.first_failed_at)


def terms_of(run: Run, now: Now) -> Terms:
    """What else counts for this job. How an attempt ended is known for sure where its handler was never called."""
    flow = run.job.flow
    if flow is None:
        return NO_TERMS
    terms = Terms.of(flow, now)
    return terms if run.begun else terms._replace(idempotent=True)


def ending_of(run: Run, error: BaseException | None, wall_us: int) -> Ending:
    """How the handler ended: what we asked of it decides what its CancelledError means."""
    if run.stopping is Stopping.TIMEOUT:
        return Ending(EndingKind.TIMED_OUT)
    if error is None:
        return _RETURNED
    if is_cancellation(error) and run.stopping is not None:
        return Ending(EndingKind.CANCELLED if run.stopping is Stopping.CANCEL else EndingKind.SHUTDOWN)
    return Ending.raised(classify(error, run.task.classify, wall_us))


def settlement(
    run: Run, decision: Decision, now: Now, epoch: int, error: BaseException | None = None, value: Any = None
) -> Settle:
    """The Settle of a run that passed the gate."""
    job, claimant, started = run.job, run.claimant, run.started
    change = Settle(
        job.job_id,
        job.attempt,
        epoch,
        decision.attempt_state,
        decision.job_state,
        decision.due_at,
        decision.failures,
        decision.losses,
        decision.first_failed_at,
        decision.reason,
        dispatched_at=claimant.dispatched_wall_us(),
        started_at=None if started is None else started.wall_us,
        finished_at=now.wall_us,
        dispatch_lag_us=claimant.dispatch_lag_us(),
        start_lag_us=None if started is None else started.on(job.clock) - job.due_at,
    )
    if decision.attempt_state is AttemptState.SUCCEEDED:
        change.result, change.result_omitted = dumps_result(value)
    else:
        _tell_error(change, run, decision, error)
    return change


def _tell_error(change: Settle, run: Run, decision: Decision, error: BaseException | None) -> None:
    """What went wrong, in words, and, of a failure, its class and its fingerprint."""
    kind = said = None
    if error is not None:
        change.error_kind, change.error = error_text(error, MOST_ERROR)
    if decision.attempt_state is AttemptState.TIMED_OUT:
        kind, said = "TimeoutError", run.expired
    elif decision.attempt_state is AttemptState.RELEASED and decision.fault is not None:
        kind, said = "Shutdown", STOPPED
    if said is not None:  # and then what it raised when it was stopped, and where
        change.error_kind, change.error = kind, f"{said}\n{change.error or ''}".strip()[:MOST_ERROR]
    if decision.fault is not None:
        change.fault, change.fingerprint = decision.fault.value, fingerprint(error, run.task.name, kind)


def release_of(claimant: Claimant, reason: str, state: JobState, now: Now, epoch: int) -> Settle:
    """The Settle of a claimed job that was not entered: it spends nothing."""
    job = claimant.job
    return Settle(
        job.job_id,
        job.attempt,
        epoch,
        AttemptState.RELEASED,
        state,
        failures=job.failures,
        losses=job.losses,
        first_failed_at=job.first_failed_at,
        reason=reason,
        finished_at=now.wall_us,
    )
