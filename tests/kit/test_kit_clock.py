"""Virtual time on a loop that a test runs on: what runs when, and what the clock says."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from timewheel import InvalidTime, Retry, Scheduler, current
from timewheel.testing import Clock, Deadlock, NotVirtual
from timewheel.testing.kit import turns
from timewheel.testing.virtual import T0

DAY_S = 86_400


class Diary:
    """Notes what ran when, by the clock."""

    def __init__(self, clock):
        self.clock = clock
        self.lines = []

    def note(self, what):
        self.lines.append((what, (self.clock.now() - T0).total_seconds()))


@pytest.fixture
async def stage():
    """(clock, scheduler that runs, diary)"""
    async with Clock() as clock, clock.scheduler() as scheduler:
        yield clock, scheduler, Diary(clock)


async def test_everything_due_runs_each_at_its_own_instant(stage):
    clock, scheduler, diary = stage

    @scheduler.task
    async def note(what):
        diary.note(what)

    for delay_s in (7200.000001, 3600, 0.5, 1e-6, 7200):
        await scheduler.after(delay_s, note, delay_s)
    await scheduler.at(T0 + timedelta(hours=1, seconds=1), note, "at")
    assert await clock.advance("2h") == T0 + timedelta(hours=2)
    assert diary.lines == [(1e-6, 1e-6), (0.5, 0.5), (3600, 3600), ("at", 3601), (7200, 7200)]
    await clock.advance("1us")
    assert diary.lines[5:] == [(7200.000001, 7200.000001)]


async def test_what_is_due_at_the_end_has_run_and_so_has_what_it_schedules_for_then(stage):
    clock, scheduler, diary = stage

    @scheduler.task
    async def chain(left):
        diary.note(left)
        if left:
            await scheduler.now(chain, left - 1)

    await scheduler.after(3600, chain, 3)
    await clock.advance("1h")
    assert diary.lines == [(3, 3600), (2, 3600), (1, 3600), (0, 3600)]


async def test_time_stands_still_while_something_can_run(stage):
    clock, scheduler, _ = stage
    for _ in range(50):
        await asyncio.sleep(0)
    job = await scheduler.after(60, time.perf_counter)
    assert clock.now() == T0
    assert clock.jumps == 0
    assert job.state == "SCHEDULED"


async def test_a_handler_may_sleep_and_time_out(stage):
    clock, scheduler, diary = stage

    @scheduler.task(timeout_s=1000, retry=None)
    async def sleeper():
        diary.note("sleeps")
        await asyncio.sleep(900)  # virtual
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        diary.note("wakes")
        await asyncio.sleep(900)  # virtual

    job = await scheduler.now(sleeper)
    await clock.advance("899s")
    assert [line[0] for line in diary.lines] == ["sleeps"]
    assert (await job.refresh()).state == "ACTIVE"
    await clock.advance("1d")
    assert diary.lines == [("sleeps", 0), ("wakes", 915)]
    attempt = (await job.attempts())[0]
    assert attempt.state == "TIMED_OUT"
    assert attempt.finished_at == T0 + timedelta(seconds=1000)


async def test_waiting_for_a_job_takes_no_time_of_the_machine(stage):
    clock, scheduler, _ = stage
    job = await scheduler.after(timedelta(days=400), time.perf_counter)
    begun = time.monotonic()
    assert (await job.wait()).state == "COMPLETED"
    assert time.monotonic() - begun < 60
    assert clock.passed == timedelta(days=400)


async def test_a_year_of_daily_jobs_takes_a_few_jumps_a_day(stage):
    clock, scheduler, diary = stage

    @scheduler.task
    async def daily():
        diary.note("day")
        await scheduler.after(DAY_S, daily)

    await scheduler.now(daily)
    await clock.advance("365d")
    assert diary.lines == [("day", day * DAY_S) for day in range(366)]
    assert clock.jumps <= 366 * 4


async def test_an_empty_year_takes_next_to_nothing(stage):
    clock, _, _ = stage
    await clock.advance("365d")
    assert clock.jumps <= 365 * 2
    assert clock.passed == timedelta(days=365)


async def test_the_instants_are_exact_after_ten_years(stage):
    clock, scheduler, diary = stage

    @scheduler.task
    async def note():
        diary.note("ran")

    await clock.advance(timedelta(days=3650))
    await scheduler.after(0.000003, note)
    await clock.advance("3us")
    assert diary.lines == [("ran", round(3650 * DAY_S + 0.000003, 6))]


async def test_retries_wait_in_virtual_time(stage):
    clock, scheduler, diary = stage

    @scheduler.task(retry=Retry(max_attempts=3, base_s=60, factor=2, jitter=0))
    async def fails():
        diary.note(current().attempt)
        raise ValueError("boom")

    job = await scheduler.now(fails)
    await clock.advance("1h")
    assert diary.lines == [(1, 0), (2, 60), (3, 180)]
    assert (await job.refresh()).state == "DEAD"


async def test_advance_to_an_instant(stage):
    clock, _, _ = stage
    assert await clock.advance(datetime(2026, 2, 1, tzinfo=UTC)) == datetime(2026, 2, 1, tzinfo=UTC)
    with pytest.raises(InvalidTime, match=r"step\("):
        await clock.advance(datetime(2026, 1, 31, tzinfo=UTC))
    with pytest.raises(InvalidTime, match="naive"):
        await clock.advance(datetime(2027, 1, 31))
    with pytest.raises(InvalidTime, match="2x"):
        await clock.advance("2x")
    with pytest.raises(InvalidTime, match="negative"):
        await clock.advance(-1)
    assert clock.now() == datetime(2026, 2, 1, tzinfo=UTC)


async def test_advances_may_overlap_and_be_cancelled(stage):
    clock, _, diary = stage

    async def advance(length):
        await clock.advance(length)
        diary.note(length)

    tasks = [asyncio.create_task(advance(length)) for length in ("3h", "1h", "2h")]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert diary.lines == [("1h", 3600), ("3h", 3 * 3600)]


async def test_the_wall_clock_is_set(stage, caplog):
    caplog.set_level(logging.CRITICAL, "timewheel")
    clock, scheduler, diary = stage

    @scheduler.task
    async def note(what):
        diary.note(what)

    await scheduler.at(T0 + timedelta(hours=5), note, "at")
    await scheduler.after(5 * 3600, note, "after")
    clock.step("4h")
    assert clock.now() == T0 + timedelta(hours=4)
    assert clock.passed == timedelta(0)
    await clock.advance("1h")
    assert diary.lines == [("at", 5 * 3600)]
    clock.step(T0)
    await clock.advance("4h")
    assert diary.lines[1:] == [("after", 4 * 3600)]
    clock.step("-1h")
    assert clock.now() == T0 + timedelta(hours=3)
    with pytest.raises(InvalidTime, match="1970"):
        clock.step(timedelta(days=-40_000))


async def test_the_machine_sleeps(stage, caplog):
    caplog.set_level(logging.CRITICAL, "timewheel")
    clock, scheduler, diary = stage

    @scheduler.task
    async def note():
        diary.note("ran")

    await scheduler.after(3600, note)
    clock.suspend("3h")
    await clock.advance(0)
    assert diary.lines == [("ran", 3 * 3600)]


async def test_sync_handlers_run_in_threads_one_at_a_time_and_may_use_blocking(stage, monkeypatch):
    monkeypatch.setattr(turns, "TURN_S", 120)  # so that a turn which is not handed on in time is noticed
    begun = time.monotonic()
    clock, scheduler, diary = stage
    ran = []

    @scheduler.task
    def first(number):
        ran.append((number, threading.current_thread() is threading.main_thread()))

    @scheduler.task
    def asks():
        job = scheduler.blocking.after(7200, first, 99)
        diary.note(job.state)
        job.result(timeout_s=10_000)
        diary.note("answered")

    for number in range(20):
        await scheduler.now(first, number)
    await clock.advance(0)
    assert ran == [(number, False) for number in range(20)]
    job = await scheduler.now(asks)
    assert (await job.wait()).state == "COMPLETED"
    assert diary.lines == [("SCHEDULED", 0), ("answered", 7200)]
    assert time.monotonic() - begun < 110


async def test_a_sync_handler_that_waits_for_its_cancel_gets_it(stage):
    _, scheduler, _ = stage
    ended = threading.Event()

    @scheduler.task(timeout_s=60, retry=None)
    def stubborn():
        while not current().cancel_requested:
            ended.wait(0.01)
        ended.set()

    job = await scheduler.now(stubborn)
    done = await job.wait()
    assert ended.wait(60)
    assert done.state == "DEAD"
    assert (await done.attempts())[0].state == "TIMED_OUT"


async def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    async def run(seed):
        async with Clock(seed=seed) as clock, clock.scheduler() as scheduler:
            order = []

            @scheduler.task(retry=Retry(max_attempts=3, base_s=10))
            async def step(name):
                order.append((name, clock.passed))
                await asyncio.sleep(0)
                order.append(name)
                raise ValueError

            for name in "abcdef":
                await scheduler.after(5, step, name)
            await clock.advance("1h")
            return order

    assert await run(7) == await run(7)
    assert await run(7) != await run(8)
    assert await run(None) == await run(None)


async def test_a_seed_shuffles_what_is_ready_at_one_moment():
    async def run(seed):
        async with Clock(seed=seed):
            order = []

            async def step(number):
                order.append(number)

            await asyncio.gather(*(asyncio.create_task(step(number)) for number in range(30)))
            return order

    assert await run(None) == list(range(30))
    assert await run(7) == await run(7) != list(range(30))
    assert await run(8) != await run(7)


async def test_a_clock_starts_where_it_is_told():
    start = datetime(2030, 7, 1, 12, tzinfo=UTC)
    async with Clock(start=start) as clock:
        assert clock.now() == start
    with pytest.raises(InvalidTime, match="naive"):
        Clock(start=datetime(2030, 7, 1))


async def test_a_scheduler_of_ones_own_lives_on_the_clocks_system():
    async with Clock() as clock, Scheduler("memory://", system=clock.system) as scheduler:
        job = await scheduler.after(3600, time.perf_counter)
        await clock.advance("1h")
        assert (await job.refresh()).state == "COMPLETED"
        assert clock.schedulers == [scheduler]


async def test_a_scheduler_in_real_time_is_noticed():
    async def play():
        async with Clock() as clock, Scheduler("memory://") as scheduler:
            job = await scheduler.after(3600, time.perf_counter)
            await clock.advance("2h")
            await job.refresh()

    with pytest.raises(Deadlock, match=r"real time.*system=clock\.system"):
        await play()


async def test_a_clock_is_used_up_after_its_test():
    async with Clock() as clock:
        pass
    with pytest.raises(NotVirtual, match="over"):
        await clock.advance("1s")
    with pytest.raises(NotVirtual, match="over"):
        await Scheduler("memory://", system=clock.system).start()


def test_a_clock_needs_a_loop():
    clock = Clock()
    with pytest.raises(NotVirtual, match="async def"):
        clock.advance("1s").send(None)


def test_one_clock_may_see_several_loops_one_after_the_other():
    clock = Clock()

    async def main():
        await clock.advance("1h")

    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
    assert clock.passed == timedelta(hours=2)
    clock.close()


def test_the_loop_of_another_thread_is_refused():
    clock = Clock()
    scheduler = clock.scheduler()
    with pytest.raises(NotVirtual, match="async def"):
        scheduler.blocking.start()
    clock.close()
