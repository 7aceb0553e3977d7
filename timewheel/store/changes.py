"""What can be written to a journal: a closed union of changes, and the outcome of each.

Pure data. A batch is applied as if in the order `ORDER`; inside one kind, in the order of the batch. A change that its
own precondition refuses yields its outcome and harms no other change of the batch. A batch holds at most one of
Settle, Cancel and Reschedule for any one job: the committer sees to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from timewheel.model import (
    AttemptState,
    CancelAnswer,
    ClockKind,
    JobRequest,
    JobState,
    Now,
    RescheduleAnswer,
    RetryPolicy,
    WaitingReason,
)

# ---- settle ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Settle:
    """End the open attempt `attempt` of a job, and say what becomes of the job.

    Precondition: the job is ACTIVE, its newest attempt is `attempt` and that attempt was claimed under `claim_epoch`;
    otherwise the outcome is STALE and nothing changes.

    `job_state` is a final state, SCHEDULED or WAITING. For SCHEDULED and WAITING: `due_at` is the next due time in
    steady microseconds (the job's due clock becomes STEADY), or None to keep the one it was claimed with.
    If the job has a stored cancel request and `job_state` is not COMPLETED, the job ends CANCELLED whatever was decided
    (`reason` is then the cancel's). `failures`, `losses` and `first_failed_at` are the new totals.
    Instants are wall microseconds; None where the attempt never got that far.
    """

    job_id: int
    attempt: int
    claim_epoch: int
    attempt_state: AttemptState
    job_state: JobState
    due_at: int | None = None
    failures: int = 0
    losses: int = 0
    first_failed_at: int | None = None
    reason: str | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    dispatch_lag_us: int | None = None
    start_lag_us: int | None = None
    result: str | None = None
    result_omitted: str | None = None
    error: str | None = None
    error_kind: str | None = None


class Settled(NamedTuple):
    """A Settle was applied. `lane` and `due_at` say where the job now lies when it is SCHEDULED."""

    job_id: int
    job_state: JobState
    lane: int = -1
    due_at: int = 0


class Stale(NamedTuple):
    """A precondition no longer held; nothing was changed."""

    job_id: int


# ---- the verbs of a job ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cancel:
    """Cancel a job. `entered`: its handler has been entered, as the gate says; `reason` may be empty.

    SCHEDULED and WAITING jobs end CANCELLED. An ACTIVE job that was not entered ends CANCELLED together with its open
    attempt. An ACTIVE job that was entered keeps the request (`cancel_requested`): it survives a crash, and any end
    but success makes the job CANCELLED. A final job: TOO_LATE.
    """

    job_id: int
    reason: str
    entered: bool


class Cancelled(NamedTuple):
    """The answer; `ended_attempt` is the open attempt that was ended by it (None when there was none)."""

    job_id: int
    answer: CancelAnswer
    ended_attempt: int | None = None
    was_scheduled: bool = False  # it lay in the due index: its entry in memory, if any, is now stale


@dataclass(slots=True)
class Reschedule:
    """Move a job: new `scheduled_at` on `clock`; its due time becomes the same. `version` grows by one.

    SCHEDULED and WAITING (unresolvable) jobs become SCHEDULED at the new time. An ACTIVE job that was not entered: its
    attempt ends RELEASED (reason "rescheduled"), the job becomes SCHEDULED. Entered, overrun or final: TOO_LATE.
    """

    job_id: int
    clock: ClockKind
    scheduled_at: int
    entered: bool


class Rescheduled(NamedTuple):
    """The answer, and where the job now lies in the due index."""

    job_id: int
    answer: RescheduleAnswer
    lane: int = -1
    due_at: int = 0
    ended_attempt: int | None = None
    was_scheduled: bool = False


class Missing(NamedTuple):
    """No job has this id."""

    job_id: int


# ---- submissions -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Submit:
    """Make a job, SCHEDULED at `request.scheduled_at`.

    With an idempotency key: if the key is held for the same task by a job that is not final, or was final less than
    KEY_KEEPING_US ago, nothing is made; the outcome is Submitted(created=False) when the digests are equal, KeyConflict
    otherwise. Two equal keys in one batch: the first makes the job. `importable`: the task's name was given by code in
    this process, so that a later process may import it (stored with the journal).
    """

    request: JobRequest
    importable: bool = False


class Submitted(NamedTuple):
    """The job that exists now; `lane` is where it lies when `created` (the store numbers lanes)."""

    job_id: int
    lane: int
    created: bool


class KeyConflict(NamedTuple):
    """The key belongs to `job_id`, made by a different request."""

    job_id: int


KEY_KEEPING_US = 7 * 24 * 3600 * 1_000_000

# ---- claims ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Claim:
    """Open an attempt of each hinted job that is SCHEDULED with due_at <= now + `ahead_us` on its due clock.

    Hints that are not (cancelled, moved, claimed before, unknown, duplicates) are ignored without a word: stale entries
    die here. A job with a misfire grace, whose `attempt` is 0 and whose due_at + grace < `watching_since` on its due
    clock, becomes SKIPPED (reason "misfire") instead. Jobs with losses >= LAST_CHANCE_LOSSES are claimed only while
    `last_chances` allows (0 or 1); the others of them come back in `Claimed.held`, unchanged. The new attempt's number
    is attempt + 1, its state QUEUED, its epoch the batch's.
    """

    job_ids: list[int]
    ahead_us: int
    watching_since: Now
    last_chances: int = 1


class ClaimedJob(NamedTuple):
    """A claimed job with what is needed to run and to judge it. `clock` is its due clock."""

    job_id: int
    attempt: int
    task: str
    arguments: str
    lane: int
    clock: ClockKind
    due_at: int
    retry: RetryPolicy
    timeout_us: int | None
    failures: int
    losses: int
    first_failed_at: int | None


class Claimed(NamedTuple):
    """What came of a Claim; `jobs` in the order of the hints."""

    jobs: list[ClaimedJob]
    skipped: list[int]
    held: list[int]


# ---- the rest --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Unhold:
    """Make at most `limit` WAITING jobs of one reason SCHEDULED again, keeping their due time.

    `tasks`: only jobs of these tasks; `job_ids`: only these; None: no such condition. The oldest ids first.
    """

    reason: WaitingReason
    limit: int
    tasks: tuple[str, ...] | None = None
    job_ids: tuple[int, ...] | None = None


class Unheld(NamedTuple):
    """Where each released job now lies: (lane, due_at, job_id). As many as the limit: call again."""

    places: list[tuple[int, int, int]]


@dataclass(slots=True)
class SaveLimits:
    """Store the rate limiters' state: limit name -> theoretical arrival time (see dispatch.bucket)."""

    values: dict[str, int]


@dataclass(slots=True)
class PutQueue:
    """Store the settings of a queue (JSON object text), replacing what was stored."""

    queue: str
    settings: str


@dataclass(slots=True)
class AddEntry:
    """Add a journal entry: a rare durable fact (clock step, recovery, new owner, late result...)."""

    kind: str
    data: str = field(default="{}")  # JSON object text


@dataclass(slots=True)
class PruneKeys:
    """Forget at most `limit` idempotency keys whose job was final more than KEY_KEEPING_US ago."""

    limit: int


class Done(NamedTuple):
    """The change was made; `rows` of it where that means something."""

    rows: int = 1


DONE = Done()

Rest: TypeAlias = Unhold | PutQueue | AddEntry | PruneKeys
Change: TypeAlias = (
    Settle | Cancel | Reschedule | Submit | Claim | Unhold | SaveLimits | PutQueue | AddEntry | PruneKeys
)
Outcome: TypeAlias = (
    Settled | Stale | Cancelled | Rescheduled | Missing | Submitted | KeyConflict | Claimed | Unheld | Done
)

ORDER: tuple[tuple[type, ...], ...] = (
    (Settle,),
    (Cancel, Reschedule),
    (Submit,),
    (Claim,),
    (Unhold, SaveLimits, PutQueue, AddEntry, PruneKeys),
)
