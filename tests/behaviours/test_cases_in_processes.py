"""Cases that are about threads, processes and strangers at the door, on the real clock."""

from __future__ import annotations

import asyncio
import math
import signal
import textwrap
import threading
import time

import httpx
import pytest

from tests.e2e.serving import LONG_S, client_of, make_scheduler, serving
from timewheel import Scheduler
from timewheel.serve.guard import BODY_BYTES
from timewheel.system import System, SystemClock

JOBS = "/api/v1/jobs"


class DeepSleeper(SystemClock):
    """A clock with which nobody looks once a second: only being woken helps."""

    longest_sleep_s = math.inf


async def test_b48_a_job_that_another_thread_adds_wakes_a_scheduler_that_sleeps_for_an_hour():
    scheduler = Scheduler("memory://", system=System(clock=DeepSleeper()))
    ran = asyncio.Event()

    @scheduler.task(name="soon")
    async def soon():
        ran.set()

    async with scheduler:
        await scheduler.after(3600, "soon")
        for _ in range(1_000):
            await asyncio.sleep(0)  # until it sleeps
        adds = threading.Thread(target=lambda: scheduler.blocking.after(0.2, "soon"))
        adds.start()
        await asyncio.wait_for(ran.wait(), LONG_S)
        await asyncio.to_thread(adds.join)


def test_b57_two_threads_that_share_a_journal_run_each_of_a_hundred_jobs_once(tmp_path):
    """One of them owns it, the other stands by; each schedules nothing but through the owner."""
    url, runs, lock = f"sqlite:///{tmp_path}/shared.db", [], threading.Lock()
    over, attempts = threading.Event(), []

    def member(began: threading.Barrier) -> None:
        async def life() -> None:
            scheduler = Scheduler(url, when_owned="wait")

            @scheduler.task(name="note")
            async def note(number: int) -> None:
                with lock:
                    runs.append(number)

            async with scheduler:
                await asyncio.to_thread(began.wait, LONG_S)
                if scheduler.state == "RUNNING":
                    drafts = [scheduler.new(time.time(), "note", number) for number in range(100)]
                    for job in await scheduler.at_many(drafts):
                        await job.wait(LONG_S)
                        attempts.append(len(await job.attempts()))
                    over.set()
                await asyncio.to_thread(over.wait, LONG_S)

        asyncio.run(life())

    began = threading.Barrier(2)
    members = [threading.Thread(target=member, args=(began,)) for _ in range(2)]
    for one in members:
        one.start()
    for one in members:
        one.join(LONG_S)
    assert sorted(runs) == list(range(100))
    assert attempts == [1] * 100


CLINGING = """
    import asyncio, sys, time
    from timewheel import Scheduler

    scheduler = Scheduler("sqlite:///app.db")

    @scheduler.task(name="short")
    async def short():
        await asyncio.sleep(0.5)
        return "finished"

    @scheduler.task(name="clings")
    async def clings():
        print("clings", file=sys.stderr, flush=True)
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

    @scheduler.task(name="blocks")
    def blocks():
        print("blocks", file=sys.stderr, flush=True)
        time.sleep(3600)
"""


async def test_b76_serve_is_gone_soon_after_the_grace_whatever_its_handlers_do(tmp_path):
    """One handler ends in time, one swallows its cancellation, one sits in a thread that nobody can stop."""
    (tmp_path / "jobs.py").write_text(textwrap.dedent(CLINGING))
    async with (
        serving("--app", "jobs:scheduler", "--grace", "2", cwd=tmp_path) as child,
        httpx.AsyncClient(base_url=child.url, timeout=LONG_S) as client,
    ):
        ids = {}
        for task in ("clings", "blocks"):
            ids[task] = (await client.post(JOBS, json={"task": task})).json()["id"]
            await child.line(task)
        ids["short"] = (await client.post(JOBS, json={"task": "short"})).json()["id"]
        ids["later"] = (await client.post(JOBS, json={"task": "short", "delay_s": 0.6})).json()["id"]
        while (await client.get(f"{JOBS}/{ids['short']}")).json()["state"] == "SCHEDULED":
            await asyncio.sleep(0)
        began = time.monotonic()
        child.signal(signal.SIGTERM)
        await child.end()
        assert 1.5 < time.monotonic() - began < 2 + LONG_S / 2
    async with (
        serving("--db", "app.db", cwd=tmp_path) as child,
        httpx.AsyncClient(base_url=child.url, timeout=LONG_S) as client,
    ):
        jobs = {name: (await client.get(f"{JOBS}/{job_id}")).json() for name, job_id in ids.items()}
        assert (jobs["short"]["state"], jobs["short"]["result"]) == ("COMPLETED", "finished")
        for name in ("clings", "blocks"):
            [first, *_] = (await client.get(f"{JOBS}/{ids[name]}/attempts")).json()["items"]
            assert (first["state"], first["reason"]) == ("RELEASED", "shutdown")


@pytest.fixture
async def client():
    async with make_scheduler() as scheduler, client_of(scheduler) as client:
        yield client
        await scheduler.stop(grace_s=0)


async def test_b86_a_stranger_gets_nothing_run(client):
    """Targets that are no tasks, forms of other sites, markup, large bodies, odd ids: refused, and nothing was made."""
    json_kind = {"Content-Type": "application/json"}
    for task in ("os:system", "os.system", "builtins:eval", "<script>alert(1)</script>", "../../etc/passwd"):
        response = await client.post(JOBS, json={"task": task, "args": ["true"]})
        assert response.status_code == 422, task
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["x-content-type-options"] == "nosniff"
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.example"}
    assert (await client.post(JOBS, content=b"task=echo", headers=form)).status_code == 403
    crossing = {**json_kind, "Origin": "http://evil.example"}
    assert (await client.post(JOBS, content=b'{"task": "echo"}', headers=crossing)).status_code == 403
    large = {**json_kind, "Content-Length": str(100 << 20)}
    assert (await client.post(JOBS, content=b"{}", headers=large)).status_code == 413
    assert (await client.post(JOBS, content=b" " * (BODY_BYTES + 1), headers=json_kind)).status_code == 413
    for job_id in ("a%2Fb", "%00", "job-%00", "..%2F..%2Fetc", "job-0000100000007", "%F0%9F%92%A9", "9" * 2_000, "'--"):
        for path in (f"{JOBS}/{job_id}", f"{JOBS}/{job_id}/attempts"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.post(f"{JOBS}/{job_id}/cancel", json={})).status_code == 404, job_id
    assert (await client.get(JOBS)).json()["items"] == []


async def test_b86_serve_listens_on_this_machine_alone_unless_it_is_told_more(tmp_path):
    async with serving(cwd=tmp_path) as child:
        assert child.url.startswith("http://127.0.0.1:")
