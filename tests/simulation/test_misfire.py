"""A one-shot with a grace: only what nobody watched can be missed (DESIGN 9); waiting is never a misfire (B28)."""

from __future__ import annotations

import pytest

from tests.simulation.helpers import Stage, t0
from timewheel import InvalidOption, JobSkipped
from timewheel.events import JobsEnded
from timewheel.model import JobState

KINDS = ["at", "after"]


def schedule(scheduler, kind, seconds, tag, grace_s=10.0):
    """A job due so long after the machine was new, by either clock."""
    options = {} if grace_s is None else {"misfire_grace_s": grace_s}
    make = scheduler.options(**options)
    return make.at(t0(seconds), "note", tag) if kind == "at" else make.after(seconds, "note", tag)


def state(stage):
    [job] = stage.dump()["jobs"].values()
    return job.state, job.reason


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("grace_s", "down_s", "skipped"),
    [(10, 5, False), (10, 10, False), (10, 10.001, True), (10, 3600, True), (0, 0.001, True), (None, 1e7, False)],
)
def test_a_job_that_fell_due_while_nobody_was_there(kind, grace_s, down_s, skipped):
    """down_s: how long after the due time the next owner begins. Exactly the grace is not too late."""
    stage = Stage()
    stage.play(lambda scheduler: schedule(scheduler, kind, 100, "job", grace_s))
    stage.machine.suspend(100 + down_s - stage.elapsed_s)
    stage.play(lambda _: stage.machine.sleep(2))
    assert state(stage) == ((JobState.SKIPPED, "misfire") if skipped else (JobState.COMPLETED, None))
    assert len(stage.diary) == (not skipped)
    assert stage.noticed(JobsEnded) == ([JobsEnded(JobState.SKIPPED, 1)] if skipped else [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("slept_s", "skipped"), [(78.9, False), (81, True), (1e6, True)])
def test_a_job_that_fell_due_while_the_machine_slept(kind, slept_s, skipped):
    """Asleep from 30 s on; due at 100 s with a grace of 10 s; a resume is noticed within a second."""
    stage = Stage()

    async def scene(scheduler):
        await schedule(scheduler, kind, 100, "job")
        await stage.machine.sleep(30)
        stage.machine.suspend(slept_s)
        await stage.machine.sleep(3)

    stage.play(scene)
    assert (state(stage)[0] is JobState.SKIPPED) == skipped


@pytest.mark.parametrize(("step_s", "skipped"), [(75, False), (85, True), (1e9, True)])
def test_a_job_that_a_step_forward_passed_over(step_s, skipped):
    """Only wall time was stepped: a delay notices nothing."""
    stage = Stage()

    async def scene(scheduler):
        at = await schedule(scheduler, "at", 100, "at")
        after = await schedule(scheduler, "after", 100, "after")
        await stage.machine.sleep(30)
        stage.machine.step(step_s)
        await stage.machine.sleep(80)
        return (await at.refresh()).state, (await after.refresh()).state

    assert stage.play(scene) == (JobState.SKIPPED if skipped else JobState.COMPLETED, JobState.COMPLETED)


@pytest.mark.parametrize("kind", KINDS)
def test_b28_waiting_for_the_loop_is_no_misfire(kind):
    stage = Stage()

    async def scene(scheduler):
        await schedule(scheduler, kind, 100, "job", 0)
        await stage.machine.sleep(99)
        stage.machine.block(60)
        await stage.machine.sleep(1)

    stage.play(scene)
    assert stage.when("job") == pytest.approx(159, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_b28_waiting_for_a_slot_or_a_paused_queue_is_no_misfire(kind):
    stage = Stage(concurrency=1)

    async def scene(scheduler):
        await scheduler.after(9, "busy", "long", 30)
        await schedule(scheduler, kind, 10, "behind it", 0)
        await scheduler.queue("default").pause()
        await stage.machine.sleep(15)
        await scheduler.queue("default").resume()
        await stage.machine.sleep(40)

    stage.play(scene)
    assert stage.when("behind it") == pytest.approx(45, abs=0.1)


def test_a_step_back_makes_nobody_miss_anything():
    """What is due between the new now and the old one has been watched: it waits for its time to come again."""
    stage = Stage()

    async def scene(scheduler):
        await stage.machine.sleep(500)
        stage.machine.step(-400)
        await schedule(scheduler, "at", 200, "at", 0)
        await stage.machine.sleep(150)

    stage.play(scene)
    assert stage.when("at") == pytest.approx(600, abs=0.1)


def test_what_waited_when_the_clock_was_set_back_has_not_been_missed():
    """It fell due at 50 s, watched; at 100 s the clock shows 70 s again: that is no reason to call it missed."""
    stage = Stage()

    async def scene(scheduler):
        await scheduler.queue("default").pause()
        await schedule(scheduler, "at", 50, "at", 0)
        await stage.machine.sleep(100)
        stage.machine.step(-30)
        await stage.machine.sleep(2)
        await scheduler.queue("default").resume()
        await stage.machine.sleep(1)

    stage.play(scene)
    assert stage.when("at") == pytest.approx(102, abs=0.1)


def test_a_retry_is_never_a_misfire():
    """The grace is judged at the first claim only."""
    stage = Stage()

    async def scene(scheduler):
        await scheduler.options(misfire_grace_s=0, retry=3).after(1, "fail", "job", 1)
        await stage.machine.sleep(1.1)

    stage.play(scene)
    stage.machine.suspend(3600)
    stage.play(lambda _: stage.machine.sleep(1))
    assert stage.tags() == ["job", "job"]
    assert state(stage)[0] is JobState.COMPLETED


def test_who_waits_for_a_skipped_job_is_told():
    stage = Stage()

    async def scene(scheduler):
        job = await schedule(scheduler, "at", 100, "job")
        stage.machine.suspend(3600)
        with pytest.raises(JobSkipped, match="misfire"):
            await job.result(10)

    stage.play(scene)


def test_b28_a_grace_in_the_wrong_place_is_refused_and_not_ignored():
    stage = Stage()
    scheduler = stage.scheduler()
    with pytest.raises(InvalidOption, match="misfire_grace_s"):
        scheduler.task(name="again", misfire_grace_s=10)(stage.note)
    with pytest.raises(InvalidOption, match="misfire_grace"):
        scheduler.options(misfire_grace=10)
