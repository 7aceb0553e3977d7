"""What can be written to a journal: a closed union of changes, and the outcome of each.

Pure data. A batch is applied as if in the order `ORDER`; inside one kind, in the order of the batch. A change that its
own precondition refuses yields its outcome and harms no other change of the batch. A batch holds at most one of
Settle, Cancel, Reschedule, Replay and Discard for any one job: the committer sees to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from timewheel.flow import Flow, Terms
from timewheel.model import (
    AttemptState,
    CancelAnswer,
    ClockKind,
    JobRequest,
    JobState,
    Now,
    Origin,
    RescheduleAnswer,
    RetryPolicy,
    WaitingReason,
)
from timewheel.schedule_records import OccurrenceRecord, Position, ScheduleRecord, ScheduleState
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyLimits
from timewheel.store.letters import Discard, Prune, Pruned, PutOperation, Replay, Replayed, TooLate

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
    fault: str | None = None  # of a failure: a FaultClass's value; kept with the attempt, and as the job's last
    fingerprint: str | None = None  # with a fault, and kept as the job's last, None too


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
    attempt ends RELEASED (reason "rescheduled"), the job becomes SCHEDULED. WAITING (overlap, key, task or
    dependency) jobs are moved and stay WAITING, for the same reason. Entered, overrun or final: TOO_LATE.
    """

    job_id: int
    clock: ClockKind
    scheduled_at: int
    entered: bool


class Rescheduled(NamedTuple):
    """The answer, and where the job now lies in the due index; a job that stays WAITING: lane -1, due_at 0."""

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

    With `flow.unique` (asked after the idempotency key): the newest job (by created_at, then id) whose digest is equal,
    whose state is in `states` and which was created less than `period_us` ago stands in the way; those made before in
    this batch count. FAIL: UniqueMet(conflict=True). KEEP: UniqueMet. RESCHEDULE: if that job is SCHEDULED or WAITING
    it is moved as by Reschedule (not entered; an overrun is not) to `request.scheduled_at` on `request.clock`, and
    UniqueMet says where it lies. REPLACE: if that job is SCHEDULED or WAITING it ends CANCELLED (reason "replaced"),
    the new one is made, and Submitted.replaced is its id. A job that has begun (ACTIVE, or final) is kept in all three
    cases.

    With `flow.wait_for` (asked last): a job of it that is unknown: Missing, of the first of these; nothing is made (nor
    taken: the request's keys stay free; nor replaced). A job that this one replaces is CANCELLED when it is looked at.
    The new job is WAITING (dependency) unless all of them are final and either all COMPLETED or the policy is RUN; with
    CANCEL, all final and one not COMPLETED it is made and ends CANCELLED (reason "dependency") at once. Jobs made
    before in this batch count. A job that waits, or ended at once: Submitted with lane -1.
    """

    request: JobRequest
    importable: bool = False
    terms: Terms | None = None  # whose instants are known once the job is placed; stores do not look at it


class Submitted(NamedTuple):
    """The job that exists now; `lane` is where it lies when `created` (the store numbers lanes)."""

    job_id: int
    lane: int
    created: bool
    replaced: int | None = None  # the job that was cancelled for it
    replaced_was_scheduled: bool = False  # it lay in the due index: its entry in memory, if any, is now stale
    ended: bool = False  # it was made, and ended CANCELLED at once with those that it waits for


class UniqueMet(NamedTuple):
    """Another job stood in the way: `job_id`; nothing was made. `conflict`: that is an error to the caller.

    `place`: (lane, due_at) where it now lies, when it was moved and is SCHEDULED. `was_scheduled`: as of Rescheduled.
    """

    job_id: int
    conflict: bool
    place: tuple[int, int] | None = None
    was_scheduled: bool = False


class KeyConflict(NamedTuple):
    """The key belongs to `job_id`, made by a different request."""

    job_id: int


KEY_KEEPING_US = 7 * 24 * 3600 * 1_000_000

# ---- claims ----------------------------------------------------------------------------------------------------------


class Governed(NamedTuple):
    """Which jobs a Claim hands back to be judged by what only the owner knows (rates, breakers, budgets).

    Those of these `tasks`, those that have a rate_key, and, with `retries`, those with failures > 0.
    """

    tasks: frozenset[str] = frozenset()
    rate_keys: bool = False
    retries: bool = False


@dataclass(slots=True)
class Claim:
    """Open an attempt of each hinted job that is SCHEDULED with due_at <= now + `ahead_us` on its due clock.

    Hints that are not (cancelled, moved, claimed before, unknown, duplicates) are ignored without a word: stale entries
    die here. A job with a misfire grace, whose `attempt` is 0 and whose due_at + grace < `watching_since` on its due
    clock, becomes SKIPPED (reason "misfire") instead. One whose deadline is <= now (wall) becomes DEAD (reason
    "deadline"). One whose expires_at is <= now (wall), with neither failures nor losses, becomes SKIPPED (reason
    "expired"). One that `governed` names comes back in `Claimed.asked`, unchanged. One whose concurrency key has no
    room (`key_limits`; holders are the jobs with the key that are ACTIVE, those that this very batch claimed
    included, or WAITING with reason overrun, and those of `key_limits.overran`) becomes WAITING (key) instead. Jobs
    with losses >= LAST_CHANCE_LOSSES are claimed only while `last_chances` allows (0 or 1); the others of them come
    back in `Claimed.held`, unchanged. The new attempt's number is attempt + 1, its state QUEUED, its epoch the batch's.
    The order of these tests is the order of these sentences.
    """

    job_ids: list[int]
    ahead_us: int
    watching_since: Now
    last_chances: int = 1
    governed: Governed | None = None
    key_limits: KeyLimits = ONE_OF_A_KEY


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
    origin: Origin | None = None
    flow: Flow | None = None
    concurrency_key: str | None = None


class Candidate(NamedTuple):
    """A job that could be claimed, with what is needed to judge whether it may. `clock` is its due clock."""

    job_id: int
    task: str
    lane: int
    clock: ClockKind
    due_at: int
    attempt: int
    failures: int
    flow: Flow | None = None


class Claimed(NamedTuple):
    """What came of a Claim, in the order of the hints. `waiting`: jobs whose concurrency key has no room.

    `skipped`: by misfire or expiry. `given_up`: DEAD by their deadline. `asked`: to be judged first (see Governed).
    """

    jobs: list[ClaimedJob]
    skipped: list[int]
    held: list[int]
    waiting: list[int] = []  # noqa: RUF012  never changed
    given_up: list[int] = []  # noqa: RUF012
    asked: list[Candidate] = []  # noqa: RUF012


@dataclass(slots=True)
class Defer:
    """Let candidates of a Claim wait: `rows` of (job_id, due_at as it was seen, new due_at in steady us, or None).

    Each that is still SCHEDULED with that due_at is moved to the new one on the steady clock; with None it becomes
    WAITING (task). `scheduled_at` and `version` stay, no attempt is made. The others are ignored without a word. At
    most one row is of any one job. Outcome: Unheld, the places of those that are SCHEDULED, in the order of the rows.
    """

    rows: list[tuple[int, int, int | None]]


# ---- schedules -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PutSchedule:
    """Write a schedule whole: a new one, or over the one there is.

    Precondition: the schedule's version is `expected_version`; 0: there is none of this id. Otherwise VersionConflict.
    `record.version` is the new one (larger); the record is kept as it is given. `importable`: as for Submit, of its
    task. Outcome: Done.
    """

    record: ScheduleRecord
    expected_version: int
    importable: bool = False


@dataclass(slots=True)
class DropSchedule:
    """Forget a schedule; its jobs and its ledger stay.

    Precondition as for PutSchedule. Outcome: Done, with `rows` the number of schedules forgotten (0: none was there,
    and none was expected).
    """

    schedule: str
    expected_version: int


class VersionConflict(NamedTuple):
    """The schedule has another version: `version`, 0 when there is none. Nothing was changed."""

    schedule: str
    version: int


@dataclass(slots=True)
class PlanOccurrences:
    """Move a schedule on: its position, the rows of its ledger, and the jobs, in one.

    Precondition: the schedule exists and has `version`; otherwise VersionConflict, and nothing is written. Its version
    and `updated_at` do not change. A row whose key (schedule, clock, first_at, turn, kind) exists is left as it was,
    and the job whose origin has that key is not made: planning twice is harmless. Each job has its row in `rows`: of
    fate JOB, of one slot, with the job's id. Jobs have no idempotency key, and their flow neither `unique` nor
    `wait_for`. `state`: the schedule's new state, with `reason` as its reason (None too) and `until` cleared; None:
    state, reason and `until` stay.

    Jobs are made in their order, SCHEDULED at their scheduled_at. With `hold`: WAITING (overlap) when another job of
    the schedule is not final, of whatever kind and state, those made before it included. With `supersede`, if it makes
    any job: those of the schedule that are WAITING (overlap) become SKIPPED first (reason "superseded").
    """

    schedule: str
    version: int
    position: Position
    rows: list[OccurrenceRecord]
    jobs: list[JobRequest]
    state: ScheduleState | None = None
    reason: str | None = None
    hold: bool = False
    supersede: bool = False


class Planned(NamedTuple):
    """Where the jobs made SCHEDULED now lie: (lane, due_at, job_id); which wait; which were superseded.

    The first two in the order of `jobs`, the last by id.
    """

    places: list[tuple[int, int, int]]
    waiting: list[int]
    superseded: list[int]


@dataclass(slots=True)
class PutCalendar:
    """Store a calendar (JSON text), replacing what was stored under its name. Outcome: Done."""

    name: str
    data: str


@dataclass(slots=True)
class TakeOver:
    """Let those go on that waited for what has ended; applied after everything else of its batch.

    For each schedule with no unfinished job but those WAITING (overlap): the first of these, by (due_at, job_id),
    becomes SCHEDULED. For each concurrency key with room for n more (by `key_limits`, see Claim; its first waiter is
    the job that asks): of each lane the first n of its jobs that are WAITING (key), by (due_at, job_id), likewise: more
    than may start is harmless, for the Claim judges again, and a queue that is paused keeps nobody else waiting. For
    each task of `tasks`: of each lane its first so many jobs that are WAITING (task), likewise. Each job that is
    WAITING (dependency) and whose dependencies are all final becomes SCHEDULED when all of them are COMPLETED or its
    policy is RUN, and ends CANCELLED (reason "dependency") when its policy is CANCEL; those that wait for it in turn
    likewise. Due times stay.

    `everything`: of all schedules and keys; otherwise of these `keys`, and of those of the jobs that the Settles,
    Cancels, Reschedules and Claims of this batch name, whatever came of these, that its Submits replace and its plans
    supersede, and that its Unholds release: that is where something can have ended. Dependencies: of those that wait
    for these jobs. Outcome: Unheld, by job id.
    """

    everything: bool = False
    key_limits: KeyLimits = ONE_OF_A_KEY
    tasks: Mapping[str, int] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()


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
    """Where each released job now lies: (lane, due_at, job_id). As many as the limit: call again.

    `cancelled`: jobs that a TakeOver ended, by id.
    """

    places: list[tuple[int, int, int]]
    cancelled: list[int] = []  # noqa: RUF012  never changed


@dataclass(slots=True)
class SaveLimits:
    """Store the rate limiters' state: limit name -> theoretical arrival time (see dispatch.bucket); None: forget it."""

    values: dict[str, int | None]


@dataclass(slots=True)
class PutQueue:
    """Store the settings of a queue (JSON object text), replacing what was stored.

    `audit`: JSON object text, written as a journal entry of kind "audit" in the same transaction; None: no entry. After
    an unknown commit both are written again: the entry may then be there twice.
    """

    queue: str
    settings: str
    audit: str | None = None


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

Rest: TypeAlias = Unhold | Defer | PutQueue | AddEntry | PruneKeys | Prune | PutOperation
Letters: TypeAlias = Replay | Discard
Standing: TypeAlias = PutSchedule | DropSchedule | PutCalendar
Change: TypeAlias = (
    Settle | Cancel | Reschedule | Letters | Submit | Standing | PlanOccurrences | Claim | Rest | SaveLimits | TakeOver
)
Outcome: TypeAlias = (
    Settled
    | Stale
    | Cancelled
    | Rescheduled
    | Missing
    | Submitted
    | UniqueMet
    | KeyConflict
    | Replayed
    | TooLate
    | Pruned
    | VersionConflict
    | Planned
    | Claimed
    | Unheld
    | Done
)

ORDER: tuple[tuple[type, ...], ...] = (
    (Settle,),
    (Cancel, Reschedule),
    (Replay, Discard),
    (Submit,),
    (PutSchedule, DropSchedule, PutCalendar),
    (PlanOccurrences,),
    (Claim,),
    (Unhold, Defer, SaveLimits, PutQueue, AddEntry, PruneKeys, Prune, PutOperation),
    (TakeOver,),
)
