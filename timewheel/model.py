"""The words of timewheel as types: states, ids, instants and the records that stages and adapters exchange.

Pure: no asyncio, clock, randomness, files or sockets. Every time is an integer of microseconds. A *wall* time counts
from the Unix epoch (UTC). A *steady* time counts elapsed time on a scale that began equal to the wall clock when the
journal was made, never jumps, and survives restarts (`timewheel.timeline`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from timewheel.flow import Flow

SECOND_US = 1_000_000
MAX_TIME_US = 253_402_300_799 * SECOND_US  # 9999-12-31T23:59:59Z, the last second datetime can show
PRIORITIES = range(10)
DEFAULT_PRIORITY = 5
DEFAULT_QUEUE = "default"
RETRY_VERSION = 2  # of the policies that new jobs get; see `timewheel.work.backoff` for what each version says
LAST_CHANCE_LOSSES = 3  # a job whose attempts were lost this often runs alone; one more loss makes it DEAD


class ClockKind(IntEnum):
    """Which clock a due time counts: what `at` named (WALL) or what `after` and retries count (STEADY)."""

    WALL = 0
    STEADY = 1


class Now(NamedTuple):
    """One reading of both clocks, in microseconds."""

    wall_us: int
    steady_us: int

    def on(self, clock: ClockKind) -> int:
        """This instant on one clock, in microseconds."""
        return self[clock]


class JobState(StrEnum):
    """Where a job stands. COMPLETED, CANCELLED, DEAD and SKIPPED are final."""

    SCHEDULED = "SCHEDULED"  # in the due index
    WAITING = "WAITING"  # held, with a WaitingReason; not in the due index
    ACTIVE = "ACTIVE"  # has an open attempt
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    SKIPPED = "SKIPPED"

    @property
    def final(self) -> bool:
        """Whether a job in this state never changes again."""
        return self in FINAL_STATES


FINAL_STATES = frozenset({JobState.COMPLETED, JobState.CANCELLED, JobState.DEAD, JobState.SKIPPED})


class WaitingReason(StrEnum):
    """Why a job is WAITING."""

    UNRESOLVABLE = "unresolvable"  # its task is not known here; SCHEDULED again once the name is back
    OVERRUN = "overrun"  # timed out, but its handler cannot be stopped and still runs
    OVERLAP = "overlap"  # another job of its schedule is not final yet; taken over when that one is
    KEY = "key"  # as many jobs with its concurrency key run as may; taken over when one of them has ended its attempt
    DEPENDENCY = "dependency"  # jobs that it waits for are not final yet, or did not complete
    TASK = "task"  # as many jobs of its task run as may; taken over when one of them has ended its attempt


class AttemptState(StrEnum):
    """Where an attempt stands. Every state but QUEUED and RUNNING is final."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED_RETRYABLE = "FAILED_RETRYABLE"
    FAILED_PERMANENT = "FAILED_PERMANENT"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    RELEASED = "RELEASED"  # given back without a verdict: snooze, not entered, shutdown
    LOST = "LOST"  # its owner disappeared

    @property
    def open(self) -> bool:
        """Whether the attempt has not ended."""
        return self is AttemptState.QUEUED or self is AttemptState.RUNNING


BUDGET_STATES = frozenset({AttemptState.FAILED_RETRYABLE, AttemptState.FAILED_PERMANENT, AttemptState.TIMED_OUT})


class SchedulerState(StrEnum):
    """Where a scheduler stands."""

    NEW = "NEW"
    STANDBY = "STANDBY"  # another process owns the journal; reads work
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"  # nothing new starts; what runs may finish
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class CancelAnswer(StrEnum):
    """The truth about a cancel; false only when it came too late."""

    CANCELLED = "cancelled"  # it will never start
    REQUESTED = "requested"  # it runs; it was asked to stop
    TOO_LATE = "too_late"  # it was final already

    def __bool__(self) -> bool:
        return self is not CancelAnswer.TOO_LATE


class RescheduleAnswer(StrEnum):
    """The truth about a reschedule; false only when it came too late (entered or final)."""

    MOVED = "moved"
    TOO_LATE = "too_late"

    def __bool__(self) -> bool:
        return self is not RescheduleAnswer.TOO_LATE


class ReplayAnswer(StrEnum):
    """The truth about a replay; false only when it came too late, or there was nothing to replay."""

    REPLAYED = "replayed"
    TOO_LATE = "too_late"  # it is neither DEAD nor SKIPPED nor CANCELLED (any more), or its handler still runs

    def __bool__(self) -> bool:
        return self is not ReplayAnswer.TOO_LATE


class DiscardAnswer(StrEnum):
    """The truth about a discard; false only when it came too late, or there was nothing to discard."""

    DISCARDED = "discarded"
    TOO_LATE = "too_late"  # it is no dead letter (any more)

    def __bool__(self) -> bool:
        return self is not DiscardAnswer.TOO_LATE


class Anchor(NamedTuple):
    """Both clocks at one moment of one boot of the machine: what steady time goes on from after a restart."""

    boot_id: str
    boot_us: int  # elapsed since that boot, suspends included
    wall_us: int
    steady_us: int


class Lane(NamedTuple):
    """A lane of the due index: the small number a store gave to (queue, priority, clock, partition)."""

    number: int
    queue: str
    priority: int
    clock: ClockKind
    partition: str = ""  # see `timewheel.flow.lane_partition`


class DueKey(NamedTuple):
    """A place inside a lane of the due index."""

    due_at: int
    job_id: int


ZERO_KEY = DueKey(-1, -1)


class RetryPolicy(NamedTuple):
    """When a failed attempt is tried again: a versioned record, stored as data (see `timewheel.work.backoff`)."""

    max_attempts: int = 5
    base_us: int = SECOND_US
    factor: float = 2.0
    cap_us: int = 300 * SECOND_US
    jitter: float = 1.0
    give_up_after_us: int | None = None
    kind: str = "exponential"
    version: int = RETRY_VERSION


class OriginKind(StrEnum):
    """How an occurrence came to be."""

    RULE = "rule"  # a slot of the schedule's rule
    MANUAL = "manual"  # somebody triggered the schedule
    BACKFILL = "backfill"  # a slot that was made up for on request


class Missed(NamedTuple):
    """The slots that were missed before the one a job stands for: nominal instants on the schedule's clock."""

    first: int
    last: int
    slots: int


class Origin(NamedTuple):
    """The occurrence that a job was made for: (schedule, clock, nominal_at, turn, kind) names it, for ever.

    `nominal_at` counts on `clock`: after gap and fold, before jitter. `turn` is 0, but where a backward step of the
    clock makes a schedule pass a slot again. `catch_up`: made late, by the misfire policy: no lag objective counts it.
    """

    schedule: str
    clock: ClockKind
    nominal_at: int
    turn: int = 0
    kind: OriginKind = OriginKind.RULE
    catch_up: bool = False
    missed: Missed | None = None


@dataclass(slots=True)
class JobRequest:
    """What a caller asked for, made concrete: the payload of a Submit.

    `arguments` is the codec's JSON text (`timewheel.tasks`). `digest` is the SHA-256 (hex) of the request as it was
    given, set exactly when `idempotency_key` is. `scheduled_at` counts on `clock`. Durations are microseconds.
    """

    job_id: int
    task: str
    arguments: str
    queue: str
    priority: int
    clock: ClockKind
    scheduled_at: int
    retry: RetryPolicy
    timeout_us: int | None = None
    misfire_grace_us: int | None = None
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    digest: str | None = None
    origin: Origin | None = None  # of the jobs that schedules make
    concurrency_key: str | None = None  # of the jobs with this key a limited number runs at a time, whatever made them
    flow: Flow | None = None  # None: NO_FLOW


@dataclass(slots=True)
class JobRecord:
    """One job as a store keeps it.

    `created_at` and `finished_at` are wall; `scheduled_at` counts on `clock`, `due_at` on `due_clock` (retries and
    snoozes are steady, whatever the caller named).
    """

    job_id: int
    task: str
    arguments: str
    queue: str
    priority: int
    clock: ClockKind
    scheduled_at: int
    due_clock: ClockKind
    due_at: int
    state: JobState
    created_at: int
    retry: RetryPolicy
    timeout_us: int | None = None
    misfire_grace_us: int | None = None
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    origin: Origin | None = None
    concurrency_key: str | None = None
    flow: Flow | None = None  # None: NO_FLOW
    version: int = 1
    attempt: int = 0  # number of the newest attempt, 0 before the first
    failures: int = 0  # attempts that spent the retry budget
    losses: int = 0  # attempts that spent the crash budget
    first_failed_at: int | None = None  # steady; when the retry budget was first spent
    reason: str | None = None  # of WAITING, DEAD, SKIPPED or CANCELLED
    cancel_requested: str | None = None  # the caller's reason ("" when none was given)
    finished_at: int | None = None
    result: str | None = None  # JSON text, when COMPLETED and kept
    result_omitted: str | None = None  # type and why, when COMPLETED and not kept
    error: str | None = None  # text of the last error
    fault: str | None = None  # class of the last failure: a FaultClass's value
    fingerprint: str | None = None  # of the last failure: error type and the top frame of the user's code, as a digest
    discarded_at: int | None = None  # wall; of a DEAD job that was discarded


class FaultClass(StrEnum):
    """What kind of failure an attempt ended with: it decides whether, and how soon, the job is tried again."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"  # the other side asked to slow down
    PERMANENT = "permanent"  # trying again is useless
    AMBIGUOUS = "ambiguous"  # nobody knows whether the work was done


def new_job(
    request: JobRequest, created_at: int, state: JobState = JobState.SCHEDULED, reason: str | None = None
) -> JobRecord:
    """The record of a job as it is asked for, before anything has happened to it; `created_at` is wall."""
    return JobRecord(
        job_id=request.job_id,
        task=request.task,
        arguments=request.arguments,
        queue=request.queue,
        priority=request.priority,
        clock=request.clock,
        scheduled_at=request.scheduled_at,
        due_clock=request.clock,
        due_at=request.scheduled_at,
        state=state,
        created_at=created_at,
        retry=request.retry,
        timeout_us=request.timeout_us,
        misfire_grace_us=request.misfire_grace_us,
        tags=tuple(request.tags),
        idempotency_key=request.idempotency_key,
        origin=request.origin,
        concurrency_key=request.concurrency_key,
        flow=request.flow,
        reason=reason,
    )


@dataclass(slots=True)
class AttemptRecord:
    """One attempt as a store keeps it. The other instants are wall; durations are microseconds."""

    job_id: int
    number: int
    state: AttemptState
    epoch: int  # of the owner that claimed it
    clock: ClockKind  # of scheduled_at and of the lags
    scheduled_at: int  # the due_at it was claimed with
    dispatched_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    dispatch_lag_us: int | None = None
    start_lag_us: int | None = None
    error: str | None = None
    error_kind: str | None = None  # the exception's type
    reason: str | None = None
    policy: str | None = None  # name and version of the policy that judged it
    fault: str | None = None  # of a failure: a FaultClass's value


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32, lower case
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_ID_LETTERS = 13  # 65 bits
COUNTER_BITS = 40


def job_text(job_id: int) -> str:
    """The public form of a job's id.

    >>> job_text(1 << 40 | 7)
    'job-0000100000007'
    """
    letters = [_ALPHABET[(job_id >> shift) & 31] for shift in range(5 * (_ID_LETTERS - 1), -1, -5)]
    return "job-" + "".join(letters)


def job_number(text: str) -> int | None:
    """The id behind its public form, or None when the text is not one.

    >>> job_number('job-0000100000007') == (1 << 40 | 7)
    True
    """
    if not isinstance(text, str) or len(text) != _ID_LETTERS + 4 or not text.startswith("job-"):
        return None
    number = 0
    for letter in text[4:]:
        value = _VALUES.get(letter)
        if value is None:
            return None
        number = number << 5 | value
    return number if number < 1 << 63 else None
