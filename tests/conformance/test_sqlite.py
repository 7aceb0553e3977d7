"""The conformance suite on SQLite: in a file with its two threads, and on one synchronous connection in memory."""

from tests.conformance.factories import SqliteHooks
from tests.databases import in_memory
from timewheel.testing.conformance import Hooks, StoreConformance
from timewheel_storage.sqlite import SqliteStore
from timewheel_storage.sqlite.files import MemoryFiles


class TestSqliteStore(SqliteHooks, StoreConformance):
    """Every topic of the suite."""


class InMemory(SqliteStore):
    """One synchronous connection for both, as a simulation has it. Its disk is what the connection serializes to."""

    def __init__(self, connection, files):
        async def run(work):
            return work(connection)

        super().__init__(run, run, files)
        self.connection = connection
        self.files = files


class InMemoryHooks(Hooks):
    async def fresh(self, folder):
        return await self._opened(in_memory(), MemoryFiles())

    async def another(self, store):
        return await self._opened(store.connection, store.files)

    async def crashed(self, store):
        connection = in_memory()
        connection.deserialize(store.connection.serialize())
        return await self._opened(connection, MemoryFiles(mark=store.files.mark))

    async def _opened(self, connection, files):
        store = InMemory(connection, files)
        await store.open()
        return store


class TestSqliteInMemory(InMemoryHooks, StoreConformance):
    """Every topic of the suite."""
