"""Sync handlers in real threads: beside others, overrunning, at the stop; and two threads at one journal."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from timewheel import CancelAnswer, JournalOwned, Scheduler, WrongThread, current
from timewheel.events import LateResult, LoopGap
from timewheel.model import AttemptState, JobState

LONG_S = 60  # longer than anything takes on a busy machine; nothing waits for it to pass


class Heard:
    """Awaits notices of a scheduler."""

    def __init__(self, scheduler):
        self._arrived = asyncio.Event()
        self._seen = []
        scheduler.notices.subscribe(self._hear)

    def _hear(self, notice):
        self._seen.append(notice)
        self._arrived.set()

    async def first(self, kind, meets=lambda notice: True):
        """The first notice of a kind that meets a condition."""
        async with asyncio.timeout(LONG_S):
            while True:
                found = [notice for notice in self._seen if isinstance(notice, kind) and meets(notice)]
                if found:
                    return found[0]
                self._arrived.clear()
                await self._arrived.wait()


class Latch:
    """A sync handler that says when it has begun, and ends when it is let go."""

    def __init__(self):
        self.begun = threading.Event()
        self.go = threading.Event()
        self.attempts = []

    def __call__(self):
        self.attempts.append((current().attempt, threading.current_thread()))
        self.begun.set()
        assert self.go.wait(LONG_S)
        return current().attempt

    async def has_begun(self):
        await asyncio.to_thread(self.begun.wait, LONG_S)


@pytest.fixture
def latch():
    latch = Latch()
    yield latch
    latch.go.set()


def journal(tmp_path, **options):
    return Scheduler(f"sqlite:///{tmp_path}/jobs.db", **options)


async def poll(job, wanted):
    """The job once its state is as wanted; asked again and again."""
    async with asyncio.timeout(LONG_S):
        while (job := await job.refresh()).state is not wanted:
            await asyncio.sleep(0)
    return job


async def test_b74_a_blocking_handler_runs_beside_others(latch):
    async with Scheduler("memory://") as scheduler:
        scheduler.task(name="latch")(latch)
        scheduler.task(name="sync")(lambda: threading.get_ident())
        blocked = await scheduler.now("latch")
        await latch.has_begun()
        assert await (await scheduler.now("sync")).result(LONG_S) not in (threading.get_ident(), blocked)
        assert (await blocked.refresh()).state is JobState.ACTIVE
        latch.go.set()
        assert await blocked.result(LONG_S) == 1
        assert latch.attempts[0][1] is not threading.current_thread()


async def test_b74_the_watchdog_names_who_blocks_the_loop(caplog):
    async with Scheduler("memory://") as scheduler:
        heard = Heard(scheduler)

        @scheduler.task(name="blocks")
        async def blocks_the_loop():
            until = time.monotonic() + 0.5
            while time.monotonic() < until or scheduler._engine._pulse._watchdog._seen is None:
                pass

        @scheduler.task(name="late")
        async def late():
            return "ran"

        blocker, beside = await scheduler.now("blocks"), await scheduler.after(0.2, "late")
        gap = await heard.first(LoopGap, lambda notice: notice.culprit is not None)
        assert gap.gap_us > 250_000
        assert "blocks_the_loop (" in gap.culprit
        assert "test_threads.py" in gap.culprit
        assert await beside.result(LONG_S) == "ran"
        await blocker.result(LONG_S)
    assert "the event loop was blocked for" in caplog.text
    assert "blocks_the_loop" in caplog.text


async def test_a_job_that_waits_for_a_thread_can_be_cancelled_and_moved(latch):
    ran = []
    async with Scheduler("memory://", threads=1) as scheduler:
        scheduler.task(name="latch")(latch)
        scheduler.task(name="note")(ran.append)
        first = await scheduler.now("latch")
        await latch.has_begun()
        cancelled, moved, kept = [await scheduler.now("note", number) for number in range(3)]
        for job in (cancelled, moved, kept):
            await poll(job, JobState.ACTIVE)
        assert await cancelled.cancel() is CancelAnswer.CANCELLED
        assert await moved.reschedule(4_000_000_000)
        assert await first.cancel() is CancelAnswer.REQUESTED
        latch.go.set()
        await kept.result(LONG_S)
        assert (await cancelled.refresh()).state is JobState.CANCELLED
        assert (await moved.refresh()).state is JobState.SCHEDULED
        assert (await first.wait(LONG_S)).state is JobState.COMPLETED  # it did not look, and succeeded
    assert ran == [2]


async def test_a_sync_handler_sees_that_its_cancel_was_requested():
    begun = threading.Event()
    async with Scheduler("memory://") as scheduler:

        @scheduler.task(name="looks")
        def looks():
            begun.set()
            while not current().cancel_requested:
                pass
            raise RuntimeError("stopped half way")

        job = await scheduler.now("looks")
        await asyncio.to_thread(begun.wait, LONG_S)
        assert await job.cancel("enough") is CancelAnswer.REQUESTED
        job = await job.wait(LONG_S)
        assert (job.state, job.reason) == (JobState.CANCELLED, "enough")


async def test_a_thread_that_says_it_is_alive_goes_on_and_a_silent_one_is_ended():
    done = threading.Event()
    async with Scheduler("memory://") as scheduler:

        @scheduler.task(name="beats", retry=None)
        def beats(alive):
            while not done.is_set():
                if alive:
                    current().progress("alive")
                done.wait(0.01)
            return "done"

        alive = await scheduler.options(heartbeat_timeout_s=1).now("beats", True)
        silent = await scheduler.options(heartbeat_timeout_s=1.5).now("beats", False)
        silent = await silent.wait(LONG_S)
        assert (silent.state, silent.error) == (JobState.DEAD, "no heartbeat for 1.5 s")
        assert (await alive.refresh()).state is JobState.ACTIVE
        done.set()
        assert await alive.result(LONG_S) == "done"


async def test_an_overrunning_thread_holds_its_job_and_slot_and_its_late_result_is_ignored(latch):
    async with Scheduler("memory://", concurrency=1) as scheduler:
        heard = Heard(scheduler)
        scheduler.task(name="latch", timeout_s=0.05)(latch)

        @scheduler.task(name="other")
        async def other():
            return "ran"

        job = await scheduler.now("latch")
        await latch.has_begun()
        beside = await scheduler.now("other")
        job = await poll(job, JobState.WAITING)
        assert (job.reason, job.record.failures) == ("overrun", 1)
        assert [attempt.state for attempt in await job.attempts()] == [AttemptState.TIMED_OUT]
        assert (await beside.refresh()).state is JobState.SCHEDULED
        latch.go.set()
        late = await heard.first(LateResult)
        assert (late.job_id, late.attempt) == (job.number, 1)
        assert await beside.result(LONG_S) == "ran"
        assert await job.result(LONG_S) == 2  # the second attempt's: what the first returned was ignored
        kinds = [kind for _, _, kind, _ in await scheduler._store.entries()]
        assert "late_result" in kinds


async def test_b76_threads_that_overrun_the_stop_keep_the_journal_until_they_end(tmp_path, latch, caplog):
    scheduler = journal(tmp_path)
    scheduler.task(name="latch")(latch)
    await scheduler.start()
    job = await scheduler.now("latch")
    await latch.has_begun()
    await scheduler.stop(grace_s=0)
    assert scheduler.state == "STOPPED"
    assert f"latch ({job.id})" in caplog.text

    other = journal(tmp_path)
    with pytest.raises(JournalOwned):
        await other.start()
    latch.go.set()
    [(_, thread)] = latch.attempts
    await asyncio.to_thread(thread.join, LONG_S)  # idle threads end at a stop
    assert not thread.is_alive()
    other.task(name="latch")(lambda: "again")
    async with other:
        job = await other.get_job(job.id)
        assert await job.result(LONG_S) == "again"
        attempts = await job.attempts()
        assert [attempt.state for attempt in attempts] == [AttemptState.RELEASED, AttemptState.SUCCEEDED]
        assert attempts[0].reason == "shutdown"
        assert job.record.failures == job.record.losses == 0


async def test_a_wrapper_whose_coroutine_comes_back_late_is_stopped_before_its_first_line(latch):
    """The sync part of a handler is asked to stop while it runs; the awaitable that it gives back is then not begun."""
    begun = []

    def wrapper():
        latch()
        return inner()

    async def inner():
        begun.append("inner")

    async with Scheduler("memory://") as scheduler:
        scheduler.task(name="wrapper")(wrapper)
        job = await scheduler.now("wrapper")
        await latch.has_begun()
        assert await job.cancel("no more") is CancelAnswer.REQUESTED
        latch.go.set()
        job = await job.wait(LONG_S)
        assert (job.state, job.reason, begun) == (JobState.CANCELLED, "no more", [])


# ---- B57: two threads ------------------------------------------------------------------------------------------------


async def test_b57_a_second_scheduler_in_another_thread_is_refused(tmp_path):
    refused = []

    def second():
        try:
            asyncio.run(journal(tmp_path).start())
        except JournalOwned as error:
            refused.append(error.owner["pid"])

    async with journal(tmp_path):
        await asyncio.to_thread(second)
    assert refused == [os.getpid()]


async def test_verbs_from_another_loop_or_thread_name_the_way():
    async with Scheduler("memory://") as scheduler:
        scheduler.task(name="x")(lambda: None)
        job = await scheduler.after(3600, "x")
        calls = (
            lambda: scheduler.after(5, "x"),
            lambda: scheduler.at_many([scheduler.new(4_000_000_000, "x")]),
            lambda: scheduler.get_job(job.id),
            job.cancel,
            job.refresh,
            job.wait,
            job.attempts,
            scheduler.jobs().count,
            scheduler.queue("default").pause,
            scheduler.stop,
        )

        def elsewhere():
            for call in calls:
                with pytest.raises(WrongThread, match=r"scheduler\.blocking"):
                    asyncio.run(call())

        await asyncio.to_thread(elsewhere)
        assert (await job.refresh()).state is JobState.SCHEDULED
