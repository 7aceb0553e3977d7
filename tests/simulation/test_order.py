"""Which job goes first, and that nothing starves: B49 (many jobs), B51 (priority), B78 (back-off)."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.simulation.helpers import Stage
from timewheel import Retry
from timewheel.model import SECOND_US, AttemptState, JobState
from timewheel.store import loader
from timewheel.testing.virtual import VirtualMachine

YEAR_S = 365 * 86_400


@pytest.mark.slow
def test_b49_a_hundred_thousand_jobs_of_a_year_leave_the_next_ones_on_time_and_memory_small():
    """10^5 over a year (nine tenths of them on disk only), and one due every second for two minutes."""
    stage = Stage(VirtualMachine(seed=1))
    chance = random.Random(1)
    most = 0

    async def scene(scheduler):
        nonlocal most
        far = [timedelta(seconds=400 + chance.random() * YEAR_S) for _ in range(100_000)]
        await scheduler.at_many(scheduler.new(delay, "note", "far") for delay in far)
        ticking = [await scheduler.after(1 + number, "note", number) for number in range(120)]
        for _ in range(130):
            await stage.machine.sleep(1)
            most = max(most, len(scheduler._engine.ticker) + len(scheduler._engine.dispatcher.ready))
        return [(await job.attempts())[0].start_lag_s for job in ticking]

    lags = stage.play(scene)
    assert stage.tags() == list(range(120))
    assert max(lags) <= 0.002, "two ticks"
    assert most <= 1_000, "what is not due within the horizon is on disk"


@pytest.mark.slow
def test_b49_very_many_jobs_of_one_second_start_in_order_within_the_limits():
    """25,000 due in the same second: by due time and id, never more than `concurrency` at once, memory by the page."""
    stage = Stage(concurrency=50)
    most = 0
    jobs = 25_000

    async def scene(scheduler):
        nonlocal most
        due = stage.machine.now() + timedelta(seconds=5)
        await scheduler.at_many(scheduler.new(due, "busy", number, 0.01) for number in range(jobs))
        while len(stage.diary) < jobs:
            most = max(most, len(scheduler._engine.ticker) + len(scheduler._engine.dispatcher.ready))
            await stage.machine.sleep(0.5)

    stage.play(scene)
    assert stage.tags() == list(range(jobs))
    assert stage.most_running == {"default": 50}
    assert most <= loader.LANE_LIMIT + 2 * loader.PAGE


def test_equal_instants_start_in_the_order_of_their_making_also_over_a_restart():
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        await scheduler.at_many(scheduler.new(timedelta(seconds=50 - n % 5), "note", n) for n in range(200))

    stage.play(scene, crash_after=True)
    stage.play(lambda _: stage.machine.sleep(60))
    tags = stage.tags()
    assert tags == sorted(range(200), key=lambda n: (50 - n % 5, n))


def low_start(low, high, *, until_s):
    """B51: one at a time; a job of priority `high` every 100 ms, taking 100 ms; when does the `low` one start?"""
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        urgent, patient = scheduler.options(priority=high), scheduler.options(priority=low)
        count = round(until_s * 10)
        await scheduler.at_many(urgent.new(timedelta(seconds=n / 10), "busy", "high", 0.1) for n in range(count))
        await patient.after(1, "busy", "low", 0.1)
        await stage.machine.sleep(until_s + 1)

    stage.play(scene)
    return stage.when("low"), stage


def test_b51_the_low_job_starts_within_the_aging_bound():
    """One level of priority is worth 60 s: it is overtaken only by what is due at most 60 s after it."""
    started, stage = low_start(5, 4, until_s=70)
    assert 60 <= started <= 61.5
    before = stage.diary[: stage.tags().index("low")]
    assert {start.tag for start in before} == {"high"}


def test_b51_an_urgent_job_does_not_wait_for_the_low_ones():
    """The other side of it: ten low ones are due, and the urgent one that comes later goes first."""
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        await scheduler.now("busy", "first", 1)
        for number in range(10):
            await scheduler.options(priority=9).now("note", number)
        await scheduler.options(priority=0).after(0.5, "note", "urgent")
        await stage.machine.sleep(5)

    stage.play(scene)
    assert stage.tags() == ["first", "urgent", *range(10)]


def test_b51_retries_do_not_overtake_first_tries():
    """A retry is due when it is due: what was due before it goes first, though it is younger."""
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        retry = Retry(max_attempts=3, base_s=1, cap_s=1, jitter=0)
        await scheduler.options(retry=retry).now("fail", "failing", 2)
        for number in range(8):
            await scheduler.after(0.2 + number / 5, "busy", number, 0.4)
        await stage.machine.sleep(10)

    stage.play(scene)
    due = {0: 0.2, 1: 0.4, 2: 0.6, 3: 0.8}
    first_retry = stage.tags().index("failing", 1)
    assert set(due) <= set(stage.tags()[:first_retry])
    assert stage.tags().count("failing") == 3


def test_queues_share_the_whole_and_none_starves():
    """Two queues, one slot, one of them crowded: the other's job is not behind all of them."""
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        await scheduler.at_many(scheduler.options(queue="crowd").new(timedelta(0), "busy", n, 1) for n in range(50))
        await stage.machine.sleep(0.5)
        await scheduler.options(queue="other").now("busy", "other", 1)
        await stage.machine.sleep(60)

    stage.play(scene)
    assert stage.tags().index("other") <= 3


@pytest.mark.parametrize(("factor", "attempts"), [(2, 40), (100, 200)])
def test_b78_back_off_is_bounded_for_any_number_of_failures(factor, attempts):
    """1, 2, 4 ... 2048 (the twelfth), then the cap for ever; no overflow at any attempt; and then DEAD."""
    stage = Stage()
    retry = Retry(max_attempts=attempts, base_s=1, factor=factor, cap_s=3600, jitter=0)

    async def scene(scheduler):
        job = await scheduler.options(retry=retry).now("fail", "failing", attempts)
        while not (latest := await job.refresh()).state.final:
            stage.machine.suspend(max(0, (latest.due_at - stage.machine.now()).total_seconds() - 0.5))
            await stage.machine.sleep(1)
        return await job.attempts(), latest

    tries, job = stage.play(scene)
    assert (job.state, job.reason) == (JobState.DEAD, "exhausted")
    assert [one.state for one in tries] == [AttemptState.FAILED_RETRYABLE] * attempts
    for number, (one, following) in enumerate(pairwise(tries)):
        delay = (following.scheduled_at - one.finished_at) / timedelta(microseconds=1)
        exact = min(3600, factor**number if number < 40 else 3600) * SECOND_US
        assert abs(delay - exact) <= 1, f"after attempt {number + 1}"
        assert following.start_lag_s >= 0


def test_b78_jitter_stays_inside_its_band():
    stage = Stage(VirtualMachine(seed=3))
    retry = Retry(max_attempts=30, base_s=1, factor=2, cap_s=60, jitter=1.0)

    async def scene(scheduler):
        job = await scheduler.options(retry=retry).now("fail", "failing", 30)
        await stage.machine.sleep(30 * 62)
        return await job.attempts()

    tries = stage.play(scene)
    delays = [(b.scheduled_at - a.finished_at).total_seconds() for a, b in pairwise(tries)]
    assert len(delays) == 29
    for number, delay in enumerate(delays):
        low = min(30, 2**number)
        assert low <= delay <= min(60, 2 * low) + 1e-6
    assert len({round(delay, 3) for delay in delays[6:]}) > 15, "spread at the cap too"
