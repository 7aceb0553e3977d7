"""What the year of a thousand schedules has found (tests/planning/year.py): each mistake once more, alone."""

from __future__ import annotations

import pytest
from standing_lives import DAY, HOUR, JOB, SKIPPED, Standing

from timewheel import Every, JobState, ScheduleState


@pytest.fixture(params=["memory", "sqlite"])
def lives(request):
    return Standing(request.param)


def down(lives, seconds):
    lives.machine.awake_us += round(seconds * 1e6)


@pytest.mark.parametrize("misfire", ["SKIP", "LATEST"])
def test_a_fixed_delay_that_was_paused_over_a_restart_counts_from_the_end_of_its_last_run(lives, misfire):
    async def first(scheduler):
        made = await scheduler.recurring(id="x", misfire=misfire).schedule(
            Every(HOUR, after_completion=True), "busy", "x", 60
        )
        await lives.machine.sleep(HOUR + 30)
        await made.pause()  # the run ends at 3,660 s, so the next slot is at 7,260 s
        await lives.machine.sleep(60)

    async def second(scheduler):
        await lives.machine.sleep(2 * HOUR)
        await (await scheduler.get_schedule("x")).resume()
        await lives.machine.sleep(30)
        return await lives.rows("x")

    lives.die(first)
    down(lives, 60)
    _, row = lives.live(second)
    assert row[0] == pytest.approx(2 * HOUR + 60, abs=0.1)
    assert row[3:] == (("skipped", "paused") if misfire == "SKIP" else ("job", None))


def test_a_fixed_delay_whose_task_was_unknown_goes_on_once_it_is_registered(lives):
    async def scene(scheduler):
        await scheduler.recurring(id="x").schedule(Every(HOUR, after_completion=True), "busy", "x", 60)

    async def unknown(scheduler):
        await lives.machine.sleep(HOUR + 30)
        assert (await scheduler.get_schedule("x")).state is ScheduleState.PARKED
        scheduler.task(name="busy")(lives.busy)
        await lives.machine.sleep(4 * HOUR)
        assert (await scheduler.get_schedule("x")).state is ScheduleState.ACTIVE
        return await lives.accounted("x", JOB)

    lives.live(scene)
    assert lives.live(unknown, tasks={"note": lives.note}) == 4


def test_what_waits_in_turn_is_no_replacement_though_the_policy_was_changed_to_replace(lives):
    """After a restart only those are asked to end whose replacements wait."""

    async def first(scheduler):
        queue = scheduler.recurring(id="x", overlap="QUEUE_ALL")
        made = await queue.cron("0 * * * *", "busy", "x", 1.5 * HOUR)
        await lives.machine.sleep(2 * HOUR + 60)  # one runs, one waits
        await made.update(overlap="REPLACE")
        await lives.machine.sleep(60)

    async def second(scheduler):
        await lives.machine.sleep(30)
        return [(await scheduler.get_job(job.id)).state async for job in scheduler.jobs(schedule="x")]

    lives.die(first)
    assert lives.live(second) == [JobState.WAITING, JobState.ACTIVE]


def test_one_that_replaces_is_still_asked_for_after_a_restart(lives):
    async def first(scheduler):
        await scheduler.recurring(id="x", overlap="REPLACE").cron("0 * * * *", "busy", "x", 3 * HOUR)
        await lives.machine.sleep(HOUR + 60)
        scheduler._engine.planner._carrier.replace_soon = lambda job_ids: None  # the process dies before it can ask
        scheduler._engine.planner._carrier._surroundings.replace_soon = lambda job_id: None
        await lives.machine.sleep(HOUR)

    async def second(scheduler):
        await lives.machine.sleep(30)
        return [(await scheduler.get_job(job.id)).state async for job in scheduler.jobs(schedule="x")]

    lives.die(first)
    assert lives.live(second) == [JobState.ACTIVE, JobState.CANCELLED]


def test_a_schedule_that_was_dropped_and_made_again_serves_each_slot_of_a_later_turn(lives):
    """The first was set back once, and so in its second turn; the second is set back over the same hours."""

    async def scene(scheduler):
        made = await scheduler.recurring(id="x").cron("0 * * * *", "note", "x")
        await lives.machine.sleep(DAY + 60)
        lives.machine.step(-5 * HOUR)
        await lives.machine.sleep(5 * HOUR)  # passed in turn 1
        await made.delete()
        await lives.machine.sleep(120)
        await scheduler.recurring(id="x").cron("0 * * * *", "note", "x")
        await lives.machine.sleep(2 * HOUR)
        lives.machine.step(-6 * HOUR)
        lives.diary.clear()
        await lives.machine.sleep(6 * HOUR)

    lives.live(scene)
    assert len(lives.slots("x")) == 6
    assert SKIPPED not in {row[3] for row in lives.machine.run(lives.rows("x"))}
