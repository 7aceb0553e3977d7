"""The whole scheduler over several lives of one journal, each told by hand. Lives drawn from seeds: test_seeds.py."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from tests.simulation.helpers import STORES, MemorySqlite, SlowStore, Stage
from timewheel.model import ClockKind, JobState
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine


@pytest.mark.parametrize("seed", range(6))
def test_i16_recovery_may_be_cut_short_any_number_of_times(seed):
    """Owners that die in one of the first commits of their recovery leave what one whole recovery leaves."""
    chance = random.Random(seed)
    stage = Stage(
        VirtualMachine(seed=seed, shuffle=True), SlowStore(MemorySqlite(), seed, commit_s=0.01), concurrency=20
    )

    async def begin(scheduler):
        for number in range(20):
            await scheduler.now("busy", number, 30)
        await stage.machine.sleep(5)

    stage.play(begin, crash_after=True)
    for _ in range(6):
        stage.store.kill(stage.store.commits + 1 + chance.randrange(3), chance.random() < 0.5)
        stage.play_until_death(lambda _: asyncio.Event().wait(), stage.store)
        check_dump(stage.dump())
    losses = {job.losses for job in stage.dump()["jobs"].values()}
    stage.play(lambda _: stage.machine.sleep(400))
    jobs = stage.dump()["jobs"].values()
    assert losses <= {0, 1, 2, 3, 4}
    assert {job.state for job in jobs} <= {JobState.COMPLETED, JobState.DEAD}
    assert all((job.state is JobState.DEAD) == (job.reason == "crash_loop") for job in jobs)


@pytest.mark.parametrize("store", STORES)
def test_i13_a_job_that_kills_the_process_is_dead_after_its_fourth_loss(store):
    stage = Stage(store=STORES[store]())

    async def scene(scheduler):
        await scheduler.now("busy", "killer", 10)
        await stage.machine.sleep(1)

    stage.play(scene, crash_after=True)
    for losses in range(1, 5):
        stage.play(lambda _: stage.machine.sleep(1), crash_after=True)
        [job] = stage.dump()["jobs"].values()
        assert job.losses == losses
        assert job.state is (JobState.DEAD if losses == 4 else JobState.ACTIVE)
    assert job.reason == "crash_loop"
    assert len(stage.diary) == 4


def test_a_loop_that_ends_under_a_running_scheduler_ends():
    """asyncio.run cancels every task and waits for all of them: a scheduler that nobody stopped may not hold it up."""
    stage = Stage()

    async def forgetful():
        scheduler = stage.scheduler()
        await scheduler.start()
        await scheduler.after(1000, "note", "never")
        asyncio.get_running_loop().call_later(100, stage.machine.suspend, 1e9)

    stage.machine.run(forgetful())
    assert stage.elapsed_s < 100


def test_the_clock_of_a_job_is_the_one_its_caller_named():
    stage = Stage()

    async def scene(scheduler):
        at = await scheduler.at(stage.machine.now() + timedelta(seconds=5), "note", 1)
        after = await scheduler.after(5, "note", 2)
        await after.reschedule(stage.machine.now() + timedelta(seconds=6))
        await at.reschedule(timedelta(seconds=6))
        return (await at.refresh()).record.due_clock, (await after.refresh()).record.due_clock

    assert stage.play(scene) == (ClockKind.STEADY, ClockKind.WALL)
