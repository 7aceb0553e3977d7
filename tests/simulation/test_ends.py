"""Ends that nobody ordered: the event loop that ends under a scheduler, and strangers who cancel its tasks."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from lives import FaultyStore, Lives, nothing

from timewheel import Scheduler
from timewheel.model import SchedulerState
from timewheel.store import aftermath


class Crash(Exception):
    """What an application fails with."""


async def idle() -> None:
    """A handler that does nothing."""


async def hang() -> None:
    """A handler that never ends by itself."""
    await asyncio.Event().wait()


async def forget_to_stop(scheduler: Scheduler, doing: str) -> None:
    """An application that fails without stopping its scheduler."""
    await scheduler.start()
    if doing == "running":
        await scheduler.now("hang")
        while not [job async for job in scheduler.jobs(state="ACTIVE")]:
            await asyncio.sleep(0)
    elif doing == "submitting":
        background.add(asyncio.create_task(scheduler.at_many(scheduler.new(1e9, "idle") for _ in range(5_000))))
        while not await scheduler.jobs().count():
            await asyncio.sleep(0)
    elif doing == "waiting":
        background.add(asyncio.create_task((await scheduler.after(1_000, "idle")).wait()))
        background.add(asyncio.create_task(scheduler.run_forever()))
        await asyncio.sleep(0)
    elif doing == "stopping":
        await scheduler.now("hang")
        background.add(asyncio.create_task(scheduler.stop(grace_s=1_000)))
        while scheduler.state is not SchedulerState.DRAINING:
            await asyncio.sleep(0)
    raise Crash


background: set[asyncio.Task[object]] = set()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("doing", ["nothing", "running", "submitting", "waiting", "stopping"])
@pytest.mark.parametrize("place", ["memory", "sqlite"])
def test_an_application_that_forgets_to_stop_ends_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str, doing: str
) -> None:
    """`asyncio.run` waits for every task it has cancelled, so that one that goes on would hang the program for ever."""
    scheduler = Scheduler("memory://" if place == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    scheduler.task(name="idle")(idle)
    scheduler.task(name="hang")(hang)
    with caplog.at_level(logging.WARNING), pytest.raises(Crash):
        asyncio.run(forget_to_stop(scheduler, doing))
    background.clear()
    assert scheduler.state is SchedulerState.STOPPED
    assert "use `async with scheduler:`" in caplog.text
    assert "it goes on" not in caplog.text  # what was cancelled does not

    async def again() -> None:  # in order: the journal was closed and is nobody's
        await scheduler.start()
        await (await scheduler.now("idle")).wait(timeout_s=60)
        await scheduler.stop(grace_s=0)

    asyncio.run(again())


def test_a_keeper_that_is_cancelled_goes_on() -> None:
    lives = Lives()

    async def scene(scheduler: Scheduler) -> None:
        await asyncio.sleep(0)
        for _ in range(2):
            [keeper] = [task for task in asyncio.all_tasks() if task.get_name() == "timewheel keeper"]
            keeper.cancel()
            await asyncio.sleep(1)  # virtual
            assert not keeper.done()
        await (await scheduler.now("idle")).wait(timeout_s=60)

    lives.live(scene, {"idle": idle})


def test_a_committer_that_is_cancelled_still_tells_everybody_of_its_last_batch() -> None:
    """A large batch is told in portions, with turns of the loop in between."""
    store = FaultyStore()
    jobs = aftermath.PORTION * 4 + 1

    async def cancel_the_committer(changes: list[object]) -> None:
        if len(changes) > aftermath.PORTION:
            store.after = nothing
            [task] = [task for task in asyncio.all_tasks() if task.get_name() == "timewheel committer"]
            task.cancel()

    async def scene(scheduler: Scheduler) -> None:
        store.after = cancel_the_committer
        made = await scheduler.at_many(scheduler.new(lives.machine.now(), "idle") for _ in range(jobs))
        assert store.after is nothing
        for job in made:
            await job.wait(timeout_s=600)

    lives = Lives(store=store)
    lives.live(scene, {"idle": idle})
