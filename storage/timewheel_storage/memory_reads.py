"""What a journal in memory tells of schedules, their ledgers and calendars (see `timewheel.store.port.Store`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from timewheel.model import JobRecord
from timewheel.schedule_records import LedgerEntry, OccurrenceRecord, ScheduleRecord, UnfinishedJob
from timewheel.store.port import LedgerPage, ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timewheel_storage.memory_journal import Journal


class ScheduleReads:
    """The reads of schedules."""

    _journal: Journal

    async def schedule(self, schedule: str) -> ScheduleRecord | None:
        """One schedule."""
        found = self._journal.schedules.get(schedule)
        return None if found is None else replace(found)

    async def schedules(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int = 100
    ) -> list[ScheduleRecord]:
        """A page of schedules by id."""
        names = sorted(name for name in self._journal.schedules if after is None or name > after)
        found = (self._journal.schedules[name] for name in names)
        matching = (record for record in found if _matches(record, which))
        return [replace(record) for record in islice(matching, max(limit, 0))]

    async def count_schedules(self, which: ScheduleFilter) -> int:
        """How many schedules match."""
        return sum(_matches(record, which) for record in self._journal.schedules.values())

    async def unfinished(self, schedules: Sequence[str], *, limit: int = 1_000) -> dict[str, list[UnfinishedJob]]:
        """The jobs of these schedules that are not final."""
        found = {}
        for schedule in schedules:
            ids = sorted(self._journal.unfinished.get(schedule, ()))[: max(limit, 0)]
            if ids:
                found[schedule] = [_unfinished(self._journal.jobs[job_id]) for job_id in ids]
        return found

    async def ledger(
        self,
        schedule: str,
        *,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> LedgerPage:
        """A page of a schedule's ledger; it is shorter than asked only when there is no more."""
        if limit <= 0:
            return LedgerPage([], before)
        entries: list[LedgerEntry] = []
        for number, row in reversed(self._journal.ledgers.get(schedule, {}).items()):
            if not _touches(row, since, until) or (before is not None and number >= before):
                continue
            if len(entries) == limit:
                return LedgerPage(entries, entries[-1].number)
            job = None if row.job_id is None else self._journal.jobs.get(row.job_id)
            entries.append(LedgerEntry(number, replace(row), job.state if job else None))
        return LedgerPage(entries, None)

    async def calendars(self) -> dict[str, str]:
        """The calendars."""
        return dict(self._journal.calendars)

    def _dump_of_schedules(self) -> dict[str, Any]:
        """The part of `dump` that tells of schedules."""
        journal = self._journal
        return {
            "schedules": {name: replace(record) for name, record in journal.schedules.items()},
            "ledger": {key: replace(row) for key, (_, row) in journal.ledger.items()},
            "calendars": dict(journal.calendars),
        }


def _matches(record: ScheduleRecord, which: ScheduleFilter) -> bool:
    return (
        (not which.states or record.state in which.states)
        and (which.task is None or record.task == which.task)
        and (which.queue is None or record.queue == which.queue)
    )


def _touches(row: OccurrenceRecord, since: int | None, until: int | None) -> bool:
    return (since is None or row.last_at >= since) and (until is None or row.first_at <= until)


def _unfinished(job: JobRecord) -> UnfinishedJob:
    if job.origin is None:
        raise AssertionError("a job of no schedule", job)
    requested = job.cancel_requested is not None
    return UnfinishedJob(job.job_id, job.state, job.reason, job.origin.nominal_at, job.origin.kind, requested)
