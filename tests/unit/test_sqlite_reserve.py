"""The space that is kept back for outcomes: what is written while a disk is full, and when it goes on."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from timewheel.errors import JournalFull
from timewheel.store.changes import AddEntry, SaveLimits
from timewheel.testing.builders import START, cancel, claim, owner, reschedule, settle_ok, stamp, submit
from timewheel_storage.sqlite import open_sqlite, reserve

BEGINNINGS = [
    [submit(9)],
    [cancel(1)],
    [reschedule(1, scheduled_at=START.wall_us)],
    [claim(1)],
    [],
    [settle_ok(2), submit(9)],
]


class Disk:
    """A disk that is full while `full`, told by what would be set aside."""

    full = False

    def __init__(self, monkeypatch):
        self._really = os.posix_fallocate
        monkeypatch.setattr(os, "posix_fallocate", self.set_aside)

    def set_aside(self, descriptor, offset, length):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._really(descriptor, offset, length)


@pytest.fixture
async def store(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    await store.commit([submit(1), submit(2)], stamp(1))
    await store.commit([claim(2)], stamp(1))
    yield store
    await store.close()


async def pages(store, allowed):
    """SQLite finds the disk full above so many pages."""
    await store._connections.transact(lambda connection: connection.execute(f"PRAGMA max_page_count = {allowed}"))


def test_the_space_is_really_taken(tmp_path):
    kept = reserve.Reserve(str(tmp_path / "r"))
    assert kept.hold()
    status = os.stat(tmp_path / "r")
    assert status.st_size == status.st_blocks * 512 == reserve.RESERVE_BYTES
    assert status.st_mode & 0o777 == 0o600
    assert kept.hold()
    assert kept.spend()
    assert not (tmp_path / "r").exists()
    assert not kept.spend()


async def test_it_stands_from_the_start_and_stays_for_the_next_one(store, tmp_path):
    assert os.stat(tmp_path / "journal.db.reserve").st_size == reserve.RESERVE_BYTES
    await store.close()
    assert os.stat(tmp_path / "journal.db.reserve").st_size == reserve.RESERVE_BYTES


@pytest.mark.parametrize("changes", BEGINNINGS)
async def test_without_it_nothing_begins(store, tmp_path, monkeypatch, changes):
    disk = Disk(monkeypatch)
    store._files.spend_reserve()
    disk.full = True
    before = await store.dump()
    with pytest.raises(JournalFull, match="the last 1 MiB is kept for the outcomes of what runs"):
        await store.commit(changes, stamp(1))
    assert await store.dump() == before
    assert not (tmp_path / "journal.db.reserve").exists()  # a part of it is of no use
    disk.full = False
    await store.commit(changes, stamp(1))
    assert (tmp_path / "journal.db.reserve").exists()


async def test_without_it_things_end(store, monkeypatch):
    disk = Disk(monkeypatch)
    store._files.spend_reserve()
    disk.full = True
    await store.commit([settle_ok(2), AddEntry("late_result"), SaveLimits({"a": 1})], stamp(1))
    assert (await store.job(2)).state == "COMPLETED"


async def test_an_outcome_that_meets_a_full_disk_has_it_and_only_once(store, tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    tries = []
    write = reserve.write_within

    def full_until_spent(files, batch, connection, really):
        def once():
            tries.append((tmp_path / "journal.db.reserve").exists())
            if tries[-1]:
                raise JournalFull("no space", path="x")
            really()

        write(files, batch, connection, once)

    monkeypatch.setattr("timewheel_storage.sqlite.store.write_within", full_until_spent)
    disk.full = True
    await store.commit([settle_ok(2)], stamp(1))
    assert tries == [True, False]
    assert (await store.job(2)).state == "COMPLETED"


LARGE = [[submit(job, arguments="x" * 5_000) for job in range(10, 60)], [AddEntry("x", "y" * 100_000)]]


@pytest.mark.parametrize("changes", LARGE)
async def test_what_ends_nothing_leaves_it_alone_when_it_meets_a_full_disk(store, tmp_path, changes):
    await pages(store, 1)
    with pytest.raises(JournalFull):
        await store.commit(changes, stamp(1))
    assert (tmp_path / "journal.db.reserve").exists()


async def test_where_no_space_can_be_set_aside_all_is_written(store, tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    store._files.spend_reserve()
    await store.commit([submit(9)], stamp(1))
    assert not (tmp_path / "journal.db.reserve").exists()


async def test_a_start_on_a_full_disk_recovers_and_refuses_what_is_new(store, tmp_path, monkeypatch):
    await store.close()
    os.unlink(tmp_path / "journal.db.reserve")
    disk = Disk(monkeypatch)
    disk.full = True
    heir = open_sqlite(store.path)
    await heir.open()
    await heir.own(owner())
    await heir.commit([settle_ok(2), AddEntry("recovery")], stamp(2))
    with pytest.raises(JournalFull):
        await heir.commit([submit(9)], stamp(2))
    await heir.close()


# ---- on a disk that is full ------------------------------------------------------------------------------------------

FILLS = """
import asyncio, os, sys
from timewheel.errors import JournalFull
from timewheel.testing.builders import claim, owner, settle_ok, stamp, submit
from timewheel_storage.sqlite import open_sqlite

def fill():
    with open("rest", "ab", buffering=0) as rest:
        try:
            while True:
                rest.write(bytes(4096))
        except OSError:
            pass

async def main():
    store = open_sqlite("journal.db")
    await store.open()
    await store.own(owner())
    await store.commit([submit(job, arguments="x" * 300) for job in range(1, 401)], stamp(1))
    await store.commit([claim(*range(1, 101))], stamp(1))
    await store.check()  # as it is called every second
    await store.check()
    fill()
    for job in range(1_000, 2_000):  # what there is room for in the log
        try:
            await store.commit([submit(job, arguments="x" * 5_000)], stamp(1))
        except JournalFull:
            break
    await store.check()
    fill()
    assert os.path.exists("journal.db.reserve")
    settled = 0
    try:
        for job in range(1, 101):
            await store.commit([settle_ok(job, result="y" * 500)], stamp(1))
            settled += 1
    except JournalFull:
        pass
    print("settled", settled, os.path.exists("journal.db.reserve"))
    try:
        await store.commit([submit(5_000)], stamp(1))
    except JournalFull as full:
        print("refused", full.path)
    os.unlink("rest")
    await store.commit([submit(5_000)], stamp(1))
    print("again", os.path.exists("journal.db.reserve"))
    await store.close()

asyncio.run(main())
"""


LONG_LOG = """
import asyncio, os
from timewheel.errors import JournalFull
from timewheel.testing.builders import owner, stamp, submit
from timewheel_storage.sqlite import open_sqlite

async def main():
    store = open_sqlite("journal.db")
    await store.open()
    await store.own(owner())
    job = 0
    try:
        while True:
            job += 1
            await store.commit([submit(job, arguments="x" * 300)], stamp(1))
    except JournalFull:
        print("full", os.stat("journal.db-wal").st_size > 1 << 20, os.stat("journal.db").st_size < 1 << 20)
    for _ in range(3):
        await store.check()
    await store.commit([submit(job)], stamp(1))
    print("again", os.path.exists("journal.db.reserve"))
    await store.close()

asyncio.run(main())
"""


def on_a_small_disk(folder, program):
    """What a program says that runs on a real file system of 4 MiB, where no other program has room."""
    root = Path(__file__).parents[2]
    path = f"{root}{os.pathsep}{root / 'storage'}"
    script = 'mount -t tmpfs -o size=4m none "$1" && cd "$1" && exec "$2" -c "$3"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), sys.executable, program],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if "permission denied" in done.stderr.lower() or "not permitted" in done.stderr.lower():
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


needs_root = pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="needs unshare, as root")


@needs_root
def test_a_disk_that_the_log_alone_filled_frees_itself(tmp_path):
    """The database must grow before the log can be cut: the reserve is lent for that."""
    assert on_a_small_disk(tmp_path, LONG_LOG) == ["full True True", "again True"]


@needs_root
def test_on_a_full_disk_a_hundred_outcomes_are_written(tmp_path):
    """Each outcome in a commit of its own.

    The log is written back once a second, as a rule, so what it holds has its place in the database.
    """
    assert on_a_small_disk(tmp_path, FILLS) == ["settled 100 False", "refused journal.db", "again True"]
