"""The reading half of the store: every method crosses to the reading connection once, for one short statement."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from timewheel_storage.sqlite import read, read_letters, read_list, read_schedules
from timewheel_storage.sqlite.faults import in_doubt, translate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from timewheel.model import AttemptRecord, DueKey, JobRecord, Lane, Now
    from timewheel.schedule_records import ScheduleRecord, UnfinishedJob
    from timewheel.store.letters import LetterGroup, OperationRecord
    from timewheel.store.port import EntryRow, JobFilter, JobPage, LaneDepth, LedgerPage, LetterFilter, ScheduleFilter

T = TypeVar("T")


class Run(Protocol):
    """Runs a whole function with a connection, and is not abandoned half way."""

    def __call__(self, work: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """What the function returns."""


class Reads:
    """What the port's reads promise (see `timewheel.store.port.Store`)."""

    def __init__(self, path: str, run_read: Run) -> None:
        self.path = path
        self._run_read = run_read

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def translated(connection: sqlite3.Connection) -> T:
            try:
                return work(connection)
            except sqlite3.Error as error:
                if not in_doubt(error):
                    raise translate(error, self.path) from error
            try:
                return work(connection)  # what failed once need not be damaged
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

        return await self._run_read(translated)

    async def lanes(self) -> list[Lane]:
        """Every lane, by number."""
        return await self._read(read.lanes)

    async def due(self, lane: int, after: DueKey, until_us: int, limit: int) -> list[tuple[int, int]]:
        """A page of one lane of the due index."""
        return await self._read(lambda connection: read.due(connection, lane, after, until_us, limit))

    async def job(self, job_id: int) -> JobRecord | None:
        """One job."""
        return await self._read(lambda connection: read.job(connection, job_id))

    async def jobs(self, which: JobFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of jobs; a call goes through at most `read_list.SCAN` of them."""
        return await self._read(lambda connection: read_list.jobs(connection, which, before, limit))

    async def count(self, which: JobFilter) -> int:
        """How many jobs match: counted part by part, so that no reader holds an old state for long."""
        total, before = await self._read(lambda connection: read_list.count_some(connection, which, None))
        while before is not None:
            place = before
            some, before = await self._read(lambda connection: read_list.count_some(connection, which, place))  # noqa: B023
            total += some
        return total

    async def attempts(self, job_id: int) -> list[AttemptRecord]:
        """The attempts of one job by number."""
        return await self._read(lambda connection: read.attempts(connection, job_id))

    async def open_attempts(self, *, below_epoch: int, after: int, limit: int) -> list[tuple[JobRecord, AttemptRecord]]:
        """ACTIVE jobs claimed under an older epoch."""
        return await self._read(lambda connection: read.open_attempts(connection, below_epoch, after, limit))

    async def depths(self, now: Now) -> list[LaneDepth]:
        """The depth of every lane; `oldest_due_at` is of the due ones."""
        return await self._read(lambda connection: read.depths(connection, now))

    async def fullest_second(self, now: Now, span_us: int) -> tuple[int, int]:
        """How many are due soon, and how many of them in one second."""
        return await self._read(lambda connection: read.fullest_second(connection, now, span_us))

    async def limits(self) -> dict[str, int]:
        """The limiters' state."""
        return await self._read(read.limits)

    async def queues(self) -> dict[str, str]:
        """The queues' settings."""
        return await self._read(read.queues)

    async def importable(self) -> list[str]:
        """The importable tasks, sorted."""
        return await self._read(read.importable)

    async def entries(self, *, after: int = 0, limit: int = 100) -> list[EntryRow]:
        """A page of journal entries."""
        return await self._read(lambda connection: read.entries(connection, after, limit))

    async def schedule(self, schedule: str) -> ScheduleRecord | None:
        """One schedule; PARKED, with the reason, when its row makes no sense."""
        return await self._read(lambda connection: read_schedules.schedule(connection, schedule))

    async def schedules(
        self, which: ScheduleFilter, *, after: str | None = None, limit: int = 100
    ) -> list[ScheduleRecord]:
        """A page of schedules by id; those whose row makes no sense are PARKED, with the reason."""
        return await self._read(lambda connection: read_schedules.schedules(connection, which, after, limit))

    async def count_schedules(self, which: ScheduleFilter) -> int:
        """How many schedules match."""
        return await self._read(lambda connection: read_schedules.count_schedules(connection, which))

    async def unfinished(self, schedules: Sequence[str], *, limit: int = 1_000) -> dict[str, list[UnfinishedJob]]:
        """The jobs of these schedules that are not final."""
        return await self._read(lambda connection: read_schedules.unfinished(connection, schedules, limit))

    async def ledger(
        self,
        schedule: str,
        *,
        since: int | None = None,
        until: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> LedgerPage:
        """A page of a schedule's ledger; a call looks at `read_schedules.LEDGER_SCAN` of its rows."""
        between = (since, until)
        return await self._read(lambda connection: read_schedules.ledger(connection, schedule, between, before, limit))

    async def calendars(self) -> dict[str, str]:
        """The calendars."""
        return await self._read(read_schedules.calendars)

    async def letters(self, which: LetterFilter, *, before: int | None = None, limit: int = 100) -> JobPage:
        """A page of dead letters; a call goes through at most `read_list.SCAN` jobs that are DEAD."""
        return await self._read(lambda connection: read_letters.letters(connection, which, before, limit))

    async def count_letters(self, which: LetterFilter) -> int:
        """How many dead letters match: counted part by part, as jobs are."""
        return sum(group.letters for group in (await self._groups(which, errors=False)).values())

    async def letter_groups(self, which: LetterFilter, *, limit: int = 100) -> list[LetterGroup]:
        """Dead letters by fingerprint and task: gathered part by part."""
        return read_letters.largest(await self._groups(which, errors=True), limit)

    async def _groups(self, which: LetterFilter, *, errors: bool) -> read_letters.Groups:
        groups: read_letters.Groups = {}
        before: int | None = None
        while True:
            place = before
            some, before = await self._read(
                lambda connection: read_letters.groups_of_some(connection, which, place, errors=errors)  # noqa: B023
            )
            read_letters.add_groups(groups, some)
            if before is None:
                return groups

    async def operation(self, number: int) -> OperationRecord | None:
        """One operation."""
        return await self._read(lambda connection: read_letters.operation(connection, number))

    async def operations(self, *, before: int | None = None, limit: int = 100) -> list[OperationRecord]:
        """A page of operations, newest number first."""
        return await self._read(lambda connection: read_letters.operations(connection, before, limit))

    async def entries_of(self, kind: str, *, before: int | None = None, limit: int = 100) -> list[EntryRow]:
        """A page of the journal entries of one kind, newest number first."""
        return await self._read(lambda connection: read_letters.entries_of(connection, kind, before, limit))

    async def dump(self) -> dict[str, Any]:
        """Everything, for tests (see the memory model)."""
        return await self._read(read_letters.everything)
