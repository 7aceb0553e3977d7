"""Embedded in an application: lifespan, run_forever, asyncio.run, and a journal that goes away under it."""

from __future__ import annotations

import asyncio
import logging
import signal

import pytest
from children import Child

from timewheel import NotStarted, Scheduler, SchedulerFailed
from timewheel.errors import JournalUnavailable
from timewheel.model import SchedulerState

LONG_S = 60


async def hello(name="world"):
    return f"hello {name}"


def journal(tmp_path, **options):
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db", **options)
    scheduler.task(name="hello")(hello)
    return scheduler


async def test_making_one_and_decorating_does_no_input_or_output(tmp_path):
    scheduler = journal(tmp_path)
    assert (scheduler.state, scheduler.task_names()) == (SchedulerState.NEW, ["hello"])
    assert scheduler.task(name="again")(hello) is hello
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotStarted, match=r"async with scheduler:"):
        await scheduler.now("hello")
    with pytest.raises(NotStarted):
        await scheduler.wait_failed()


async def test_lifespan_runs_with_the_application(tmp_path):
    scheduler = journal(tmp_path)
    async with scheduler.lifespan(object()):
        assert scheduler.state is SchedulerState.RUNNING
        assert await (await scheduler.now("hello")).result(LONG_S) == "hello world"
    assert scheduler.state is SchedulerState.STOPPED


async def test_lifespan_is_what_starlette_calls(tmp_path):
    applications = pytest.importorskip("starlette.applications")
    responses = pytest.importorskip("starlette.responses")
    routing = pytest.importorskip("starlette.routing")
    httpx = pytest.importorskip("httpx")
    scheduler = journal(tmp_path)

    async def endpoint(request):
        job = await scheduler.now("hello", request.query_params["name"])
        return responses.JSONResponse({"id": job.id, "result": await job.result(LONG_S)})

    app = applications.Starlette(routes=[routing.Route("/", endpoint)], lifespan=scheduler.lifespan)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client,
    ):
        answer = (await client.get("/", params={"name": "web"})).json()
        assert answer["result"] == "hello web"
        assert (await scheduler.get_job(answer["id"])).state == "COMPLETED"
    assert scheduler.state is SchedulerState.STOPPED


async def test_an_application_that_fails_stops_its_scheduler_too(tmp_path):
    scheduler = journal(tmp_path)
    with pytest.raises(KeyError):
        async with scheduler:
            raise KeyError
    assert scheduler.state is SchedulerState.STOPPED
    async with journal(tmp_path):
        pass


TERMINATES = """
    scheduler = Scheduler("sqlite:///jobs.db")

    @scheduler.task(name="long")
    async def long():
        say("begun")
        try:
            await forever()
        finally:
            say("told to stop")

    async def main():
        loop = asyncio.get_running_loop()
        running = asyncio.ensure_future(scheduler.run_forever())

        def terminate():
            running.cancel()
            loop.create_task(scheduler.stop(grace_s=0), name="hurry")

        loop.add_signal_handler(15, terminate)
        while scheduler.state != "RUNNING":
            await asyncio.sleep(0)
        await scheduler.now(long)
        try:
            await running
        except asyncio.CancelledError:
            say(scheduler.state)

    asyncio.run(main())
"""


def test_run_forever_ends_in_order_when_the_application_cancels_it(tmp_path):
    with Child(tmp_path, TERMINATES) as child:
        assert child.line() == "begun"
        child.process.send_signal(signal.SIGTERM)
        assert child.rest() == ["told to stop", "STOPPED"]
        assert child.end() == 0


CTRL_C = """
    async def main():
        async with Scheduler("sqlite:///jobs.db") as scheduler:
            scheduler.task(name="quick")(quick)
            await scheduler.now("quick")
            await forever()

    async def quick():
        say("ran")

    asyncio.run(main())
"""


def test_ctrl_c_in_asyncio_run_stops_in_order_and_leaves_nothing_open(tmp_path):
    with Child(tmp_path, CTRL_C) as child:
        assert child.line() == "ran"
        child.process.send_signal(signal.SIGINT)
        assert child.end() != 0
    errors = child.errors.read_text()
    assert "KeyboardInterrupt" in errors
    assert "never awaited" not in errors
    assert "was destroyed" not in errors


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_journal_that_goes_away_is_noticed_and_everybody_is_told(tmp_path, how, caplog):
    heard = []
    scheduler = journal(tmp_path, on_failure=heard.append)
    await scheduler.start()
    job = await scheduler.after(3600, "hello")
    path = tmp_path / "jobs.db"
    path.rename(tmp_path / "away.db")
    if how == "replaced":
        path.write_bytes((tmp_path / "away.db").read_bytes())
    async with asyncio.timeout(LONG_S):
        cause = await scheduler.wait_failed()
    assert isinstance(cause, JournalUnavailable)
    assert heard == [cause]
    assert str(path) in str(cause)
    assert scheduler.state is SchedulerState.FAILED
    with pytest.raises(SchedulerFailed) as failed:
        await job.cancel()
    assert failed.value.cause is cause
    await scheduler.stop()
    assert [record.levelno for record in caplog.records if record.levelno >= logging.CRITICAL] == [logging.CRITICAL]


async def test_the_library_is_a_guest(tmp_path):
    """No signal handlers, no logging handlers, no loop of its own in the application's process."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    async with journal(tmp_path) as scheduler:
        await (await scheduler.now("hello")).result(LONG_S)
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    logger = logging.getLogger("timewheel")
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
