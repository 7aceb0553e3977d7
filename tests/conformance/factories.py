"""Every store under test. A new adapter is one more line in FACTORIES."""

from timewheel.testing.conformance import Hooks
from timewheel_storage.memory import MemoryStore


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


FACTORIES: dict[str, Hooks] = {
    "memory": MemoryHooks(),
}
