"""Inline mode, and an application's own scheduler that is borrowed for a test."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from timewheel import InvalidOption, JobDead, NotStarted, Queue, Rate, Retry, Scheduler
from timewheel.testing import Clock, Deadlock, assert_scheduled, inline

ran = []


@pytest.fixture
async def stage():
    ran.clear()
    async with Clock() as clock, clock.scheduler() as scheduler:
        yield clock, scheduler


async def note(what):
    ran.append(what)
    return what


# ---- inline ----------------------------------------------------------------------------------------------------------


async def test_a_job_that_is_due_has_ended_when_the_verb_returns(stage):
    clock, scheduler = stage
    with inline(scheduler):
        job = await scheduler.now(note, 1)
        assert job.state == "COMPLETED"
        assert await job.result() == 1
        assert (await scheduler.at(clock.now(), note, 2)).state == "COMPLETED"
        assert (await scheduler.after(0, note, 3)).state == "COMPLETED"
        assert (await scheduler.options(priority=1).now(note, 4)).state == "COMPLETED"
        drafts = [scheduler.new(timedelta(0), note, 5), scheduler.new(timedelta(1), note, 6)]
        assert [job.state for job in await scheduler.at_many(drafts)] == ["COMPLETED", "SCHEDULED"]
        later = await scheduler.after(0.001, note, 7)
    assert later.state == "SCHEDULED"
    assert ran == [1, 2, 3, 4, 5]
    assert clock.passed == timedelta(0)
    assert (await scheduler.now(note, 8)).state == "SCHEDULED"
    assert "submit_many" not in vars(scheduler)


async def test_a_job_that_waits_for_one_that_is_for_later_stays_waiting(stage):
    _, scheduler = stage
    with inline(scheduler):
        first, later = await scheduler.now(note, 1), await scheduler.after(60, note, 2)
        assert (await scheduler.options(wait_for=[first]).now(note, 3)).state == "COMPLETED"
        assert (await scheduler.options(wait_for=[first, later]).now(note, 4)).state == "WAITING"
        [job] = await scheduler.at_many([scheduler.options(wait_for=[later]).new(timedelta(0), note, 5)])
        assert job.state == "WAITING"
    assert ran == [1, 3]


async def test_sleeps_and_retries_are_part_of_the_end(stage):
    clock, scheduler = stage

    @scheduler.task(retry=Retry(max_attempts=3, base_s=60, jitter=0))
    async def flaky():
        ran.append(clock.passed.total_seconds())
        await asyncio.sleep(5)  # virtual
        if len(ran) < 3:
            raise ValueError("boom")

    with inline(scheduler):
        assert (await scheduler.now(flaky)).state == "COMPLETED"
    assert ran == [0, 65, 190]


async def test_a_job_that_dies_raises_with_the_handlers_error(stage):
    _, scheduler = stage

    @scheduler.task(retry=None)
    async def fails():
        raise ValueError("boom")

    with inline(scheduler):
        with pytest.raises(JobDead, match="ValueError: boom") as caught:
            await scheduler.now(fails)
        assert caught.value.job.state == "DEAD"
        assert __file__ in caught.value.__notes__[0]
        with pytest.raises(JobDead):
            await scheduler.at_many([scheduler.new(timedelta(0), fails)])
    with inline(scheduler, errors="keep"):
        assert (await scheduler.now(fails)).state == "DEAD"
    with pytest.raises(InvalidOption, match="errors='ignore'"), inline(scheduler, errors="ignore"):
        pass


async def test_what_a_handler_schedules_for_now_runs_as_well_without_its_waiting(stage):
    _, scheduler = stage

    @scheduler.task(queue="one")
    async def outer():
        job = await scheduler.options(queue="one").now(note, "inner")
        await scheduler.after(60, note, "later")
        ran.append(f"outer sees {job.state}")

    await scheduler.queue("one").update(concurrency=1)
    with inline(scheduler):
        await scheduler.now(outer)
    assert ran == ["outer sees SCHEDULED", "inner"]
    assert_scheduled(note, args=("later",))


async def test_a_key_that_is_known_gives_the_job_that_ended(stage):
    _, scheduler = stage
    with inline(scheduler):
        one = await scheduler.options(idempotency_key="k").now(note, 1)
        two = await scheduler.options(idempotency_key="k").now(note, 1)
    assert one.id == two.id
    assert two.state == "COMPLETED"
    assert ran == [1]


async def test_a_paused_queue_is_a_deadlock_not_a_hang():
    async def play():
        async with Clock() as clock, clock.scheduler() as scheduler:
            await scheduler.queue("mail").pause()
            with inline(scheduler):
                await scheduler.options(queue="mail").now(note, 1)

    with pytest.raises(Deadlock):
        await play()


async def test_inline_works_in_real_time_too():
    ran.clear()
    async with Scheduler("memory://") as scheduler:
        with inline(scheduler):
            assert (await scheduler.now(note, 1)).state == "COMPLETED"


# ---- borrowing -------------------------------------------------------------------------------------------------------


def application(path):
    """A scheduler as an application makes one, with a task and a queue handle that hold on to it."""
    app = Scheduler(
        f"sqlite:///{path}/app.db", queues={"mail": Queue(rate=Rate(1, per_s=60), concurrency=5)}, threads=3
    )

    @app.task(name="app.note", queue="mail")
    async def app_note(what):
        ran.append(what)

    return app, app_note, app.queue("mail")


async def test_a_borrowed_scheduler_is_the_same_object_on_another_journal_and_clock(tmp_path):
    ran.clear()
    app, app_note, mail = application(tmp_path)
    blocking, options = app.blocking, app.options(priority=1)
    async with Clock() as clock:
        assert clock.borrow(app) is app
        assert clock.borrow(app) is app
        async with app:
            for number in range(3):
                await options.now(app_note, number)
            await clock.advance("1m")
            assert ran == [0, 1]  # the rate of the queue came along
            await mail.pause()
            await clock.advance("1h")
            assert ran == [0, 1]
            await mail.resume()
            await clock.advance("1m")
            assert ran == [0, 1, 2]
            assert app.path == "memory"
            assert app.blocking is blocking
    assert app.path == f"{tmp_path}/app.db"
    assert app.state == "NEW"
    assert not list(tmp_path.iterdir())
    async with app:
        assert await app.jobs().count() == 0
        await mail.pause()


async def test_tasks_that_are_registered_meanwhile_stay(tmp_path):
    app, _, _ = application(tmp_path)
    async with Clock() as clock, clock.borrow(app):

        @app.task(name="late")
        async def late(): ...

    assert app.task_names() == ["app.note", "late"]


async def test_a_scheduler_that_runs_is_not_lent():
    async with Scheduler("memory://") as app, Clock() as clock:
        with pytest.raises(NotStarted, match="RUNNING"):
            clock.borrow(app)


async def test_each_test_gets_an_empty_journal(tmp_path):
    app, app_note, _ = application(tmp_path)
    for _ in range(3):
        async with Clock() as clock, clock.borrow(app):
            await app.after(3600, app_note, 1)
            assert_scheduled(app_note, count=1)
