"""The real recovery on a bare store, which may die at any of its commits."""

from tests.conformance.traps import Died
from timewheel.store.recovery import Recovery


class Writer:
    """What recovery writes through: a commit a flush and a commit a piece of housekeeping.

    The process dies at its commit number `dies_at` (from 1), which is `written` or not.
    """

    def __init__(self, store, stamp, dies_at=0, written=False):
        self._store = store
        self._stamp = stamp
        self._dies_at = dies_at
        self._written = written
        self._queued = []

    def settle(self, change, receive):
        self._queued.append((change, receive))

    async def flush(self):
        queued, self._queued = self._queued, []
        if queued:
            outcomes = await self._commit([change for change, _ in queued])
            for (_, receive), outcome in zip(queued, outcomes, strict=True):
                receive(outcome)
        return True

    async def housekeep(self, change):
        await self.flush()
        [outcome] = await self._commit([change])
        return outcome

    async def _commit(self, changes):
        self._dies_at -= 1
        if self._dies_at == 0 and not self._written:
            raise Died
        outcomes = await self._store.commit(changes, self._stamp)
        if self._dies_at == 0:
            raise Died
        return outcomes


async def recover(store, stamp, tasks, dies_at=0, written=False):
    """Recover; whether it came to its end."""
    writer = Writer(store, stamp, dies_at, written)
    try:
        await Recovery(store, writer, lambda: stamp.now, stamp.epoch).recover(tasks)
    except Died:
        return False
    return True
