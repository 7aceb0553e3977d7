"""From a plan to the change that carries it out, and to the record as it is then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from timewheel.flow import NO_TERMS, Flow
from timewheel.model import MAX_TIME_US, ClockKind, JobRequest, JobState, Now, WaitingReason
from timewheel.planning.definition import Definition
from timewheel.planning.overlap import is_waiter
from timewheel.planning.policies import Misfire, OverlapKind
from timewheel.planning.slots import offset_us
from timewheel.schedule_records import ScheduleRecord, ScheduleState, UnfinishedJob
from timewheel.store.changes import PlanOccurrences

if TYPE_CHECKING:
    from timewheel.planning.drafts import WantedJob
    from timewheel.planning.plan import Plan

MOST_REASON = 500  # characters of why a schedule is parked


def request_of(definition: Definition, wanted: WantedJob, job_id: int, now: Now) -> JobRequest:
    """The job that a schedule makes for an occurrence; `now` is any one reading of both clocks by which it is made."""
    return JobRequest(
        job_id,
        definition.task,
        definition.arguments,
        definition.queue,
        definition.priority,
        wanted.clock,
        wanted.scheduled_at,
        definition.retry,
        definition.timeout_us,
        tags=definition.tags,
        origin=wanted.origin,
        concurrency_key=definition.job_key,
        flow=None if definition.terms == NO_TERMS else _flow(definition, wanted, now),
    )


def _flow(definition: Definition, wanted: WantedJob, now: Now) -> Flow:
    """The flow control of a job; what counts from its scheduled_at is on the wall scale, as both clocks stand now."""
    ahead_us = offset_us(now) if wanted.clock is ClockKind.STEADY else 0
    terms = definition.terms
    return terms.put(terms.flow(), wanted.scheduled_at + ahead_us, MAX_TIME_US)


def change_of(
    record: ScheduleRecord,
    definition: Definition,
    made: Plan,
    new_id: Callable[[], int],
    now: Now,
    parked: str | None = None,
) -> PlanOccurrences:
    """The change that carries a plan out. `parked`: why the schedule is not planned further, if so."""
    job_ids = [new_id() for _ in made.jobs]
    jobs = [request_of(definition, wanted, job_id, now) for wanted, job_id in zip(made.jobs, job_ids, strict=True)]
    change = PlanOccurrences(
        record.schedule, record.version, made.position, made.with_ids(job_ids), jobs,
        hold=made.hold, supersede=made.supersede,
    )  # fmt: skip
    if made.ended:
        change.state = ScheduleState.ENDED
    elif parked is not None:
        change.state, change.reason = ScheduleState.PARKED, parked
    elif record.state is not ScheduleState.ACTIVE:
        change.state = ScheduleState.ACTIVE
    return change


def parking_of(record: ScheduleRecord, reason: str) -> PlanOccurrences:
    """The change that parks a schedule where it stands."""
    return PlanOccurrences(
        record.schedule, record.version, record.position, [], [], state=ScheduleState.PARKED, reason=reason
    )


def why(fault: BaseException) -> str:
    """Why a schedule cannot be planned, in words of bounded length."""
    try:
        text = str(fault)
    except Exception:  # noqa: BLE001  a stranger's exception may not even have a text
        text = ""
    return (text or type(fault).__name__)[:MOST_REASON]


def changes_nothing(record: ScheduleRecord, change: PlanOccurrences) -> bool:
    """Whether carrying it out would leave everything as it is."""
    same_state = change.state is None or (change.state, change.reason) == (record.state, record.reason)
    return same_state and not change.rows and change.position == record.position


def carried(record: ScheduleRecord, change: PlanOccurrences) -> ScheduleRecord:
    """The record once the change was made."""
    state, reason, until = record.state, record.reason, record.until
    if change.state is not None:
        state, reason, until = change.state, change.reason, None
    return ScheduleRecord(  # not by `replace`, which takes ten times as long: this is done for every slot
        record.schedule, record.task, record.queue, record.definition, state, record.version, change.position,
        record.created_at, record.updated_at, reason, until,
    )  # fmt: skip


def left_to_replace(definition: Definition, unfinished: Sequence[UnfinishedJob], edited_at: int) -> list[int]:
    """Jobs that REPLACE wants to end, but that nobody asked yet: the process died in between.

    Under Misfire.ALL, and of slots before the last edit of that process (at `edited_at`, on the schedule's clock), jobs
    also wait that replace none: then what runs is left to end by itself.
    """
    replaces = definition.overlap.kind is OverlapKind.REPLACE and definition.misfire.kind is not Misfire.ALL
    if not replaces or not any(is_waiter(job) and job.nominal_at > edited_at for job in unfinished):
        return []
    return [
        job.job_id
        for job in unfinished
        if not is_waiter(job)
        and not job.cancel_requested
        and not (job.state is JobState.WAITING and job.reason == WaitingReason.OVERRUN)
    ]
