"""When a job runs: wall and steady time, steps, suspends, far times, and a loop that was busy (B14, B28, B42-B48)."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.simulation.helpers import T0_S, Stage, t0
from timewheel import InvalidTime
from timewheel.events import ClockStepped, Suspended
from timewheel.model import SECOND_US, JobState
from timewheel.testing.virtual import VirtualMachine

ZONES = [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8)), timezone(timedelta(hours=14))]


@pytest.fixture(params=["UTC", "America/Los_Angeles"])
def _zone_of_the_process(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone_of_the_process")
def test_b14_a_naive_datetime_is_refused_with_the_ways_out():
    stage = Stage()

    async def scene(scheduler):
        naive = datetime(2026, 1, 5, 12, 0)
        job = await scheduler.after(1, "note", "kept")
        for refused in (lambda: scheduler.at(naive, "note", 1), lambda: job.reschedule(naive)):
            with pytest.raises(InvalidTime, match=r"(?s)naive.*\.replace\(tzinfo=.*\.astimezone\(\)"):
                await refused()
        with pytest.raises(InvalidTime, match="naive"):
            scheduler.new(naive, "note", 1)

    stage.play(scene)
    assert len(stage.dump()["jobs"]) == 1


@pytest.mark.usefixtures("_zone_of_the_process")
def test_b14_aware_datetimes_of_any_zone_fire_at_the_same_instant():
    stage = Stage()

    async def scene(scheduler):
        for zone in ZONES:
            await scheduler.at(t0(60).astimezone(zone), "note", str(zone))
        await scheduler.at(T0_S + 60, "note", "unix seconds")
        await stage.machine.sleep(61)

    stage.play(scene)
    assert len(stage.diary) == len(ZONES) + 1
    assert {start.wall_s for start in stage.diary} == {60.0}


def test_b28_a_loop_that_was_busy_past_the_due_time_runs_the_job_late_and_says_how_late():
    stage = Stage()

    async def scene(scheduler):
        jobs = [await scheduler.at(t0(60), "note", "at"), await scheduler.after(60, "note", "after")]
        await stage.machine.sleep(59.9 - stage.elapsed_s)
        stage.machine.block(1.6)
        await stage.machine.sleep(1)
        return [(await job.attempts())[0] for job in jobs]

    for attempt in stage.play(scene):
        assert attempt.start_lag_s == pytest.approx(1.5, abs=0.01)
        assert attempt.dispatch_lag_s == pytest.approx(1.5, abs=0.01)
        assert attempt.started_at == t0(60) + timedelta(seconds=attempt.start_lag_s)
    assert [start.elapsed_s for start in stage.diary] == pytest.approx([61.5, 61.5], abs=0.01)


def test_b42_a_step_back_moves_at_and_leaves_after_alone():
    stage = Stage()

    async def scene(scheduler):
        await scheduler.after(60, "note", "after 60")
        await scheduler.at(t0(100), "note", "at 100")
        await scheduler.at(t0(20), "note", "at 20")
        await stage.machine.sleep(30)
        stage.machine.step(-120)
        await scheduler.after(5, "note", "after 5")
        await scheduler.at(stage.machine.now() + timedelta(seconds=7), "note", "at +7")
        await stage.machine.sleep(250)

    stage.play(scene)
    assert stage.when("at 20") == pytest.approx(20)
    assert stage.when("after 5") == pytest.approx(35)
    assert stage.when("at +7") == pytest.approx(37)
    assert stage.when("after 60") == pytest.approx(60)
    assert stage.when("at 100") == pytest.approx(220), "when the new wall clock shows it"
    assert stage.noticed(ClockStepped) == [ClockStepped(-120 * SECOND_US)]


@pytest.mark.parametrize("step_s", [3600, 3652 * 86_400, (datetime(2200, 1, 1, tzinfo=UTC) - t0()).total_seconds()])
def test_b43_a_step_forward_runs_what_is_overdue_at_once_and_leaves_delays_alone(step_s):
    stage = Stage()

    async def scene(scheduler):
        await scheduler.after(60, "note", "after")
        await scheduler.at(t0(1800), "note", "passed over")
        await scheduler.at(t0(40 + step_s), "note", "ahead")
        await stage.machine.sleep(30)
        before = time.process_time()
        stage.machine.step(step_s)
        await stage.machine.sleep(2)
        spent = time.process_time() - before
        await stage.machine.sleep(40)
        return spent

    assert stage.play(scene) < 1, "the work does not grow with the size of the step"
    assert 30 <= stage.when("passed over") <= 31.1, "noticed within a second"
    assert stage.when("ahead") == pytest.approx(40)
    assert stage.when("after") == pytest.approx(60)


def test_b44_a_suspend_counts_as_elapsed_and_what_fell_due_is_served_within_a_second():
    """The monotonic clock stands still meanwhile; both kinds of job go by the time that really passed."""
    stage = Stage()

    async def scene(scheduler):
        await scheduler.after(120, "note", "after 120")
        await scheduler.after(50, "note", "after 50")
        await scheduler.at(t0(60), "note", "at 60")
        await scheduler.at(t0(100), "note", "at 100")
        await stage.machine.sleep(30)
        stage.machine.suspend(60)
        await stage.machine.sleep(60)

    stage.play(scene)
    for tag in ("after 50", "at 60"):
        assert 90 <= stage.when(tag) <= 91, tag
    assert stage.when("at 100") == pytest.approx(100)
    assert stage.when("after 120") == pytest.approx(120)
    assert stage.noticed(Suspended) == [Suspended(60 * SECOND_US)]


DELAYS_S = [
    2**31 / 1000 - 0.001,
    2**31 / 1000,
    2**32 / 1000 + 5,
    30 * 86_400,
    400 * 86_400,
    3652 * 86_400,
]


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_b46_a_long_delay_fires_at_its_instant_and_not_before(delay_s):
    """Ten years of looking once a second would take long: the machine sleeps most of the way."""
    stage = Stage()

    async def scene(scheduler):
        await scheduler.after(delay_s, "note", "after")
        await scheduler.at(t0(delay_s), "note", "at")
        await stage.machine.sleep(3)
        stage.machine.suspend(delay_s - stage.elapsed_s - 5)
        await stage.machine.sleep(4.9)
        assert not stage.diary
        await stage.machine.sleep(1)

    stage.play(scene)
    for tag in ("after", "at"):
        assert stage.when(tag) == pytest.approx(delay_s, abs=0.001), tag


def test_b46_the_end_of_time_is_accepted_and_does_not_fire():
    stage = Stage()

    async def scene(scheduler):
        last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        jobs = [await scheduler.at(last, "note", "at"), await scheduler.after(last - t0(1), "note", "after")]
        for distance_s in (1.0, 1e9, 1e10, 1e11):
            stage.machine.suspend(distance_s)
            await stage.machine.sleep(2)
        return [await job.refresh() for job in jobs]

    jobs = stage.play(scene)
    assert {job.state for job in jobs} == {JobState.SCHEDULED}
    assert not stage.diary


@pytest.mark.parametrize("delay", [math.inf, math.nan, -1, -0.001, timedelta(seconds=-1), 10**12, timedelta.max])
def test_b46_an_impossible_delay_is_refused(delay):
    stage = Stage()

    async def scene(scheduler):
        with pytest.raises(InvalidTime):
            await scheduler.after(delay, "note", 1)

    stage.play(scene)


@pytest.mark.parametrize("when", [math.inf, math.nan, -1, 5, datetime.min, datetime.min.replace(tzinfo=UTC), 10**13])
def test_b46_an_impossible_instant_is_refused(when):
    stage = Stage()

    async def scene(scheduler):
        with pytest.raises(InvalidTime):
            await scheduler.at(when, "note", 1)

    stage.play(scene)


def test_b46_an_instant_in_the_past_is_due_at_once():
    stage = Stage()

    async def scene(scheduler):
        await scheduler.at(t0(-86_400), "note", "past")
        await stage.machine.sleep(0.1)

    stage.play(scene)
    assert stage.when("past") < 0.01


def test_b48_an_earlier_job_added_while_the_scheduler_sleeps_is_on_time():
    stage = Stage()

    async def add(scheduler):
        await asyncio.sleep(10)  # virtual
        await scheduler.after(1, "note", "after")
        await scheduler.at(t0(11.5), "note", "at")

    async def scene(scheduler):
        await scheduler.after(3600, "note", "far")
        await asyncio.gather(add(scheduler), stage.machine.sleep(13))

    stage.play(scene)
    assert stage.when("after") == pytest.approx(11, abs=1e-6)
    assert stage.when("at") == pytest.approx(11.5, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_i7_a_job_is_on_time_to_the_microsecond_whatever_its_instant(seed):
    """While capacity is free; one random instant in each of the wheel's scales."""
    machine = VirtualMachine(seed=seed)
    stage = Stage(machine)

    async def scene(scheduler):
        delays = [machine.random.random() * 4**power / 1000 for power in range(11)]
        jobs = [await scheduler.after(delay, "note", number) for number, delay in enumerate(delays)]
        await machine.sleep(4**10 / 1000)
        return [(await job.attempts())[0].start_lag_s for job in jobs]

    assert max(stage.play(scene)) < 0.001
