"""B76: stop is neither too hard nor endless; nothing starts after it, and what it stops is given back, not spent."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from lives import FaultyStore, Lives, nothing, states

from timewheel import Retry, Snooze, current
from timewheel.errors import JournalError, JournalUnavailable, NotStarted, SchedulerFailed
from timewheel.model import AttemptState, CancelAnswer, JobState, SchedulerState

RELEASED = AttemptState.RELEASED


async def noop():
    pass


class Long:
    """A handler that takes a while, and notes how it ended. Its task is `long`."""

    def __init__(self, lives):
        self.lives = lives
        self.ends = []

    async def __call__(self, seconds, cling=False):
        end = self.lives.machine.awake_us + seconds * 1e6
        while self.lives.machine.awake_us < end:
            try:
                await asyncio.sleep((end - self.lives.machine.awake_us) / 1e6)  # virtual
            except asyncio.CancelledError:
                self.ends.append("asked to stop")
                if not cling:
                    raise
        self.ends.append("finished")


def set_up(**options):
    lives = Lives(**options)
    return lives, Long(lives)


async def running(scheduler, *seconds, **kwargs):
    """Jobs of these lengths that have begun."""
    jobs = [await scheduler.now("long", each, **kwargs) for each in seconds]
    await asyncio.sleep(1)  # virtual
    return jobs


def stored(lives, job):
    """The job and its attempts as the journal has them after the stop."""
    dump = lives.machine.run(lives.store.dump())
    attempts = [attempt for (job_id, _), attempt in sorted(dump["attempts"].items()) if job_id == job.number]
    return dump["jobs"][job.number], attempts


def test_b76_short_handlers_finish_long_ones_are_stopped_when_the_grace_ends_and_given_back():
    lives, long = set_up()

    async def scene(scheduler):
        five, sixty = await running(scheduler, 5, 60)
        due = await scheduler.after(3, "long", 1)
        began = lives.machine.awake_us
        await scheduler.stop(grace_s=10)
        assert scheduler.state is SchedulerState.STOPPED
        return five, sixty, due, (lives.machine.awake_us - began) / 1e6

    five, sixty, due, took = lives.live(scene, {"long": long})
    assert took == pytest.approx(10, abs=0.1)
    assert long.ends == ["finished", "asked to stop"]
    assert stored(lives, five)[0].state is JobState.COMPLETED
    record, [attempt] = stored(lives, sixty)
    assert (record.state, record.failures, record.losses) == (JobState.SCHEDULED, 0, 0)
    assert (attempt.state, attempt.reason) == (RELEASED, "shutdown")
    record, attempts = stored(lives, due)
    assert (record.state, attempts) == (JobState.SCHEDULED, [])

    async def later(scheduler):
        job = await (await scheduler.get_job(sixty.id)).wait(100)
        assert await states(job) == [RELEASED, AttemptState.SUCCEEDED]

    lives.live(later, {"long": long})


def test_b76_a_stop_without_work_takes_no_time():
    lives = Lives()

    async def scene(scheduler):
        began = lives.machine.awake_us
        await scheduler.stop(grace_s=1000)
        return lives.machine.awake_us - began

    assert lives.live(scene) < 1_000


def test_b76_a_handler_that_will_not_end_is_named_and_left_behind(caplog):
    lives, long = set_up()

    async def scene(scheduler):
        [job] = await running(scheduler, 3600, cling=True)
        began = lives.machine.awake_us
        await scheduler.stop(grace_s=10)
        return job, (lives.machine.awake_us - began) / 1e6

    with caplog.at_level(logging.ERROR, "timewheel"):
        job, took = lives.live(scene, {"long": long})
    assert 10 < took < 11
    assert f"long ({job.id})" in caplog.text
    record, [attempt] = stored(lives, job)
    assert (record.state, attempt.state, attempt.reason) == (JobState.SCHEDULED, RELEASED, "shutdown")


@pytest.mark.parametrize("second", [0, 3, 100])
def test_b76_a_second_stop_with_a_shorter_grace_counts_and_a_longer_one_does_not(second):
    lives, long = set_up()

    async def scene(scheduler):
        await running(scheduler, 3600)
        began = lives.machine.awake_us
        first = asyncio.ensure_future(scheduler.stop(grace_s=60))
        await asyncio.sleep(5)  # virtual
        await scheduler.stop(grace_s=second)
        await first
        return (lives.machine.awake_us - began) / 1e6

    assert lives.live(scene, {"long": long}) == pytest.approx(min(60, 5 + second), abs=0.1)


def test_b76_stop_twice_and_before_start_is_harmless():
    lives, long = set_up()
    scheduler = lives.scheduler({"long": long})

    async def main():
        await scheduler.stop()
        await scheduler.start()
        await running(scheduler, 5)
        await asyncio.gather(scheduler.stop(), scheduler.stop(), scheduler.stop())
        await scheduler.stop()
        with pytest.raises(NotStarted, match="STOPPED"):
            await scheduler.now("long", 1)

    lives.machine.run(main())
    assert long.ends == ["finished"]


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_b76_stop_from_inside_a_handler_begins_it_and_returns_at_once(sync):
    lives, long = set_up()
    seen = []

    async def stopper():
        await current().scheduler.stop(grace_s=100)
        seen.append(current().scheduler.state)
        await asyncio.sleep(5)  # virtual
        return "stopped it"

    def sync_wrapper():
        return stopper()  # an awaitable that comes back is awaited

    async def main():
        scheduler = lives.scheduler({"stopper": sync_wrapper if sync else stopper, "long": long})
        await scheduler.start()
        await running(scheduler, 3)
        job = await scheduler.now("stopper")
        await scheduler.run_forever()
        return scheduler, job

    scheduler, job = lives.machine.run(main())
    assert scheduler.state is SchedulerState.STOPPED
    assert seen == [SchedulerState.DRAINING] or seen == [SchedulerState.RUNNING]
    assert stored(lives, job)[0].state is JobState.COMPLETED
    assert long.ends == ["finished"]


def test_b76_verbs_work_during_the_grace_and_what_was_submitted_runs_after_the_restart():
    lives, long = set_up()
    made = []

    async def submits():
        await asyncio.sleep(2)  # virtual
        made.append(await current().scheduler.now("long", 1))
        assert (await made[0].refresh()).state is JobState.SCHEDULED
        assert await (await current().scheduler.after(1, "long", 1)).cancel() is CancelAnswer.CANCELLED

    async def scene(scheduler):
        job = await scheduler.now("submits")
        running_one, cancelled = await running(scheduler, 5, 60)
        stop = asyncio.ensure_future(scheduler.stop(grace_s=10))
        await asyncio.sleep(0.5)  # virtual
        assert await cancelled.cancel("no more") is CancelAnswer.REQUESTED
        assert (await cancelled.wait(1)).state is JobState.CANCELLED
        assert (await running_one.wait()).state is JobState.COMPLETED
        await stop
        return job, cancelled

    job, cancelled = lives.live(scene, {"long": long, "submits": submits})
    assert stored(lives, job)[0].state is JobState.COMPLETED
    assert stored(lives, cancelled)[0].reason == "no more"
    record, attempts = stored(lives, made[0])
    assert (record.state, attempts) == (JobState.SCHEDULED, [])

    async def later(scheduler):
        assert (await (await scheduler.get_job(made[0].id)).wait(60)).state is JobState.COMPLETED

    lives.live(later, {"long": long})


def test_a_handler_that_outlives_the_stop_gets_an_answer_not_silence():
    """Whatever it submits while the journal is being closed is refused or written, never left without a word."""
    lives = Lives(store=FaultyStore(commit_s=0.05))
    answers = []

    async def talkative():
        while len(answers) < 300:
            with contextlib.suppress(asyncio.CancelledError):
                try:
                    await asyncio.wait_for(asyncio.shield(current().scheduler.after(3600, "talkative")), 5)
                    answers.append("made")
                except (NotStarted, JournalError) as refused:
                    answers.append(type(refused).__name__)
                except TimeoutError:
                    answers.append("silence")

    async def main():
        async with lives.scheduler({"talkative": talkative}) as scheduler:
            await scheduler.now("talkative")
            await asyncio.sleep(1)  # virtual
            await scheduler.stop(grace_s=1)
        await asyncio.sleep(60)  # virtual

    lives.machine.run(main())
    assert {"made", "NotStarted"} <= set(answers)
    assert "silence" not in answers


@pytest.mark.parametrize("name", ["timewheel stop", "timewheel committer", "timewheel housekeeper"])
def test_b72_a_handler_that_cancels_tasks_during_the_stop_does_not_break_it(name):
    lives, long = set_up()

    async def vandal():
        await asyncio.sleep(2)  # virtual
        for task in asyncio.all_tasks():
            if task.get_name() == name:
                task.cancel()
        await asyncio.sleep(2)  # virtual
        return "done"

    async def scene(scheduler):
        job = await scheduler.now("vandal")
        await running(scheduler, 5)
        with contextlib.suppress(asyncio.CancelledError):
            await scheduler.stop(grace_s=60)
        await asyncio.sleep(60)  # virtual
        assert scheduler.state is SchedulerState.STOPPED
        return job

    job = lives.live(scene, {"vandal": vandal, "long": long})
    assert stored(lives, job)[0].state is JobState.COMPLETED
    assert long.ends == ["finished"]


def test_a_job_cancelled_before_its_first_line_during_the_stop_is_given_back():
    """A handler's task that somebody cancels before its first step does not hold up the stop until the grace ends."""
    lives = Lives()

    async def vandal():
        for task in asyncio.all_tasks():
            if task.get_name() == "victim":
                task.cancel()

    async def victim():
        return "alive"

    async def scene(scheduler):
        soon = lives.machine.now()
        jobs = await scheduler.at_many([scheduler.new(soon, name) for name in ("vandal", "victim", "victim")])
        await jobs[0].wait(60)
        began = lives.machine.awake_us
        await scheduler.stop(grace_s=1000)
        return jobs[1:], (lives.machine.awake_us - began) / 1e6

    victims, took = lives.live(scene, {"vandal": vandal, "victim": victim})
    assert took < 2
    for job in victims:
        record, [attempt] = stored(lives, job)
        assert (record.state, attempt.state) == (JobState.SCHEDULED, RELEASED)


def test_a_snoozed_and_a_retried_job_keep_their_times_over_a_stop():
    lives = Lives()
    began = []

    async def snoozes():
        began.append(round(lives.machine.awake_us / 1e6))
        if current().attempt == 1:
            raise Snooze(100)

    async def fails():
        began.append(round(lives.machine.awake_us / 1e6))
        if current().attempt == 1:
            raise ValueError

    async def scene(scheduler):
        await scheduler.now("snoozes")
        await scheduler.options(retry=Retry(base_s=50, jitter=0)).now("fails")
        await asyncio.sleep(10)  # virtual

    async def later(scheduler):
        await asyncio.sleep(200)  # virtual

    tasks = {"snoozes": snoozes, "fails": fails}
    lives.live(scene, tasks)
    lives.live(later, tasks)
    assert began == [0, 0, 50, 100]


# ---- a fault is an end, too ------------------------------------------------------------------------------------------


def broken():
    """Lives whose journal breaks for good at the next change."""
    store = FaultyStore()

    async def fail(changes):
        if changes:
            raise JournalUnavailable("the disk is gone", path="memory")

    def break_it():
        store.before = fail

    return Lives(store=store), break_it


def test_after_a_fatal_fault_everybody_is_told():
    lives, break_it = broken()
    heard = []

    async def forever():
        await asyncio.Event().wait()

    async def scene(scheduler):
        job = await scheduler.after(3600, "forever")
        waits = asyncio.ensure_future(job.wait())
        failed = asyncio.ensure_future(scheduler.wait_failed())
        await asyncio.sleep(1)  # virtual
        break_it()
        with pytest.raises(JournalUnavailable):
            await scheduler.now("forever")
        cause = await failed
        assert scheduler.state is SchedulerState.FAILED
        assert heard == [cause]
        calls = (lambda: scheduler.now("forever"), job.refresh, job.cancel, lambda: waits, scheduler.jobs().count)
        for call in calls:
            with pytest.raises(SchedulerFailed, match="the disk is gone") as refused:
                await call()
            assert refused.value.cause is cause
        with pytest.raises(NotStarted, match="FAILED"):
            await scheduler.start()

    with pytest.raises(SchedulerFailed):  # `async with` raises, too
        lives.live(scene, {"forever": forever}, on_failure=heard.append)


def test_async_with_does_not_hide_the_error_of_its_body():
    lives, break_it = broken()

    async def scene(scheduler):
        break_it()
        with contextlib.suppress(JournalUnavailable):
            await scheduler.now("x")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lives.live(scene, {"x": noop})


@pytest.mark.parametrize("error", [ValueError("hook"), asyncio.CancelledError()], ids=["error", "cancelled"])
def test_a_failure_hook_that_raises_is_no_second_fault(error, caplog):
    lives, break_it = broken()

    def hook(cause):
        raise error

    async def scene(scheduler):
        break_it()
        with pytest.raises(JournalUnavailable):
            await scheduler.now("x")
        assert isinstance(await scheduler.wait_failed(), JournalUnavailable)

    with pytest.raises(SchedulerFailed), caplog.at_level(logging.ERROR, "timewheel"):
        lives.live(scene, {"x": noop}, on_failure=hook)
    assert "on_failure raised" in caplog.text


def test_run_forever_raises_after_a_fault_and_stops_when_cancelled():
    lives, break_it = broken()

    async def scene():
        scheduler = lives.scheduler({"x": noop})
        running = asyncio.ensure_future(scheduler.run_forever())
        await asyncio.sleep(1)  # virtual
        assert scheduler.state is SchedulerState.RUNNING
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert scheduler.state is SchedulerState.STOPPED
        running = asyncio.ensure_future(scheduler.run_forever())
        await asyncio.sleep(1)  # virtual
        break_it()
        with pytest.raises(JournalUnavailable):
            await scheduler.now("x")
        with pytest.raises(SchedulerFailed):
            await running

    lives.machine.run(scene())


def test_two_starts_at_once_are_one_start():
    lives, long = set_up()
    scheduler = lives.scheduler({"long": long})

    async def main():
        outcomes = await asyncio.gather(scheduler.start(), scheduler.start(), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "NotStarted"]
        await (await scheduler.now("long", 1)).result(60)
        await scheduler.stop()

    lives.machine.run(main())


def test_a_start_that_fails_leaves_the_journal_to_others():
    store = FaultyStore()
    lives = Lives(store=store)

    async def full(changes):
        raise JournalUnavailable("not today", path="memory")

    async def main():
        store.before = full
        scheduler = lives.scheduler({"x": noop})
        with pytest.raises(JournalUnavailable):
            await scheduler.start()
        store.before = nothing
        async with lives.scheduler({"x": lambda: 7}) as other:
            assert await (await other.now("x")).result(60) == 7

    lives.machine.run(main())
