"""`python -m timewheel serve` as a process: what it says, how it ends, and with which code."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import textwrap
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from serving import LONG_S, Child, launch, serving

from timewheel.cli import exits

JOBS = "/api/v1/jobs"


async def ask(child: Child, method: str, path: str, **options: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=child.url, timeout=LONG_S) as client:
        return await client.request(method, path, **options)  # type: ignore[arg-type]


async def test_first_day(tmp_path: Path) -> None:
    """What the README shows: start it, schedule with curl, see it run, stop it."""
    async with serving(cwd=tmp_path) as child:
        assert any("journal timewheel.db, durability power" in line for line in child.lines)
        assert any("tasks: log.message" in line for line in child.lines)
        job = {"task": "log.message", "args": ["hello"], "kwargs": {"n": 1}, "delay_s": 0.01}
        made = (await ask(child, "POST", JOBS, json=job)).json()
        assert f"hello n=1 job_id={made['id']} attempt=1" in await child.line("hello")
        assert (await ask(child, "GET", "/readyz")).json()["state"] == "RUNNING"
        child.signal(signal.SIGTERM)
        assert await child.end() == 0
        assert "stopped; every outcome is durable" in child.lines[-1]
    with closing(sqlite3.connect(tmp_path / "timewheel.db")) as journal:
        assert journal.execute("PRAGMA integrity_check").fetchone() == ("ok",)


APPLICATION = """
    import asyncio, os, sys
    from timewheel.scheduler import Scheduler

    scheduler = Scheduler("sqlite:///app.db")

    @scheduler.task(name="begin")
    async def begin(until):
        print("began", file=sys.stderr, flush=True)
        while not os.path.exists(until):
            await asyncio.sleep(0.01)
        return "done"

    @scheduler.task(name="raise")
    async def raises():
        raise KeyboardInterrupt

    waiting = Scheduler("sqlite:///app.db", when_owned="wait")
    waiting.task(name="begin")(begin)
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(textwrap.dedent(APPLICATION))
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains(application: Path, number: int) -> None:
    """What runs may finish; nothing new is taken; reads are answered; then 0."""
    async with serving("--app", "jobs:scheduler", "--grace", "60", cwd=application) as child:
        assert any("tasks: begin, log.message, raise" in line for line in child.lines)
        made = (await ask(child, "POST", JOBS, json={"task": "begin", "args": ["end"]})).json()
        waiting = (await ask(child, "POST", JOBS, json={"task": "begin", "args": ["."], "delay_s": 0.3})).json()
        await child.line("began")
        child.signal(number)
        while (await ask(child, "GET", "/readyz")).status_code == 200:
            await asyncio.sleep(0)
        assert (await ask(child, "POST", JOBS, json={"task": "begin", "args": ["."]})).status_code == 503
        assert (await ask(child, "GET", f"{JOBS}/{made['id']}")).json()["state"] == "ACTIVE"
        (application / "end").touch()
        assert await child.end() == 0
        assert sum("began" in line for line in child.lines) == 1
    async with serving("--app", "jobs:scheduler", cwd=application) as child:
        job = (await ask(child, "GET", f"{JOBS}/{made['id']}")).json()
        assert (job["state"], job["result"]) == ("COMPLETED", "done")
        await child.line("began")  # what fell due meanwhile runs now
        assert (await ask(child, "GET", f"{JOBS}/{waiting['id']}")).json()["attempt"] == 1


async def test_a_second_signal_stops_at_once(application: Path) -> None:
    async with serving("--app", "jobs:scheduler", "--grace", "600", cwd=application) as child:
        made = (await ask(child, "POST", JOBS, json={"task": "begin", "args": ["end"]})).json()
        await child.line("began")
        child.signal(signal.SIGTERM)
        while (await ask(child, "GET", "/readyz")).status_code == 200:
            await asyncio.sleep(0)
        child.signal(signal.SIGTERM)
        assert await child.end() == 0
    async with serving("--app", "jobs:scheduler", cwd=application) as child:
        await child.line("began")
        first, _ = (await ask(child, "GET", f"{JOBS}/{made['id']}/attempts")).json()["items"]
        assert (first["state"], first["reason"]) == ("RELEASED", "shutdown")


async def test_a_handler_that_raises_keyboard_interrupt_ends_it_in_order(application: Path) -> None:
    async with serving("--app", "jobs:scheduler", cwd=application) as child:
        await ask(child, "POST", JOBS, json={"task": "raise"})
        assert await child.end() == 0


async def test_a_killed_server_leaves_a_journal_that_goes_on(application: Path) -> None:
    async with serving("--app", "jobs:scheduler", cwd=application) as child:
        made = (await ask(child, "POST", JOBS, json={"task": "begin", "args": ["end"]})).json()
        await child.line("began")
        child.signal(signal.SIGKILL)
        await child.end()
    async with serving("--app", "jobs:scheduler", cwd=application) as child:
        await child.line("began")
        first, second = (await ask(child, "GET", f"{JOBS}/{made['id']}/attempts")).json()["items"]
        assert (first["state"], second["number"]) == ("LOST", 2)


async def test_a_standby_answers_reads_and_takes_over(application: Path) -> None:
    async with serving("--app", "jobs:scheduler", cwd=application) as owner:
        made = (await ask(owner, "POST", JOBS, json={"task": "begin", "args": ["end"]})).json()
        async with serving("--app", "jobs:waiting", cwd=application) as other:
            await other.line("standing by")
            assert (await ask(other, "GET", "/readyz")).json()["state"] == "STANDBY"
            assert (await ask(other, "GET", f"{JOBS}/{made['id']}")).json()["state"] == "ACTIVE"
            assert 'timewheel_scheduler_state{state="STANDBY"} 1.0' in (await ask(other, "GET", "/metrics")).text
            refused = await ask(other, "POST", JOBS, json={"task": "begin", "args": ["."]})
            assert (refused.status_code, refused.json()["type"]) == (503, "urn:timewheel:problem:standby")
            owner.signal(signal.SIGKILL)
            await owner.end()
            await other.line("began")
            assert (await ask(other, "GET", "/readyz")).status_code == 200


async def test_a_journal_that_vanishes_ends_it_with_74(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as child:
        for path in tmp_path.glob("timewheel.db*"):
            path.unlink()
        assert await child.end() == exits.IO
        assert "timewheel.db" in child.lines[-1]


async def test_owned_by_another_is_75(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as owner:
        other = await launch(cwd=tmp_path)  # ends by itself
        assert await other.end() == exits.OWNED
        assert str(owner.process.pid) in other.lines[-1]


async def test_http_request_reaches_what_was_allowed(tmp_path: Path) -> None:
    async with serving("--allow-http", "127.0.0.1", cwd=tmp_path) as child:
        body = {"task": "http.request", "args": [f"{child.url}/livez", "GET"]}
        made = (await ask(child, "POST", JOBS, json=body)).json()
        job = made
        while job["state"] in ("SCHEDULED", "ACTIVE"):
            job = (await ask(child, "GET", f"{JOBS}/{made['id']}")).json()
        assert (job["state"], job["result"]) == ("COMPLETED", {"status": 200, "body": '{"status":"alive"}'})
        body = {"task": "http.request", "args": ["http://localhost:1/"]}
        refused = await ask(child, "POST", JOBS, json=body)
        assert refused.status_code == 422
        assert "--allow-http localhost" in json.dumps(refused.json())


async def test_without_allow_http_there_is_no_http_request(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as child:
        body = {"task": "http.request", "args": [f"{child.url}/livez"]}
        assert (await ask(child, "POST", JOBS, json=body)).status_code == 422
