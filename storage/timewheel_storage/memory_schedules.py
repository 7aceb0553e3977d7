"""Schedules, their occurrences and calendars, applied to a journal in memory."""

from __future__ import annotations

from dataclasses import replace

from timewheel.flow import NO_FLOW
from timewheel.model import JobRequest, JobState, OriginKind, WaitingReason
from timewheel.schedule_records import Fate, OccurrenceRecord, ScheduleRecord
from timewheel.store import changes as ch
from timewheel_storage.memory_journal import RowKey, ensure, row_key
from timewheel_storage.memory_verbs import Verbs


class Standing(Verbs):
    """What is written of schedules."""

    def put_schedule(self, put: ch.PutSchedule) -> ch.Outcome:
        """Write a schedule whole."""
        record, journal = put.record, self._journal
        if conflict := self._conflict(record.schedule, put.expected_version):
            return conflict
        ensure(record.version > put.expected_version, "a version that is not newer", record)
        journal.put(journal.schedules, record.schedule, replace(record))
        if put.importable:
            journal.put(journal.importable, record.task, None)
        return ch.DONE

    def drop_schedule(self, drop: ch.DropSchedule) -> ch.Outcome:
        """Forget a schedule."""
        if conflict := self._conflict(drop.schedule, drop.expected_version):
            return conflict
        if drop.schedule not in self._journal.schedules:
            return ch.Done(0)
        self._journal.drop(self._journal.schedules, drop.schedule)
        return ch.DONE

    def put_calendar(self, put: ch.PutCalendar) -> ch.Outcome:
        """Store a calendar."""
        self._journal.put(self._journal.calendars, put.name, put.data)
        return ch.DONE

    def plan_occurrences(self, plan: ch.PlanOccurrences) -> ch.Outcome:
        """Move a schedule on."""
        conflict = self._conflict(plan.schedule, plan.version)
        if conflict or plan.schedule not in self._journal.schedules:
            return conflict or ch.VersionConflict(plan.schedule, 0)
        _check(plan)
        self._move_on(self._journal.schedules[plan.schedule], plan)
        written = [row for row in plan.rows if self._add_row(row)]
        new = {row.job_id for row in written if row.fate is Fate.JOB}
        return self._make([request for request in plan.jobs if request.job_id in new], plan)

    def _conflict(self, schedule: str, expected: int) -> ch.VersionConflict | None:
        found = self._journal.schedules.get(schedule)
        version = 0 if found is None else found.version
        return None if version == expected else ch.VersionConflict(schedule, version)

    def _move_on(self, old: ScheduleRecord, plan: ch.PlanOccurrences) -> None:
        new = replace(old, position=plan.position)
        if plan.state is not None:
            new.state, new.reason, new.until = plan.state, plan.reason, None
        self._journal.put(self._journal.schedules, old.schedule, new)

    def _add_row(self, row: OccurrenceRecord) -> bool:
        """Write a row of the ledger, unless there is one of its key."""
        journal, key = self._journal, row_key(row)
        if key in journal.ledger:
            return False
        number, kept = len(journal.ledger) + 1, replace(row)
        journal.put(journal.ledger, key, (number, kept))
        journal.put(journal.ledgers.setdefault(row.schedule, {}), number, kept)
        return True

    def _make(self, requests: list[JobRequest], plan: ch.PlanOccurrences) -> ch.Planned:
        planned = ch.Planned([], [], [])
        if plan.supersede and requests:
            planned.superseded.extend(self._supersede(plan.schedule))
        for request in requests:
            ensure(request.job_id not in self._journal.jobs, "the job exists", request.job_id)
            if plan.hold and self._journal.unfinished.get(plan.schedule):
                job = self._new(request, JobState.WAITING, WaitingReason.OVERLAP.value)
                planned.waiting.append(job.job_id)
            else:
                job = self._new(request)
            self._journal.replace(None, job)
            if job.state is JobState.SCHEDULED:
                planned.places.append((self._lane_number(job), job.due_at, job.job_id))
        return planned

    def _supersede(self, schedule: str) -> list[int]:
        superseded = []
        for job_id in sorted(self._journal.unfinished.get(schedule, ())):
            job = self._journal.jobs[job_id]
            if job.state is JobState.WAITING and job.reason == WaitingReason.OVERLAP:
                self._end(job, JobState.SKIPPED, "superseded")
                self._named.add(job_id)
                superseded.append(job_id)
        return superseded


def _check(plan: ch.PlanOccurrences) -> None:
    """Each row is of the schedule, and each job has its own row."""
    rows: dict[int, RowKey] = {}
    for row in plan.rows:
        ensure(row.schedule == plan.schedule, "a row of another schedule", row)
        ensure(row.count >= 1 and row.first_at <= row.last_at, "an empty row", row)
        ensure(row.fate is not Fate.JOB or row.first_at == row.last_at, "a job for more than one slot", row)
        if row.fate is Fate.JOB and row.job_id is not None:
            rows[row.job_id] = row_key(row)
    for request in plan.jobs:
        origin = request.origin
        ensure(origin is not None and request.idempotency_key is None, "not a job of a schedule", request)
        flow = request.flow or NO_FLOW
        ensure(flow.unique is None and flow.wait_for is None, "not a flow of a schedule's job", request)
        if origin is not None:
            key = (origin.schedule, origin.clock, origin.nominal_at, origin.turn, OriginKind(origin.kind))
            ensure(rows.get(request.job_id) == key, "a job without its row", request)
