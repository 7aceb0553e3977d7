"""Schedules and the clocks: steps back and forth, suspends, and what a restart finds of them (B42, B43)."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from helpers import STORES
from standing_lives import DAY, HOUR, JOB, MINUTE, SKIPPED, Standing, t0

from timewheel import Cron, zones
from timewheel.planning import slots
from timewheel.store.port import ScheduleFilter


@pytest.fixture(params=STORES)
def lives(request):
    return Standing(request.param)


@pytest.fixture(params=[True, False], ids=["quiet", "looking"])
def told(request):
    """A machine that tells of its steps, or one whose clocks are looked at once a second."""
    return Standing(quiet=request.param)


def test_b42_a_step_back_leaves_intervals_alone_and_serves_no_fixed_slot_twice(told):
    lives = told

    async def scene(scheduler):
        await scheduler.recurring(id="steady").every(10, "note", "steady")
        await scheduler.recurring(id="wild").cron("* * * * *", "note", "wild")
        await scheduler.recurring(id="fixed").cron("1 0 * * *", "note", "fixed")
        await lives.machine.sleep(90)
        lives.machine.step(-60)  # it is 00:00:30 again
        await lives.machine.sleep(95)

    lives.live(scene)
    assert lives.times("steady") == pytest.approx([10 * k for k in range(1, 19)], abs=0.1)
    assert lives.times("fixed") == pytest.approx([60], abs=0.1)
    assert lives.times("wild") == pytest.approx([60, 120, 180], abs=0.1), "within one period"


def test_a_step_back_of_hours_plans_everything_from_the_new_now(lives):
    async def scene(scheduler):
        await scheduler.recurring(id="fixed").cron("0 6 * * *", "note", "fixed")
        await lives.machine.sleep(6 * HOUR + 60)
        lives.machine.step(-4 * HOUR)
        await lives.machine.sleep(4 * HOUR)
        found = [entry.occurrence for entry in await lives.entries("fixed")]
        assert [(row.first_at, row.turn) for row in found] == [(found[0].first_at, 0), (found[0].first_at, 1)]

    lives.live(scene)
    assert lives.times("fixed") == pytest.approx([6 * HOUR, 10 * HOUR], abs=1.1)


def test_a_step_back_while_the_process_was_down_is_known_by_the_position(lives):
    async def first(scheduler):
        await scheduler.recurring(id="wild").cron("* * * * *", "note", "wild")
        await scheduler.recurring(id="fixed").cron("*/1 0-23 * * *", "note", "fixed")
        await lives.machine.sleep(10 * MINUTE + 5)

    async def second(scheduler):
        await lives.machine.sleep(2 * MINUTE)

    lives.live(first)
    lives.machine.step(-5 * MINUTE)
    lives.live(second)
    assert len(lives.times("wild")) == 12


def test_b43_ten_years_ahead_is_one_range(told):
    lives = told

    async def scene(scheduler):
        await scheduler.recurring(id="steady").every(1, "note", "steady")
        await scheduler.recurring(id="wild").cron("* * * * * *", "note", "wild")
        await lives.machine.sleep(10.5)
        lives.machine.step(3652 * DAY)
        await lives.machine.sleep(2)
        await lives.machine.sleep(3)
        assert await lives.accounted("wild", SKIPPED, "misfire") > 315_000_000
        return await lives.rows("wild")

    found = lives.live(scene)
    assert len(lives.times("steady")) == 15
    assert len(found) < 20
    assert [count for _, _, count, fate, _ in found if fate == "skipped"] == [pytest.approx(3652 * DAY, abs=5)]


def test_a_suspend_counts_as_elapsed_and_what_fell_due_follows_the_misfire_policy(told):
    lives = told

    async def scene(scheduler):
        await scheduler.recurring(id="steady").every(60, "note", "steady")
        await scheduler.recurring(id="wall").cron("* * * * *", "note", "wall")
        await lives.machine.sleep(90)
        lives.machine.suspend(600)
        await lives.machine.sleep(2)
        for name in ("steady", "wall"):
            assert await lives.accounted(name, JOB) == 2
            assert await lives.accounted(name, SKIPPED, "misfire") == 9

    lives.live(scene)
    assert lives.times("steady") == lives.times("wall") == pytest.approx([60, 690], abs=1.1)


def test_other_time_zones_at_a_start_give_other_next_times_and_an_entry(lives, monkeypatch):
    async def first(scheduler):
        definition = (await scheduler.cron(Cron("0 12 * * *", tz="Europe/Berlin"), "note")).definition
        for number in range(1_200):
            await scheduler._engine.planner.declare(f"{number:04}", definition)

    async def second(scheduler):
        await lives.machine.sleep(1)
        assert (await scheduler.get_schedule("0007")).next_at == t0(12 * HOUR)
        found = await lives.store.schedules(ScheduleFilter(), limit=2_000)
        assert {record.position.tzdata for record in found} == {"Z"}
        entries = await lives.store.entries(limit=1_000)
        [told] = [json.loads(data) for _, _, kind, data in entries if kind == "tzdata"]
        assert told == {"to": "Z", "schedules": {old: 1201}}

    old = zones.version()
    lives.live(first)
    monkeypatch.setattr(zones, "version", lambda: "Z")
    monkeypatch.setattr(zones, "zone", lambda _: UTC)  # Berlin has moved
    slots._shared.cache_clear()  # which another process would not have
    lives.live(second)
    slots._shared.cache_clear()
    assert lives.diary == []
