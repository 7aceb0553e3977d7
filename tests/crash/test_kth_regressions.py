"""What the campaign of the k-th call found, each as a small test."""

from __future__ import annotations

import asyncio
import os
import sqlite3

import pytest

from tests.simulation.helpers import SlowStore, Stage
from timewheel.errors import JournalCorrupt, JournalFull, JournalOwned, JournalUnavailable, JournalUnknown
from timewheel.store.port import JobFilter
from timewheel.testing.builders import claim, owner, stamp, submit
from timewheel_storage.memory import MemoryStore
from timewheel_storage.sqlite import SqliteStore, schema
from timewheel_storage.sqlite.connection import Connections
from timewheel_storage.sqlite.files import DiskFiles
from timewheel_storage.sqlite.lock import OwnerLock


def failing(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


class Flawed:
    """A connection whose next statements that begin with `words` fail."""

    def __init__(self, connection, faults):
        self._connection = connection
        self._faults = faults

    def execute(self, statement, *parameters):
        for words, code in self._faults:
            if " ".join(statement.split()).startswith(words):
                self._faults.remove((words, code))
                raise failing(code)
        return self._connection.execute(statement, *parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)


class Bench:
    """A store of which either connection fails on request."""

    def __init__(self, path):
        self.reading, self.writing = [], []
        self.files = DiskFiles(str(path))
        self.connections = Connections(self.files, "power")

        async def transact(work):
            return await self.connections.transact(lambda connection: work(Flawed(connection, self.writing)))

        async def read(work):
            return await self.connections.read(lambda connection: work(Flawed(connection, self.reading)))

        self.store = SqliteStore(transact, read, self.files, connections=self.connections)


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path / "journal.db")
    await bench.store.open()
    await bench.store.own(owner())
    yield bench
    await bench.store.close()


def test_a_journal_whose_first_checkpoint_fails_does_not_come_to_be(tmp_path, monkeypatch):
    """Closing hides it when the log cannot be written back, and what was put into place then was half a journal."""
    path = tmp_path / "journal.db"
    ask = schema.ask

    def asking(connection, statement, *values):
        if "wal_checkpoint" in statement:
            raise failing(sqlite3.SQLITE_FULL)
        return ask(connection, statement, *values)

    monkeypatch.setattr(schema, "ask", asking)
    with pytest.raises(JournalFull):
        schema.make_if_absent(str(path))
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    schema.make_if_absent(str(path))
    assert os.listdir(tmp_path) == ["journal.db"]


def test_a_journal_that_stays_in_another_mode_does_not_come_to_be(tmp_path, monkeypatch):
    """An I/O error makes SQLite stay as it is, and say so in its answer alone.

    The owner then changed the mode of the journal in its place; killed meanwhile, it left one that no reader opens.
    """
    path = tmp_path / "journal.db"
    ask = schema.ask
    monkeypatch.setattr(
        schema, "ask", lambda connection, words, *values: ask(connection, words.replace("= WAL", ""), *values)
    )
    with pytest.raises(JournalUnavailable, match=f"{path} cannot be kept in WAL mode"):
        schema.make_if_absent(str(path))
    assert os.listdir(tmp_path) == []


def test_a_side_file_that_cannot_be_deleted_hides_no_error(tmp_path, monkeypatch):
    def unlink(path):
        raise OSError(5, "injected", path)

    def make(side, path):
        open(side, "w").close()
        raise OSError(28, "injected", side)

    monkeypatch.setattr(schema, "_make", make)
    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(JournalFull):
        schema.make_if_absent(str(tmp_path / "journal.db"))


def test_a_lock_that_cannot_be_signed_is_held_all_the_same(tmp_path, monkeypatch):
    """Its text is for people; an I/O error on it came out of start as an OSError."""
    for name in ("pwrite", "ftruncate"):
        with monkeypatch.context() as patch:

            def fail(*_):
                raise OSError(5, "injected")

            patch.setattr(os, name, fail)
            lock, other = (OwnerLock(str(tmp_path / "lock"), "journal.db") for _ in range(2))
            lock.take(1)
            lock.sign(1, 2)
            with pytest.raises(JournalOwned):
                other.take(1)
            lock.release()


async def test_a_failed_take_over_can_be_tried_again_with_the_same_store(tmp_path):
    bench = Bench(tmp_path / "journal.db")
    await bench.store.open()
    bench.writing.append(("COMMIT", sqlite3.SQLITE_IOERR_FSYNC))
    with pytest.raises(JournalUnknown):
        await bench.store.own(owner())
    await bench.store.close()
    await bench.store.open()
    ownership = await bench.store.own(owner())
    await bench.store.commit([submit(1)], stamp(ownership.epoch))
    await bench.store.close()


async def test_reads_wait_while_the_journal_is_opened_again(bench):
    await bench.store.commit([submit(1)], stamp(1))
    reopening = asyncio.ensure_future(bench.store.reopen())
    answers = []
    while not reopening.done():
        answers.append(asyncio.ensure_future(bench.store.count(JobFilter())))
        await asyncio.sleep(0)
    await reopening
    assert set(await asyncio.gather(*answers)) == {1}
    assert len(answers) > 1


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR_READ])
async def test_a_read_that_fails_once_is_no_damage(bench, code):
    """SQLite says CORRUPT for a read that failed, too."""
    await bench.store.commit([submit(1)], stamp(1))
    bench.reading.append(("SELECT", code))
    assert (await bench.store.job(1)).job_id == 1
    bench.reading += [("SELECT", code), ("SELECT", code)]
    with pytest.raises((JournalCorrupt, JournalUnavailable)):
        await bench.store.job(1)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR_READ])
@pytest.mark.parametrize("words", ["INSERT INTO jobs", "SELECT"])
async def test_a_read_that_fails_in_a_commit_is_found_out_by_opening_again(bench, code, words):
    bench.writing.append((words, code))
    with pytest.raises(JournalUnknown):
        await bench.store.commit([submit(1)], stamp(1))
    await bench.store.reopen()
    await bench.store.commit([submit(1)], stamp(1))


async def test_a_row_that_makes_no_sense_is_damage_at_once(bench):
    """Opening again would not find it."""
    await bench.store.commit([submit(1)], stamp(1))
    await bench.connections.transact(lambda connection: connection.execute("UPDATE kinds SET retry = 'x'"))
    with pytest.raises(JournalCorrupt, match="makes no sense"):
        await bench.store.commit([claim(1)], stamp(1))
    with pytest.raises(JournalCorrupt, match="makes no sense"):
        await bench.store.job(1)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_FSYNC])
async def test_a_check_that_fails_has_opened_the_journal_again(bench, code):
    """An idle scheduler has no commit that would do so, and gave up after ten checks."""
    await bench.store.commit([submit(1)], stamp(1))
    bench.writing.append(("PRAGMA wal_checkpoint", code))
    await bench.store.check()  # it is busy yet
    with pytest.raises(JournalUnknown):
        await bench.store.check()
    await bench.store.check()
    await bench.store.commit([submit(2)], stamp(1))
    assert await bench.store.count(JobFilter()) == 2


def test_pausing_a_queue_does_not_wait_for_space_without_end():
    class Full(SlowStore):
        full = False

        async def commit(self, changes, stamp):
            if self.full:
                raise JournalFull("no space", path="fake")
            return await super().commit(changes, stamp)

    stage = Stage(store=Full(MemoryStore()))

    async def scene(scheduler):
        stage.store.full = True
        with pytest.raises(JournalFull):
            await scheduler.queue("mail").pause()
        with pytest.raises(JournalFull):
            await scheduler.queue("mail").pause()
        stage.store.full = False
        await stage.machine.sleep(3)
        await scheduler.queue("mail").pause()

    stage.play(scene)
