"""What schedules promise, when something crosses it: much at once, an outcome that nobody knows, an edit in between."""

from __future__ import annotations

import asyncio

import pytest
from helpers import SlowStore
from lives import FaultyStore
from standing_lives import DAY, HOUR, SKIPPED, Standing, seconds, t0

from timewheel import Calendar, Cron, Every, ScheduleState
from timewheel.errors import JournalUnknown
from timewheel.testing.virtual import T0
from timewheel_storage.memory import MemoryStore


def down(lives, seconds):
    lives.machine.awake_us += round(seconds * 1e6)


def test_an_edit_after_an_outage_accounts_for_all_that_came_though_that_is_more_than_it_waits_for():
    """Within a grace of a day none of 10,800 slots is missed, and each is planned by itself."""
    lives = Standing()

    async def make(scheduler):
        await scheduler.recurring(id="x", misfire_grace_s=DAY).cron("* * * * * *", "note")
        await lives.machine.sleep(5.5)

    async def edit(scheduler):
        made = await (await scheduler.get_schedule("x")).update("0 0 1 1 *")
        return seconds(made.record.position.at)

    lives.die(make)
    down(lives, 3 * HOUR)
    edited_at = lives.live(edit)
    accounted = lives.machine.run(lives.accounted("x"))
    assert accounted == int(edited_at) > 3 * HOUR
    assert 0 < lives.machine.run(lives.accounted("x", SKIPPED, "catch_up")) < accounted


@pytest.mark.parametrize("paused", [False, True])
def test_a_fixed_delay_goes_on_when_nobody_was_told_that_its_job_was_cancelled(paused):
    store = SlowStore(MemoryStore())
    lives = Standing(store)

    async def scene(scheduler):
        made = await scheduler.recurring(jitter_s=30).schedule(Every(60, after_completion=True), "note")
        await lives.machine.sleep(60.001)
        (job,) = [job async for job in scheduler.jobs()]
        if paused:
            await made.pause()
        store.faults[store.commits + 1] = JournalUnknown("for once", path="memory"), True
        with pytest.raises(JournalUnknown):
            await job.cancel()
        assert (await job.refresh()).state == "CANCELLED"
        if paused:
            await made.resume()
        await lives.machine.sleep(100)

    lives.live(scene)
    assert len(lives.slots()) == 1
    assert lives.slots() == pytest.approx([120], abs=0.1)


def test_a_fixed_delay_still_counts_from_the_end_of_a_run_that_outlived_a_commit_of_unknown_outcome():
    store = SlowStore(MemoryStore())
    lives = Standing(store)

    async def scene(scheduler):
        made = await scheduler.schedule(Every(60, after_completion=True), "busy", "", 25)
        await lives.machine.sleep(70)
        store.faults[store.commits + 1] = JournalUnknown("for once", path="memory"), True
        with pytest.raises(JournalUnknown):
            await scheduler.after(DAY, "note")
        await made.pause()
        await lives.machine.sleep(20)  # it ends at 85
        await made.resume()
        await lives.machine.sleep(60)

    lives.live(scene)
    assert lives.times() == pytest.approx([60, 145], abs=0.1)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_more_schedules_than_fit_into_a_batch_are_resumed_at_once(store):
    lives = Standing(store)

    async def scene(scheduler):
        made = [await scheduler.recurring(id=str(number)).cron("0 0 1 1 *", "note") for number in range(250)]
        await asyncio.gather(*(one.pause() for one in made))
        resumed = await asyncio.gather(*(one.resume() for one in made))
        assert {(one.state, one.version) for one in resumed} == {(ScheduleState.ACTIVE, 3)}

    lives.live(scene)


@pytest.mark.parametrize("rule", ["0 * * * *", Every(HOUR)])
@pytest.mark.parametrize("misfire", ["ALL", "LATEST"])
def test_what_was_made_up_for_in_a_pause_does_not_run_again_when_it_ends(rule, misfire):
    lives = Standing()

    async def scene(scheduler):
        made = await scheduler.recurring(id="x", misfire=misfire, catch_up_per_s=None).schedule(rule, "note")
        await lives.machine.sleep(60)
        await made.pause()
        await lives.machine.sleep(6 * HOUR)
        counted = await made.backfill(t0(60), t0(4.5 * HOUR))
        done = await made.backfill(t0(60), t0(4.5 * HOUR), dry_run=False)
        assert counted.made == done.made == 4
        await lives.machine.sleep(60)
        await made.resume()
        await lives.machine.sleep(60)
        late = {row.first_at for row in (entry.occurrence for entry in await lives.entries("x")) if row.count == 4}
        assert len(late) == 1, "the four have a row that says why they did not run by the rule"

    lives.live(scene)
    rest = [5, 6] if misfire == "ALL" else [6]
    assert [round(slot / HOUR) for slot in lives.slots()] == [1, 2, 3, 4, *rest]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_to_be_caught_up_with_is_not_made_up_for_besides(at_once):
    lives = Standing()

    async def make(scheduler):
        await scheduler.recurring(id="x", misfire="ALL").cron("0 * * * *", "note")

    async def scene(scheduler):
        made = await scheduler.get_schedule("x")
        if not at_once:
            await lives.machine.sleep(2.5)
        done = await made.backfill(t0(60), t0(DAY), dry_run=False)
        assert (done.slots, done.already_ran, done.made) == (8, 8, 0)
        await lives.machine.sleep(60)

    lives.die(make)
    down(lives, 8.5 * HOUR)
    lives.live(scene)
    assert lives.slots() == [hour * HOUR for hour in range(1, 9)]


@pytest.mark.parametrize("edited", [False, True])
def test_a_schedule_that_is_written_while_its_calendar_is_saved_follows_the_new_dates(edited):
    lives = Standing(FaultyStore())

    async def slow(_):
        await lives.machine.sleep(0.2)

    async def scene(scheduler):
        shut = Calendar("closed", [T0.date()], weekend=())
        await scheduler.recurring(id="old").schedule(Cron("* * * * *", calendar=shut), "note", "old")
        new = scheduler.recurring(id="new")
        made = await new.cron("0 0 1 1 *", "note", "new") if edited else None
        lives.store.before = slow
        saving = asyncio.create_task(scheduler.standing.put_calendar(Calendar("closed", weekend=())))
        await lives.machine.sleep(0.05)  # the old one is still there to be looked up
        rule = Cron("* * * * *", calendar="closed")
        await (new.schedule(rule, "note", "new") if made is None else made.update(rule))
        await saving
        await lives.machine.sleep(300)

    lives.live(scene)
    assert lives.slots("old") == lives.slots("new") == [60, 120, 180, 240, 300]


def test_a_pause_of_a_fixed_delay_ends_at_its_time_though_a_run_from_before_goes_on():
    """The planner had nothing to wait for then, and went round and round until the run ended."""
    lives = Standing()

    async def scene(scheduler):
        made = await scheduler.schedule(Every(60, after_completion=True), "busy", "", 50)
        await lives.machine.sleep(61)
        await made.pause(until=t0(70))
        await lives.machine.sleep(10)
        assert (await made.refresh()).state is ScheduleState.ACTIVE
        await lives.machine.sleep(110)

    lives.live(scene)
    assert lives.times() == pytest.approx([60, 170], abs=0.1)
