"""What the simulation has found of schedules: each mistake once more, alone."""

from __future__ import annotations

import asyncio

import pytest
from standing_lives import Standing

from timewheel import Every, JobState


@pytest.fixture(params=["memory", "sqlite"])
def lives(request):
    return Standing(request.param)


def test_a_trigger_is_due_at_once_though_the_clock_was_set_back_since_the_last_one(lives):
    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="ALLOW").cron("0 5 * * *", "note")
        await made.trigger()
        await asyncio.sleep(5)
        lives.machine.step(-7200)
        job = await made.trigger()
        await asyncio.sleep(5)
        return (await job.refresh()).state

    assert lives.live(scene) is JobState.COMPLETED


def test_a_trigger_is_due_at_once_though_the_rule_counts_another_clock_now(lives):
    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="ALLOW").cron("0 5 * * *", "note")
        lives.machine.step(7200)
        await asyncio.sleep(2)
        await made.trigger()
        made = await made.update(Every(3600))
        jobs = [await made.trigger() for _ in range(3)]
        await asyncio.sleep(5)
        return [(await job.refresh()).state for job in jobs], len({job.record.origin for job in jobs})

    assert lives.live(scene) == ([JobState.COMPLETED] * 3, 3)
