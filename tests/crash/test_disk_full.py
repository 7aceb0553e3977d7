"""B60: a real disk that fills and is freed, under an embedding program and under `serve`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.crash.disks import fill, inside, on_a_disk_of, why_not
from tests.crash.lives import environment
from tests.e2e.children import Child

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

FULL = """
    import json, logging, pathlib, time
    from tests.crash.disks import fill
    from timewheel.connect import audit

    disk = pathlib.Path("disk")
    greedy = sys.argv[1] == "greedy"
    scheduler = Scheduler("sqlite:///disk/jobs.db")
    starts = []
    gaps = []
    lines = []
    release = asyncio.Event()

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    @scheduler.task(name="hold")
    async def hold(number):
        starts.append(number)
        await release.wait()
        return "x" * 200

    @scheduler.task(name="quick")
    async def quick(number):
        starts.append(number)

    async def heartbeat():
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    async def eat():
        while disk.joinpath("rest").exists():
            fill(disk)
            await asyncio.sleep(0.002)

    async def fill_until_refused():
        # the log may give space back once, when it has been written back; after that the disk stays full
        refused = accepted = 0
        while refused < 30:
            fill(disk)
            try:
                await scheduler.after(3600, "quick", "y" * 3_000)
                refused, accepted = 0, accepted + 1
            except JournalFull:
                refused += 1
                await asyncio.sleep(0.05)
        return accepted

    async def counted(jobs, state):
        return [(await job.refresh()).state for job in jobs].count(state)

    async def main():
        logging.getLogger("timewheel").addHandler(Lines())
        beat = asyncio.ensure_future(heartbeat())
        async with scheduler:
            held = [await scheduler.now("hold", number) for number in range(60)]
            scheduled = time.monotonic()
            due = [await scheduler.after(6, "quick", 1000 + number) for number in range(20)]
            while len(starts) < 60:
                await asyncio.sleep(0.01)
            accepted = await fill_until_refused()
            eating = asyncio.ensure_future(eat()) if greedy else None
            say(json.dumps({"accepted": accepted, "trouble": type(scheduler.trouble).__name__}))
            refused = 0
            release.set()
            while time.monotonic() - scheduled < 7.5:
                try:
                    await scheduler.now("quick", 5000)
                except JournalFull:
                    refused += 1
                await asyncio.sleep(0.05)
            say(json.dumps({
                "refused": refused, "ended": await counted(held, "COMPLETED"), "due": await counted(due, "SCHEDULED"),
                "listed": await scheduler.jobs().count() >= 80, "starts": len(starts), "lines": lines,
            }))
            began = time.monotonic()
            disk.joinpath("rest").unlink()
            if eating is not None:
                await eating
                disk.joinpath("rest").unlink(missing_ok=True)
            for job in [*held, *due]:
                assert (await job.wait(30)).state == "COMPLETED", job
                assert [attempt.number for attempt in await job.attempts()] == [1]
            again = await scheduler.now("quick", 5000)
            await again.wait(30)
            say(json.dumps({
                "recovered_s": time.monotonic() - began, "trouble": scheduler.trouble, "starts": sorted(starts),
                "gap_s": max(gaps), "lines": lines,
            }))
        beat.cancel()
        say(json.dumps(audit("disk/jobs.db")))

    asyncio.run(main())
"""


@pytest.mark.parametrize("others", ["polite", "greedy"])
def test_a_full_disk_refuses_what_is_new_and_loses_nothing(tmp_path, others):
    """Polite: nobody takes what the reserve gives back. Greedy: another program takes every block at once."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with Child(tmp_path, FULL, others, before=on_a_disk_of("4m", disk)) as child:
        assert json.loads(child.line())["trouble"] == "JournalFull"
        full = json.loads(child.line())
        assert full["refused"] > 5
        assert full["due"] == 20  # none of what fell due has begun
        assert full["starts"] == 60
        assert full["listed"]  # reads work
        assert len(full["lines"]) == 1, full["lines"]
        assert "a commit failed: JournalFull" in full["lines"][0]
        if others == "polite":
            assert full["ended"] == 60  # their outcomes are durable although the disk is full
        freed = json.loads(child.line())
        assert freed["trouble"] is None
        assert freed["recovered_s"] < 20
        assert freed["starts"] == [*range(60), *range(1000, 1020), 5000]
        assert len(freed["lines"]) == 1
        assert json.loads(child.line()) == []  # verify finds nothing
        assert child.end() == 0


async def test_serve_answers_507_and_503_and_goes_on_by_itself(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    process = await asyncio.create_subprocess_exec(
        *on_a_disk_of("4m", disk), sys.executable, "-m", "timewheel", "serve", "--port", "0", "--db", "disk/jobs.db",
        cwd=tmp_path, env=environment(), stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        await _full_and_freed(process, inside(process.pid, disk))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _full_and_freed(process: asyncio.subprocess.Process, disk: Path) -> None:
    assert process.stderr is not None
    lines = []
    while not (found := re.search(r"serving (http://\S+)", (await process.stderr.readline()).decode())):
        pass
    async with httpx.AsyncClient(base_url=found[1], timeout=60) as client:
        soon = {"task": "log.message", "args": ["due"], "delay_s": 8}  # the disk is full by then
        due = [(await client.post("/api/v1/jobs", json=soon)).json()["id"] for _ in range(5)]
        due_at = asyncio.get_running_loop().time() + 8
        large = {"task": "log.message", "args": ["x" * 3_000], "delay_s": 3600}
        answers = []
        while 507 not in answers:
            fill(disk)
            answers.append((await client.post("/api/v1/jobs", json=large)).status_code)
        assert set(answers) <= {201, 507}
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (503, "RUNNING")
        assert "no space left" in ready.json()["detail"]
        while asyncio.get_running_loop().time() < due_at + 1:  # the log may give space back once, when written back
            fill(disk)
            await asyncio.sleep(0.05)
        for job in due:
            assert (await client.get(f"/api/v1/jobs/{job}")).json()["state"] == "SCHEDULED"
        batch = (await client.post("/api/v1/jobs/batch", json={"jobs": [large, soon]})).json()["results"]
        assert [one["status"] for one in batch] == [507, 507]
        assert (await client.get("/livez")).status_code == 200
        (disk / "rest").unlink()
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        for job in due:
            while (shown := (await client.get(f"/api/v1/jobs/{job}")).json())["state"] != "COMPLETED":
                await asyncio.sleep(0.05)
            assert shown["attempt"] == 1
        fill(disk)
        process.send_signal(signal.SIGTERM)
    lines += (await process.stderr.read()).decode().splitlines()
    assert await process.wait() == 0, lines  # nothing ran, so nothing is left to be written
    assert sum("a commit failed" in line for line in lines) == 1, lines


def test_what_was_there_when_the_disk_was_full_is_there_after_a_kill(tmp_path):
    """Killed in the midst of it, with the reserve spent; started again on the full disk, and once it is free."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with Child(tmp_path, KILLED, before=on_a_disk_of("4m", disk)) as child:
        assert child.rest() == ["full", "killed -9", "again full 40", "freed None"], child.errors.read_text()


KILLED = """
    import pathlib, signal, subprocess
    from tests.crash.disks import fill

    disk = pathlib.Path("disk")
    scheduler = Scheduler("sqlite:///disk/jobs.db")
    release = asyncio.Event()

    @scheduler.task(name="hold")
    async def hold(number):
        if sys.argv[-1] == "first":
            await release.wait()

    async def refused():
        while True:
            fill(disk)
            try:
                await scheduler.after(3600, "hold", 1)
            except JournalFull:
                return

    async def first():
        await scheduler.start()
        for number in range(40):
            await scheduler.options(tags=["held"]).now("hold", number)
        while await scheduler.jobs(state="ACTIVE").count() < 40:
            await asyncio.sleep(0.01)
        await refused()
        os.write(1, b"full\\n")
        release.set()
        while await scheduler.jobs(state="COMPLETED").count() < 20:
            await asyncio.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    async def second():
        async with scheduler:
            await refused()
            states = [job.state async for job in scheduler.jobs(tag="held")]
            say("again full", states.count("COMPLETED") + states.count("SCHEDULED"))
            disk.joinpath("rest").unlink()
            async for job in scheduler.jobs(tag="held"):
                done = await job.wait(30)
                assert done.state == "COMPLETED", done
                assert [attempt.state for attempt in await job.attempts()] in (["SUCCEEDED"], ["LOST", "SUCCEEDED"])
            while scheduler.trouble is not None:
                await asyncio.sleep(0.05)
            say("freed", scheduler.trouble)

    if sys.argv[-1] == "first":
        asyncio.run(first())
    else:
        ended = subprocess.run([sys.executable, sys.argv[0], "first"])
        say("killed", ended.returncode)
        asyncio.run(second())
"""
