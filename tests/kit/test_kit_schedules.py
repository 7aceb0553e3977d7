"""Recurring schedules in the tests of an application: a year of them at once, waiting for one, and what is said."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from timewheel import Cron, Scheduler, current
from timewheel.testing import Clock, Deadlock, assert_drained, assert_not_scheduled, assert_scheduled
from timewheel.testing.virtual import T0


@pytest.fixture
async def stage():
    """(clock, scheduler that runs, the instants at which its task ran)"""
    async with Clock() as clock, clock.scheduler(tz="Europe/Berlin") as scheduler:
        ran = []

        @scheduler.task(name="note")
        async def note(tag=""):
            ran.append((tag, clock.now()))

        yield clock, scheduler, ran


async def test_a_year_of_schedules_runs_at_once_each_job_at_its_instant(stage):
    clock, scheduler, ran = stage
    await scheduler.recurring(id="daily").cron("30 2 * * *", "note", "daily")
    await scheduler.recurring(id="monthly").schedule(Cron("0 18 LW * *", tz="UTC"), "note", "monthly")
    await scheduler.recurring(id="weekly").every(timedelta(days=7), "note", "weekly")
    await clock.advance("365d")
    assert_drained()
    daily, monthly, weekly = ([at for tag, at in ran if tag == name] for name in ("daily", "monthly", "weekly"))
    assert weekly == [T0 + timedelta(days=7 * n) for n in range(1, 53)]
    assert [at.hour for at in monthly] == [18] * 12
    assert [(at.month, at.day) for at in monthly[:3]] == [(1, 30), (2, 27), (3, 31)]
    assert len(daily) == 365
    assert {(at.hour, at.minute) for at in daily} == {(1, 30), (0, 30), (1, 0)}  # winter, summer, the night of the gap
    assert datetime(2026, 3, 29, 1, tzinfo=UTC) in daily
    assert clock.now() == T0 + timedelta(days=365)


async def test_a_test_may_wait_for_a_job_that_no_schedule_has_made_yet(stage):
    clock, scheduler, _ = stage
    came = asyncio.Event()

    @scheduler.task
    async def tell():
        came.set()

    await scheduler.cron("0 0 1 12 *", tell)
    await came.wait()
    assert clock.now() == datetime(2026, 11, 30, 23, tzinfo=UTC)


async def test_a_paused_schedule_brings_nothing_to_wait_for(stage):
    clock, scheduler, _ = stage
    await (await scheduler.cron("@daily", "note")).pause()
    with pytest.raises(Deadlock), clock.watching():
        await asyncio.Event().wait()


async def test_jobs_of_schedules_are_jobs_like_others_to_the_assertions(stage):
    clock, scheduler, _ = stage
    schedule = await scheduler.recurring(queue="slow", tags=["x"]).every(3600, "note", "a")
    assert_not_scheduled("note")
    await scheduler.queue("slow").pause()
    await clock.advance("1h")
    (job,) = assert_scheduled("note", at=T0 + timedelta(hours=1), args=("a",), queue="slow", tag="x", count=1)
    assert job.schedule_id == schedule.id
    with pytest.raises(AssertionError):
        assert_drained()
    await scheduler.queue("slow").resume()
    await clock.advance(0)
    assert_drained()


async def test_a_failure_tells_of_the_schedules_of_that_task(stage):
    _, scheduler, _ = stage
    scheduler.task(name="other")(asyncio.sleep)
    await scheduler.recurring(id="morning").cron("0 9 * * *", "note")
    await scheduler.recurring(id="else").every(60, "other", 1)
    with pytest.raises(AssertionError) as caught:
        assert_scheduled("note", at="1h")
    told = str(caught.value)
    assert "schedules, which make their jobs when these are due:" in told
    assert "morning: note, ACTIVE, next at 2026-01-05 08:00:00+00:00" in told
    assert "else" not in told


async def test_what_an_application_declares_in_code_runs_in_its_tests():
    app = Scheduler("sqlite:///never-opened.db", tz="Europe/Berlin", prune=True)
    slots = []

    @app.periodic("0 9 * * *", id="morning")
    async def morning():
        slots.append(current().nominal_at)

    for _ in range(2):  # each test has an empty journal
        slots.clear()
        async with Clock() as clock, clock.borrow(app):
            known = await app.get_schedule("morning")
            assert (known.version, known.rule.tz) == (1, "Europe/Berlin")
            await clock.advance("2d")
            assert [slot.hour for slot in slots] == [8, 8]


async def test_a_handle_made_before_borrowing_follows_the_scheduler(tmp_path):
    app = Scheduler(f"sqlite:///{tmp_path}/app.db")

    @app.task(name="note")
    async def note():
        return None

    async with app:
        real = await app.cron("@daily", note)
    async with Clock() as clock, clock.borrow(app):
        await app.cron("@hourly", note)
        assert (await real.refresh()).rule.expr == "@hourly"  # the same desk, another journal
    async with app:
        assert (await real.refresh()).rule.expr == "@daily"
