"""Faults while a journal is open: each has its own error, and none becomes a success (I25)."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from itertools import pairwise

import pytest

from timewheel.errors import (
    JournalBusy,
    JournalCorrupt,
    JournalError,
    JournalFull,
    JournalOwned,
    JournalUnavailable,
    JournalUnknown,
)
from timewheel.store.port import JobFilter
from timewheel.testing.builders import claim, owner, settle_ok, stamp, submit
from timewheel_storage.sqlite import SqliteStore, open_sqlite
from timewheel_storage.sqlite.connection import Connections
from timewheel_storage.sqlite.faults import translate
from timewheel_storage.sqlite.files import DiskFiles

ANY = JobFilter()


class Faulty:
    """A connection that fails at a statement: instead of it ("before") or after having done it ("after")."""

    def __init__(self, connection, faults):
        self._connection = connection
        self._faults = faults

    def execute(self, statement, *parameters):
        words = " ".join(statement.split())
        for begin, when, code in list(self._faults):
            if words.startswith(begin):
                self._faults.remove((begin, when, code))
                if when == "after":
                    self._connection.execute(statement, *parameters)
                raise failure(code)
        return self._connection.execute(statement, *parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def failure(code):
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


class Bench:
    """A store whose writing connection fails on request."""

    def __init__(self, path):
        self.faults = []
        files = DiskFiles(str(path))
        connections = Connections(files, "power")

        async def transact(work):
            return await connections.transact(lambda connection: work(Faulty(connection, self.faults)))

        self.store = SqliteStore(transact, connections.read, files, connections=connections)
        self.path = path

    async def write(self, *changes):
        return await self.store.commit(changes, stamp(1))

    async def on_writer(self, statement):
        return await self.store._connections.transact(lambda connection: connection.execute(statement).fetchall())


@pytest.fixture
async def bench(tmp_path):
    bench = Bench(tmp_path / "journal.db")
    await bench.store.open()
    await bench.store.own(owner())
    yield bench
    await bench.store.close()


# ---- errors of a commit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_CORRUPT])
@pytest.mark.parametrize(("when", "survives"), [("before", False), ("after", True)])
async def test_an_error_from_commit_is_unknown_until_reopened(bench, code, when, survives):
    await bench.write(submit(1))
    bench.faults.append(("COMMIT", when, code))
    with pytest.raises(JournalUnknown) as caught:
        await bench.write(submit(2), claim(1))
    assert "same idempotency key" in str(caught.value)
    assert str(bench.path) in str(caught.value)
    with pytest.raises(JournalUnknown):  # nothing goes on before it is reopened
        await bench.write(submit(4))
    await bench.store.reopen()
    assert await bench.store.job(4) is None
    second = open_sqlite(str(bench.path))
    await second.open()
    with pytest.raises(JournalOwned):  # the lock was kept all the time
        await second.own(owner())
    await second.close()
    assert (await bench.store.job(2) is not None) is survives
    assert (await bench.store.job(1)).state == ("ACTIVE" if survives else "SCHEDULED")
    await bench.write(submit(3))
    await bench.store.check()
    assert (await bench.store.job(3)).job_id == 3


@pytest.mark.parametrize("begin", ["BEGIN", "UPDATE meta", "INSERT INTO jobs"])
async def test_an_io_error_before_commit_is_unknown_too_and_nothing_was_written(bench, begin):
    bench.faults.append((begin, "before", sqlite3.SQLITE_IOERR_WRITE))
    with pytest.raises(JournalUnknown):
        await bench.write(submit(1))
    await bench.store.reopen()
    assert await bench.store.count(ANY) == 0
    await bench.write(submit(1))


async def test_a_failed_rollback_is_unknown(bench):
    bench.faults += [("INSERT INTO jobs", "before", sqlite3.SQLITE_FULL), ("ROLLBACK", "before", sqlite3.SQLITE_IOERR)]
    with pytest.raises(JournalUnknown):
        await bench.write(submit(1))
    await bench.store.reopen()
    assert await bench.store.count(ANY) == 0
    await bench.write(submit(1))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_FULL, JournalFull),
        (sqlite3.SQLITE_BUSY, JournalBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, JournalBusy),
    ],
)
@pytest.mark.parametrize("begin", ["COMMIT", "INSERT INTO jobs", "BEGIN"])
async def test_errors_that_leave_nothing_written(bench, code, error, begin):
    tries = 2 if code == sqlite3.SQLITE_FULL else 1  # the log is written back, and it is tried once more
    bench.faults += [(begin, "before", code)] * tries
    with pytest.raises(JournalError) as caught:
        await bench.write(submit(1))
    assert type(caught.value) is error
    assert await bench.store.count(ANY) == 0
    await bench.write(submit(1))  # no transaction was left open
    assert await bench.store.count(ANY) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_CORRUPT, JournalCorrupt),
        (sqlite3.SQLITE_CORRUPT_INDEX, JournalCorrupt),
        (sqlite3.SQLITE_NOTADB, JournalCorrupt),
        (sqlite3.SQLITE_BUSY, JournalBusy),
        (sqlite3.SQLITE_LOCKED, JournalBusy),
        (sqlite3.SQLITE_FULL, JournalFull),
        (sqlite3.SQLITE_READONLY_DBMOVED, JournalUnavailable),
        (sqlite3.SQLITE_CANTOPEN, JournalUnavailable),
        (sqlite3.SQLITE_PERM, JournalUnavailable),
        (sqlite3.SQLITE_IOERR_READ, JournalUnavailable),
        (sqlite3.SQLITE_CONSTRAINT, JournalError),
    ],
)
def test_every_code_has_its_error(code, error):
    translated = translate(failure(code), "/some/path.db")
    assert type(translated) is error
    assert translated.path == "/some/path.db"
    assert "/some/path.db" in str(translated)


async def test_a_full_disk_refuses_and_goes_on_when_there_is_space(bench):
    await bench.write(submit(1))
    [(pages,)] = await bench.on_writer("PRAGMA page_count")
    await bench.on_writer(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalFull):
        await bench.write(*(submit(job_id, arguments="x" * 500) for job_id in range(2, 200)))
    assert await bench.store.count(ANY) == 1
    await bench.store.check()
    await bench.on_writer(f"PRAGMA max_page_count = {pages + 1000}")
    await bench.write(*(submit(job_id, arguments="x" * 500) for job_id in range(2, 200)))
    assert await bench.store.count(ANY) == 199


async def test_what_the_schema_refuses_leaves_nothing(bench):
    await bench.write(submit(1))
    with pytest.raises(JournalError):
        await bench.write(submit(2), submit(1))
    assert await bench.store.count(ANY) == 1
    await bench.write(submit(2))


# ---- another program's lock ------------------------------------------------------------------------------------------


async def test_a_lock_that_stays_is_busy(bench):
    await bench.on_writer("PRAGMA busy_timeout = 20")
    blocker = sqlite3.connect(bench.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalBusy) as caught:
        await bench.write(submit(1))
    assert "write lock" in str(caught.value)
    blocker.execute("ROLLBACK")
    blocker.close()
    await bench.write(submit(1))


async def test_waiting_for_a_lock_does_not_block_the_loop(bench):
    """B62: another connection holds the lock for half a second; the loop's beats stay close."""
    blocker = sqlite3.connect(bench.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    loop = asyncio.get_running_loop()
    beats = []

    def beat():
        beats.append(loop.time())
        loop.call_later(0.01, beat)

    beat()
    loop.call_later(0.5, blocker.execute, "ROLLBACK")
    await bench.write(submit(1))
    blocker.close()
    assert len(beats) >= 5  # it did wait
    gaps = [later - earlier for earlier, later in pairwise(beats)]
    assert sorted(gaps)[len(gaps) // 2] <= 0.05  # the middle one, so that a busy machine is no failure


# ---- a cancelled caller ----------------------------------------------------------------------------------------------


async def test_a_cancelled_caller_neither_loses_nor_splits_a_batch(bench):
    task = asyncio.create_task(bench.write(*(submit(job_id) for job_id in range(1, 101))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await bench.store.count(ANY) in (0, 100)
    for job_id in range(201, 211):  # at every turn of the loop: all of it or nothing, and no transaction left open
        task = asyncio.create_task(bench.write(submit(job_id), submit(job_id + 100)))
        for _ in range(job_id - 200):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        pair = [await bench.store.job(job_id), await bench.store.job(job_id + 100)]
        assert (pair[0] is None) == (pair[1] is None)
    await bench.write(submit(1000))


async def test_the_commit_of_a_cancelled_caller_has_ended_when_he_hears_of_it(bench):
    blocker = sqlite3.connect(bench.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(bench.write(submit(1)))
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, task.cancel)
    loop.call_later(0.1, blocker.execute, "ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await task
    blocker.close()
    assert (await bench.store.job(1)).job_id == 1


async def test_commits_at_once_are_written_one_after_the_other(bench):
    await asyncio.gather(*(bench.write(submit(job_id, task=f"app.t{job_id}")) for job_id in range(1, 30)))
    assert await bench.store.count(ANY) == 29


async def test_a_journal_that_is_gone_is_not_made_anew_by_reopening(bench):
    await bench.write(submit(1))
    bench.faults.append(("COMMIT", "before", sqlite3.SQLITE_IOERR))
    with pytest.raises(JournalUnknown):
        await bench.write(submit(2))
    os.rename(bench.path, f"{bench.path}.away")
    for _ in range(2):
        with pytest.raises(JournalUnavailable):
            await bench.store.reopen()
        assert not bench.path.exists()
    os.rename(f"{bench.path}.away", bench.path)
    await bench.store.reopen()
    await bench.write(submit(2))
    assert await bench.store.job(2) is not None


async def test_a_journal_that_was_exchanged_while_standing_by_is_not_owned(tmp_path):
    path = tmp_path / "journal.db"
    store = open_sqlite(str(path))
    await store.open()
    os.rename(path, tmp_path / "away.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(JournalUnavailable):
        await store.own(owner())
    await store.close()
    assert path.read_bytes() == before


async def test_the_answer_of_a_cancelled_commit_is_not_forgotten(bench):
    blocker = sqlite3.connect(bench.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    bench.faults.append(("COMMIT", "before", sqlite3.SQLITE_IOERR))
    task = asyncio.create_task(bench.write(submit(1)))
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, task.cancel)
    loop.call_later(0.05, blocker.execute, "ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await task
    blocker.close()
    with pytest.raises(JournalUnknown):
        await bench.write(submit(2))
    await bench.store.reopen()
    await bench.write(submit(2))


# ---- files that change under the owner -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("change", ["deleted", "replaced"])
async def test_a_file_that_is_gone_or_replaced_is_noticed(bench, ending, change):
    await bench.write(submit(1))
    await bench.store.check()
    name = f"{bench.path}{ending}"
    if change == "replaced":
        shutil.copy(name, f"{name}.copy")
        os.replace(f"{name}.copy", name)
    else:
        os.unlink(name)
    with pytest.raises(JournalUnavailable) as caught:
        await bench.store.check()
    assert name in str(caught.value)


async def test_one_who_stands_by_notices_too(bench):
    standby = open_sqlite(str(bench.path))
    await standby.open()
    await standby.check()
    os.rename(bench.path, f"{bench.path}.away")
    with pytest.raises(JournalUnavailable):
        await standby.check()
    await standby.close()


async def test_a_damaged_page_that_shows_late_is_corrupt(bench):
    await bench.write(*(submit(job_id, arguments="x" * 300) for job_id in range(1, 2000)))
    await bench.store.check()
    await bench.store.check()  # idle: everything is written back, the log is empty
    with open(bench.path, "r+b") as file:
        for page in range(20, 100):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(JournalCorrupt):
        await bench.store.count(JobFilter(tag="none"))


# ---- housekeeping ----------------------------------------------------------------------------------------------------


async def test_the_log_is_written_back_and_cut_when_idle(bench):
    log = f"{bench.path}-wal"
    await bench.write(*(submit(job_id) for job_id in range(1, 500)))
    assert os.stat(log).st_size > 0
    await bench.store.check()  # it may go on
    await bench.store.check()  # nothing came in between
    assert os.stat(log).st_size == 0
    await bench.write(submit(1000))
    assert (await bench.store.job(1000)).job_id == 1000


async def test_a_large_log_is_cut_while_busy(bench, monkeypatch):
    from timewheel_storage.sqlite import keeping

    monkeypatch.setattr(keeping, "WAL_LIMIT_BYTES", 100_000)
    await bench.write(*(submit(job_id, arguments="x" * 300) for job_id in range(1, 500)))
    await bench.store.check()
    assert os.stat(f"{bench.path}-wal").st_size == 0


async def test_a_reader_only_puts_the_cut_off(bench):
    reader = sqlite3.connect(bench.path, isolation_level=None)
    await bench.write(submit(1))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM jobs").fetchall()
    await bench.write(submit(2))
    await bench.store.check()
    await bench.store.check()
    await bench.write(submit(3))
    reader.close()
    await bench.store.check()
    await bench.store.check()
    assert os.stat(f"{bench.path}-wal").st_size == 0
    assert await bench.store.count(ANY) == 3


async def test_many_commits_are_written_back_while_busy(bench):
    from timewheel_storage.sqlite import keeping

    for job_id in range(1, keeping.COMMITS_A_CHECKPOINT + 2):
        await bench.write(submit(job_id))
    await bench.store.check()
    before = os.stat(f"{bench.path}-wal").st_size
    await bench.write(submit(10_000))
    assert os.stat(f"{bench.path}-wal").st_size == before  # the log begins anew


async def test_the_mark_lags_and_never_leads(bench):
    files = DiskFiles(str(bench.path))
    await bench.write(submit(1))
    before = files.read_mark()
    await bench.store.check()
    after = files.read_mark()
    assert before.commits < after.commits
    [(commits,)] = await bench.on_writer("SELECT commits FROM meta")
    assert after.commits == commits
    await bench.write(submit(2))
    assert files.read_mark() == after


# ---- durability ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "synchronous"), [("power", 2), ("process", 1)])
async def test_settings_of_the_writing_connection(tmp_path, durability, synchronous):
    store = open_sqlite(str(tmp_path / "journal.db"), durability)
    await store.open()
    await store.own(owner())
    settings = {
        "synchronous": synchronous,
        "journal_mode": "wal",
        "mmap_size": 0,
        "wal_autocheckpoint": 0,
        "temp_store": 2,
        "busy_timeout": 5000,
    }

    async def of(run, name):
        return await run(lambda connection: connection.execute(f"PRAGMA {name}").fetchone()[0])

    for name, value in settings.items():
        assert await of(store._connections.transact, name) == value, name
    await store.check()
    await store.check()  # idle: it wrote the log back, without waiting for readers
    assert os.stat(f"{store.path}-wal").st_size == 0
    assert await of(store._connections.transact, "busy_timeout") == 5000
    for name in ("mmap_size", "journal_mode"):
        assert await of(store._connections.read, name) == settings[name]
    with pytest.raises(sqlite3.OperationalError):
        await store._connections.read(lambda connection: connection.execute("DELETE FROM jobs"))
    await store.close()


SYNCED = """
import asyncio, sys
from timewheel.testing.builders import owner, stamp, submit
from timewheel_storage.sqlite import open_sqlite

async def main():
    store = open_sqlite(sys.argv[1], sys.argv[2])
    await store.open()
    await store.own(owner())
    for job_id in range(1, 21):
        print("commit", flush=True)
        await store.commit([submit(job_id)], stamp(1))
        print("acknowledged", flush=True)
    await store.close()

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("durability", ["power", "process"])
def test_every_acknowledgement_follows_a_sync(tmp_path, durability):
    """B58: count the syncs between the call and its return."""
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-y",
        "-e",
        "trace=fsync,fdatasync,write",
        "-o",
        str(trace),
        sys.executable,
        "-c",
        SYNCED,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, str(tmp_path / "j.db"), durability], env=environment, capture_output=True, timeout=120
    )
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    synced, waiting = [], None
    for line in trace.read_text(errors="replace").splitlines():
        if '"commit' in line:
            waiting = 0
        elif '"acknowledged' in line:
            synced.append(waiting)
        elif waiting is not None and "sync(" in line and "j.db-wal" in line:
            waiting += 1
    assert len(synced) == 20
    assert all(synced) if durability == "power" else not any(synced[1:])


async def test_success_that_was_settled_before_is_stale_and_harms_no_other(bench):
    await bench.write(submit(1), submit(2), submit(3))
    await bench.write(claim(1, 2, 3))
    await bench.write(settle_ok(1, result="1"))
    first, second, third = await bench.write(settle_ok(1, result="2"), settle_ok(2), settle_ok(3, attempt=2))
    assert (type(first).__name__, type(second).__name__, type(third).__name__) == ("Stale", "Settled", "Stale")
    assert (await bench.store.job(1)).result == "1"
    assert (await bench.store.job(3)).state == "ACTIVE"
