"""Every store under test. A new adapter is one more line in FACTORIES."""

import shutil
from pathlib import Path

from timewheel.testing.conformance import Hooks
from timewheel_storage.memory import MemoryStore
from timewheel_storage.sqlite import open_sqlite


class MemoryHooks(Hooks):
    async def fresh(self, folder):
        store = MemoryStore()
        await store.open()
        return store

    async def another(self, store):
        return store.another()

    async def crashed(self, store):
        store.abandon()
        return store.another()


class SqliteHooks(Hooks):
    """A journal on disk. A crash goes on with a copy of what the files held at that moment."""

    async def fresh(self, folder):
        return await self._opened(folder / "journal.db")

    async def another(self, store):
        return await self._opened(store.path)

    async def crashed(self, store):
        path = Path(f"{store.path}+")
        for ending in ("", "-wal", ".mark"):
            if Path(f"{store.path}{ending}").exists():
                shutil.copy(f"{store.path}{ending}", f"{path}{ending}")
        await store.close()
        return await self._opened(path)

    async def _opened(self, path):
        store = open_sqlite(str(path))
        await store.open()
        return store


FACTORIES: dict[str, Hooks] = {
    "memory": MemoryHooks(),
    "sqlite": SqliteHooks(),
}
