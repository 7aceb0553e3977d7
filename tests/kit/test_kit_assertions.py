"""assert_scheduled, assert_not_scheduled, assert_drained: what they find, and how they say what they did not."""

from __future__ import annotations

import functools
from datetime import timedelta

import pytest

from timewheel import InvalidOption, InvalidTask, InvalidTime, NotStarted, Scheduler
from timewheel.testing import Clock, assert_drained, assert_not_scheduled, assert_scheduled
from timewheel.testing.virtual import T0


async def remind(user_id, text="hello"):
    return user_id


async def other():
    raise ValueError("boom")


@pytest.fixture
async def stage():
    async with Clock() as clock, clock.scheduler() as scheduler:
        yield clock, scheduler


async def test_a_job_is_found_by_what_it_was_scheduled_with(stage):
    clock, scheduler = stage
    await clock.advance("1h")
    job = await scheduler.options(queue="mail", tags=["vip"]).after(3600, remind, 42, text="hi")
    for at in ("1h", "60m", timedelta(hours=1), T0 + timedelta(hours=2), (T0 + timedelta(hours=2)).timestamp()):
        assert assert_scheduled(remind, at=at) == [job]
    assert_scheduled(remind, args=(42,), kwargs={"text": "hi"}, queue="mail", tag="vip", count=1)
    assert_scheduled(remind, args=[42])
    assert_scheduled(job.task)
    assert_not_scheduled(other)
    assert_not_scheduled("no such task")
    for different in ({"at": "2h"}, {"args": (43,)}, {"args": ()}, {"kwargs": {}}, {"queue": "x"}, {"tag": "x"}):
        assert_not_scheduled(remind, **different)
        with pytest.raises(AssertionError):
            assert_scheduled(remind, **different)
    with pytest.raises(AssertionError):
        assert_not_scheduled(remind, at="1h")


async def test_a_millisecond_is_the_same_instant_and_two_are_not(stage):
    _, scheduler = stage
    await scheduler.after(10, remind, 1)
    assert_scheduled(remind, at="10.0009s")
    assert_not_scheduled(remind, at="10.001s")
    assert_not_scheduled(remind, at="9.999s")


async def test_what_has_ended_is_scheduled_no_more_and_what_runs_is(stage):
    clock, scheduler = stage
    entered = []

    @scheduler.task(name="long")
    async def long():
        entered.append(1)
        await clock.advance("1h")

    await scheduler.now(long)
    await clock.advance("1m")
    assert entered
    assert [job.state for job in assert_scheduled(long)] == ["ACTIVE"]
    await clock.advance("2h")
    assert_not_scheduled(long)
    with pytest.raises(AssertionError, match="no job is scheduled"):
        assert_scheduled(long)
    assert_drained()


async def test_several_are_given_back_oldest_first_and_counted(stage):
    _, scheduler = stage
    jobs = [await scheduler.after(60 - n, remind, n) for n in range(3)]
    assert assert_scheduled(remind, count=3) == jobs
    for count in (0, 2, 4):
        with pytest.raises(AssertionError, match=f"3 jobs are, not {count}, scheduled"):
            assert_scheduled(remind, count=count)
    assert assert_scheduled(other, count=0) == []


async def test_more_than_a_page_of_jobs(stage):
    _, scheduler = stage
    await scheduler.at_many(scheduler.new(timedelta(hours=1), remind, n) for n in range(2500))
    assert_scheduled(remind, count=2500)


async def test_a_failure_says_what_is_scheduled_instead(stage):
    clock, scheduler = stage
    await scheduler.now(remind, 0)
    await clock.advance("1m")
    await scheduler.after(7200, remind, 42, text="hi")
    await scheduler.after(60, other)
    with pytest.raises(AssertionError) as caught:
        assert_scheduled(remind, at="1h", args=(41,))
    here = __name__
    assert str(caught.value).splitlines() == [
        f"no job is scheduled: {here}:remind at 2026-01-05 01:01:00+00:00 args=(41,)",
        "it is 2026-01-05 00:01:00+00:00; scheduled:",
        f"  {here}:remind(42, text='hi') at 2026-01-05 02:01:00+00:00 (in 2:00:00), queue default, SCHEDULED"
        "  <- another at, args",
        f"  {here}:other() at 2026-01-05 00:02:00+00:00 (in 0:01:00), queue default, SCHEDULED",
        "ended: 1 COMPLETED",
    ]


async def test_a_long_list_is_cut(stage):
    _, scheduler = stage
    await scheduler.at_many(scheduler.new(timedelta(hours=1), remind, n) for n in range(100))
    with pytest.raises(AssertionError, match="and 80 more") as caught:
        assert_scheduled(remind, args=(777,))
    assert len(str(caught.value).splitlines()) < 30


async def test_drained_tells_what_is_left_and_why_jobs_died(stage):
    clock, scheduler = stage
    assert_drained()
    await scheduler.options(retry=1).now(other)
    await scheduler.after(60, remind, 1)
    with pytest.raises(AssertionError, match="2 jobs are left to run, 0 DEAD"):
        assert_drained()
    await clock.advance("1h")
    with pytest.raises(AssertionError, match=r"(?s)0 jobs are left to run, 1 DEAD.*ValueError: boom") as caught:
        assert_drained(scheduler=scheduler)
    assert __file__ in str(caught.value)


async def test_a_partial_is_its_function(stage):
    _, scheduler = stage
    await scheduler.after(60, functools.partial(remind, 7))
    assert_scheduled(remind, args=(7,))


async def test_misuse_says_the_way_out(stage):
    clock, scheduler = stage
    with pytest.raises(InvalidTime, match=r"at=timedelta\(seconds=3600\)"):
        assert_scheduled(remind, at=3600)
    with pytest.raises(InvalidTime, match="2x"):
        assert_scheduled(remind, at="2x")
    with pytest.raises(InvalidTime, match="naive"):
        assert_scheduled(remind, at=T0.replace(tzinfo=None))
    with pytest.raises(InvalidOption, match=r"args=\('ada',\)"):
        assert_scheduled(remind, args="ada")
    with pytest.raises(InvalidTask):
        assert_scheduled(lambda: None)
    clock.scheduler()
    with pytest.raises(InvalidOption, match="2 schedulers"):
        assert_scheduled(remind)
    assert_not_scheduled(remind, scheduler=scheduler)


async def test_without_a_test_the_scheduler_must_be_given():
    with pytest.raises(InvalidOption, match="scheduler="):
        assert_drained()
    async with Scheduler("memory://") as scheduler:
        await scheduler.after(3600, remind, 1)
        assert_scheduled(remind, args=(1,), scheduler=scheduler)
    with pytest.raises(NotStarted):
        assert_drained(scheduler=scheduler)


async def test_a_clock_without_a_scheduler():
    async with Clock():
        with pytest.raises(InvalidOption, match="no scheduler"):
            assert_drained()


async def test_a_journal_on_disk_needs_an_await(tmp_path):
    async with Clock() as clock, Scheduler(f"sqlite:///{tmp_path}/jobs.db", system=clock.system):
        with pytest.raises(InvalidOption, match="memory://"):
            assert_drained()
