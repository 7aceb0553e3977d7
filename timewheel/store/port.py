"""The Store port: what the core asks of a journal, in its own words.

Writes are one operation, `commit`. Reads are pages by key. Instants and the epoch are arguments; an adapter reads no
clock. Adapters translate every error of their own into the tree of `timewheel.errors`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from timewheel.model import Anchor, AttemptRecord, DueKey, JobRecord, JobState, Lane, Now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timewheel.schedule_records import LedgerEntry, ScheduleRecord, ScheduleState, UnfinishedJob
    from timewheel.store.changes import Change, Outcome
    from timewheel.store.letters import LetterGroup, OperationRecord

EntryRow: TypeAlias = tuple[int, int, str, str]  # number, wall_us, kind, data as JSON text


class Leases(StrEnum):
    """How long a claim holds: until a newer epoch exists, or until it expires (stores shared by many nodes)."""

    EPOCH = "EPOCH"
    TIMED = "TIMED"


class Stamp(NamedTuple):
    """When and by whom a batch is written. `boot_us` is the elapsed time since the machine's boot."""

    now: Now
    boot_us: int
    epoch: int


class Owner(NamedTuple):
    """Who asks to own the journal, for the journal's record and for the error that others get."""

    boot_id: str
    boot_us: int
    wall_us: int


class Ownership(NamedTuple):
    """A granted ownership: its epoch, and the clocks as the last commit of the former owner saved them."""

    epoch: int
    anchor: Anchor | None  # None: a new journal


class JobFilter(NamedTuple):
    """Which jobs a list shows; None and () mean any."""

    states: tuple[JobState, ...] = ()
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    idempotency_key: str | None = None
    schedule: str | None = None


class LetterFilter(NamedTuple):
    """Which dead letters (DEAD, not discarded) a list shows; None means any.

    `since` and `until`, both included, are wall instants of when the jobs ended.
    """

    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    fingerprint: str | None = None
    since: int | None = None
    until: int | None = None


class ScheduleFilter(NamedTuple):
    """Which schedules a list shows; None and () mean any."""

    states: tuple[ScheduleState, ...] = ()
    task: str | None = None
    queue: str | None = None


class LedgerPage(NamedTuple):
    """A page of a ledger, the newest number first. `next_before`: as of JobPage."""

    entries: list[LedgerEntry]
    next_before: int | None


class JobPage(NamedTuple):
    """A page of jobs, newest id first. `next_before`: pass it as `before` to go on; None: there is no more.

    A page may be shorter than asked, even empty, and still not be the last: a call scans a bounded number of rows.
    """

    jobs: list[JobRecord]
    next_before: int | None


class LaneDepth(NamedTuple):
    """How many jobs of a lane are SCHEDULED, how many of those are due, and the oldest due time (None: none)."""

    lane: Lane
    scheduled: int
    due: int
    oldest_due_at: int | None


class Store(Protocol):
    """A journal. Every method may raise a JournalError."""

    leases: Leases
    path: str  # for messages

    async def open(self) -> None:
        """Open for reading, making an empty journal where there is none. Nothing of an existing one changes.

        Raises JournalCorrupt, JournalNewer, JournalUnsafe, JournalUnavailable, JournalTruncated.
        """

    async def own(self, owner: Owner) -> Ownership:
        """Become the one owner: migrate, allocate and commit a new epoch. Raises JournalOwned when another lives.

        After a crash of the owner the next call succeeds at once; the epoch is larger than any before.
        """

    async def commit(self, changes: Sequence[Change], stamp: Stamp) -> list[Outcome]:
        """Write one batch: all or nothing. The outcomes are in the order of `changes`.

        When it returns, the batch is as durable as the store was told to be. Raises NotOwner when `stamp.epoch` is not
        the newest epoch (nothing is written); JournalFull and JournalBusy (nothing is written); JournalUnknown when
        it cannot be known whether it was written: call `reopen` before anything else.
        """

    async def reopen(self) -> None:
        """After JournalUnknown: drop the connections, open again, and see what the journal really holds."""

    async def check(self) -> None:
        """See that the journal is still the one that was opened.

        Raises JournalUnavailable when it was replaced or is gone. Also does the store's own small housekeeping
        (checkpoints, high-water mark). Called about once a second.
        """

    async def close(self, *, keep_ownership: bool = False) -> None:
        """Close, and give up ownership unless `keep_ownership`. Harmless when repeated."""

    def disown(self) -> None:
        """Give up an ownership that `close` kept; from any thread. Harmless when there is none."""

    async def lanes(self) -> list[Lane]:
        """Every lane that was ever used."""

    async def due(self, lane: int, after: DueKey, until_us: int, limit: int) -> list[tuple[int, int]]:
        """(due_at, job_id) of SCHEDULED jobs of one lane, in that order: key > `after`, due_at < `until_us`."""

    async def job(self, job_id: int) -> JobRecord | None:
        """One job, or None."""

    async def jobs(self, which: JobFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of the jobs that match, newest id first, ids below `before`."""

    async def count(self, which: JobFilter) -> int:
        """How many jobs match; takes time in proportion to the journal."""

    async def attempts(self, job_id: int) -> list[AttemptRecord]:
        """The attempts of a job in the order of their numbers, an open one included; [] for an unknown job."""

    async def open_attempts(self, *, below_epoch: int, after: int, limit: int) -> list[tuple[JobRecord, AttemptRecord]]:
        """ACTIVE jobs with id > `after` whose open attempt was claimed under an epoch < `below_epoch`, by id."""

    async def depths(self, now: Now) -> list[LaneDepth]:
        """The depth of every lane with SCHEDULED jobs; takes time in proportion to the journal."""

    async def fullest_second(self, now: Now, span_us: int) -> tuple[int, int]:
        """(jobs due within `span_us` from now, the most of them that fall into one second), without the overdue."""

    async def limits(self) -> dict[str, int]:
        """What SaveLimits stored."""

    async def queues(self) -> dict[str, str]:
        """What PutQueue stored: queue -> settings as JSON text."""

    async def importable(self) -> list[str]:
        """Names of tasks that code in a process of this journal scheduled without registering them."""

    async def entries(self, *, after: int = 0, limit: int = 100) -> list[EntryRow]:
        """Journal entries (number, wall_us, kind, data as JSON text) with number > `after`, in that order."""

    # ---- schedules ---------------------------------------------------------------------------------------------------

    async def schedule(self, schedule: str) -> ScheduleRecord | None:
        """One schedule, or None."""

    async def schedules(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int = 100
    ) -> list[ScheduleRecord]:
        """A page of the schedules that match, by id, ids above `after`; shorter than `limit` only at the end."""

    async def count_schedules(self, which: ScheduleFilter) -> int:
        """How many schedules match."""

    async def unfinished(self, schedules: Sequence[str], *, limit: int = 1_000) -> dict[str, list[UnfinishedJob]]:
        """The jobs of these schedules that are not final, by job id; at most `limit` (the first) of each.

        A schedule without any is left out. Jobs of any kind of origin count; those of a dropped schedule too.
        """

    async def ledger(
        self,
        schedule: str,
        *,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> LedgerPage:
        """A page of a schedule's ledger, newest number first, numbers below `before`.

        With `since` and `until`: rows with last_at >= since and first_at <= until. A page may be shorter than asked.
        """

    async def calendars(self) -> dict[str, str]:
        """What PutCalendar stored: name -> JSON text."""

    # ---- dead letters and operations ---------------------------------------------------------------------------------

    async def letters(self, which: LetterFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of the dead letters that match, newest id first, ids below `before`."""

    async def count_letters(self, which: LetterFilter) -> int:
        """How many dead letters match."""

    async def letter_groups(self, which: LetterFilter, *, limit: int = 100) -> list[LetterGroup]:
        """The dead letters that match, by fingerprint and task: the largest groups first, then the newest `newest`."""

    async def operation(self, number: int) -> OperationRecord | None:
        """One operation, or None."""

    async def operations(self, *, before: int | None = None, limit: int = 100) -> list[OperationRecord]:
        """A page of the operations, newest number first, numbers below `before`."""

    async def entries_of(self, kind: str, *, before: int | None = None, limit: int = 100) -> list[EntryRow]:
        """Journal entries of one kind, newest number first, numbers below `before`: as of `entries`."""
