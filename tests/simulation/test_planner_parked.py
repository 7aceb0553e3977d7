"""One bad schedule never stops or delays another: it is parked with the reason, and goes on when it can."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from helpers import STORES, SlowStore
from standing_lives import DAY, JOB, MINUTE, SKIPPED, Standing

from timewheel import Calendar, Cron, JobState, ScheduleState
from timewheel.errors import InvalidRule
from timewheel.planning import carrier, slots
from timewheel.recurrence.zonal import Zonal
from timewheel.store.changes import PutSchedule
from timewheel.store.port import Stamp

PARKED, ACTIVE = ScheduleState.PARKED, ScheduleState.ACTIVE


@pytest.fixture(params=STORES)
def lives(request):
    return Standing(request.param)


def down(lives, seconds):
    lives.machine.awake_us += round(seconds * 1e6)


async def entries(scheduler, kind):
    return [data for _, _, found, data in await scheduler._engine.store.entries(limit=1000) if found == kind]


def test_a_rule_that_raises_parks_its_schedule_alone(lives, monkeypatch):
    following = Zonal.following

    def broken(self, after_us):
        if self.expr == "*/5 * * * *":
            raise RuntimeError("the rule fell over")
        return following(self, after_us)

    async def scene(scheduler):
        for name, expr in (("bad", "*/5 * * * *"), ("good", "* * * * *")):
            await scheduler.recurring(id=name).cron(expr, "note", name)
        slots._shared.cache_clear()  # the other store's run asked for the same slots
        monkeypatch.setattr(Zonal, "following", broken)
        await lives.machine.sleep(10 * MINUTE + 1)
        bad = await scheduler.get_schedule("bad")
        assert (bad.state, bad.reason) == (PARKED, "the rule fell over")
        assert len(await entries(scheduler, "parked")) == 1
        monkeypatch.undo()

    async def again(scheduler):
        await lives.machine.sleep(1)
        assert (await scheduler.get_schedule("bad")).state is ACTIVE
        assert await lives.accounted("bad", SKIPPED, "parked") == 1

    lives.live(scene)
    assert lives.times("good") == pytest.approx([MINUTE * k for k in range(1, 11)], abs=0.1)
    lives.diary.clear()
    down(lives, 30)
    lives.live(again)
    assert lives.slots("bad") == [10 * MINUTE]


@pytest.mark.parametrize("text", ['{"kind": "schedule", "version": 99}', "not even JSON", "{}"])
def test_a_definition_that_cannot_be_read_parks_its_schedule_at_the_start(lives, text):
    async def first(scheduler):
        for name in ("bad", "good"):
            await scheduler.recurring(id=name).cron("0 0 * * *", "note", name)

    async def write(lives):
        record = await lives.store.schedule("bad")
        engine = lives.engine
        change = PutSchedule(replace(record, definition=text, version=2), 1)
        await lives.store.commit([change], Stamp(engine.now(), engine._clock.boot_us(), engine.epoch))

    async def spoil(scheduler):
        await first(scheduler)
        lives.engine = scheduler._engine
        await write(lives)

    async def second(scheduler):
        await lives.machine.sleep(DAY + 1)
        record = await lives.store.schedule("bad")
        assert record.state is PARKED
        assert record.reason

    async def mend(scheduler):
        await scheduler.recurring(id="bad").cron("0 0 * * *", "note", "bad")
        assert (await scheduler.get_schedule("bad")).state is ACTIVE

    lives.die(spoil)
    lives.live(second)
    assert lives.slots() == [DAY]
    lives.live(mend)


def test_a_zone_that_tzdata_lacks_parks_and_its_return_is_seen_at_the_next_start(lives, monkeypatch):
    from timewheel import zones

    real = zones.zone

    def lacking(name):
        if name == "Europe/Berlin":
            raise InvalidRule("tz='Europe/Berlin' is not a time zone of tzdata", field="tz")
        return real(name)

    async def first(scheduler):
        await scheduler.cron(Cron("0 12 * * *", tz="Europe/Berlin"), "note")
        await scheduler.recurring(id="other").cron("0 12 * * *", "note", "other")

    async def second(scheduler):
        await lives.machine.sleep(DAY)
        bad = await lives.store.schedule("note")
        assert bad.state is PARKED
        assert "Europe/Berlin" in bad.reason

    async def third(scheduler):
        await lives.machine.sleep(10)
        assert (await scheduler.get_schedule("note")).state is ACTIVE

    lives.live(first)
    monkeypatch.setattr(zones, "zone", lacking)
    lives.live(second)
    monkeypatch.undo()
    lives.live(third)
    assert lives.slots("other") == [12 * 3600]
    assert lives.slots("") == [11 * 3600]


def test_a_schedule_whose_task_is_gone_makes_one_job_that_waits_and_both_go_on_with_the_task(lives):
    async def first(scheduler):
        await scheduler.cron("* * * * *", "note")

    async def without(scheduler):
        await lives.machine.sleep(5 * MINUTE + 1)
        one = await lives.store.schedule("note")
        assert one.state is PARKED
        assert "note" in one.reason
        [job] = [job async for job in scheduler.jobs()]
        assert (job.state, job.reason) == (JobState.WAITING, "unresolvable")

    async def back(scheduler):
        await lives.machine.sleep(30)
        assert lives.diary == []
        scheduler.task(name="note")(lives.note)
        await lives.machine.sleep(1)
        assert (await scheduler.get_schedule("note")).state is ACTIVE
        await lives.machine.sleep(MINUTE)
        assert await lives.accounted("note", SKIPPED, "parked") == 3
        assert await lives.accounted("note", JOB) >= 2

    lives.live(first)
    lives.live(without, {})
    lives.live(back, {})
    assert lives.slots()[0] == MINUTE
    assert lives.slots()[-1] == 6 * MINUTE


def test_a_schedule_that_was_parked_for_its_task_goes_on_at_a_start_with_it(lives):
    async def first(scheduler):
        await scheduler.recurring(misfire="SKIP").cron("* * * * *", "note")

    async def waits(scheduler):
        await lives.machine.sleep(3 * MINUTE + 1)

    lives.live(first)
    lives.live(waits, {})
    lives.live(waits)
    assert lives.slots() == [MINUTE, 4 * MINUTE, 5 * MINUTE, 6 * MINUTE]


def test_a_calendar_that_is_not_there_parks_and_goes_on_once_it_is_saved(lives):
    saved = Calendar("open", [date(2026, 1, 6)], weekend=())

    async def first(scheduler):
        one = await scheduler.cron(Cron("0 9 * * *", calendar=saved), "note")
        return one.definition

    async def second(scheduler):
        planner = scheduler._engine.planner
        planner._roster.calendars.clear()  # as if it had never been saved
        planner._roster.find("note").text = None
        await lives.machine.sleep(DAY)
        record = await lives.store.schedule("note")
        assert record.state is PARKED
        assert "calendar" in record.reason
        await planner.put_calendar(saved)
        await lives.machine.sleep(1)
        assert (await lives.store.schedule("note")).state is ACTIVE

    lives.live(first)
    lives.live(second)
    assert lives.slots() == [9 * 3600]


def test_what_one_schedule_does_delays_no_other(lives, monkeypatch):
    calls = []
    real = carrier.plan

    def sometimes(definition, schedule, *args, **options):
        calls.append(schedule)
        if schedule.startswith("bad"):
            raise MemoryError
        return real(definition, schedule, *args, **options)

    async def scene(scheduler):
        for number in range(50):
            name = f"{'bad' if number % 2 else 'good'} {number}"
            await scheduler.recurring(id=name).cron("* * * * *", "note", name)
        monkeypatch.setattr(carrier, "plan", sometimes)
        await lives.machine.sleep(2 * MINUTE + 1)
        monkeypatch.undo()

    lives.live(scene)
    assert len(lives.diary) == 50
    assert max(at - slot for _, at, slot, _ in lives.diary) < 0.1
    assert calls.count("bad 1") == 1


def test_parking_survives_a_journal_that_takes_nothing_for_a_while():
    from timewheel.errors import JournalFull

    store = SlowStore(STORES["memory"]())
    lives = Standing(store)

    async def first(scheduler):
        await scheduler.cron("* * * * *", "note")

    async def scene(scheduler):
        await lives.machine.sleep(50)
        for number in range(1, 6):
            store.faults[store.commits + number] = JournalFull("full", path="memory"), False
        await lives.machine.sleep(30)
        assert (await lives.store.schedule("note")).state is PARKED

    lives.live(first)
    lives.live(scene, {})
