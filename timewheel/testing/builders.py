"""Short ways to write requests, claims and settles in tests: sensible values for everything that a test leaves out.

Each takes the fields of what it makes as keywords. Times count from START, where the two clocks differ on purpose and
both stand on a whole second.

>>> request(7, queue="mail").queue
'mail'
>>> settle_ok(7, result="1").job_state
<JobState.COMPLETED: 'COMPLETED'>
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timewheel.model import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    SECOND_US,
    AttemptState,
    ClockKind,
    JobRequest,
    JobState,
    Now,
    Origin,
    OriginKind,
    RetryPolicy,
    WaitingReason,
)
from timewheel.schedule_records import Fate, OccurrenceRecord, Position, ScheduleRecord, ScheduleState, SkipReason
from timewheel.store.changes import (
    Cancel,
    Claim,
    DropSchedule,
    PlanOccurrences,
    PutSchedule,
    Reschedule,
    Settle,
    Submit,
    Unhold,
)
from timewheel.store.port import Owner, Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

START = Now(wall_us=1_750_000_000 * SECOND_US, steady_us=1_749_990_000 * SECOND_US)
BOOT_ID = "boot-1"


def later(us: int, now: Now = START) -> Now:
    """Both clocks `us` further on."""
    return Now(now.wall_us + us, now.steady_us + us)


def owner(boot_id: str = BOOT_ID, boot_us: int = 5 * SECOND_US, wall_us: int = START.wall_us) -> Owner:
    """Who asks to own a journal."""
    return Owner(boot_id, boot_us, wall_us)


def stamp(epoch: int, now: Now = START, boot_us: int = 6 * SECOND_US) -> Stamp:
    """When and by whom a batch is written."""
    return Stamp(now, boot_us, epoch)


def request(job_id: int, **changes: Any) -> JobRequest:
    """A request for a job on the wall clock, due at START."""
    plain = JobRequest(
        job_id=job_id,
        task="app.task",
        arguments="[[],{}]",
        queue=DEFAULT_QUEUE,
        priority=DEFAULT_PRIORITY,
        clock=ClockKind.WALL,
        scheduled_at=START.on(changes.get("clock", ClockKind.WALL)),
        retry=RetryPolicy(),
    )
    return replace(plain, **changes)


def submit(job_id: int, *, importable: bool = False, **changes: Any) -> Submit:
    """A Submit of `request(job_id, **changes)`."""
    return Submit(request(job_id, **changes), importable=importable)


def claim(*job_ids: int, **changes: Any) -> Claim:
    """A Claim of what is due now, by an owner that watches since START."""
    return replace(Claim(list(job_ids), ahead_us=0, watching_since=START), **changes)


def cancel(job_id: int, reason: str = "no longer wanted", *, entered: bool = False) -> Cancel:
    """A Cancel, by default of a job whose handler has not been entered."""
    return Cancel(job_id, reason, entered)


def reschedule(
    job_id: int, scheduled_at: int, clock: ClockKind = ClockKind.WALL, *, entered: bool = False
) -> Reschedule:
    """A Reschedule, by default of a job whose handler has not been entered."""
    return Reschedule(job_id, clock, scheduled_at, entered)


def unhold(reason: WaitingReason = WaitingReason.UNRESOLVABLE, limit: int = 100, **changes: Any) -> Unhold:
    """An Unhold."""
    return replace(Unhold(reason, limit), **changes)


def settle(job_id: int, attempt_state: AttemptState, job_state: JobState, **changes: Any) -> Settle:
    """A Settle of attempt 1 claimed under epoch 1, unless told otherwise."""
    return replace(Settle(job_id, 1, 1, attempt_state, job_state), **changes)


def settle_ok(job_id: int, **changes: Any) -> Settle:
    """The handler succeeded."""
    return settle(job_id, AttemptState.SUCCEEDED, JobState.COMPLETED, **changes)


def settle_retry(job_id: int, due_at: int | None = START.steady_us, **changes: Any) -> Settle:
    """The handler failed, and is to be tried again at `due_at` (steady)."""
    plain: dict[str, Any] = {"due_at": due_at, "failures": 1, "first_failed_at": START.steady_us, "error": "boom"}
    return settle(job_id, AttemptState.FAILED_RETRYABLE, JobState.SCHEDULED, **(plain | changes))


def settle_dead(job_id: int, **changes: Any) -> Settle:
    """The handler failed for good."""
    plain: dict[str, Any] = {"failures": 1, "first_failed_at": START.steady_us, "reason": "permanent", "error": "boom"}
    return settle(job_id, AttemptState.FAILED_PERMANENT, JobState.DEAD, **(plain | changes))


def settle_lost(job_id: int, losses: int = 1, **changes: Any) -> Settle:
    """The owner of the attempt died; the job is due again as it was claimed."""
    return settle(job_id, AttemptState.LOST, JobState.SCHEDULED, losses=losses, **changes)


def settle_released(job_id: int, due_at: int | None = None, **changes: Any) -> Settle:
    """The attempt was given back without a verdict."""
    plain: dict[str, Any] = {"due_at": due_at, "reason": "shutdown"}
    return settle(job_id, AttemptState.RELEASED, JobState.SCHEDULED, **(plain | changes))


def settle_overrun(job_id: int, due_at: int | None = START.steady_us, **changes: Any) -> Settle:
    """The attempt timed out, but its handler cannot be stopped: the job waits for its end."""
    plain: dict[str, Any] = {"due_at": due_at, "failures": 1, "reason": WaitingReason.OVERRUN.value}
    return settle(job_id, AttemptState.TIMED_OUT, JobState.WAITING, **(plain | changes))


def settle_unresolvable(job_id: int, **changes: Any) -> Settle:
    """The job's task is not known in this process: the job waits for its name."""
    plain: dict[str, Any] = {"reason": WaitingReason.UNRESOLVABLE.value}
    return settle(job_id, AttemptState.RELEASED, JobState.WAITING, **(plain | changes))


SETTLES = {
    "ok": settle_ok,
    "retry": settle_retry,
    "dead": settle_dead,
    "lost": settle_lost,
    "released": settle_released,
    "overrun": settle_overrun,
    "unresolvable": settle_unresolvable,
}
"""Every kind of ending by name, each called with a job's id."""


# ---- schedules -------------------------------------------------------------------------------------------------------

SCHEDULE = "s"


def schedule(name: str = SCHEDULE, **changes: Any) -> ScheduleRecord:
    """A schedule that is ACTIVE, of version 1 and planned up to START."""
    plain = ScheduleRecord(
        schedule=name,
        task="app.task",
        queue=DEFAULT_QUEUE,
        definition="{}",
        state=ScheduleState.ACTIVE,
        version=1,
        position=Position(ClockKind.WALL, START.wall_us),
        created_at=START.wall_us,
        updated_at=START.wall_us,
    )
    return replace(plain, **changes)


def put_schedule(
    name: str = SCHEDULE, expected_version: int = 0, *, importable: bool = False, **changes: Any
) -> PutSchedule:
    """A PutSchedule, by default of a new schedule; the version is the next one."""
    record = schedule(name, **({"version": expected_version + 1} | changes))
    return PutSchedule(record, expected_version, importable=importable)


def drop_schedule(name: str = SCHEDULE, expected_version: int = 1) -> DropSchedule:
    """A DropSchedule."""
    return DropSchedule(name, expected_version)


def occurrence(job_id: int, nominal_at: int = START.wall_us, name: str = SCHEDULE, **changes: Any) -> JobRequest:
    """A request for the job of an occurrence; the fields of its Origin may be given too."""
    plain: dict[str, Any] = {"schedule": name, "clock": ClockKind.WALL, "nominal_at": nominal_at}
    fields = {field: changes.pop(field) for field in Origin._fields if field in changes}
    origin = Origin(**(plain | fields))
    return request(job_id, **({"origin": origin, "clock": origin.clock, "scheduled_at": nominal_at} | changes))


def row(first_at: int, last_at: int | None = None, count: int = 1, **changes: Any) -> OccurrenceRecord:
    """A row of the ledger, by default of slots that were missed."""
    plain = OccurrenceRecord(
        schedule=SCHEDULE,
        clock=ClockKind.WALL,
        first_at=first_at,
        last_at=first_at if last_at is None else last_at,
        count=count,
        turn=0,
        kind=OriginKind.RULE,
        fate=Fate.SKIPPED,
        recorded_at=START.wall_us,
        reason=SkipReason.MISFIRE.value,
    )
    return replace(plain, **changes)


def row_of(made: JobRequest) -> OccurrenceRecord:
    """The row of a job that a plan makes."""
    if made.origin is None:
        raise ValueError(f"job {made.job_id} is of no schedule")
    name, clock, nominal_at, turn, kind, *_ = made.origin
    told: dict[str, Any] = {"schedule": name, "clock": clock, "turn": turn, "kind": kind}
    return row(nominal_at, fate=Fate.JOB, reason=None, job_id=made.job_id, **told)


def plan(*jobs: JobRequest, rows: Sequence[OccurrenceRecord] = (), **changes: Any) -> PlanOccurrences:
    """A PlanOccurrences that makes these jobs with their rows, and writes other rows after them."""
    names = {made.origin.schedule for made in jobs if made.origin} | {one.schedule for one in rows}
    plain = PlanOccurrences(
        schedule=min(names, default=SCHEDULE),
        version=1,
        position=Position(ClockKind.WALL, START.wall_us),
        rows=[*map(row_of, jobs), *rows],
        jobs=list(jobs),
    )
    return replace(plain, **changes)
