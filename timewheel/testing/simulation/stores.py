"""The stores of a simulation: real ones, without threads and files.

`STORES` makes them by name: "memory" is the model, "sqlite" the SQLite adapter with one synchronous connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from timewheel_storage.memory import MemoryStore
from timewheel_storage.sqlite.files import MemoryFiles
from timewheel_storage.sqlite.store import SqliteStore


class SynchronousSqlite(SqliteStore):
    """A journal in SQLite on one synchronous connection, in memory: no thread, no file."""

    def __init__(self, connection: sqlite3.Connection | None = None, files: MemoryFiles | None = None) -> None:
        self.connection = connection or sqlite3.connect(":memory:", isolation_level=None)
        self.files = files or MemoryFiles()

        async def run(work: Callable[[sqlite3.Connection], Any]) -> Any:
            return work(self.connection)

        super().__init__(run, run, self.files)

    def another(self) -> SynchronousSqlite:
        """A second handle on the same journal, as a second process would have it."""
        return SynchronousSqlite(self.connection, self.files)

    def reborn(self) -> SynchronousSqlite:
        """What a next process finds."""
        return SynchronousSqlite(self.connection, MemoryFiles(boot=self.files.boot, mark=self.files.mark))


STORES: dict[str, Callable[[], Any]] = {"memory": MemoryStore, "sqlite": SynchronousSqlite}


def discard(store: Any) -> None:
    """Close what a store of a simulation that is over holds."""
    if isinstance(store, SynchronousSqlite):
        store.connection.close()


def crashed(store: Any) -> Any:
    """The owner's process died: the store that the next one opens. It holds what was committed; nobody owns it."""
    if isinstance(store, SynchronousSqlite):
        return store.reborn()
    store.abandon()
    return store
