"""The model of a store: plain dicts, obvious and correct. Also what `memory://` opens, for tests.

Nothing here waits, reads a clock or draws a random number. Nothing survives the Python process; the death of an owner
is `MemoryStore.abandon`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timewheel.errors import JournalOwned, NotOwner
from timewheel.model import SECOND_US, Anchor, AttemptRecord, DueKey, JobRecord, JobState, Lane, Now
from timewheel.store import changes as ch
from timewheel.store.port import JobFilter, JobPage, LaneDepth, Leases, Owner, Ownership, Stamp
from timewheel_storage.memory_batch import Batch
from timewheel_storage.memory_journal import Journal, copy_attempt, copy_job
from timewheel_storage.memory_letters import LetterReads
from timewheel_storage.memory_reads import ScheduleReads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RANK = {kind: rank for rank, kinds in enumerate(ch.ORDER) for kind in kinds}


def _matches(job: JobRecord, which: JobFilter) -> bool:
    return (
        (not which.states or job.state in which.states)
        and (which.queue is None or job.queue == which.queue)
        and (which.task is None or job.task == which.task)
        and (which.tag is None or which.tag in job.tags)
        and (which.idempotency_key is None or job.idempotency_key == which.idempotency_key)
        and (which.schedule is None or (job.origin is not None and job.origin.schedule == which.schedule))
    )


class MemoryStore(ScheduleReads, LetterReads):
    """A journal in memory (see `timewheel.store.port.Store` for what the methods promise).

    The object outlives the scheduler that used it: another scheduler may be started on it after `close` or `abandon`.
    `another` gives a second handle on the same journal, as a second process would have it.
    """

    leases = Leases.EPOCH
    path = "memory"

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._epoch = 0  # the newest that this handle was given; 0 when it gave it up

    def another(self) -> MemoryStore:
        """A second handle on the same journal; it owns nothing."""
        return MemoryStore(self._journal)

    def abandon(self) -> None:
        """As if the owner's process had died: the ownership is free, open attempts stay open."""
        if self._epoch == self._journal.epoch:
            self._journal.owner = None
        self._epoch = 0

    async def open(self) -> None:
        """Nothing to do."""

    async def own(self, owner: Owner) -> Ownership:
        """Become the owner under the next epoch."""
        journal = self._journal
        if journal.owner is not None:
            since = {"pid": None, "host": None, "since": journal.owner.wall_us}
            message = "another scheduler of this process owns this journal in memory: stop that one first"
            raise JournalOwned(message, path=self.path, owner=since)
        journal.owner = owner
        journal.epoch += 1
        self._epoch = journal.epoch
        return Ownership(journal.epoch, journal.anchor)

    async def commit(self, changes: Sequence[ch.Change], stamp: Stamp) -> list[ch.Outcome]:
        """Apply one batch in the order of kinds, or nothing of it."""
        journal = self._journal
        if journal.owner is None or stamp.epoch != journal.epoch:
            raise NotOwner(f"epoch {stamp.epoch} may not write: the newest owner of this journal is {journal.epoch}")
        outcomes: list[Any] = [None] * len(changes)
        batch = Batch(journal, stamp)
        try:
            for place in sorted(range(len(changes)), key=lambda place: _RANK[type(changes[place])]):
                outcomes[place] = batch.apply(changes[place])
        except BaseException:
            journal.roll_back()
            raise
        journal.undo.clear()
        journal.anchor = Anchor(journal.owner.boot_id, stamp.boot_us, *stamp.now)
        return outcomes

    async def reopen(self) -> None:
        """Nothing to do: the outcome of a commit is always known here."""

    async def check(self) -> None:
        """Nothing to do."""

    async def close(self, *, keep_ownership: bool = False) -> None:
        """Give up the ownership, if this handle has it and it is not kept; the data stays."""
        if not keep_ownership:
            self.abandon()

    def disown(self) -> None:
        """Give up the ownership that `close` kept."""
        self.abandon()

    async def lanes(self) -> list[Lane]:
        """Every lane, by number."""
        return sorted(self._journal.lanes.values())

    async def due(self, lane: int, after: DueKey, until_us: int, limit: int) -> list[tuple[int, int]]:
        """A page of one lane of the due index."""
        page: list[tuple[int, int]] = []
        index = self._journal.due.get(lane)
        if index is None:
            return page
        for key in index.after((after.due_at, after.job_id)):
            if len(page) >= limit or key[0] >= until_us:
                break
            page.append(key)
        return page

    async def job(self, job_id: int) -> JobRecord | None:
        """One job."""
        job = self._journal.jobs.get(job_id)
        return None if job is None else copy_job(job)

    async def jobs(self, which: JobFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of jobs; it is shorter than asked only when there is no more."""
        if limit <= 0:
            return JobPage([], before)
        jobs: list[JobRecord] = []
        for job in self._newest_first(before):
            if _matches(job, which):
                if len(jobs) == limit:
                    return JobPage(jobs, jobs[-1].job_id)
                jobs.append(copy_job(job))
        return JobPage(jobs, None)

    def _newest_first(self, before: int | None) -> Iterator[JobRecord]:
        journal = self._journal
        if journal.ids is None:
            journal.ids = sorted(journal.jobs)
        ids = journal.ids
        end = len(ids) if before is None else bisect_left(ids, before)
        return (journal.jobs[ids[place]] for place in range(end - 1, -1, -1))

    async def count(self, which: JobFilter) -> int:
        """How many jobs match."""
        return sum(_matches(job, which) for job in self._journal.jobs.values())

    async def attempts(self, job_id: int) -> list[AttemptRecord]:
        """The attempts of one job by number."""
        job = self._journal.jobs.get(job_id)
        numbers = range(1, job.attempt + 1) if job else ()
        return [copy_attempt(self._journal.attempts[job_id, number]) for number in numbers]

    async def open_attempts(self, *, below_epoch: int, after: int, limit: int) -> list[tuple[JobRecord, AttemptRecord]]:
        """ACTIVE jobs claimed under an older epoch."""
        found: list[tuple[JobRecord, AttemptRecord]] = []
        for job_id in sorted(self._journal.held[JobState.ACTIVE]):
            if len(found) >= limit:
                break
            job = self._journal.jobs[job_id]
            attempt = self._journal.attempts[job_id, job.attempt]
            if job_id > after and attempt.epoch < below_epoch:
                found.append((copy_job(job), copy_attempt(attempt)))
        return found

    async def depths(self, now: Now) -> list[LaneDepth]:
        """The depth of every lane with SCHEDULED jobs, by lane number; `oldest_due_at` is of the due ones."""
        depths = []
        for lane in await self.lanes():
            live = self._journal.due[lane.number].live
            due = [due_at for due_at, _ in live if due_at <= now.on(lane.clock)]
            if live:
                depths.append(LaneDepth(lane, len(live), len(due), min(due, default=None)))
        return depths

    async def fullest_second(self, now: Now, span_us: int) -> tuple[int, int]:
        """Seconds are counted from now, so that both clocks fall together; due exactly now is not overdue."""
        seconds: Counter[int] = Counter()
        for lane in self._journal.lanes.values():
            start = now.on(lane.clock)
            live = self._journal.due[lane.number].live
            seconds.update((due_at - start) // SECOND_US for due_at, _ in live if start <= due_at < start + span_us)
        return seconds.total(), max(seconds.values(), default=0)

    async def limits(self) -> dict[str, int]:
        """The limiters' state."""
        return dict(self._journal.limits)

    async def queues(self) -> dict[str, str]:
        """The queues' settings."""
        return dict(self._journal.queues)

    async def importable(self) -> list[str]:
        """The importable tasks, sorted."""
        return sorted(self._journal.importable)

    async def entries(self, *, after: int = 0, limit: int = 100) -> list[tuple[int, int, str, str]]:
        """A page of journal entries."""
        first = max(after, 0) + 1
        last = min(first + limit - 1, len(self._journal.entries))
        return [self._journal.entries[number] for number in range(first, last + 1)]

    async def dump(self) -> dict[str, Any]:
        """Everything that any adapter must hold alike, for tests: lane numbers and epochs of owners are left out.

        {"jobs": {job_id: JobRecord}, "attempts": {(job_id, number): AttemptRecord},
         "keys": {(task, idempotency_key): (job_id, digest)}, "limits": {name: value}, "queues": {queue: settings},
         "importable": sorted list of tasks, "schedules": {id: ScheduleRecord}, "calendars": {name: JSON text},
         "ledger": {(schedule, clock, first_at, turn, kind): OccurrenceRecord}, "operations": {number: OperationRecord}}
        """
        journal = self._journal
        return {
            "jobs": {job_id: copy_job(job) for job_id, job in journal.jobs.items()},
            "attempts": {key: copy_attempt(attempt) for key, attempt in journal.attempts.items()},
            "keys": dict(journal.keys),
            "limits": dict(journal.limits),
            "queues": dict(journal.queues),
            "importable": sorted(journal.importable),
            "operations": {number: replace(record) for number, record in journal.operations.items()},
            **self._dump_of_schedules(),
        }
