"""Cases that are about time or order, in virtual time; cases.toml says which case is proved where."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from tests.simulation.helpers import STORES, SlowStore, Stage, t0
from timewheel.model import CancelAnswer, JobState
from timewheel.store.changes import Stale
from timewheel.testing.builders import settle_ok
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

HOUR_S = 3600
TRUTHS = {  # what cancel said, how it ended, how often it was started, how often it ended by itself
    (CancelAnswer.CANCELLED, JobState.CANCELLED, 0, 0),
    (CancelAnswer.REQUESTED, JobState.CANCELLED, 1, 0),
    (CancelAnswer.REQUESTED, JobState.COMPLETED, 1, 1),  # it had returned already; that was not yet in the journal
    (CancelAnswer.TOO_LATE, JobState.COMPLETED, 1, 1),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("verb", ["at", "after"])
def test_b54_a_job_that_waits_for_hours_over_three_restarts_starts_once(store, verb):
    """Due in six hours; the process is killed, stopped and rebooted on the way: no lease can run out."""
    stage = Stage(VirtualMachine(quiet=True), STORES[store]())

    async def schedule(scheduler):
        job = await (
            scheduler.at(t0(6 * HOUR_S), "note", "once")
            if verb == "at"
            else scheduler.after(6 * HOUR_S, "note", "once")
        )
        await stage.machine.sleep(1.5 * HOUR_S)
        return job.id

    async def wait(scheduler):
        await stage.machine.sleep(1.5 * HOUR_S)

    async def end(scheduler):
        await stage.machine.sleep(4 * HOUR_S)
        return await (await scheduler.get_job(job_id)).attempts()

    job_id = stage.play(schedule, crash_after=True)
    stage.play(wait)
    stage.machine.reboot(60)
    stage.play(wait, crash_after=True)
    assert not stage.diary
    [attempt] = stage.play(end)
    assert stage.tags() == ["once"]
    assert stage.when("once") == pytest.approx(6 * HOUR_S, abs=0.01)
    assert attempt.number == 1


@pytest.mark.parametrize("store", STORES)
def test_b55_a_run_that_outlasts_every_beat_starts_once_and_a_stranger_cannot_finish_it(store):
    """One awaits for six seconds, one holds the loop up for six; and somebody settles attempts that are not his."""
    stage = Stage(store=STORES[store]())

    async def scene(scheduler):
        waits, blocks = await scheduler.now("busy", "awaits", 6), await scheduler.after(1, "block", "blocks", 6)
        await stage.machine.sleep(0.5)
        number = (await scheduler.get_job(waits.id)).number
        forged = [
            settle_ok(number, claim_epoch=0),  # of an owner that is no more
            settle_ok(number, attempt=2),  # an attempt that never was
            settle_ok(number + 1_000),  # a job that never was
        ]
        outcomes = []
        for each in forged:
            scheduler._engine.committer.settle(each, outcomes.append)
            await stage.machine.sleep(0.1)
        assert [type(each) for each in outcomes] == [Stale] * 3
        await stage.machine.sleep(10)
        assert scheduler.state == "RUNNING"
        return [await job.wait(1) for job in (waits, blocks)]

    jobs = stage.play(scene)
    assert [job.state for job in jobs] == [JobState.COMPLETED] * 2
    assert Counter(stage.tags()) == {"awaits": 1, "blocks": 1}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_b81_ten_thousand_cancels_at_random_moments_tell_the_truth(seed):
    """500 a seed: pending, claimed, running, just finished; on a slow journal, and what is ready runs in any order."""
    stage = Stage(VirtualMachine(seed=seed, shuffle=True), SlowStore(MemoryStore(), seed, commit_s=0.02))
    chance = stage.machine.random
    answers, starts, successes = {}, Counter(), Counter()

    async def work(number):
        starts[number] += 1
        await asyncio.sleep(0.05)  # virtual
        successes[number] += 1

    async def cancel(scheduler, number, delay_s):
        job = await scheduler.after(delay_s, "work", number)
        await stage.machine.sleep(max(0, delay_s + chance.uniform(-0.06, 0.1)))
        answers[number] = await job.cancel()
        return job

    async def scene(scheduler):
        scheduler.task(name="work")(work)
        jobs = await asyncio.gather(*(cancel(scheduler, number, chance.uniform(0, 2)) for number in range(500)))
        await stage.machine.sleep(5)
        return [await job.refresh() for job in jobs]

    jobs = stage.play(scene)
    assert set(answers.values()) == set(CancelAnswer)
    for number, job in enumerate(jobs):
        outcome = (answers[number], job.state, starts[number], successes[number])
        assert outcome in TRUTHS, f"job {number}: {outcome}"


def test_b28_a_grace_drops_only_what_was_due_while_nobody_watched_and_says_so():
    """Down for an hour: one job with a grace of a minute, one without."""
    stage = Stage(VirtualMachine(quiet=True))

    async def schedule(scheduler):
        graced = await scheduler.options(misfire_grace_s=60).at(t0(600), "note", "graced")
        plain = await scheduler.at(t0(600), "note", "plain")
        return graced.id, plain.id

    async def later(scheduler):
        await stage.machine.sleep(1)
        return [await scheduler.get_job(job_id) for job_id in ids]

    ids = stage.play(schedule, crash_after=True)
    stage.machine.reboot(HOUR_S)
    graced, plain = stage.play(later)
    assert (graced.state, graced.reason) == (JobState.SKIPPED, "misfire")
    assert plain.state is JobState.COMPLETED
    assert stage.tags() == ["plain"]
    assert [(notice.state, notice.jobs) for notice in stage.notices if type(notice).__name__ == "JobsEnded"] == [
        (JobState.SKIPPED, 1)
    ]


@pytest.mark.parametrize("step_s", [-120, 3600, 3652 * 86_400])
def test_b42_b43_delays_do_not_look_at_the_wall_clock_on_either_journal(step_s):
    """after() is due at its elapsed time, whatever the wall clock was set to; a restart in between changes nothing."""
    for store in STORES.values():
        stage = Stage(VirtualMachine(quiet=True), store())

        async def schedule(scheduler, stage=stage):
            await scheduler.after(60, "note", "after")
            await stage.machine.sleep(30)
            stage.machine.step(step_s)
            await stage.machine.sleep(1)

        stage.play(schedule, crash_after=True)
        stage.play(lambda _, stage=stage: stage.machine.sleep(60))
        assert stage.when("after") == pytest.approx(60, abs=0.01)


def test_b41_what_is_skipped_is_counted_and_kept():
    """A skipped job stays in view with its reason, and is found by its state."""
    stage = Stage()

    async def schedule(scheduler):
        await scheduler.options(misfire_grace_s=0).after(1, "note", "late")

    async def look(scheduler):
        await stage.machine.sleep(1)
        return await scheduler.jobs(state="SKIPPED")

    stage.play(schedule, crash_after=True)
    stage.machine.reboot(timedelta(minutes=5).total_seconds())
    [job] = stage.play(look)
    assert (job.reason, stage.tags()) == ("misfire", [])
