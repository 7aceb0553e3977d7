"""The Store kept in SQLite: what the port promises, put together from the connections, the files and the statements."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from timewheel.errors import JournalError, NotOwner
from timewheel.store.port import Leases
from timewheel_storage.sqlite import keeping, read, read_list, schema
from timewheel_storage.sqlite.batch import Batch
from timewheel_storage.sqlite.connection import Connections
from timewheel_storage.sqlite.faults import translate
from timewheel_storage.sqlite.files import DiskFiles
from timewheel_storage.sqlite.write_submit import Memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from timewheel.model import AttemptRecord, DueKey, JobRecord, Lane, Now
    from timewheel.store.changes import Change, Outcome
    from timewheel.store.port import JobFilter, JobPage, LaneDepth, Owner, Ownership, Stamp
    from timewheel_storage.sqlite.connection import Durability
    from timewheel_storage.sqlite.files import Files

T = TypeVar("T")


class Run(Protocol):
    """Runs a whole function with a connection, and is not abandoned half way."""

    def __call__(self, work: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """What the function returns."""


class SqliteStore:
    """A journal in SQLite (see `timewheel.store.port.Store` for what the methods promise).

    `transact` and `run_read` run a function with the writing and the reading connection; both may use the same one.
    `connections` opens and closes them; without it they are open, and `open` makes an empty database a journal.
    """

    leases = Leases.EPOCH

    def __init__(
        self,
        transact: Run,
        run_read: Run,
        files: Files,
        *,
        connections: Connections | None = None,
        durability: Durability = "power",
    ) -> None:
        self.path = files.path
        self._transact = transact
        self._run_read = run_read
        self._files = files
        self._connections = connections
        self._durability = durability
        self._one_writes = asyncio.Lock()
        self._owner: Owner | None = None
        self._disowned = False
        self._keeper = keeping.Keeper(files, durability)
        self._memory = Memory()

    # -- the life of a store -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open for reading. Two processes may do so at once; the one that finds no journal makes it."""
        if self._connections is not None:
            await self._connections.open_reader()
        else:
            await self._transact(schema.migrate)
        try:
            await self._read(self._look)
        except BaseException:
            await self._close_connections()
            raise

    def _look(self, connection: sqlite3.Connection) -> None:
        self._files.watch()
        keeping.missing_commits(connection, self._files, self._durability)

    async def own(self, owner: Owner) -> Ownership:
        """Become the one owner. The lock comes first; it is kept until `close`, or until the process dies."""
        await self._read(lambda _: self._files.lock(owner))
        try:
            ownership = await self._take_over(owner)
        except BaseException:
            await self._give_up()
            raise
        return ownership

    async def _take_over(self, owner: Owner) -> Ownership:
        if self._connections is not None:
            await self._connections.open_writer()
        keeper = self._keeper = keeping.Keeper(self._files, self._durability)
        ownership = await self._transact(lambda connection: keeper.take_over(connection, owner))
        self._owner, self._memory, self._disowned = owner, Memory(), False
        return ownership

    async def reopen(self) -> None:
        """Drop the connections and open again, keeping the lock: what SQLite had not committed is gone now."""
        async with self._one_writes:
            self._memory = Memory()
            await self._close_connections()
            if self._connections is None:
                return
            await self._connections.open_reader()
            if self._owner is not None:
                await self._connections.open_writer()
            await self._read(self._look)

    async def check(self) -> None:
        """See that the files are still there; the owner also writes the log back and the mark."""
        if self._owner is None:
            await self._read(lambda _: keeping.refuse_if_changed(self._files))
        else:
            await self._transact(self._keeper.check)

    async def close(self, *, keep_ownership: bool = False) -> None:
        """Close, and release the lock unless `keep_ownership`; a `disown` that came before counts too."""
        if self._owner is not None and self._is_open:
            with suppress(
                JournalError, sqlite3.Error
            ):  # the mark may lag, and the faults of a journal are told by check
                await self._transact(self._keeper.mark)
        await self._give_up(keep_lock=keep_ownership)
        await self._close_connections()

    def disown(self) -> None:
        """Release the lock once nothing is written any more: now, or at the end of `close`."""
        self._disowned = True
        if self._owner is None:
            self._files.unlock()

    @property
    def _is_open(self) -> bool:
        return self._connections is None or self._connections.writing

    async def _give_up(self, *, keep_lock: bool = False) -> None:
        try:
            if self._connections is not None:
                await self._connections.close_writer()
        finally:
            self._owner = None
            if self._disowned or not keep_lock:
                self._files.unlock()

    async def _close_connections(self) -> None:
        if self._connections is not None:
            await self._connections.close()

    # -- writing -------------------------------------------------------------------------------------------------------

    async def commit(self, changes: Sequence[Change], stamp: Stamp) -> list[Outcome]:
        """Write one batch. Cancelling the caller does not stop it half way."""
        async with self._one_writes:
            owner = self._owner
            if owner is None:
                raise NotOwner(f"this scheduler does not own {self.path}: nothing was written")
            batch = Batch(changes, self._memory)
            await self._transact(lambda connection: batch.write(connection, self.path, stamp, owner.boot_id))
            return batch.outcomes()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def translated(connection: sqlite3.Connection) -> T:
            try:
                return work(connection)
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

    async def entries(self, *, after: int = 0, limit: int = 100) -> list[tuple[int, int, str, str]]:
        """A page of journal entries."""
        return await self._read(lambda connection: read.entries(connection, after, limit))

    async def dump(self) -> dict[str, Any]:
        """Everything, for tests (see the memory model)."""
        return await self._read(read_list.everything)


def open_sqlite(path: str, durability: Durability = "power", *, unsafe: bool = False) -> SqliteStore:
    """The store in the file `path`; nothing is touched before `open`.

    `durability`: "power" (a commit survives a power cut) or "process" (it survives the process; a power cut may take
    the last commits). `unsafe`: accept a network file system.
    """
    files = DiskFiles(path, unsafe=unsafe)
    connections = Connections(files, durability)
    return SqliteStore(connections.transact, connections.read, files, connections=connections, durability=durability)
