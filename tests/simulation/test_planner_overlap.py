"""What becomes of a slot while an earlier run goes on, and that nothing leaks a count: neither errors nor crashes."""

from __future__ import annotations

import asyncio

import pytest
from helpers import STORES, SlowStore, crash
from standing_lives import COALESCED, HOUR, JOB, MINUTE, SKIPPED, Standing

from timewheel import JobState, JournalFull, Overlap
from timewheel.model import AttemptState, WaitingReason
from timewheel.store.changes import Settle


@pytest.fixture(params=STORES)
def lives(request):
    return Standing(request.param)


def down(lives, seconds):
    lives.machine.awake_us += round(seconds * 1e6)


# ---- B37: the running count is given back ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["exception", "CancelledError", "timeout"])
def test_b37_a_run_that_ends_badly_is_no_run_that_goes_on(lives, how):
    async def bad():
        lives._enter("bad")
        if how == "exception":
            raise ValueError("no")
        if how == "CancelledError":
            raise asyncio.CancelledError
        await asyncio.sleep(HOUR)  # virtual

    async def scene(scheduler):
        await scheduler.recurring(retry=None, timeout_s=5).cron("* * * * *", "bad")
        await lives.machine.sleep(3 * MINUTE + 1)

    lives.live(scene, {"bad": bad})
    assert lives.slots() == [MINUTE, 2 * MINUTE, 3 * MINUTE]


def test_b37_a_run_that_the_process_died_with_is_no_run_that_goes_on(lives):
    async def first(scheduler):
        await scheduler.cron("* * * * *", "busy", "a", 20)
        await lives.machine.sleep(MINUTE + 5)

    async def second(scheduler):
        await lives.machine.sleep(2 * MINUTE)

    lives.die(first)
    lives.live(second)
    assert lives.slots() == [MINUTE, MINUTE, 2 * MINUTE, 3 * MINUTE], "it ran again, and the next ones ran"


def test_b37_each_skip_of_a_hung_run_is_recorded(lives):
    async def scene(scheduler):
        await scheduler.cron("* * * * *", "busy", "a", HOUR)
        await lives.machine.sleep(10 * MINUTE + 1)
        assert await lives.accounted("busy", SKIPPED, "overlap") == 9
        await scheduler.stop(0)

    async def life():
        scheduler = lives.scheduler(lives.tasks)
        await scheduler.start()
        await scene(scheduler)

    lives.machine.run(life())


# ---- B39: waiting runs do not pile up --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overlap", "ran", "accounts"),
    [
        ("SKIP", 1, {(SKIPPED, "overlap"): 59}),
        ("QUEUE_ONE", 1, {(COALESCED, "overlap"): 58}),
        (Overlap.QUEUE_ALL(limit=7), 1, {(SKIPPED, "overlap_limit"): 52}),
        ("ALLOW", 60, {}),
        (Overlap.ALLOW(limit=20), 20, {(SKIPPED, "overlap_limit"): 40}),
    ],
    ids=str,
)
def test_b39_runs_that_take_long_do_not_pile_up(lives, overlap, ran, accounts):
    async def scene(scheduler):
        await scheduler.recurring(overlap=overlap).every(MINUTE, "busy", "a", HOUR - 1)
        await lives.machine.sleep(HOUR + MINUTE - 2)
        found = {key: await lives.accounted("busy", *key) for key in accounts}
        waiting = await scheduler.jobs(state="WAITING").count()
        assert len(lives.diary) == ran
        assert waiting == 60 - ran - sum(accounts.values())
        return found

    assert lives.live(scene) == accounts


def test_who_waited_starts_when_the_run_before_has_ended_and_in_order(lives):
    async def scene(scheduler):
        await scheduler.recurring(overlap="QUEUE_ALL", max_runs=4).every(10, "busy", "a", 25)
        await lives.machine.sleep(200)

    lives.live(scene)
    assert lives.slots() == [10, 20, 30, 40]
    assert lives.times() == pytest.approx([10, 35, 60, 85], abs=0.1)


def test_who_waited_starts_after_a_crash_too(lives):
    async def first(scheduler):
        await scheduler.recurring(overlap="QUEUE_ONE", end=None).every(10, "busy", "a", 25)
        await lives.machine.sleep(21)

    async def second(scheduler):
        one = await scheduler.get_schedule("busy")
        await one.pause()
        await lives.machine.sleep(100)

    lives.die(first)
    lives.live(second)
    assert lives.slots() == [10, 10, 20]
    assert lives.times() == pytest.approx([10, 21, 46], abs=0.5)


# ---- REPLACE ---------------------------------------------------------------------------------------------------------


def test_replace_ends_what_runs_and_the_newest_takes_its_place(lives):
    async def scene(scheduler):
        await scheduler.recurring(overlap="REPLACE").every(10, "busy", "a", HOUR)
        await lives.machine.sleep(35)
        jobs = [job async for job in scheduler.jobs(task="busy")][::-1]
        assert [(job.state, job.reason) for job in jobs[:2]] == [(JobState.CANCELLED, "replaced")] * 2
        assert jobs[2].state is JobState.ACTIVE
        await (await scheduler.get_schedule("busy")).delete()
        await jobs[2].cancel()
        await lives.machine.sleep(1)

    lives.live(scene)
    assert lives.times() == pytest.approx([10, 20, 30], abs=0.1)


def test_a_newer_slot_supersedes_the_one_that_waits_for_a_run_that_clings(lives):
    async def clinging():
        lives._enter("clinging")
        for _ in range(3):
            try:
                await asyncio.sleep(HOUR)  # virtual
            except asyncio.CancelledError:
                await asyncio.sleep(15)  # virtual: it takes its time
                return

    async def scene(scheduler):
        one = await scheduler.recurring(overlap="REPLACE").every(10, "clinging")
        await lives.machine.sleep(31)
        states = [job.state async for job in scheduler.jobs(task="clinging")][::-1]
        assert states == [JobState.COMPLETED, JobState.ACTIVE, JobState.WAITING] or states[1] is JobState.SKIPPED
        await one.delete()
        await lives.machine.sleep(60)

    lives.live(scene, {"clinging": clinging})
    assert lives.slots()[0] == 10
    assert lives.slots() == sorted(set(lives.slots()))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("later", range(1, 6))
def test_a_replacement_that_a_crash_cut_short_is_ended_by_the_next_process(store, later):
    lives = Standing(SlowStore(STORES[store]()))

    async def life():
        scheduler = lives.scheduler(lives.tasks)
        death = asyncio.ensure_future(lives.store.died.wait())
        await scheduler.start()
        await scheduler.recurring(overlap="REPLACE").cron("* * * * *", "busy", "a", HOUR)
        await lives.machine.sleep(MINUTE + 50)
        lives.store.kill(lives.store.commits + later, True)
        await asyncio.wait([death], timeout=30)
        lives.store.kill(0, True)  # none, if there were not so many

    async def again(scheduler):
        await (await scheduler.get_schedule("busy")).pause()
        await lives.machine.sleep(5)
        jobs = {job.nominal_at.minute: job async for job in scheduler.jobs(task="busy")}
        assert jobs[1].state is JobState.CANCELLED
        assert jobs[2].state is JobState.ACTIVE
        await jobs[2].cancel()
        await lives.machine.sleep(2)

    lives.machine.run(life(), leave=True)
    lives.store = crash(lives.store)
    down(lives, 1)
    lives.live(again)


# ---- SERIALIZE: one at a time over schedules and jobs ----------------------------------------------------------------


def test_serialize_is_one_at_a_time_over_schedules_and_jobs(lives):
    running = []
    most = []

    async def one(tag):
        running.append(tag)
        most.append(len(running))
        lives._enter(tag)
        await asyncio.sleep(4)  # virtual
        running.remove(tag)

    async def scene(scheduler):
        for name in "ab":
            key = Overlap.SERIALIZE("the printer")
            await scheduler.recurring(id=name, overlap=key, max_runs=3).every(5, "one", name)
        for _ in range(3):
            await scheduler.options(concurrency_key="the printer").after(5, "one", "job")
        await scheduler.after(5, "note", "beside")
        await lives.machine.sleep(5.5)
        waiting = [job async for job in scheduler.jobs(state="WAITING")]
        assert {job.reason for job in waiting} == {WaitingReason.KEY}
        assert len(waiting) == 4
        await lives.machine.sleep(60)

    lives.live(scene, {"one": one, "note": lives.note})
    assert max(most) == 1
    assert len(lives.slots("a")) == len(lives.slots("b")) == len(lives.slots("job")) == 3
    assert lives.times("beside") == pytest.approx([5], abs=0.1)


def test_a_key_is_free_again_after_a_crash_a_failure_and_a_cancel(lives):
    async def first(scheduler):
        keyed = scheduler.options(concurrency_key="k", retry=None)
        for tag in "xyz":
            await keyed.now("busy", tag, 10)
        await keyed.now("fail", "f")
        await keyed.now("note", "n")
        await lives.machine.sleep(1)

    async def second(scheduler):
        await lives.machine.sleep(5)
        [running] = [job async for job in scheduler.jobs(state="ACTIVE")]
        await running.cancel()
        await lives.machine.sleep(60)

    lives.die(first)
    lives.live(second)
    assert sorted(tag for tag, *_ in lives.diary) == ["f", "n", "x", "x", "y", "z"]
    assert len({at for tag, at, *_ in lives.diary if tag in "xyz"}) == 4, "one at a time"


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_a_trigger_asks_the_overlap_policy_unless_it_is_forced(lives):
    async def scene(scheduler):
        one = await scheduler.every(HOUR, "busy", "a", 30)
        assert await one.trigger() is not None
        await lives.machine.sleep(1)
        assert await one.trigger() is None
        assert await one.trigger(force=True) is not None
        await lives.machine.sleep(40)
        assert await lives.accounted("busy", SKIPPED, "overlap") == 1
        assert await lives.accounted("busy", JOB) == 2

    lives.live(scene)
    assert lives.times() == pytest.approx([0, 1], abs=0.1)


def test_a_trigger_joins_the_one_that_waits(lives):
    async def scene(scheduler):
        one = await scheduler.recurring(overlap="QUEUE_ONE").every(HOUR, "busy", "a", 30)
        await one.trigger()
        second = await one.trigger()
        third = await one.trigger()
        assert third.id == second.id
        await lives.machine.sleep(70)
        assert (await second.refresh()).state is JobState.COMPLETED

    lives.live(scene)
    assert lives.times() == pytest.approx([0, 30], abs=0.1)


def test_who_waits_starts_although_the_journal_was_full_when_the_run_before_it_ended():
    store = SlowStore(STORES["memory"]())
    lives = Standing(store)

    async def scene(scheduler):
        await scheduler.recurring(overlap="QUEUE_ONE", max_runs=2).every(10, "busy", "a", 25)
        await lives.machine.sleep(34)
        store.faults[store.commits + 1] = JournalFull("full", path="memory"), False
        filler = asyncio.ensure_future(scheduler.after(3600, "note"))
        await lives.machine.sleep(0.95)
        for number in range(1, 3):
            store.faults[store.commits + number] = JournalFull("full", path="memory"), False
        await asyncio.gather(filler, return_exceptions=True)
        await lives.machine.sleep(40)

    lives.live(scene)
    assert lives.slots() == [10, 20]
    assert lives.times()[1] == pytest.approx(35, abs=4)


def test_who_waits_for_what_has_ended_is_let_go_on_by_the_next_owner(lives):
    async def first(scheduler):
        await scheduler.recurring(overlap="QUEUE_ONE", max_runs=2).every(10, "busy", "a", 25)
        await lives.machine.sleep(21)
        engine = scheduler._engine
        [job] = [job async for job in scheduler.jobs(state="ACTIVE")]
        number = job.record.job_id
        ended = Settle(number, 1, engine.epoch, AttemptState.SUCCEEDED, JobState.COMPLETED)
        await lives.store.commit([ended], engine.stamp())  # and nobody takes over

    async def second(scheduler):
        await lives.machine.sleep(1)

    lives.die(first)
    lives.die(second)
    assert lives.slots() == [10, 20]
