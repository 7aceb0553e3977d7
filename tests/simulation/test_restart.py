"""Crashes and restarts: what was running is LOST and tried again, and a job that kills its process is given up."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest
from helpers import SlowStore, crash
from lives import FaultyStore, Lives, nothing, states

from timewheel import Retry, Transient, current
from timewheel.errors import JournalUnknown, NotStarted
from timewheel.events import Recovered
from timewheel.model import AttemptState, JobState
from timewheel.store.changes import Claim, Settle
from timewheel_storage.memory import MemoryStore

LOST, RELEASED, SUCCEEDED = AttemptState.LOST, AttemptState.RELEASED, AttemptState.SUCCEEDED


async def forever():
    await asyncio.Event().wait()


async def fine():
    return current().attempt


async def begin(scheduler, task="task", count=1):
    """Schedule some jobs at once and let a second pass."""
    jobs = [await scheduler.now(task) for _ in range(count)]
    await asyncio.sleep(1)  # virtual
    return [job.id for job in jobs]


async def finish(scheduler, job_id):
    """The job once it is final."""
    return await (await scheduler.get_job(job_id)).wait(600)


# ---- B52 and the crash budget ----------------------------------------------------------------------------------------


def test_b52_a_killed_run_is_lost_at_once_and_retried_as_attempt_two():
    lives = Lives()
    notices = []
    [job_id] = lives.die(begin, {"task": forever})

    async def main():
        scheduler = lives.scheduler({"task": fine})
        scheduler.notices.subscribe(lambda notice: notices.append(notice) if isinstance(notice, Recovered) else None)
        async with scheduler:
            job = await scheduler.get_job(job_id)
            assert (await states(job))[0] is LOST
            [first, *_] = await job.attempts()
            assert (first.error_kind, first.error) == ("Lost", "its owner disappeared while it ran")
            job = await job.wait(1)
            assert (await job.result(), job.record.failures, job.record.losses) == (2, 0, 1)
            assert await states(job) == [LOST, SUCCEEDED]

    lives.machine.run(main())
    assert [(notice.lost, notice.released) for notice in notices] == [(1, 0)]
    entries = lives.machine.run(lives.store.entries())
    assert [json.loads(data)["lost"] for _, _, kind, data in entries if kind == "recovery"] == [0, 1]


def test_b52_a_job_that_kills_its_process_is_given_up_at_the_fourth_time():
    lives = Lives()
    [job_id] = lives.die(begin, {"task": forever})
    for _ in range(3):
        lives.die(lambda scheduler: asyncio.sleep(1), {"task": forever})  # virtual

    async def scene(scheduler):
        job = await scheduler.get_job(job_id)
        assert (job.state, job.reason, job.record.losses) == (JobState.DEAD, "crash_loop", 4)
        assert await states(job) == [LOST] * 4
        assert "disappeared" in job.error

    lives.live(scene, {"task": fine})


def test_jobs_on_their_last_chance_run_one_at_a_time_and_others_are_not_held_up():
    lives = Lives()
    running, most = set(), []

    async def guarded():
        running.add(current().job_id)
        most.append(len(running))
        await asyncio.sleep(1)  # virtual
        running.discard(current().job_id)

    job_ids = lives.die(lambda scheduler: begin(scheduler, count=5), {"task": forever})
    for _ in range(2):
        lives.die(lambda scheduler: asyncio.sleep(1), {"task": forever})  # virtual

    async def scene(scheduler):
        other = await scheduler.now("other")
        assert await other.result(0.5) == 1
        for job_id in job_ids:
            job = await finish(scheduler, job_id)
            assert (job.state, job.record.losses) == (JobState.COMPLETED, 3)

    lives.live(scene, {"task": guarded, "other": fine})
    assert most == [1] * 5


def test_losses_and_failures_are_separate_budgets():
    lives = Lives()
    job_ids = lives.die(lambda scheduler: begin(scheduler.options(retry=2)), {"task": forever})

    async def fails_once():
        if current().attempt == 2:
            raise Transient
        return current().attempt

    async def scene(scheduler):
        job = await finish(scheduler, job_ids[0])
        assert (await job.result(), job.record.failures, job.record.losses) == (3, 1, 1)

    lives.live(scene, {"task": fails_once})


def test_b80_a_crash_between_the_last_failure_and_its_record_loses_nothing():
    store = FaultyStore()
    lives = Lives(store=store)

    async def fails():
        raise ValueError("the last straw")

    async def hang(changes):
        if any(isinstance(change, Settle) for change in changes):
            await asyncio.Event().wait()

    async def scene(scheduler):
        store.before = hang
        return await begin(scheduler.options(retry=None))

    [job_id] = lives.die(scene, {"task": fails})
    lives.store = store.inner

    async def later(scheduler):
        job = await finish(scheduler, job_id)
        assert (job.state, job.reason, job.record.failures) == (JobState.DEAD, "exhausted", 1)
        assert await states(job) == [LOST, AttemptState.FAILED_RETRYABLE]
        assert "the last straw" in job.error

    lives.live(later, {"task": fails})


# ---- an orderly stop is no crash -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_an_orderly_stop_at_any_moment_leaves_no_attempt_open(seed):
    """Whatever is claimed, at the gate or in a commit when the stop comes: RELEASED, never found LOST."""
    lives = Lives(seed=seed, shuffle=True, store=SlowStore(MemoryStore(), seed, commit_s=0.03))
    chance = lives.machine.random

    async def short():
        await asyncio.sleep(chance.uniform(0, 0.05))  # virtual

    async def scene(scheduler):
        verbs = []
        for _ in range(20):
            job = await scheduler.after(chance.uniform(0, 0.4), "short")
            if chance.random() < 0.3:
                verbs.append(asyncio.ensure_future(job.cancel()))
        await asyncio.sleep(chance.uniform(0, 0.3))  # virtual
        await scheduler.stop(grace_s=chance.choice([0, 0.01, 10]))
        for answer in await asyncio.gather(*verbs, return_exceptions=True):
            assert not isinstance(answer, Exception) or isinstance(answer, NotStarted)

    lives.live(scene, {"short": short})
    dump = lives.machine.run(lives.store.dump())
    assert not [attempt for attempt in dump["attempts"].values() if attempt.state.open or attempt.state is LOST]
    assert not [job for job in dump["jobs"].values() if job.state is JobState.ACTIVE]

    async def later(scheduler):
        for job in [job async for job in scheduler.jobs()]:
            done = await job.wait(60)
            assert done.state in (JobState.COMPLETED, JobState.CANCELLED)
            assert done.record.losses == 0

    lives.live(later, {"short": short})


# ---- I1: acknowledged jobs survive crashes anywhere ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_i1_i11_i13_crashes_at_random_commits_lose_no_acknowledged_job(seed):
    """Four lives, each dies inside a commit, written or not: every acknowledged job reaches one final state."""
    inner = MemoryStore()
    lives = Lives(seed=seed, shuffle=True)
    chance = lives.machine.random
    acknowledged = set()
    retry = Retry(max_attempts=50, base_s=0.01, cap_s=0.05)

    async def work():
        await asyncio.sleep(chance.uniform(0, 0.05))  # virtual
        if chance.random() < 0.2:
            raise Transient

    async def life(scheduler):
        store = lives.store
        over = asyncio.Event()
        last_commit, moment = store.commits + chance.randrange(1, 20), chance.choice(["before", "after"])

        async def die(changes):
            if store.commits + (moment == "before") >= last_commit:
                over.set()
                await asyncio.Event().wait()

        async def submit():
            while True:
                job = await scheduler.options(retry=retry).after(chance.uniform(0, 0.2), "work")
                acknowledged.add(job.id)
                await asyncio.sleep(chance.uniform(0, 0.03))  # virtual

        setattr(store, moment, die)
        submitting = asyncio.ensure_future(submit())
        await over.wait()
        submitting.cancel()

    for _ in range(4):
        lives.store = FaultyStore(commit_s=0.01)
        lives.store.inner = inner
        lives.die(life, {"work": work})
    lives.store = inner

    async def last(scheduler):
        for job_id in acknowledged:
            job = await finish(scheduler, job_id)
            assert job.state is JobState.COMPLETED or (job.state, job.reason) == (JobState.DEAD, "crash_loop")
            attempts = await job.attempts()
            assert [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1))
            assert not [attempt for attempt in attempts if attempt.state.open]
            assert sum(attempt.state is LOST for attempt in attempts) == job.record.losses

    lives.live(last, {"work": work})
    assert acknowledged


# ---- claims whose outcome is unknown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_claim_of_unknown_outcome_is_neither_lost_nor_run_twice_at_once(seed, moment):
    store = FaultyStore(commit_s=0.3, read_s=0.05)
    store._random = Lives(seed=seed).machine.random
    lives = Lives(seed=seed, shuffle=True, store=store)
    running, twice = set(), []

    async def work():
        me = current().job_id
        twice.extend({me} & running)
        running.add(me)
        await asyncio.sleep(0.1)  # virtual
        running.discard(me)

    async def fault(changes):
        if any(isinstance(change, Claim) for change in changes):
            setattr(store, moment, nothing)
            raise JournalUnknown("the disk coughed", path="memory")

    async def scene(scheduler):
        soon = timedelta(seconds=1)
        jobs = await scheduler.at_many([scheduler.new(soon, "work") for _ in range(10)])
        setattr(store, moment, fault)
        for job in jobs:
            done = await job.wait(600)
            assert done.state is JobState.COMPLETED
            assert (await states(done)).count(SUCCEEDED) == 1

    lives.live(scene, {"work": work})
    assert twice == []


def test_a_second_life_on_the_same_object_starts_afresh():
    """A Scheduler that was stopped may be started again; a crash of its owner frees the journal at once."""
    lives = Lives()
    scheduler = lives.scheduler({"task": fine})

    async def main():
        async with scheduler:
            first = await (await scheduler.now("task")).wait(60)
        async with scheduler:
            second = await scheduler.now("task")
            assert second.id != first.id
            assert await (await scheduler.get_job(first.id)).result() == 1
            assert await second.result(60) == 1

    lives.machine.run(main())
    crash(lives.store)
    lives.machine.run(main())
