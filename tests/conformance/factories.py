"""Every store under test. A new adapter is one more line in FACTORIES."""

import shutil
import sqlite3
from abc import abstractmethod
from itertools import count
from pathlib import Path

from tests.conformance.traps import Died, Trap, Trapped
from tests.databases import in_memory
from timewheel.testing.conformance import Hooks
from timewheel_storage.memory import MemoryStore
from timewheel_storage.sqlite import SqliteStore
from timewheel_storage.sqlite.connection import Connections
from timewheel_storage.sqlite.files import DiskFiles, MemoryFiles


class MemoryHooks(Hooks):
    """The model. It has no statements: an operation is written or not."""

    async def fresh(self, folder):
        store = MemoryStore()
        await store.open()
        return store

    async def another(self, store):
        return store.another()

    async def crashed(self, store):
        store.abandon()
        return store.another()

    async def usurped(self, store):
        """Another process owns the journal, and this one does not know."""
        store.abandon()
        return store.another()

    async def forget(self, store):
        """Drop a handle without a trace."""


class TrappedHooks(Hooks):
    """An adapter of SQLite whose statements pass through a trap: `store.trap`."""

    @abstractmethod
    def look(self, store):
        """A function that tells, in the connection's thread, what the disk holds."""

    @abstractmethod
    async def reborn(self, store, image):
        """The next process, on the disk as it was when the process of `store` died."""

    async def crashed(self, store):
        image = await store._run_read(self.look(store))
        return await self.reborn(store, image)

    async def usurped(self, store):
        """Another process owns the journal, and this one does not know: its lock was lost."""
        store._files.unlock()
        store._locked = False
        return await self.another(store)

    async def forget(self, store):
        """Drop a handle without a trace."""
        await store.close()

    async def attempt(self, store, fault, act):
        """(answer, None) of `await act()` under a fault, or (None, the error that was raised)."""
        store.trap.set(fault, self.look(store) if fault.code is None else None)
        try:
            return await act(), None
        except (Died, Exception) as error:
            return None, error
        finally:
            store.trap.clear()


class SqliteHooks(TrappedHooks):
    """A journal on disk. A crash goes on with a copy of what the files held at that moment."""

    durability = "power"
    copies = count(1)

    async def fresh(self, folder):
        return await self._opened(folder / "journal.db")

    async def another(self, store):
        return await self._opened(store.path)

    def look(self, store):
        def copied(connection):
            path = Path(store.path).with_name(f"journal-{next(self.copies)}.db")
            for ending in ("", "-wal", ".mark"):
                if Path(f"{store.path}{ending}").exists():
                    shutil.copy(f"{store.path}{ending}", f"{path}{ending}")
            return path

        return copied

    async def reborn(self, store, image):
        await store.close()
        return await self._opened(image)

    async def _opened(self, path):
        files = DiskFiles(str(path))
        connections = Connections(files, self.durability)
        trap = Trap()

        async def transact(work):
            return await connections.transact(lambda connection: work(Trapped(connection, trap)))

        store = SqliteStore(transact, connections.read, files, connections=connections, durability=self.durability)
        store.trap = trap
        await store.open()
        return store


class UnsyncedSqliteHooks(SqliteHooks):
    """The same, without waiting for the disk: enough where only processes die."""

    durability = "process"


class InMemory(SqliteStore):
    """One synchronous connection for both, as a simulation has it. Its disk is what the connection serializes to."""

    def __init__(self, connection, files):
        self.trap = Trap()
        trapped = Trapped(connection, self.trap)

        async def run(work):
            return work(trapped)

        super().__init__(run, run, files)
        self.connection = connection
        self.files = files

    async def reopen(self):
        self._drop_what_is_open()
        await super().reopen()

    async def close(self, *, keep_ownership=False):
        self._drop_what_is_open()
        await super().close(keep_ownership=keep_ownership)

    def _drop_what_is_open(self):
        """Whoever closes a connection drops its open transaction; this one stays open, as it is the disk too."""
        if self.connection.in_transaction:
            self.connection.rollback()


class InMemoryHooks(TrappedHooks):
    """SQLite on one synchronous connection in memory."""

    async def fresh(self, folder):
        return await self._opened(in_memory(), MemoryFiles())

    async def another(self, store):
        return await self._opened(store.connection, store.files)

    def look(self, store):
        def serialized(connection: sqlite3.Connection):
            return None if connection.in_transaction else (connection.serialize(), store.files.mark)

        return serialized

    async def reborn(self, store, image):
        pages, mark = image
        connection = in_memory()
        connection.deserialize(pages)
        return await self._opened(connection, MemoryFiles(mark=mark))

    async def _opened(self, connection, files):
        store = InMemory(connection, files)
        await store.open()
        return store


FACTORIES: dict[str, Hooks] = {
    "memory": MemoryHooks(),
    "sqlite": UnsyncedSqliteHooks(),
    "sqlite in memory": InMemoryHooks(),
}
"""What the state machine drives side by side, the model first."""
