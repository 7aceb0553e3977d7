"""The two connections of a journal, each in a thread of its own. This module alone knows aiosqlite.

aiosqlite sends every statement to its thread by itself: a cancelled task would leave a transaction half done, and each
statement would wait for the event loop. Here a whole function crosses in one hop, and is awaited to its end even when
the one who awaits it is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import aiosqlite

from timewheel.errors import JournalUnavailable
from timewheel_storage.sqlite import schema
from timewheel_storage.sqlite.codes import ask
from timewheel_storage.sqlite.faults import translate
from timewheel_storage.sqlite.log import make_certain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timewheel_storage.sqlite.files import Files

T = TypeVar("T")
Durability: TypeAlias = Literal["power", "process"]
SYNCHRONOUS = {"power": 2, "process": 1}  # FULL, NORMAL
CACHE_KIB = 32 * 1024


class Worker(aiosqlite.Connection):
    """A connection whose thread runs whole functions, and dies with the interpreter."""

    def __init__(self, opener: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(self._opened, iter_chunk_size=64)
        self._opener = opener
        self._failure: Exception | None = None
        thread: Any = getattr(self, "_thread", self)  # before aiosqlite 0.22 the connection is the thread
        thread.daemon = True

    def _opened(self) -> sqlite3.Connection:
        """Open, in the thread. aiosqlite leaves its thread behind when this raises, so the error waits for `start`."""
        try:
            return self._opener()
        except Exception as error:  # noqa: BLE001 - raised by start
            self._failure = error
            return sqlite3.connect(":memory:")

    async def start(self) -> None:
        """Open. When this raises, the thread has ended."""
        await self
        if self._failure is not None:
            await self.close()
            raise self._failure

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function with the connection, in its thread. It is never abandoned half way."""
        execute: Any = self._execute
        return await finished(execute(work, self._conn))


async def finished(work: Awaitable[T]) -> T:
    """Await to the end, even when cancelled meanwhile; then raise the cancellation."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue  # the first one is raised below
        if not task.cancelled():
            task.exception()  # whoever cancelled does not want to hear of it
        raise


class Connections:
    """The writing and the reading connection of one file."""

    def __init__(self, files: Files, durability: Durability) -> None:
        self._files = files
        self._durability = durability
        self._reader: Worker | None = None
        self._writer: Worker | None = None
        self._reopened: asyncio.Event | None = None

    @property
    def writing(self) -> bool:
        """Whether the writing connection is open."""
        return self._writer is not None

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function with the writing connection."""
        if self._writer is None:
            raise JournalUnavailable(f"{self._files.path} is not open for writing", path=self._files.path)
        return await self._writer.run(work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function with the reading connection; while that is opened again, once it is open."""
        if self._reader is None and self._reopened is not None:
            await self._reopened.wait()
        if self._reader is None:
            raise JournalUnavailable(f"{self._files.path} is not open: call start() first", path=self._files.path)
        return await self._reader.run(work)

    async def open_reader(self, *, again: bool = False) -> None:
        """Open for reading, making the journal where there is none; `again`: only the one that was open before."""
        if self._reader is None:
            await finished(self._open_reader(again))

    async def _open_reader(self, again: bool) -> None:
        reader = Worker(lambda: open_reader(self._files, again=again))
        await reader.start()
        self._reader = reader  # not before it is open: others may read at any time

    async def open_writer(self) -> None:
        """Open for writing, and bring the schema up to date. Only the owner may."""
        if self._writer is None:
            await finished(self._open_writer())

    async def _open_writer(self) -> None:
        writer = Worker(lambda: open_writer(self._files, self._durability))
        await writer.start()
        self._writer = writer

    async def reopen(self, *, writing: bool) -> None:
        """Close both and open them again; reads that come meanwhile wait."""
        self._reopened = asyncio.Event()
        try:
            await self.close()
            await self.open_reader(again=True)
            if writing:
                await self.open_writer()
        finally:
            self._reopened.set()

    async def close_writer(self) -> None:
        """Close the writing connection; an open transaction is rolled back."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await finished(writer.close())

    async def close(self) -> None:
        """Close both; harmless when repeated."""
        await self.close_writer()
        await self.close_reader()

    async def close_reader(self) -> None:
        """Close the reading connection. First, at a clean end: only a writer that closes last empties the log."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await finished(reader.close())


def open_reader(files: Files, *, again: bool) -> sqlite3.Connection:
    """Make the journal if there is none, look at it, and open it for reading."""
    path = files.path
    files.guard()
    if again:
        files.refuse_if_changed(log=False)
    else:
        schema.make_if_absent(path)
    schema.refuse_at_sight(path)
    schema.refuse_if_denied(path, os.R_OK | os.W_OK)  # who only reads it today may own it tomorrow
    connection = _connected(path, "ro")
    try:
        schema.admit(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_writer(files: Files, durability: Durability) -> sqlite3.Connection:
    """Open for writing, in the durability that was asked for: see that SQLite really took it."""
    path = files.path
    files.refuse_if_changed(log=False)  # what follows was looked at when it was opened for reading
    connection = _connected(path, "rw")
    try:
        (mode,) = ask(connection, "PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise JournalUnavailable(f"{path} cannot be kept in WAL mode here (it stays {mode})", path=path)
        wanted = SYNCHRONOUS[durability]
        for pragma in (f"synchronous = {wanted}", "wal_autocheckpoint = 0", "secure_delete = OFF"):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}").close()
        (synchronous,) = ask(connection, "PRAGMA synchronous")
        if synchronous != wanted:
            raise JournalUnavailable(f"{path}: SQLite did not take synchronous = {wanted}", path=path)
        make_certain(connection, path)
        schema.migrate(connection)
        schema.make_names_certain(path)
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(path: str, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
    try:
        return schema.connect(path, mode)
    except sqlite3.Error as error:
        raise translate(error, path) from error
