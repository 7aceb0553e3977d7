"""Dead letters, operations and what is forgotten, in a journal in memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from timewheel.model import FINAL_STATES, ClockKind, JobRecord, JobState
from timewheel.store import changes as ch
from timewheel.store import letters as lt
from timewheel.store.port import EntryRow, JobPage, LetterFilter
from timewheel_storage.memory_journal import LEGAL_OF_LETTERS, copy_job
from timewheel_storage.memory_verbs import Verbs

if TYPE_CHECKING:
    from timewheel_storage.memory_journal import Journal

REPLAYABLE = (JobState.DEAD, JobState.SKIPPED, JobState.CANCELLED)


class Letters(Verbs):
    """What is written of jobs that have ended."""

    def replay(self, replay: lt.Replay) -> ch.Outcome:
        """Let a job run again."""
        old = self._journal.jobs.get(replay.job_id)
        if old is None:
            return ch.Missing(replay.job_id)
        if old.state not in REPLAYABLE:
            return lt.TooLate(replay.job_id)
        job = copy_job(old)
        job.state, job.due_clock, job.due_at = JobState.SCHEDULED, ClockKind.STEADY, replay.due_at
        job.failures = job.losses = 0
        job.first_failed_at = job.reason = job.error = job.fault = job.fingerprint = None
        job.cancel_requested = job.finished_at = job.discarded_at = None
        job.version = old.version + 1
        if old.flow is not None:
            job.flow = old.flow._replace(expires_at=None, deadline=None)
        if replay.arguments is not None:
            job.arguments = replay.arguments
        self._journal.replace(old, job, LEGAL_OF_LETTERS)
        self._add_entry("audit", replay.audit)
        return lt.Replayed(job.job_id, self._lane_number(job), job.due_at)

    def discard(self, discard: lt.Discard) -> ch.Outcome:
        """Take a dead letter out of the lists."""
        old = self._journal.jobs.get(discard.job_id)
        if old is None:
            return ch.Missing(discard.job_id)
        if not _is_letter(old):
            return lt.TooLate(discard.job_id)
        job = copy_job(old)
        job.discarded_at = self._stamp.now.wall_us
        self._journal.replace(old, job, LEGAL_OF_LETTERS)
        self._add_entry("audit", discard.audit)
        return ch.DONE

    def add_entry(self, entry: ch.AddEntry) -> ch.Outcome:
        """Add a journal entry."""
        self._add_entry(entry.kind, entry.data)
        return ch.DONE

    def _add_entry(self, kind: str, data: str) -> None:
        number = len(self._journal.entries) + 1
        self._journal.put(self._journal.entries, number, (number, self._stamp.now.wall_us, kind, data))

    def put_operation(self, put: lt.PutOperation) -> ch.Outcome:
        """Store an operation."""
        self._journal.put(self._journal.operations, put.record.number, replace(put.record))
        return ch.DONE

    def prune(self, prune: lt.Prune) -> ch.Outcome:
        """Forget jobs."""
        journal = self._journal
        looked_at = [job_id for job_id in sorted(journal.jobs) if job_id > prune.after][: prune.limit]
        held = {job_id for job_id, _ in journal.keys.values()}
        forgotten = 0
        for job_id in looked_at:
            job = journal.jobs[job_id]
            if job_id in held or journal.waiters.get(job_id) or not any(_names(rule, job) for rule in prune.rules):
                continue
            journal.forget(job)
            forgotten += 1
        return lt.Pruned(forgotten, looked_at[-1] if len(looked_at) == prune.limit else None)


def _names(rule: lt.PruneRule, job: JobRecord) -> bool:
    """Whether a rule lets a job be forgotten."""
    if job.state is not rule.state or job.state not in FINAL_STATES or rule.queue not in (None, job.queue):
        return False
    if job.finished_at is None or job.finished_at >= rule.ended_before:
        return False
    if job.state is not JobState.DEAD or rule.letters:
        return True
    return job.discarded_at is not None and job.discarded_at < rule.ended_before


def _is_letter(job: JobRecord) -> bool:
    return job.state is JobState.DEAD and job.discarded_at is None


def _matches(job: JobRecord, which: LetterFilter) -> bool:
    ended = job.finished_at or 0
    return (
        _is_letter(job)
        and which.queue in (None, job.queue)
        and which.task in (None, job.task)
        and (which.tag is None or which.tag in job.tags)
        and which.fingerprint in (None, job.fingerprint)
        and (which.since is None or ended >= which.since)
        and (which.until is None or ended <= which.until)
    )


class LetterReads:
    """The reads of dead letters, operations and entries of one kind."""

    _journal: Journal

    def _letters(self, which: LetterFilter) -> list[JobRecord]:
        """Those that match, newest id first."""
        jobs = self._journal.jobs
        return [jobs[job_id] for job_id in sorted(jobs, reverse=True) if _matches(jobs[job_id], which)]

    async def letters(self, which: LetterFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of dead letters; it is shorter than asked only when there is no more."""
        if limit <= 0:
            return JobPage([], before)
        found = [copy_job(job) for job in self._letters(which) if before is None or job.job_id < before]
        return JobPage(found[:limit], found[limit - 1].job_id if len(found) > limit else None)

    async def count_letters(self, which: LetterFilter) -> int:
        """How many dead letters match."""
        return len(self._letters(which))

    async def letter_groups(self, which: LetterFilter, *, limit: int = 100) -> list[lt.LetterGroup]:
        """Dead letters by fingerprint and task."""
        groups: dict[tuple[str | None, str], list[JobRecord]] = defaultdict(list)
        for job in self._letters(which):
            groups[job.fingerprint, job.task].append(job)
        found = []
        for (fingerprint, task), jobs in groups.items():
            ends = [job.finished_at or 0 for job in jobs]
            newest = jobs[0]
            found.append(
                lt.LetterGroup(fingerprint, task, newest.error, len(jobs), min(ends), max(ends), newest.job_id)
            )
        return sorted(found, key=lambda group: (-group.letters, -group.newest))[: max(limit, 0)]

    async def operation(self, number: int) -> lt.OperationRecord | None:
        """One operation."""
        found = self._journal.operations.get(number)
        return None if found is None else replace(found)

    async def operations(self, *, before: int | None = None, limit: int = 100) -> list[lt.OperationRecord]:
        """A page of operations, newest number first."""
        numbers = sorted(self._journal.operations, reverse=True)
        found = [number for number in numbers if before is None or number < before]
        return [replace(self._journal.operations[number]) for number in found[: max(limit, 0)]]

    async def entries_of(self, kind: str, *, before: int | None = None, limit: int = 100) -> list[EntryRow]:
        """A page of the journal entries of one kind, newest number first."""
        entries = [entry for _, entry in sorted(self._journal.entries.items(), reverse=True)]
        found = [entry for entry in entries if entry[2] == kind and (before is None or entry[0] < before)]
        return found[: max(limit, 0)]
