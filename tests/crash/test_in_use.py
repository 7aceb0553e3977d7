"""What other programs do to a journal that is in use, and journals that are damaged when `serve` starts.

In use: noticed within a second or so, and before anything more is acknowledged when a part was cut off. At a start:
refused with 65 (77 where it may not be read), the files as they were, byte for byte; nothing ever begins empty.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.crash.lives import environment
from tests.e2e.children import Child
from tests.e2e.serving import serving
from timewheel import JournalError, Scheduler
from timewheel.cli import exits
from timewheel.connect import audit


def _cut(name: str | Path, share: float) -> None:
    os.truncate(name, int(os.stat(name).st_size * share) // 4096 * 4096)


def _replace(name: Path) -> None:
    shutil.copy(name, f"{name}.copy")
    os.replace(f"{name}.copy", name)


FAULTS = {
    "journal deleted": lambda folder: os.unlink(folder / "jobs.db"),
    "journal replaced": lambda folder: _replace(folder / "jobs.db"),
    "journal cut to nothing": lambda folder: _cut(folder / "jobs.db", 0),
    "journal cut to half": lambda folder: _cut(folder / "jobs.db", 0.5),
    "log deleted": lambda folder: os.unlink(folder / "jobs.db-wal"),
    "log replaced": lambda folder: _replace(folder / "jobs.db-wal"),
    "log cut to nothing": lambda folder: _cut(folder / "jobs.db-wal", 0),
    "log cut to half": lambda folder: _cut(folder / "jobs.db-wal", 0.5),
}
CUT = [name for name in FAULTS if "cut" in name]

SUBMITS = """
    import json, time
    from datetime import timedelta

    failures = []
    scheduler = Scheduler("sqlite:///jobs.db", on_failure=failures.append)

    @scheduler.task(name="later")
    async def later(number):
        pass

    async def main():
        await scheduler.start()
        hour = timedelta(hours=1)
        await scheduler.at_many(scheduler.new(hour, "later", number) for number in range(300))
        await asyncio.sleep(2.5)  # it is written back
        for number in range(20):
            await scheduler.after(3600, "later", number)
        say("ready")
        await asyncio.to_thread(hear)
        began, acknowledged = time.monotonic(), 0
        while scheduler.state == "RUNNING" and time.monotonic() - began < 30:
            try:
                await scheduler.after(3600, "later", 1)
                acknowledged += 1
            except TimewheelError:
                pass
            await asyncio.sleep(0.02)
        took_s = time.monotonic() - began
        cause = await scheduler.wait_failed()
        say(json.dumps({"took_s": took_s, "acknowledged": acknowledged, "cause": type(cause).__name__,
                        "message": str(cause), "told": failures == [cause]}))
        try:
            await scheduler.now("later", 1)
        except SchedulerFailed as failed:
            say(type(failed.cause).__name__)
        await scheduler.stop(0)

    asyncio.run(main())
"""


@pytest.mark.slow
def test_a_fault_while_it_is_in_use_stops_an_embedded_scheduler(tmp_path):
    """All at the same time, each in a process of its own."""
    with ExitStack() as children:
        running = {}
        for fault in FAULTS:
            (tmp_path / fault).mkdir()
            running[fault] = children.enter_context(Child(tmp_path / fault, SUBMITS))
        for fault, child in running.items():
            assert child.line() == "ready"
            FAULTS[fault](tmp_path / fault)
            child.tell("go on")
        for fault, child in running.items():
            seen = json.loads(child.line())
            assert child.rest() == ["JournalUnavailable"], fault
            assert seen["cause"] == "JournalUnavailable", fault
            assert "jobs.db" in seen["message"]
            assert seen["told"]
            assert seen["took_s"] < 10, (fault, seen)  # a second, on a machine that is not busy
            if fault in CUT:
                assert seen["acknowledged"] == 0, (fault, seen)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["log deleted", "journal cut to half"])
async def test_a_fault_while_it_is_in_use_ends_serve_with_74(tmp_path, fault):
    async with serving("--db", "jobs.db", cwd=tmp_path) as child:
        await asyncio.sleep(1.5)  # it has looked at the files once
        FAULTS[fault](tmp_path)
        assert await child.end() == exits.IO, child.lines
        assert "jobs.db" in child.lines[-1]


# ---- at a start ------------------------------------------------------------------------------------------------------

FILLS = """
    async def later(number): pass

    async def main():
        scheduler = Scheduler("sqlite:///jobs.db")
        scheduler.task(name="log.message")(later)
        await scheduler.start()
        for number in range(40):
            await scheduler.options(idempotency_key=f"k{number}").after(3600, "log.message", "x" * 300)
        await asyncio.sleep(1.5)  # the mark is written
        with open("jobs.db.mark", "rb") as file:
            before = file.read()
        after = before
        for number in range(10):
            await scheduler.after(3600, "log.message", "y" * 300)
        while after == before:  # it tells of some of these; a look later the log may be written back
            await asyncio.sleep(0.01)
            with open("jobs.db.mark", "rb") as file:
                after = file.read()
        os.kill(os.getpid(), 9)  # the log stays

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """A journal that a killed process left, with a log and a mark."""
    folder = tmp_path_factory.mktemp("left")
    with Child(folder, FILLS) as child:
        assert child.end() == -signal.SIGKILL
    return folder


@pytest.fixture
def journal(left, tmp_path, monkeypatch):
    for path in left.glob("jobs.db*"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "jobs.db"


def _overwrite(name: str, at: int, data: bytes) -> None:
    with open(name, "r+b") as file:
        file.seek(at)
        file.write(data)


def _sql(*statements: str) -> None:
    with closing(sqlite3.connect("jobs.db", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _fold() -> None:
    _sql("PRAGMA wal_checkpoint(TRUNCATE)")


DAMAGE = {
    "cut to nothing": lambda: (_fold(), os.truncate("jobs.db", 0)),
    "cut to half": lambda: (_fold(), _cut("jobs.db", 0.5)),
    "cut by a page": lambda: (_fold(), os.truncate("jobs.db", os.stat("jobs.db").st_size - 4096)),
    "header overwritten": lambda: (_fold(), _overwrite("jobs.db", 0, b"\0" * 100)),
    "log deleted": lambda: os.unlink("jobs.db-wal"),
    "log cut to nothing": lambda: os.truncate("jobs.db-wal", 0),
    "log header overwritten": lambda: _overwrite("jobs.db-wal", 0, b"\0" * 32),
    "journal deleted, its log left": lambda: os.unlink("jobs.db"),
    "newer schema": lambda: _sql("PRAGMA user_version = 99"),
    "another program's": lambda: _sql("PRAGMA application_id = 7"),
    "not a database": lambda: Path("jobs.db").write_bytes(b"hello, world\n" * 1000),
}


def _contents(folder: Path) -> dict[str, bytes]:
    """Of all files that hold anything, but for SQLite's shared memory, and the lock, which says who looked last."""
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-shm", ".lock"))}
    return {name: content for name, content in kept.items() if content or name == "jobs.db"}


def _serve(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `serve` until it ends by itself."""
    command = [sys.executable, "-m", "timewheel", "serve", "--port", "0", "--db", "jobs.db"]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_journal_is_refused_and_left_as_it_was(journal, damage):
    DAMAGE[damage]()
    Path("jobs.db-shm").unlink(missing_ok=True)
    before = _contents(journal.parent)
    with pytest.raises(JournalError, match=r"jobs\.db") as refused:
        await Scheduler("sqlite:///jobs.db").start()
    assert exits.code_of(refused.value, starting=True) == exits.DATA
    assert _contents(journal.parent) == before


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["log deleted", "journal deleted, its log left"])
def test_serve_refuses_a_damaged_journal_with_65(journal, damage):
    DAMAGE[damage]()
    before = _contents(journal.parent)
    ended = _serve(journal.parent)
    assert ended.returncode == exits.DATA, ended.stderr
    assert "jobs.db" in ended.stderr.splitlines()[-1]
    assert _contents(journal.parent) == before


def test_a_folder_in_its_place_is_73(tmp_path):
    (tmp_path / "jobs.db").mkdir()
    ended = _serve(tmp_path)
    assert ended.returncode == exits.CANNOT_CREATE, ended.stderr


NOT_ALMIGHTY = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2  # prctl(2), capabilities(7)
for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
    if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
        sys.exit(f"cannot drop a capability: {os.strerror(ctypes.get_errno())}")
os.execv(sys.executable, [sys.executable, "-m", "timewheel", "serve", "--port", "0", "--db", "jobs.db"])
"""
NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_journal_that_one_may_not_read_or_write_is_77(journal, mode):
    for path in journal.parent.iterdir():
        path.chmod(mode)
        os.chown(path, NOBODY, NOBODY)
    before = _contents(journal.parent)
    ended = subprocess.run(
        [sys.executable, "-c", NOT_ALMIGHTY], cwd=journal.parent, env=environment(), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == exits.PERMISSION, ended.stderr
    assert _contents(journal.parent) == before


async def test_b59_a_row_that_cannot_be_read_is_set_apart_and_the_rest_run(tmp_path, monkeypatch):
    """Its arguments are garbage: the job waits, in view, with the reason."""
    monkeypatch.chdir(tmp_path)
    ran = []

    async def note(number):
        ran.append(number)

    scheduler = Scheduler("sqlite:///jobs.db")
    scheduler.task(name="note")(note)
    async with scheduler:
        jobs = [await scheduler.after(3600, "note", number) for number in range(5)]
    _sql(f"UPDATE jobs SET arguments = '{{garbage' WHERE job_id = {jobs[2].number}", "UPDATE jobs SET due_at = 0")
    heir = Scheduler("sqlite:///jobs.db")
    heir.task(name="note")(note)
    async with heir:
        for place in (0, 1, 3, 4):
            assert (await (await heir.get_job(jobs[place].id)).wait(60)).state == "COMPLETED"
        ends = time.monotonic() + 60
        while (bad := [job async for job in heir.jobs(state="WAITING")]) == []:
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)
        assert [(job.id, job.reason) for job in bad] == [(jobs[2].id, "unresolvable")]
    assert sorted(ran) == [0, 1, 3, 4]
    assert audit("jobs.db") == []
