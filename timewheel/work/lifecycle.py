"""What becomes of a job when an attempt ends? Pure: counters and what happened in, the decision out.

    the runner saw                attempt             job                                      spends
    RETURNED                      SUCCEEDED           COMPLETED                                -
    RAISED retryable, throttled   FAILED_RETRYABLE    SCHEDULED at the retry, or DEAD          retry budget
    RAISED permanent              FAILED_PERMANENT    DEAD (permanent)                         retry budget
    RAISED snooze                 RELEASED            SCHEDULED after the delay                -
    TIMED_OUT                     TIMED_OUT           SCHEDULED at the retry, or DEAD          retry budget
      and its handler goes on     TIMED_OUT           WAITING (overrun), then the retry        retry budget
    CANCELLED                     CANCELLED           CANCELLED                                -
    NOT_ENTERED, SHUTDOWN         RELEASED            SCHEDULED, due when it was               -
    (its owner disappeared)       LOST                SCHEDULED at once, or DEAD (crash_loop)  crash budget

A retry that the policy does not allow makes the job DEAD instead: `exhausted` when the budget is spent, `gave_up` when
the retry would come later than give_up_after, counted from the first failure. The attempt keeps the state it ended in.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from timewheel.model import LAST_CHANCE_LOSSES, MAX_TIME_US, AttemptState, JobState, WaitingReason
from timewheel.work.backoff import delay_us, gives_up, retries_left
from timewheel.work.classify import MAX_RETRY_AFTER_US, Verdict, VerdictKind

if TYPE_CHECKING:
    from timewheel.model import RetryPolicy

EXHAUSTED = "exhausted"
GAVE_UP = "gave_up"
PERMANENT = "permanent"
CRASH_LOOP = "crash_loop"
SNOOZED = "snoozed"
NOT_ENTERED = "not_entered"
SHUTDOWN = "shutdown"


class EndingKind(Enum):
    """How an attempt ended, as its runner saw it."""

    RETURNED = "returned"
    RAISED = "raised"  # of its own accord; see the verdict
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"  # we cancelled it, because a cancel was requested
    NOT_ENTERED = "not_entered"  # its handler never began
    SHUTDOWN = "shutdown"  # we cancelled it, because the grace ended


class Ending(NamedTuple):
    """What the runner saw; a verdict comes with RAISED, and only with it."""

    kind: EndingKind
    verdict: Verdict | None = None

    @classmethod
    def raised(cls, verdict: Verdict) -> Ending:
        """The ending of a handler that raised."""
        return cls(EndingKind.RAISED, verdict)


class Counters(NamedTuple):
    """What a job has spent since its last replay; `first_failed_at` (steady us) is when a failure first did."""

    failures: int = 0
    losses: int = 0
    first_failed_at: int | None = None


class Decision(NamedTuple):
    """What an ended attempt makes of itself and of its job.

    `due_at` is steady microseconds: of a SCHEDULED job, when it is due next, where None means that it keeps the due_at
    and the clock it has (so a release never makes it early); of a WAITING one, the retry it gets once it may go on.
    `reason` says why the job waits or is dead; of a RELEASED attempt, why it was given back.
    """

    attempt_state: AttemptState
    job_state: JobState
    due_at: int | None
    failures: int
    losses: int
    first_failed_at: int | None
    reason: str | None = None


def decide(
    ending: Ending,
    counters: Counters,
    policy: RetryPolicy,
    now_steady_us: int,
    u: float,
    *,
    overrun: bool = False,
) -> Decision:
    """The decision on an attempt that ended at `now_steady_us`.

    `u` in [0, 1) is the chance for the jitter. `overrun` says that the handler timed out and still runs.
    """
    kind, verdict = ending
    if kind is EndingKind.RETURNED:
        return Decision(AttemptState.SUCCEEDED, JobState.COMPLETED, None, *counters)
    if kind is EndingKind.CANCELLED:
        return Decision(AttemptState.CANCELLED, JobState.CANCELLED, None, *counters)
    if kind is EndingKind.NOT_ENTERED:
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, None, *counters, NOT_ENTERED)
    if kind is EndingKind.SHUTDOWN:
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, None, *counters, SHUTDOWN)
    if kind is EndingKind.TIMED_OUT:
        return _failed(AttemptState.TIMED_OUT, counters, policy, now_steady_us, u, overrun=overrun)
    assert verdict is not None, "a handler that raised has a verdict"
    return _raised(verdict, counters, policy, now_steady_us, u)


def decide_lost(counters: Counters, now_steady_us: int) -> Decision:
    """The decision on an attempt whose owner disappeared: due at once, or DEAD when its crash budget is spent."""
    spent = counters._replace(losses=counters.losses + 1)
    if spent.losses > LAST_CHANCE_LOSSES:
        return Decision(AttemptState.LOST, JobState.DEAD, None, *spent, CRASH_LOOP)
    return Decision(AttemptState.LOST, JobState.SCHEDULED, now_steady_us, *spent)


def _raised(verdict: Verdict, counters: Counters, policy: RetryPolicy, now: int, u: float) -> Decision:
    if verdict.kind is VerdictKind.SNOOZE:
        due_at = min(now + verdict.delay_us, MAX_TIME_US)
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, due_at, *counters, SNOOZED)
    if verdict.kind is VerdictKind.PERMANENT:
        spent = _spend(counters, now)
        return Decision(AttemptState.FAILED_PERMANENT, JobState.DEAD, None, *spent, PERMANENT)
    at_least = min(verdict.delay_us, MAX_RETRY_AFTER_US) if verdict.kind is VerdictKind.THROTTLED else 0
    return _failed(AttemptState.FAILED_RETRYABLE, counters, policy, now, u, at_least_us=at_least)


def _failed(
    state: AttemptState,
    counters: Counters,
    policy: RetryPolicy,
    now: int,
    u: float,
    *,
    at_least_us: int = 0,
    overrun: bool = False,
) -> Decision:
    """A failure that may be retried: the retry, or the reason why there is none."""
    spent = _spend(counters, now)
    if not retries_left(policy, spent.failures):
        return Decision(state, JobState.DEAD, None, *spent, EXHAUSTED)
    retry_at = min(now + max(delay_us(policy, spent.failures, u), at_least_us), MAX_TIME_US)
    assert spent.first_failed_at is not None
    if gives_up(policy, spent.first_failed_at, retry_at):
        return Decision(state, JobState.DEAD, None, *spent, GAVE_UP)
    if overrun:
        return Decision(state, JobState.WAITING, retry_at, *spent, WaitingReason.OVERRUN.value)
    return Decision(state, JobState.SCHEDULED, retry_at, *spent)


def _spend(counters: Counters, now: int) -> Counters:
    first = now if counters.first_failed_at is None else counters.first_failed_at
    return counters._replace(failures=counters.failures + 1, first_failed_at=first)
