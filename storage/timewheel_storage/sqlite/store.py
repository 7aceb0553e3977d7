"""The Store kept in SQLite: what the port promises, put together from the connections, the files and the statements."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from timewheel.errors import JournalCorrupt, JournalError, JournalUnknown, NotOwner
from timewheel.store.port import Leases
from timewheel_storage.sqlite import keeping, schema
from timewheel_storage.sqlite.batch import Batch
from timewheel_storage.sqlite.connection import Connections
from timewheel_storage.sqlite.faults import in_doubt, translate, unknown
from timewheel_storage.sqlite.files import DiskFiles
from timewheel_storage.sqlite.kinds import Memory
from timewheel_storage.sqlite.reading import Reads
from timewheel_storage.sqlite.reserve import write_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timewheel.store.changes import Change, Outcome
    from timewheel.store.port import Owner, Ownership, Stamp
    from timewheel_storage.sqlite.connection import Durability
    from timewheel_storage.sqlite.files import Files
    from timewheel_storage.sqlite.reading import Run


T = TypeVar("T")


class SqliteStore(Reads):
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
        super().__init__(files.path, run_read)
        self._transact = transact
        self._files = files
        self._connections = connections
        self._durability = durability
        self._one_writes = asyncio.Lock()
        self._owner: Owner | None = None
        self._locked = self._disowned = self._unknown = False
        self._keeper = keeping.Keeper(files, durability)
        self._memory = Memory()

    # -- the life of a store -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open for reading. Two processes may do so at once; the one that finds no journal makes it."""
        if self._connections is not None:
            await self._connections.open_reader()
        else:
            await self._write(schema.migrate)
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
        taken = False

        def lock(_: sqlite3.Connection) -> None:
            nonlocal taken
            self._files.lock(owner)
            self._locked, self._disowned, taken = True, False, True

        try:
            await self._read(lock)
            return await self._take_over(owner)
        except BaseException:  # also when we are cancelled while the lock is taken
            if taken:
                await self._give_up()
            raise

    async def _take_over(self, owner: Owner) -> Ownership:
        if self._connections is not None:
            await self._connections.open_writer()
        keeper = self._keeper = keeping.Keeper(self._files, self._durability)
        ownership = await self._write(lambda connection: keeper.take_over(connection, owner))
        self._owner, self._memory = owner, Memory()
        return ownership

    async def reopen(self) -> None:
        """Drop the connections and open again, keeping the lock: what SQLite had not committed is gone now."""
        async with self._one_writes:
            await self._reopen()

    async def _reopen(self) -> None:
        self._memory = Memory()
        if self._connections is not None:
            await self._connections.reopen(writing=self._owner is not None)
            await self._read(self._look)
        self._unknown = False

    async def check(self) -> None:
        """See that the files are still there; the owner also writes the log back and the mark.

        After JournalUnknown the journal has been opened again: a check changes nothing that anybody waits for.
        """
        async with self._one_writes:  # not while `reopen` has the connections closed
            if self._owner is None:
                await self._read(lambda _: self._files.refuse_if_changed())
                return
            try:
                await self._write(self._keeper.check)
            except JournalUnknown:
                await self._reopen()
                raise

    async def close(self, *, keep_ownership: bool = False) -> None:
        """Close, and release the lock unless `keep_ownership`; a `disown` that came before counts too."""
        if self._owner is not None and self._is_open:
            with suppress(JournalError):  # the mark may lag, and what is wrong with a journal is told by check
                await self._write(self._keeper.mark)
            if self._connections is not None:
                await self._connections.close_reader()
        await self._give_up(keep_lock=keep_ownership)
        await self._close_connections()
        self._unknown = False  # what nobody knew is found out when it is opened the next time

    def disown(self) -> None:
        """Release the lock once nothing is written any more: now, or at the end of `close`."""
        self._disowned = True
        if self._owner is None:
            self._unlock()

    def _unlock(self) -> None:
        locked, self._locked = self._locked, False
        if locked:
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
                self._unlock()

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

            def write(connection: sqlite3.Connection) -> None:
                def write_once() -> None:
                    batch.write(connection, self.path, stamp, owner.boot_id)

                self._files.refuse_if_shorter()  # SQLite would write on behind the cut, and acknowledge
                write_within(self._files, batch, connection, write_once)
                self._files.note_lengths()

            await self._write(write)
            return batch.outcomes()

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run with the writing connection; after JournalUnknown not before `reopen`, since nothing is certain then."""

        def guarded(connection: sqlite3.Connection) -> T:
            if self._unknown:
                raise JournalUnknown(f"{self.path} must be reopened before anything is written", path=self.path)
            try:
                return work(connection)
            except JournalUnknown:
                self._unknown = True
                raise
            except (sqlite3.Error, JournalCorrupt) as error:
                if self._owner is not None and in_doubt(error):
                    self._unknown = True
                    raise unknown(error, self.path) from error
                if isinstance(error, JournalCorrupt):
                    raise
                raise translate(error, self.path) from error

        return await self._transact(guarded)


def open_sqlite(path: str, durability: Durability = "power", *, unsafe: bool = False) -> SqliteStore:
    """The store in the file `path`; nothing is touched before `open`.

    `durability`: "power" (a commit survives a power cut) or "process" (it survives the process; a power cut may take
    the last commits). `unsafe`: accept a network file system.
    """
    files = DiskFiles(path, unsafe=unsafe)
    connections = Connections(files, durability)
    return SqliteStore(connections.transact, connections.read, files, connections=connections, durability=durability)
