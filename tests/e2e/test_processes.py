"""Processes that die: what they acknowledged is there, what they ran is LOST, and the next one goes on at once."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading

import pytest
from children import PRELUDE, Child, environment

from timewheel import JournalOwned, Scheduler
from timewheel_storage.sqlite.connection import Worker

# ---- B52: SIGKILL while running --------------------------------------------------------------------------------------

RUNS = """
    scheduler = Scheduler("sqlite:///jobs.db")

    @scheduler.task(name="work")
    async def work():
        say("running", current().attempt)
        if current().attempt == 1:
            await forever()
        return current().attempt

    async def main():
        async with scheduler:
            if sys.argv[1] == "make":
                await scheduler.now(work)
                await forever()
            [job] = await scheduler.jobs()
            say("result", await job.result())
            say(*[attempt.state for attempt in await job.attempts()])

    asyncio.run(main())
"""


def test_b52_a_run_that_was_killed_is_found_lost_and_run_again(tmp_path):
    with Child(tmp_path, RUNS, "make") as first:
        assert first.line() == "running 1"
        first.kill()
    with Child(tmp_path, RUNS, "finish") as second:
        assert second.rest() == ["running 2", "result 2", "LOST SUCCEEDED"]
        assert second.end() == 0


KILLS = """
    scheduler = Scheduler("sqlite:///jobs.db")

    @scheduler.task(name="deadly")
    def deadly():
        say("entered", current().attempt)
        os._exit(9)

    @scheduler.task(name="harmless")
    async def harmless():
        return "done"

    async def main():
        async with scheduler:
            if sys.argv[1] == "make":
                await scheduler.now(deadly)
                await forever()
            elif sys.argv[1] == "again":
                await forever()
            say(await (await scheduler.now(harmless)).result())
            [job] = await scheduler.jobs(state="DEAD")
            say(job.reason, *[attempt.state for attempt in await job.attempts()])

    asyncio.run(main())
"""


def test_i13_a_job_that_kills_the_process_is_given_up_after_its_fourth_loss(tmp_path):
    for attempt in range(1, 5):
        with Child(tmp_path, KILLS, "make" if attempt == 1 else "again") as child:
            assert child.rest() == [f"entered {attempt}"]
            assert child.end() == 9
    with Child(tmp_path, KILLS, "look") as last:
        assert last.rest() == ["done", "crash_loop LOST LOST LOST LOST"]


# ---- B58: acknowledged means synced ----------------------------------------------------------------------------------

ACKNOWLEDGES = """
    scheduler = Scheduler("sqlite:///jobs.db", durability=sys.argv[1])

    @scheduler.task(name="later")
    async def later():
        pass

    async def main():
        async with scheduler:
            say("ready")
            for _ in range(int(sys.argv[2])):
                say((await scheduler.after(3600, later)).id)
            await forever()

    asyncio.run(main())
"""

LISTS = """
    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            async for job in scheduler.jobs():
                say(job.id)

    asyncio.run(main())
"""


@pytest.mark.parametrize("acknowledgements", [1, 2, 5, 17])
def test_b58_what_was_acknowledged_survives_sigkill_right_after(tmp_path, acknowledgements):
    with Child(tmp_path, ACKNOWLEDGES, "power", 1000) as child:
        assert child.line() == "ready"
        told = [child.line() for _ in range(acknowledgements)]
        told += child.kill()
    with Child(tmp_path, LISTS, name="lists") as lists:
        assert set(told) <= set(lists.rest())
        assert lists.end() == 0


EVENT = re.compile(r'\bf(?:data)?sync(?:\(\d+\)| resumed>\)) += 0$|write\(1, "(job-|ready)', re.MULTILINE)


def traced(folder, durability):
    """What the kernel saw of a few acknowledgements after "ready": "sync" and "said", in order."""
    folder.mkdir()
    trace = folder / "trace"
    before = ("strace", "-f", "-qq", "-e", "trace=fdatasync,fsync,write", "-o", str(trace))
    with Child(folder, ACKNOWLEDGES, durability, 5, before=before) as child:
        if child.process.stdout.readline() != "ready\n":
            pytest.skip(f"strace may not trace here: {child.errors.read_text()[-200:]}")
        for _ in range(5):
            child.line()
    events = ["said" if said else "sync" for said in EVENT.findall(trace.read_text())]
    return events[events.index("said") + 1 :]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_b58_i2_every_acknowledgement_follows_a_sync_and_the_trace_can_tell(tmp_path):
    power, control = (traced(tmp_path / durability, durability) for durability in ("power", "process"))
    assert power.count("said") == control.count("said") == 5
    said = [-1, *(place for place, event in enumerate(power) if event == "said")]
    assert all("sync" in power[before + 1 : after] for before, after in itertools.pairwise(said)), power
    assert "sync" not in control  # `process` does not sync, and the same trace shows it


# ---- B57: one owner --------------------------------------------------------------------------------------------------

OWNS = """
    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            say("owner")
            await forever()

    asyncio.run(main())
"""


async def test_b57_a_second_process_is_refused_at_once_and_a_dead_owner_holds_nothing(tmp_path):
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    with Child(tmp_path, OWNS) as owner:
        assert owner.line() == "owner"
        with pytest.raises(JournalOwned, match=f"process {owner.pid} ") as refused:
            await scheduler.start()
        assert refused.value.owner["pid"] == owner.pid
        assert 'when_owned="wait"' in str(refused.value)
        owner.kill()
    async with scheduler:
        assert scheduler.state == "RUNNING"


# ---- B68: functions of the file that is run --------------------------------------------------------------------------

JOBS = """
    def send(number):
        say("sent", number)
        return number

    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            job = await scheduler.after(0.001 if sys.argv[1] == "run" else 3600, send, 7)
            say(job.task)
            if sys.argv[1] == "run":
                await job.wait()
            else:
                await forever()

    if __name__ == "__main__":
        asyncio.run(main())
"""

OTHER = """
    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            [job] = await scheduler.jobs(state="SCHEDULED")
            await job.reschedule(1_700_000_000)
            say((await job.wait()).state)

    asyncio.run(main())
"""


def test_b68_a_function_of_main_is_found_by_a_process_that_imports_its_file(tmp_path):
    with Child(tmp_path, JOBS, "run", name="jobs") as runs_it_itself:
        assert runs_it_itself.rest() == ["jobs:send", "sent 7"]
    with Child(tmp_path, JOBS, "make", name="jobs") as maker:
        assert maker.line() == "jobs:send"
        maker.kill()
    with Child(tmp_path, OTHER, name="other") as other:
        assert other.rest() == ["sent 7", "COMPLETED"]


def test_b68_a_function_of_no_file_is_refused(tmp_path):
    program = """
    def send():
        pass

    async def main():
        async with Scheduler("memory://") as scheduler:
            await scheduler.now(send)

    asyncio.run(main())
    """
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(program)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert re.search(r"InvalidTask: .*send.* defined in no file .*save it in one, or register it", ended.stderr)


# ---- B62: waiting for the database -----------------------------------------------------------------------------------

LOCKS = """
    import sqlite3
    connection = sqlite3.connect("jobs.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    hear()
    connection.execute("COMMIT")
    say("unlocked")
"""


async def test_b61_b62_another_program_holds_the_write_lock_and_the_loop_does_not_wait(tmp_path, monkeypatch):
    threads, turns, ran = set(), 0, []
    run = Worker.run

    async def watched(self, work):
        def note(connection: sqlite3.Connection):
            threads.add(threading.get_ident())
            return work(connection)

        return await run(self, note)

    async def heartbeat():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def count(number):
        ran.append(number)

    monkeypatch.setattr(Worker, "run", watched)
    async with Scheduler(f"sqlite:///{tmp_path}/jobs.db") as scheduler:
        scheduler.task(name="count")(count)
        due = [await scheduler.after(0.05, "count", number) for number in range(50)]
        with Child(tmp_path, LOCKS) as other:
            assert other.line() == "locked"
            submitted = [asyncio.ensure_future(scheduler.now("count", number)) for number in range(50, 100)]
            beating = asyncio.ensure_future(heartbeat())
            while turns < 5_000:
                await asyncio.sleep(0)
            assert not any(each.done() for each in submitted)
            assert await scheduler.jobs().count() >= 50  # reads go on
            other.tell("go on")
            assert other.line() == "unlocked"
        beating.cancel()
        for job in [*due, *await asyncio.gather(*submitted)]:
            assert (await job.wait(60)).state == "COMPLETED"
            assert [attempt.number for attempt in await job.attempts()] == [1]
    assert sorted(ran) == list(range(100))
    assert threading.get_ident() not in threads
