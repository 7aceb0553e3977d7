"""What schedules, plans and calendars were answered is what was done: laws of `timewheel.testing.outcomes`.

They replay the batch on a few plain facts of the dump before it: versions, keys of rows, and which jobs of each
schedule are unfinished or wait. What the dump after it must hold follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from timewheel.model import CancelAnswer, JobRecord, JobRequest, JobState, WaitingReason
from timewheel.schedule_records import Fate, OccurrenceRecord, ScheduleRecord
from timewheel.store.changes import (
    Cancelled,
    Defer,
    Done,
    DropSchedule,
    Outcome,
    Planned,
    PlanOccurrences,
    PutCalendar,
    PutSchedule,
    Settled,
    Submit,
    VersionConflict,
)
from timewheel.store.letters import Replayed
from timewheel.testing.invariants import ASKED_OF_A_JOB
from timewheel.testing.laws import demand
from timewheel.testing.step import Step

S = JobState


def versions_decide(step: Step) -> None:
    """I5: a schedule is written, dropped and planned only by who knows its version, and then as it was asked."""
    schedules: dict[str, ScheduleRecord] = dict(step.before["schedules"])
    for change, outcome in _in_order(step):
        name = change.record.schedule if isinstance(change, PutSchedule) else change.schedule
        found = schedules.get(name)
        version = found.version if found else 0
        wanted = change.version if isinstance(change, PlanOccurrences) else change.expected_version
        if version != wanted or (found is None and isinstance(change, PlanOccurrences)):
            told: Outcome = VersionConflict(name, version)
            demand(outcome == told, "I5", f"should be {told}", change, outcome)
        elif isinstance(change, PutSchedule):
            demand(outcome == Done(), "I5", "should be done", change, outcome)
            schedules[name] = change.record
        elif isinstance(change, DropSchedule):
            demand(outcome == Done(int(found is not None)), "I5", "should be done", change, outcome)
            schedules.pop(name, None)
        else:
            demand(isinstance(outcome, Planned), "I5", "should be planned", change, outcome)
            assert found is not None
            schedules[name] = _moved_on(found, change)
    for name in schedules.keys() | step.after["schedules"].keys():
        expected, seen = schedules.get(name), step.after["schedules"].get(name)
        demand(expected == seen, "I5", f"schedule {name} is not as it was asked", expected, seen)


def _moved_on(schedule: ScheduleRecord, plan: PlanOccurrences) -> ScheduleRecord:
    if plan.state is None:
        return replace(schedule, position=plan.position)
    return replace(schedule, position=plan.position, state=plan.state, reason=plan.reason, until=None)


def _in_order(step: Step) -> Iterator[tuple[PutSchedule | DropSchedule | PlanOccurrences, Outcome]]:
    """What is written of schedules comes before what is planned of them."""
    pairs = list(zip(step.changes, step.outcomes, strict=True))
    for change, outcome in pairs:
        if isinstance(change, PutSchedule | DropSchedule):
            yield change, outcome
    yield from step.of(PlanOccurrences)


def new_rows(step: Step) -> list[tuple[PlanOccurrences, Planned, list[OccurrenceRecord]]]:
    """The plans that were carried out, each with the rows that were not there before it."""
    known = set(step.before["ledger"])
    found = []
    for plan, outcome in step.of(PlanOccurrences):
        if not isinstance(outcome, Planned):
            continue
        rows = []
        for row in plan.rows:
            key = (row.schedule, row.clock, row.first_at, row.turn, row.kind)
            if key not in known:
                known.add(key)
                rows.append(row)
        found.append((plan, outcome, rows))
    return found


def rows_are_written_once(step: Step) -> None:
    """I5: a row whose key is new is written as it was planned; nothing else is."""
    ledger = dict(step.before["ledger"])
    for _, _, rows in new_rows(step):
        ledger |= {(row.schedule, row.clock, row.first_at, row.turn, row.kind): row for row in rows}
    for key in ledger.keys() | step.after["ledger"].keys():
        told, seen = ledger.get(key), step.after["ledger"].get(key)
        demand(told == seen, "I5", f"the row {key} is not as planned", told, seen)


def occurrences_have_one_job(step: Step) -> None:
    """I5: a plan makes the jobs of its new rows, each as it was asked, and no other."""
    for plan, outcome, rows in new_rows(step):
        new = {row.job_id for row in rows if row.fate is Fate.JOB}
        wanted = [request.job_id for request in plan.jobs if request.job_id in new]
        placed = [job_id for _, _, job_id in outcome.places]
        demand(sorted(placed + outcome.waiting) == sorted(wanted), "I5", f"should make {wanted}", plan, outcome)
        for request in plan.jobs:
            job: JobRecord | None = step.after["jobs"].get(request.job_id)
            demand((job is not None) == (request.job_id in new), "I5", "made, or not made", request, job)
            if job is not None:
                _is_as_asked(request, job, step)


def _is_as_asked(request: JobRequest, job: JobRecord, step: Step) -> None:
    for name in ASKED_OF_A_JOB:
        if name != "created_at":
            demand(getattr(job, name) == getattr(request, name), "I5", f"{name} is not as asked", request, job)
    made = (job.clock, job.scheduled_at, job.created_at, job.version)
    told = (request.clock, request.scheduled_at, step.stamp.now.wall_us, 1)
    demand(made == told, "I5", "made otherwise", request, job)
    deferred = any(request.job_id == row[0] for defer, _ in step.of(Defer) for row in defer.rows)
    demand(deferred or job.due_at == request.scheduled_at, "I5", "due at another time", request, job)


def overlaps_are_kept(step: Step) -> None:
    """I18: with `hold` a job waits if, and only if, another of its schedule is unfinished; `supersede` ends waiters."""
    gone = _ended(step)
    replayed = {outcome.job_id for outcome in step.outcomes if isinstance(outcome, Replayed)}
    jobs = step.before["jobs"]
    unfinished = {job_id: job for job_id, job in jobs.items() if job_id in replayed or not job.state.final}
    of_schedule = {job_id: job.origin.schedule for job_id, job in unfinished.items() if job.origin}
    waiting = {job_id for job_id in of_schedule if _waits(unfinished[job_id])}
    for job_id in gone:
        of_schedule.pop(job_id, None)
    waiting &= of_schedule.keys()
    for plan, outcome, rows in new_rows(step):
        new = {row.job_id for row in rows if row.fate is Fate.JOB}
        made = [request.job_id for request in plan.jobs if request.job_id in new]
        superseded = []
        if plan.supersede and made:
            superseded = sorted(job_id for job_id in waiting if of_schedule[job_id] == plan.schedule)
        demand(outcome.superseded == superseded, "I18", f"should supersede {superseded}", plan, outcome)
        for job_id in superseded:
            waiting.discard(job_id)
            del of_schedule[job_id]
            job = step.after["jobs"][job_id]
            told = (S.SKIPPED, "superseded", step.stamp.now.wall_us)
            demand((job.state, job.reason, job.finished_at) == told, "I18", "not superseded", job)
        for job_id in made:
            held = plan.hold and plan.schedule in of_schedule.values()
            demand((job_id in outcome.waiting) == held, "I18", f"should wait: {held}", job_id, plan, outcome)
            of_schedule[job_id] = plan.schedule
            waiting |= {job_id} if held else set()


def _waits(job: JobRecord) -> bool:
    return job.state is S.WAITING and job.reason == WaitingReason.OVERLAP


def _ended(step: Step) -> set[int]:
    """The jobs that settlements and cancels of this batch made final: before any plan of it."""
    ended = set()
    for outcome in step.outcomes:
        if isinstance(outcome, Settled) and outcome.job_state.final:
            ended.add(outcome.job_id)
        if isinstance(outcome, Cancelled) and outcome.answer is CancelAnswer.CANCELLED:
            ended.add(outcome.job_id)
    return ended


def calendars_are_as_put(step: Step) -> None:
    """I3: a calendar holds the last text that was written."""
    calendars: dict[str, str] = dict(step.before["calendars"])
    for put, _ in step.of(PutCalendar):
        calendars[put.name] = put.data
    demand(step.after["calendars"] == calendars, "I3", "calendars are not as put", calendars, step.after["calendars"])


def names_are_importable(step: Step) -> None:
    """I3: the names that a batch allows to be imported are, and no other."""
    names = set(step.before["importable"])
    for put, outcome in step.of(PutSchedule):
        names |= {put.record.task} if put.importable and isinstance(outcome, Done) else set()
    for submit, outcome in step.of(Submit):
        names |= {submit.request.task} if submit.importable and getattr(outcome, "created", False) else set()
    demand(step.after["importable"] == sorted(names), "I3", "importable names", sorted(names), step.after["importable"])


OF_SCHEDULES: tuple[Callable[[Step], None], ...] = (
    versions_decide,
    rows_are_written_once,
    occurrences_have_one_job,
    overlaps_are_kept,
    calendars_are_as_put,
    names_are_importable,
)
