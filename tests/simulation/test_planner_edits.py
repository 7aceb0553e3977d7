"""What people do to schedules: edits, pauses, deletes, triggers, backfills, calendars; and what that leaves behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date

import pytest
from helpers import STORES, SlowStore, crash
from standing_lives import DAY, HOUR, JOB, MINUTE, SKIPPED, Standing, t0

from timewheel import Calendar, Cron, Every, InvalidRule, JobState, ScheduleNotFound, ScheduleState, VersionConflict
from timewheel.store.changes import PutSchedule


@pytest.fixture(params=STORES)
def lives(request):
    return Standing(request.param)


def down(lives, seconds):
    lives.machine.awake_us += round(seconds * 1e6)


# ---- pause and resume ------------------------------------------------------------------------------------------------


def test_a_pause_makes_nothing_and_what_it_missed_is_accounted_for_when_it_ends(lives):
    async def scene(scheduler):
        one = await scheduler.cron("* * * * *", "note")
        await lives.machine.sleep(90)
        paused = await one.pause(note="audit")
        assert (paused.state, paused.reason, paused.version) == (ScheduleState.PAUSED, "audit", 2)
        await lives.machine.sleep(10 * MINUTE)
        assert len(lives.diary) == 1
        resumed = await one.resume()
        assert (resumed.state, resumed.reason, resumed.version) == (ScheduleState.ACTIVE, None, 3)
        await lives.machine.sleep(10)
        assert await lives.accounted("note", SKIPPED, "paused") == 9
        await lives.machine.sleep(MINUTE)

    lives.live(scene)
    assert lives.slots() == [60, 11 * MINUTE, 12 * MINUTE]
    assert [missed for *_, missed in lives.diary] == [None, 10, None]


def test_a_pause_ends_by_itself_over_a_restart_too(lives):
    async def first(scheduler):
        one = await scheduler.recurring(misfire="SKIP").cron("* * * * *", "note")
        await one.pause(until=t0(5 * MINUTE + 30))

    async def second(scheduler):
        await lives.machine.sleep(5 * MINUTE + 1)
        one = await scheduler.get_schedule("note")
        assert (one.state, one.paused_until, one.version) == (ScheduleState.ACTIVE, None, 3)

    lives.die(first)
    down(lives, MINUTE)
    lives.live(second)
    assert lives.slots() == [6 * MINUTE]


def test_editing_does_not_resume_and_a_pause_outlives_its_edits(lives):
    async def scene(scheduler):
        one = await scheduler.cron("* * * * *", "note")
        await one.pause()
        await lives.machine.sleep(90)
        edited = await one.update("*/2 * * * *")
        assert edited.state is ScheduleState.PAUSED
        assert await lives.accounted("note", SKIPPED, "paused") == 1
        await lives.machine.sleep(5 * MINUTE)
        assert lives.diary == []
        await one.resume()
        await lives.machine.sleep(1)
        assert await lives.accounted("note") == 4

    lives.live(scene)
    assert lives.slots() == [6 * MINUTE]


# ---- edits -----------------------------------------------------------------------------------------------------------


def test_what_had_come_before_an_edit_is_accounted_for_by_the_old_rule(lives):
    async def first(scheduler):
        await scheduler.recurring(id="it").cron("* * * * *", "note", "old")

    async def second(scheduler):
        await scheduler.recurring(id="it").cron("*/10 * * * *", "note", "new")
        await lives.machine.sleep(10 * MINUTE)
        assert await lives.accounted("it", SKIPPED, "misfire") == 4
        assert await lives.accounted("it", JOB) == 2

    lives.die(first)
    down(lives, 5 * MINUTE + 30)
    lives.live(second)
    assert lives.slots("old") == [5 * MINUTE]
    assert lives.slots("new") == [10 * MINUTE]


def test_an_edit_of_anything_but_the_slots_keeps_the_next_one(lives):
    async def scene(scheduler):
        one = await scheduler.every(60, "note", "old")
        await lives.machine.sleep(30)
        edited = await one.update(jitter_s=0, queue="other", misfire="SKIP")
        assert (edited.version, edited.queue, edited.next_at) == (2, "other", t0(60))
        same = await one.update(queue="other")
        assert same.version == 2
        await lives.machine.sleep(100)
        states = [job.state async for job in scheduler.jobs(queue="other")]
        assert states == [JobState.COMPLETED] * 2

    lives.live(scene)


def test_a_late_edit_is_refused_with_the_version_there_is(lives):
    async def scene(scheduler):
        one = await scheduler.every(60, "note")
        await one.update(Every(30))
        for late in (one.update(Every(20), if_version=1), one.pause(if_version=1), one.delete(if_version=1)):
            with pytest.raises(VersionConflict) as caught:
                await late
            assert caught.value.version == 2
        await one.delete(if_version=2)
        with pytest.raises(ScheduleNotFound):
            await one.refresh()
        with pytest.raises(ScheduleNotFound):
            await one.trigger()

    lives.live(scene)


def test_a_plan_that_another_edit_overtook_is_made_from_what_the_journal_holds(lives):
    async def scene(scheduler):
        await scheduler.cron("* * * * *", "note")
        record, engine = await lives.store.schedule("note"), scheduler._engine
        elsewhere = PutSchedule(replace(record, version=7), 1)
        await lives.store.commit([elsewhere], engine.stamp())
        await lives.machine.sleep(MINUTE + 1)
        assert (await scheduler.get_schedule("note")).version == 7

    lives.live(scene)
    assert lives.slots() == [MINUTE]


def test_edits_that_come_together_are_made_one_after_the_other(lives):
    async def scene(scheduler):
        one = await scheduler.every(1, "note")
        await asyncio.gather(*(one.update(Every(number)) for number in range(2, 40)))
        now = await one.refresh()
        assert (now.version, now.rule) == (39, Every(39))

    lives.live(scene)


def test_a_schedule_that_was_dropped_and_made_again_goes_on_in_another_life_of_its_slots(lives):
    async def scene(scheduler):
        for _ in range(2):
            one = await scheduler.cron("* * * * *", "note")
            await lives.machine.sleep(2 * MINUTE + 1)
            await one.delete()
            lives.machine.step(-90)

    lives.live(scene)
    found = lives.machine.run(lives.entries("note"))
    assert len(found) == len(lives.diary) == 4
    assert {entry.occurrence.turn for entry in found} == {0, 1}


def test_a_caller_who_stops_waiting_changes_nothing():
    lives = Standing(SlowStore(STORES["memory"](), commit_s=1))

    async def scene(scheduler):
        one = await scheduler.every(3600, "note")
        task = asyncio.ensure_future(one.pause(note="x"))
        await lives.machine.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await lives.machine.sleep(10)
        assert (await one.refresh()).state is ScheduleState.PAUSED

    lives.live(scene)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("number", range(1, 14))
def test_a_kill_in_the_midst_of_edits_leaves_what_was_committed(number, written):
    lives = Standing(SlowStore(STORES["memory"]()))

    async def life():
        scheduler = lives.scheduler(lives.tasks)
        death = asyncio.ensure_future(lives.store.died.wait())

        async def scene():
            await scheduler.start()
            one = await scheduler.cron("* * * * *", "note")
            await lives.machine.sleep(90)
            await one.pause()
            await lives.machine.sleep(90)
            await one.resume()
            await one.update("*/2 * * * *")
            await one.delete()

        await asyncio.wait([death, asyncio.ensure_future(scene())], return_when=asyncio.FIRST_COMPLETED)

    async def again(scheduler):
        await lives.machine.sleep(5)

    lives.store.kill(number, written)
    lives.machine.run(life(), leave=True)
    lives.store.kill(0, True)
    lives.store = crash(lives.store)
    lives.live(again)


# ---- calendars -------------------------------------------------------------------------------------------------------


def test_a_calendar_that_changes_moves_the_slots_to_come_and_leaves_those_that_came(lives):
    async def scene(scheduler):
        open_days = Calendar("open", [date(2026, 1, 7)], weekend=())
        await scheduler.cron(Cron("0 9 * * *", calendar=open_days), "note")
        await lives.machine.sleep(DAY)
        await scheduler.standing.put_calendar(Calendar("open", [date(2026, 1, 6)], weekend=()))
        await lives.machine.sleep(2 * DAY)

    lives.live(scene)
    assert lives.slots() == [9 * HOUR, 2 * DAY + 9 * HOUR]


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_a_backfill_counts_first_and_then_makes_up_for_what_did_not_run_once(lives):
    async def first(scheduler):
        await scheduler.recurring(misfire="SKIP").cron("0 * * * *", "busy", "a", 10)
        await lives.machine.sleep(2 * HOUR + 60)

    async def second(scheduler):
        one = await scheduler.get_schedule("busy")
        start, end = t0(), t0(DAY)
        counted = await one.backfill(start, end)
        assert (counted.slots, counted.already_ran, counted.made) == (11, 2, 9)
        assert await scheduler.jobs().count() == 2
        made = await one.backfill(start, end, dry_run=False)
        assert (made.slots, made.already_ran, made.made, len(made.jobs)) == (11, 2, 9, 9)
        await lives.machine.sleep(200)
        again = await one.backfill(start, end, dry_run=False)
        assert (again.slots, again.already_ran, again.made) == (11, 11, 0)

    lives.live(first)
    down(lives, 8 * HOUR + 1800)
    lives.live(second)
    assert lives.slots()[2:] == [k * HOUR for k in (0, *range(3, 11))]
    gaps = [b - a for a, b in zip(lives.times()[2:], lives.times()[3:], strict=False)]
    assert all(gap > 9.9 for gap in gaps), "one at a time"


def test_a_backfill_of_an_interval_has_the_phase_of_its_slots(lives):
    async def scene(scheduler):
        await lives.machine.sleep(7)
        one = await scheduler.every(HOUR, "note")
        await one.pause()
        await lives.machine.sleep(5 * HOUR)
        counted = await one.backfill(t0(), t0(3 * HOUR), dry_run=False)
        assert counted.made == 3
        await lives.machine.sleep(5)

    lives.live(scene)
    assert lives.slots() == [7, HOUR + 7, 2 * HOUR + 7]


def test_a_paused_schedule_can_be_triggered_and_a_trigger_counts_for_no_slot(lives):
    async def scene(scheduler):
        one = await scheduler.recurring(max_runs=2).every(60, "note")
        await one.pause()
        job = await one.trigger()
        await lives.machine.sleep(1)
        assert (await job.refresh()).state is JobState.COMPLETED
        assert (await one.refresh()).record.position.made == 0

    lives.live(scene)


def test_an_edit_that_cannot_be_leaves_the_schedule_as_it_was(lives):
    async def scene(scheduler):
        one = await scheduler.every(60, "note")
        with pytest.raises(InvalidRule):
            await one.update("61 * * * *")
        assert (await one.refresh()).version == 1

    lives.live(scene)
