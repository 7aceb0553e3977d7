"""One owner a journal (B57): the lock, who holds it, and what becomes of it when its process forks or dies."""

import os
import signal
import subprocess
import sys
import textwrap

import orjson
import pytest

from timewheel.errors import JournalOwned, JournalUnavailable, NotOwner
from timewheel.store.port import JobFilter
from timewheel.testing.builders import START, owner, stamp, submit
from timewheel_storage.sqlite import lock as lock_module
from timewheel_storage.sqlite import open_sqlite
from timewheel_storage.sqlite.lock import OwnerLock

OTHER = """
import asyncio, os, sys
from timewheel.testing.builders import owner, stamp, submit
from timewheel_storage.sqlite import open_sqlite

async def main():
    store = open_sqlite(sys.argv[1])
    await store.open()
    ownership = await store.own(owner())
    await store.commit([submit(ownership.epoch)], stamp(ownership.epoch))
    {then}

asyncio.run(main())
"""
WAIT = 'print("owned", flush=True); sys.stdin.read()'
DIE = "os._exit(0)"
FORK_AND_DIE = """
    child = os.fork()
    if child == 0:
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    os._exit(0)
"""
LEAVE_OPEN = "pass"


def start(path, then):
    code = OTHER.replace("{then}", textwrap.dedent(then).strip().replace("\n", "\n    "))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment, **pipes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


async def opened(path):
    store = open_sqlite(str(path))
    await store.open()
    return store


async def test_a_second_process_is_told_who_owns_the_journal(path):
    other = start(path, WAIT)
    assert other.stdout.readline() == "owned\n"
    store = await opened(path)
    with pytest.raises(JournalOwned) as caught:
        await store.own(owner())
    assert caught.value.owner["pid"] == other.pid
    assert caught.value.owner["since"] == START.wall_us
    assert caught.value.owner["epoch"] == 1
    for part in (str(path), str(other.pid), os.uname().nodename, "2025-06-15", 'when_owned="wait"'):
        assert part in str(caught.value)
    assert (await store.job(1)).job_id == 1  # standing by, it reads
    with pytest.raises(NotOwner):
        await store.commit([submit(9)], stamp(1))
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert (await store.own(owner())).epoch == 2  # the lock is free at once
    await store.close()


async def test_the_lock_of_a_dead_owner_is_free_while_a_child_of_his_lives(path):
    other = start(path, FORK_AND_DIE)
    assert other.stdout.readline() == "forked\n"
    other.wait()
    store = await opened(path)
    assert (await store.own(owner())).epoch == 2
    await store.close()
    other.communicate()


async def test_a_process_that_never_closes_still_ends(path):
    other = start(path, LEAVE_OPEN)
    _, complaints = other.communicate(timeout=60)
    assert other.returncode == 0, complaints
    store = await opened(path)
    assert (await store.own(owner())).epoch == 2
    await store.close()


async def test_a_dead_owner_leaves_what_it_committed(path):
    start(path, DIE).communicate()
    store = await opened(path)
    assert (await store.own(owner())).anchor is not None
    assert (await store.job(1)).job_id == 1
    await store.close()


async def test_two_stores_of_one_process_exclude_each_other(path):
    first, second = await opened(path), await opened(path)
    await first.own(owner())
    with pytest.raises(JournalOwned):
        await second.own(owner())
    with pytest.raises(JournalOwned):
        await first.own(owner())
    await first.commit([submit(1)], stamp(1))  # the refused ones took nothing from the owner
    await first.close()
    await second.own(owner())
    await second.commit([submit(2)], stamp(2))
    assert await second.count(JobFilter()) == 2
    await second.close()


async def test_a_stale_epoch_writes_nothing(path):
    store = await opened(path)
    await store.own(owner())
    for epoch in (0, 2):
        with pytest.raises(NotOwner):
            await store.commit([submit(1)], stamp(epoch))
    assert await store.job(1) is None
    await store.close()


async def test_ownership_kept_beyond_close_is_given_up_by_disown(path):
    first, second = await opened(path), await opened(path)
    await first.own(owner())
    await first.close(keep_ownership=True)
    with pytest.raises(JournalOwned):
        await second.own(owner())
    first.disown()
    first.disown()
    await second.own(owner())
    await second.close()


async def test_a_disown_that_comes_before_close_waits_for_it(path):
    first, second = await opened(path), await opened(path)
    await first.own(owner())
    first.disown()
    with pytest.raises(JournalOwned):
        await second.own(owner())
    await first.commit([submit(1)], stamp(1))
    await first.close(keep_ownership=True)
    await second.own(owner())
    await second.close()


async def test_closing_twice_and_unopened(path):
    store = open_sqlite(str(path))
    await store.close()
    store = await opened(path)
    await store.own(owner())
    await store.close()
    await store.close()
    with pytest.raises(JournalUnavailable):
        await store.job(1)
    with pytest.raises(NotOwner):
        await store.commit([submit(1)], stamp(1))


# ---- the lock alone --------------------------------------------------------------------------------------------------


@pytest.fixture
def lock(tmp_path):
    lock = OwnerLock(str(tmp_path / "db.lock"), "db")
    yield lock
    lock.release()


def test_a_lock_file_that_was_deleted_does_not_let_a_third_in(lock, tmp_path, monkeypatch):
    """A waiter that locks the deleted file must notice: else two would own the journal."""
    name = tmp_path / "db.lock"
    really, calls = lock_module._same_file, []

    def replaced_meanwhile(descriptor, path):
        if not calls:
            calls.append(path)
            os.unlink(path)
            name.touch()
        return really(descriptor, path)

    monkeypatch.setattr(lock_module, "_same_file", replaced_meanwhile)
    lock.take(1)
    assert calls
    with pytest.raises(JournalOwned):
        OwnerLock(str(name), "db").take(1)


def test_the_lock_file_says_who_in_readable_form(lock, tmp_path):
    lock.take(5)
    lock.sign(5, 12_345)
    lock.sign(5, 7)
    found = orjson.loads((tmp_path / "db.lock").read_bytes())
    assert found == {"pid": os.getpid(), "host": os.uname().nodename, "since": 5, "epoch": 7}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_an_unreadable_lock_file_still_locks(lock, tmp_path, content):
    lock.take(1)
    (tmp_path / "db.lock").write_bytes(content)
    with pytest.raises(JournalOwned) as caught:
        OwnerLock(str(tmp_path / "db.lock"), "db").take(1)
    assert caught.value.owner is None
    assert "another process" in str(caught.value)


def test_the_descriptor_is_not_inherited(lock):
    lock.take(1)
    assert not os.get_inheritable(lock._descriptor)


def test_a_lock_that_cannot_be_made(tmp_path):
    with pytest.raises(JournalUnavailable):
        OwnerLock(str(tmp_path / "none" / "db.lock"), "db").take(1)


async def test_a_clean_end_empties_the_log_into_the_database(tmp_path):
    path = tmp_path / "j.db"
    store = open_sqlite(str(path))
    await store.open()
    ownership = await store.own(owner())
    await store.commit([submit(ownership.epoch << 40 | n) for n in range(1, 500)], stamp(ownership.epoch))
    assert (tmp_path / "j.db-wal").stat().st_size > 0
    await store.close()
    log = tmp_path / "j.db-wal"
    assert not log.exists() or log.stat().st_size == 0
