"""B42, B43, B44, I6, I7, I21: the wall clock of a real process is set while it runs, or while it is down."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.crash.faketime import WHY_NOT, WallClock
from tests.crash.lives import environment
from tests.e2e.children import Child
from timewheel.connect import audit

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

HOUR_S = 3600
YEARS_S = 3652 * 24 * HOUR_S
SLACK_S = 3.0  # on a busy machine; a second of it is what a step may go unnoticed

TICKS = """
    import json, time

    scheduler = Scheduler("sqlite:///jobs.db")
    began = time.monotonic()
    ran = {}

    @scheduler.task(name="note")
    async def note(what):
        ran[what] = time.monotonic() - began

    async def main():
        async with scheduler:
            zero = time.time()
            if sys.argv[1] == "first":
                for text in sys.argv[2:]:
                    verb, number, grace = text.split(":")
                    options = scheduler.options(misfire_grace_s=float(grace)) if grace else scheduler.options()
                    when = float(number)
                    at = options.at(zero + when, "note", text) if verb == "at" else options.after(when, "note", text)
                    await at
            say("ready")
            while await asyncio.to_thread(hear) == "report":
                states, attempts = {}, {}
                async for job in scheduler.jobs():
                    states[job.args[0]], attempts[job.args[0]] = job.state, await job.attempts()
                say(json.dumps({
                    "now": time.monotonic() - began, "ran": ran, "states": states,
                    "lags": {what: each[0].start_lag_s for what, each in attempts.items() if each},
                    "numbers": [len(each) for each in attempts.values()],
                }))

    asyncio.run(main())
"""


def _steps(folder) -> list[float]:
    with closing(sqlite3.connect(f"file:{folder}/jobs.db?mode=ro", uri=True)) as journal:
        rows = journal.execute("SELECT data FROM entries WHERE kind = 'clock_step' ORDER BY number").fetchall()
    return [round(json.loads(data)["difference_us"] / 1e6) for (data,) in rows]


class Ticking(Child):
    """The program under a clock, with jobs `verb:seconds:grace`."""

    def __init__(self, folder, clock, *jobs, life="first"):
        super().__init__(folder, TICKS, life, *jobs, before=clock.before())
        assert self.line() == "ready", self.errors.read_text()

    def report(self):
        self.tell("report")
        seen = json.loads(self.line())
        assert all(lag >= 0 for lag in seen["lags"].values() if lag is not None), (
            seen
        )  # I6: never early by its own clock
        assert set(seen["numbers"]) <= {0, 1}, seen
        return seen

    def until(self, *jobs, elapsed_s=0.0):
        """The first report in which all of these have run and so much time has passed; a minute at most."""
        ends = time.monotonic() + 60
        while True:
            seen = self.report()
            if set(jobs) <= seen["ran"].keys() and seen["now"] >= elapsed_s:
                return seen
            assert time.monotonic() < ends, seen
            time.sleep(0.05)

    def stop(self, folder):
        self.tell("end")
        assert self.end() == 0, self.errors.read_text()
        assert audit(str(folder / "jobs.db")) == []


def test_b42_the_clock_is_set_back_and_only_wall_jobs_wait(tmp_path):
    """An hour back after a second: what counts elapsed time notices nothing; what names an instant waits for it."""
    clock = WallClock(tmp_path)
    with Ticking(tmp_path, clock, "after:4:", "at:4:", "after:3600:") as child:
        child.until(elapsed_s=1)
        clock.set(-HOUR_S)
        seen = child.until("after:4:", elapsed_s=6)
        assert seen["ran"].keys() == {"after:4:"}
        assert 4 <= seen["ran"]["after:4:"] < 4 + SLACK_S + 1
        assert seen["states"]["at:4:"] == "SCHEDULED"
        clock.set(0)
        back = child.until("at:4:")
        assert back["ran"].keys() == {"after:4:", "at:4:"}
        child.stop(tmp_path)
    assert _steps(tmp_path) == [-HOUR_S, HOUR_S]


@pytest.mark.parametrize("ahead_s", [HOUR_S, YEARS_S])
def test_b43_b44_the_clock_is_set_forward_and_what_is_overdue_runs_at_once(tmp_path, ahead_s):
    """This is also what a resume looks like to the wall clock. The work does not grow with the step."""
    clock = WallClock(tmp_path)
    half = ahead_s // 2
    jobs = (f"at:{half}:", f"at:{half}:60", f"at:{ahead_s - 5}:60", f"after:{half}:", f"at:{2 * ahead_s}:")
    with Ticking(tmp_path, clock, *jobs) as child:
        child.until(elapsed_s=1)
        clock.set(ahead_s)
        before = child.report()["now"]
        seen = child.until(f"at:{half}:", f"at:{ahead_s - 5}:60")
        assert all(at < before + SLACK_S for at in seen["ran"].values()), (before, seen)  # I7
        expected = {
            f"at:{half}:": "COMPLETED",  # late is not never
            f"at:{half}:60": "SKIPPED",  # nobody watched until half a step after it was due
            f"at:{ahead_s - 5}:60": "COMPLETED",  # within its grace
            f"after:{half}:": "SCHEDULED",
            f"at:{2 * ahead_s}:": "SCHEDULED",
        }
        ends = time.monotonic() + 30
        while (found := child.report()["states"]) != expected:
            assert time.monotonic() < ends, found
        child.stop(tmp_path)
    assert _steps(tmp_path) == [ahead_s]


def test_the_clock_is_set_while_the_process_is_down(tmp_path):
    """Elapsed time goes on over the kill, whatever the wall clock says."""
    clock = WallClock(tmp_path)
    with Ticking(tmp_path, clock, "after:3:", "at:3:", "after:600:") as child:
        asked = time.monotonic() - child.report()["now"]  # no later than they were asked for
        child.kill()
    clock.set(-HOUR_S)
    with Ticking(tmp_path, clock, life="second") as child:
        seen = child.until("after:3:")
        assert time.monotonic() - asked > 3
        seen = child.until(elapsed_s=seen["now"] + 1)
        assert seen["ran"].keys() == {"after:3:"}
        clock.set(HOUR_S)
        assert child.until("at:3:")["states"]["after:600:"] == "SCHEDULED"
        child.stop(tmp_path)


async def test_serve_notices_a_step(tmp_path):
    clock = WallClock(tmp_path)
    process = await asyncio.create_subprocess_exec(
        *clock.before(), sys.executable, "-m", "timewheel", "serve", "--port", "0", "--db", "jobs.db",
        cwd=tmp_path, env=environment(), stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        while not (found := re.search(r"serving (http://\S+)", (await process.stderr.readline()).decode())):
            pass
        async with httpx.AsyncClient(base_url=found[1], timeout=60) as client:
            soon = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
            at = {"task": "log.message", "args": ["at"], "scheduled_at": soon}
            after = {"task": "log.message", "args": ["after"], "delay_s": 1800}
            made = [(await client.post("/api/v1/jobs", json=body)).json()["id"] for body in (at, after)]
            clock.set(HOUR_S)
            while (await client.get(f"/api/v1/jobs/{made[0]}")).json()["state"] != "COMPLETED":
                await asyncio.sleep(0.05)
            assert (await client.get(f"/api/v1/jobs/{made[1]}")).json()["state"] == "SCHEDULED"
            assert 'timewheel_clock_steps_total{direction="forward"} 1.0' in (await client.get("/metrics")).text
        process.terminate()
        await process.stderr.read()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert _steps(tmp_path) == [HOUR_S]
