"""The slots of schedules in virtual time: each gets what its policy says, over restarts, crashes and outages."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from helpers import STORES, SlowStore, crash
from standing_lives import COALESCED, DAY, HOUR, JOB, MINUTE, SKIPPED, Standing, t0

from timewheel import Every, ScheduleState
from timewheel.errors import JournalBusy, JournalFull, JournalUnknown
from timewheel_storage.memory import MemoryStore


@pytest.fixture(params=STORES)
def lives(request):
    return Standing(request.param)


def down(lives, seconds):
    """No process runs for so long."""
    lives.machine.awake_us += round(seconds * 1e6)


def test_each_slot_of_a_cron_runs_at_its_instant(lives):
    async def scene(scheduler):
        await scheduler.cron("*/10 * * * *", "note")
        await lives.machine.sleep(HOUR + 1)

    lives.live(scene)
    assert lives.slots() == [600 * k for k in range(1, 7)]
    assert lives.times() == pytest.approx(lives.slots(), abs=0.01)


def test_the_first_run_of_every_is_one_interval_after_it_is_made_and_it_never_drifts(lives):
    async def scene(scheduler):
        await lives.machine.sleep(7.5)
        await scheduler.every(10, "busy", "", 3)
        await lives.machine.sleep(1001)

    lives.live(scene)
    assert lives.slots() == [7.5 + 10 * k for k in range(1, 101)]
    assert lives.times() == pytest.approx(lives.slots(), abs=0.01)


@pytest.mark.parametrize(
    ("misfire", "ran", "fates"),
    [
        ("SKIP", [], [(SKIPPED, "misfire", 111)]),
        ("LATEST", [111], [(SKIPPED, "misfire", 110), (JOB, None, 1)]),
        ("COALESCE", [111], [(COALESCED, "misfire", 110), (JOB, None, 1)]),
        ("ALL", list(range(1, 112)), [(JOB, None, 111)]),
    ],
)
def test_b29_after_many_misses_the_policy_decides_and_the_schedule_goes_on(lives, misfire, ran, fates):
    async def make(scheduler):
        options = {"misfire": misfire, "catch_up_max": 1000, "catch_up_per_s": None}
        await scheduler.recurring(**options).cron("* * * * *", "note")

    async def scene(scheduler):
        await lives.machine.sleep(2)
        late, lives.diary[:] = lives.diary[:], []
        await lives.machine.sleep(MINUTE)
        return late

    lives.die(make)
    down(lives, 111 * MINUTE + 30)
    late = lives.live(scene)
    assert sorted(slot for _, _, slot, _ in late) == [k * MINUTE for k in ran]
    assert lives.slots() == [112 * MINUTE], "in no case does it stop"
    told = [missed for _, _, _, missed in late]
    assert told == ([111] if misfire in ("LATEST", "COALESCE") else [None] * len(ran))

    async def look():
        for fate, reason, count in fates:
            assert await lives.accounted("note", fate, reason) == count + (fate is JOB)  # the slot that came then
        assert await lives.accounted("note") == 112

    lives.machine.run(look())


def test_b30_a_long_outage_of_a_quick_schedule_is_one_run_and_one_row(lives):
    async def make(scheduler):
        await scheduler.every(5, "note")

    async def scene(scheduler):
        await lives.machine.sleep(0.1)
        return await lives.rows("note")

    lives.die(make)
    down(lives, 14 * DAY + 1)
    found = lives.live(scene)
    assert [(count, fate) for _, _, count, fate, _ in found] == [(241_919, "skipped"), (1, "job")]
    assert [missed for *_, missed in lives.diary] == [241_919]  # the newest is within the grace, so not missed itself


def test_b31_late_runs_know_their_slot_and_come_in_order(lives):
    async def make(scheduler):
        options = {"misfire": "ALL", "catch_up_max": 1000, "catch_up_per_s": None}
        await scheduler.recurring(**options).cron("1 0 * * *", "note")

    async def scene(scheduler):
        await lives.machine.sleep(1)

    lives.die(make)
    down(lives, 3 * DAY + 10 * HOUR)
    lives.live(scene)
    assert lives.slots() == [MINUTE + k * DAY for k in range(4)], "one at a time, so in order"
    assert lives.times() == pytest.approx([3 * DAY + 10 * HOUR] * 4, abs=0.1)


def test_catching_up_is_spread_and_left_out_of_the_lags(lives):
    noticed = []

    async def make(scheduler):
        await scheduler.recurring(misfire="ALL", overlap="ALLOW").cron("* * * * *", "note")

    async def scene(scheduler):
        scheduler.notices.subscribe(noticed.append)
        await lives.machine.sleep(MINUTE)

    lives.die(make)
    down(lives, 20 * MINUTE + 30)
    lives.live(scene)
    late = lives.times()[:20]
    assert [later - sooner for sooner, later in pairwise(late)] == pytest.approx([1] * 19, abs=0.01)
    lags = [lag for notice in noticed for lag in getattr(notice, "start_lags_us", ())]
    assert sorted(lags, key=lambda lag: lag is None)[0] < 1e6
    assert lags.count(None) == 20


def test_b33_an_interval_longer_than_the_uptime_runs_and_declaring_again_keeps_its_slot(lives):
    async def a_day(scheduler):
        await scheduler.recurring(id="weekly").every(7 * DAY, "note")
        await lives.machine.sleep(DAY - 60)

    for day in range(16):
        (lives.die if day % 2 else lives.live)(a_day)
        down(lives, 60)
    assert lives.slots() == [7 * DAY, 14 * DAY]
    assert lives.times() == pytest.approx([7 * DAY, 14 * DAY], abs=61)


def test_b33_declaring_a_changed_schedule_works_out_its_next_time_anew(lives):
    async def first(scheduler):
        assert (await scheduler.recurring(id="it").every(7 * DAY, "note")).version == 1
        await lives.machine.sleep(5 * DAY)

    async def second(scheduler):
        same = await scheduler.recurring(id="it").every(7 * DAY, "note")
        assert same.version == 1
        assert same.next_at == t0(7 * DAY)
        other = await scheduler.recurring(id="it").every(3 * DAY, "note")
        assert other.version == 2
        assert other.next_at == pytest.approx(t0(8 * DAY), abs=timedelta(seconds=1))

    lives.live(first)
    lives.live(second)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("number", range(2, 9))
@pytest.mark.parametrize("store", STORES)
def test_b34_a_kill_in_any_commit_leaves_each_slot_served_once(number, written, store):
    lives = Standing(SlowStore(STORES[store]()))

    async def life():
        scheduler = lives.scheduler(lives.tasks)
        death = asyncio.ensure_future(lives.store.died.wait())

        async def scene():
            await scheduler.start()
            await scheduler.recurring(misfire="ALL", catch_up_per_s=None).cron("* * * * *", "note")
            await lives.machine.sleep(3 * MINUTE)

        await asyncio.wait([death, asyncio.ensure_future(scene())], return_when=asyncio.FIRST_COMPLETED)

    async def again(scheduler):
        await scheduler.recurring(misfire="ALL", catch_up_per_s=None).cron("* * * * *", "note")
        await lives.machine.sleep(4 * MINUTE)

    lives.store.kill(number, written)
    lives.machine.run(life(), leave=True)
    lives.store = crash(lives.store)
    lives.live(again)
    served = lives.slots()
    assert sorted(set(served)) == [k * MINUTE for k in range(1, round(max(served) / MINUTE) + 1)]
    jobs = lives.machine.run(lives.entries("note"))
    assert len(jobs) == len({entry.occurrence.first_at for entry in jobs}), "no slot got two jobs"


@pytest.mark.parametrize("error", [JournalFull, JournalBusy, JournalUnknown])
@pytest.mark.parametrize("written", [True, False])
def test_a_commit_that_fails_delays_a_slot_and_loses_none(error, written):
    store = SlowStore(MemoryStore())
    lives = Standing(store)
    written = written and error is JournalUnknown

    async def scene(scheduler):
        await scheduler.cron("* * * * *", "note")
        for _ in range(5):
            await lives.machine.sleep(50)
            store.faults[store.commits + 1] = error("for once", path="memory"), written
            await lives.machine.sleep(10)
        await lives.machine.sleep(5)

    lives.live(scene)
    assert lives.slots() == [k * MINUTE for k in range(1, 6)]
    assert max(at - slot for _, at, slot, _ in lives.diary) < 3


@pytest.mark.parametrize("store", STORES)
def test_ten_thousand_due_in_the_same_second_have_their_jobs_within_it(store):
    lives = Standing(store, quiet=True)
    many = 10_000 if store == "memory" else 2_000

    async def scene(scheduler):
        one = await scheduler.recurring(id="0").cron("0 12 * * *", "note")
        planner, definition = scheduler._engine.planner, one.definition
        await asyncio.gather(*(planner.declare(str(number), definition) for number in range(1, many)))
        await lives.machine.sleep(12 * HOUR + 1)
        counted = [await lives.accounted(str(number), JOB) for number in range(many)]
        assert counted == [1] * many

    lives.live(scene, concurrency=1000)
    assert len(lives.diary) == many


def test_max_runs_and_end_end_a_schedule_and_start_begins_it(lives):
    async def scene(scheduler):
        three = await scheduler.recurring(id="three", max_runs=3).every(10, "note", "three")
        until = await scheduler.recurring(id="until", end=t0(45)).every(10, "note", "until")
        since = await scheduler.recurring(id="since", start=t0(65)).cron("* * * * *", "note", "since")
        await lives.machine.sleep(130)
        states = [(await each.refresh()).state for each in (three, until, since)]
        assert states == [ScheduleState.ENDED, ScheduleState.ENDED, ScheduleState.ACTIVE]

    lives.live(scene)
    assert lives.slots("three") == [10, 20, 30]
    assert lives.slots("until") == [10, 20, 30, 40]
    assert lives.slots("since") == [120]


def test_jitter_makes_the_job_due_later_in_the_slot_and_the_slot_keeps_its_name(lives):
    async def scene(scheduler):
        await scheduler.recurring(jitter_s=30).cron("* * * * *", "note")
        await lives.machine.sleep(10 * MINUTE + 31)

    lives.live(scene)
    assert lives.slots() == [k * MINUTE for k in range(1, 11)]
    shifts = [at - slot for at, slot in zip(lives.times(), lives.slots(), strict=True)]
    assert len(set(shifts)) > 5
    assert all(0 <= shift < 30.1 for shift in shifts)


def test_a_fixed_delay_counts_from_the_end_of_each_run_over_restarts_too(lives):
    async def make(scheduler):
        await scheduler.schedule(Every(60, after_completion=True), "busy", "", 25)
        await lives.machine.sleep(200)  # 60-85, 145-170

    async def scene(scheduler):
        await lives.machine.sleep(100)

    lives.live(make)
    lives.live(scene)
    assert lives.times() == pytest.approx([60, 145, 230], abs=0.1)


def test_a_fixed_delay_goes_on_after_a_crash_in_the_midst_of_a_run(lives):
    async def make(scheduler):
        await scheduler.schedule(Every(60, after_completion=True), "busy", "", 25)
        await lives.machine.sleep(70)

    async def scene(scheduler):
        await lives.machine.sleep(100)

    lives.die(make)
    lives.live(scene)
    assert lives.times() == pytest.approx([60, 70, 155], abs=0.5)


def test_a_fixed_delay_goes_on_when_nobody_knows_whether_its_job_was_written():
    store = SlowStore(MemoryStore())
    lives = Standing(store)

    async def scene(scheduler):
        await scheduler.schedule(Every(60, after_completion=True), "busy", "", 25)
        await lives.machine.sleep(59)
        store.faults[store.commits + 1] = JournalUnknown("for once", path="memory"), True
        await lives.machine.sleep(100)

    lives.live(scene)
    assert lives.times() == pytest.approx([60, 145], abs=0.1)


def test_a_fixed_delay_counts_from_the_end_of_a_run_although_the_process_died_right_then():
    lives = Standing(SlowStore(MemoryStore()))

    async def life():
        scheduler = lives.scheduler(lives.tasks)
        await scheduler.start()
        await scheduler.schedule(Every(60, after_completion=True), "busy", "", 25)
        await lives.machine.sleep(84)
        lives.store.kill(lives.store.commits + 2, False)  # its end is written, the next slot is not
        await lives.store.died.wait()

    async def again(scheduler):
        await lives.machine.sleep(40)

    lives.machine.run(life(), leave=True)
    lives.store = crash(lives.store)
    down(lives, 30)
    lives.live(again)
    assert lives.times() == pytest.approx([60, 145], abs=0.1)


def test_a_draining_scheduler_plans_nothing(lives):
    async def life():
        scheduler = lives.scheduler(lives.tasks)
        await scheduler.start()
        await scheduler.every(1, "note")
        await scheduler.now("busy", "long", 20)
        await lives.machine.sleep(0.5)
        await scheduler.stop(30)

    lives.machine.run(life())
    assert lives.machine.run(lives.entries("note")) == []
