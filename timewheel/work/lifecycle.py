"""What becomes of a job when an attempt ends? Pure: counters and what happened in, the decision out.

    the runner saw                attempt             job                                      spends
    RETURNED                      SUCCEEDED           COMPLETED                                -
    RAISED retryable, throttled   FAILED_RETRYABLE    SCHEDULED at the retry, or DEAD          retry budget
    RAISED ambiguous              FAILED_RETRYABLE    SCHEDULED at the retry, or DEAD          retry budget
    RAISED permanent              FAILED_PERMANENT    DEAD (permanent)                         retry budget
    RAISED snooze                 RELEASED            SCHEDULED after the delay                -
    TIMED_OUT                     TIMED_OUT           SCHEDULED at the retry, or DEAD          retry budget
      and its handler goes on     TIMED_OUT           WAITING (overrun), then the retry        retry budget
    CANCELLED                     CANCELLED           CANCELLED                                -
    NOT_ENTERED                   RELEASED            SCHEDULED, due when it was, or DEAD      -
    SHUTDOWN                      RELEASED            SCHEDULED, due when it was, or DEAD      -
    (its owner disappeared)       LOST                SCHEDULED at once, or DEAD (crash_loop)  crash budget

A job that may not be started again is DEAD instead, and the attempt keeps the state it ended in. The reasons, of which
the first that holds is the job's (of a permanent failure it is that, whatever else holds):

    crash_loop   the crash budget is spent (LOST)
    deadline     the job's deadline has come
    ambiguous    nobody knows whether the work was done (RAISED ambiguous, TIMED_OUT, SHUTDOWN, LOST), and the job is
                 not idempotent: a person has to decide
    exhausted    the retry budget is spent
    deadline     the retry, or what a snooze asked for, would come at the deadline or after it
    gave_up      the retry would come later than give_up_after, counted from the first failure
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from timewheel.model import LAST_CHANCE_LOSSES, MAX_TIME_US, AttemptState, FaultClass, JobState, WaitingReason
from timewheel.work.backoff import delay_us, gives_up, retries_left, throttled_delay_us
from timewheel.work.classify import MAX_RETRY_AFTER_US, Verdict, VerdictKind

if TYPE_CHECKING:
    from timewheel.flow import Flow
    from timewheel.model import Now, RetryPolicy

EXHAUSTED = "exhausted"
GAVE_UP = "gave_up"
PERMANENT = "permanent"
CRASH_LOOP = "crash_loop"
DEADLINE = "deadline"
AMBIGUOUS = "ambiguous"
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


class Terms(NamedTuple):
    """What holds of a job beside its policy.

    `idempotent`: False: an attempt whose end is not known for sure makes it DEAD. `deadline_at`: when it is given up:
    steady microseconds, by the wall clock as it stands; None: never.
    """

    idempotent: bool = True
    deadline_at: int | None = None

    @classmethod
    def of(cls, flow: Flow | None, now: Now) -> Terms:
        """The terms of a job with this flow control, by the clocks as they are now."""
        if flow is None:
            return NO_TERMS
        deadline = flow.deadline
        return cls(flow.idempotent, None if deadline is None else deadline - now.wall_us + now.steady_us)

    def over(self, instant_us: int) -> bool:
        """Whether the job is given up by then (steady)."""
        return self.deadline_at is not None and instant_us >= self.deadline_at


NO_TERMS = Terms()


class Decision(NamedTuple):
    """What an ended attempt makes of itself and of its job.

    `due_at` is steady microseconds: of a SCHEDULED job, when it is due next, where None means that it keeps the due_at
    and the clock it has (so a release never makes it early); of a WAITING one, the retry it gets once it may go on.
    `reason` says why the job waits or is dead; of a RELEASED attempt, why it was given back. `fault` is the class of a
    failure, None when the attempt did not fail.
    """

    attempt_state: AttemptState
    job_state: JobState
    due_at: int | None
    failures: int
    losses: int
    first_failed_at: int | None
    reason: str | None = None
    fault: FaultClass | None = None


_FAULTS = {
    VerdictKind.RETRYABLE: FaultClass.TRANSIENT,
    VerdictKind.THROTTLED: FaultClass.THROTTLED,
    VerdictKind.AMBIGUOUS: FaultClass.AMBIGUOUS,
}


class _Case(NamedTuple):
    """What a decision is made of; `now` is steady microseconds, `u` the chance."""

    counters: Counters
    policy: RetryPolicy
    now: int
    u: float
    terms: Terms

    def spent(self) -> Counters:
        """What the job has spent with this failure."""
        first = self.now if self.counters.first_failed_at is None else self.counters.first_failed_at
        return self.counters._replace(failures=self.counters.failures + 1, first_failed_at=first)


def decide(
    ending: Ending,
    counters: Counters,
    policy: RetryPolicy,
    now_steady_us: int,
    u: float,
    *,
    terms: Terms = NO_TERMS,
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
        if terms.over(now_steady_us):
            return Decision(AttemptState.RELEASED, JobState.DEAD, None, *counters, DEADLINE)
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, None, *counters, NOT_ENTERED)
    if kind is EndingKind.SHUTDOWN:
        if not terms.idempotent:
            return Decision(AttemptState.RELEASED, JobState.DEAD, None, *counters, AMBIGUOUS, FaultClass.AMBIGUOUS)
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, None, *counters, SHUTDOWN)
    case = _Case(counters, policy, now_steady_us, u, terms)
    if kind is EndingKind.TIMED_OUT:
        return _failed(case, AttemptState.TIMED_OUT, FaultClass.AMBIGUOUS, at_least_us=0, overrun=overrun)
    assert verdict is not None, "a handler that raised has a verdict"
    return _raised(case, verdict)


def decide_lost(counters: Counters, now_steady_us: int, terms: Terms = NO_TERMS) -> Decision:
    """The decision on an attempt whose owner disappeared: due at once, or DEAD."""
    spent = counters._replace(losses=counters.losses + 1)
    reason = None
    if spent.losses > LAST_CHANCE_LOSSES:
        reason = CRASH_LOOP
    elif terms.over(now_steady_us):
        reason = DEADLINE
    elif not terms.idempotent:
        reason = AMBIGUOUS
    if reason is not None:
        return Decision(AttemptState.LOST, JobState.DEAD, None, *spent, reason, FaultClass.AMBIGUOUS)
    return Decision(AttemptState.LOST, JobState.SCHEDULED, now_steady_us, *spent, None, FaultClass.AMBIGUOUS)


def _raised(case: _Case, verdict: Verdict) -> Decision:
    if verdict.kind is VerdictKind.SNOOZE:
        due_at = min(case.now + verdict.delay_us, MAX_TIME_US)
        if case.terms.over(due_at):
            return Decision(AttemptState.RELEASED, JobState.DEAD, None, *case.counters, DEADLINE)
        return Decision(AttemptState.RELEASED, JobState.SCHEDULED, due_at, *case.counters, SNOOZED)
    if verdict.kind is VerdictKind.PERMANENT:
        dead = JobState.DEAD
        return Decision(AttemptState.FAILED_PERMANENT, dead, None, *case.spent(), PERMANENT, FaultClass.PERMANENT)
    at_least_us = min(verdict.delay_us, MAX_RETRY_AFTER_US)
    return _failed(case, AttemptState.FAILED_RETRYABLE, _FAULTS[verdict.kind], at_least_us=at_least_us)


def _failed(
    case: _Case, state: AttemptState, fault: FaultClass, *, at_least_us: int, overrun: bool = False
) -> Decision:
    """A failure that may be retried: the retry, or the reason why there is none. `at_least_us`: of a throttled one."""
    spent = case.spent()
    assert spent.first_failed_at is not None
    if fault is FaultClass.THROTTLED:
        delay = throttled_delay_us(case.policy, spent.failures, case.u, at_least_us)
    else:
        delay = delay_us(case.policy, spent.failures, case.u)
    retry_at = min(case.now + delay, MAX_TIME_US)
    reason = None
    if case.terms.over(case.now):
        reason = DEADLINE
    elif fault is FaultClass.AMBIGUOUS and not case.terms.idempotent:
        reason = AMBIGUOUS
    elif not retries_left(case.policy, spent.failures):
        reason = EXHAUSTED
    elif case.terms.over(retry_at):
        reason = DEADLINE
    elif gives_up(case.policy, spent.first_failed_at, retry_at):
        reason = GAVE_UP
    if reason is not None:
        return Decision(state, JobState.DEAD, None, *spent, reason, fault)
    if overrun:
        return Decision(state, JobState.WAITING, retry_at, *spent, WaitingReason.OVERRUN.value, fault)
    return Decision(state, JobState.SCHEDULED, retry_at, *spent, None, fault)
