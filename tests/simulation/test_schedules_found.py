"""What the simulation has found of schedules: each mistake once more, alone."""

from __future__ import annotations

import asyncio

import pytest
from lives import FaultyStore, nothing
from standing_lives import SKIPPED, T0_US, Standing

from timewheel import Calendar, Cron, Every, JobState
from timewheel.planning.custody import Custody
from timewheel.store.changes import PutSchedule
from timewheel.testing.virtual import T0


@pytest.fixture(params=["memory", "sqlite"])
def lives(request):
    return Standing(request.param)


def test_a_trigger_is_due_at_once_though_the_clock_was_set_back_since_the_last_one(lives):
    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="ALLOW").cron("0 5 * * *", "note")
        await made.trigger()
        await asyncio.sleep(5)  # virtual
        lives.machine.step(-7200)
        job = await made.trigger()
        await asyncio.sleep(5)  # virtual
        return (await job.refresh()).state

    assert lives.live(scene) is JobState.COMPLETED


def test_a_trigger_is_due_at_once_though_the_rule_counts_another_clock_now(lives):
    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="ALLOW").cron("0 5 * * *", "note")
        lives.machine.step(7200)
        await asyncio.sleep(2)  # virtual
        await made.trigger()
        made = await made.update(Every(3600))
        jobs = [await made.trigger() for _ in range(3)]
        await asyncio.sleep(5)  # virtual
        return [(await job.refresh()).state for job in jobs], len({job.record.origin for job in jobs})

    assert lives.live(scene) == ([JobState.COMPLETED] * 3, 3)


@pytest.mark.parametrize("pause", [False, True])
def test_slots_that_come_while_an_edit_is_written_are_accounted_for(pause):
    """The old rule's last slots get their rows in a commit of their own; the new rule counts from then on."""

    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="ALLOW", misfire="ALL").every(0.05, "note")
        await asyncio.sleep(1.01)  # virtual
        if pause:
            await made.pause()
            await asyncio.sleep(0.5)  # virtual
        await made.update(Cron("0 0 1 1 *"))
        edited_us = lives.store.inner_record("x").position.at
        slots = {row.first_at for row in lives.store.inner_rows() if row.count == 1}
        ranges = [(row.first_at, row.last_at, row.count) for row in lives.store.inner_rows() if row.count > 1]
        return edited_us, len(slots) + sum(count for *_, count in ranges)

    lives = Standing(Slow())
    edited_us, accounted = lives.live(scene)
    assert accounted == (edited_us - T0_US - lives.store.made_us) // 50_000


class Slow(FaultyStore):
    """Every commit takes 0.2 s."""

    made_us = 0

    def __init__(self):
        super().__init__()
        self.after = self.pass_time

    async def pass_time(self, changes):
        await asyncio.sleep(0.2)  # virtual
        for change in changes:
            if isinstance(change, PutSchedule) and not self.made_us:
                self.made_us = change.record.position.at - T0_US

    def inner_record(self, name):
        return self.inner._journal.schedules[name]

    def inner_rows(self):
        return [row for _, row in self.inner._journal.ledger.values()]


def test_a_calendar_that_was_saved_counts_though_the_process_died_before_it_planned_anew():
    today = T0.date()

    async def change(scheduler):
        shut = Calendar("closed", [today], weekend=())
        await scheduler.recurring(id="x").schedule(Cron("* * * * *", calendar=shut), "note")
        lives.store.before = lambda changes: asyncio.sleep(0.2)  # virtual
        saving = asyncio.create_task(scheduler.standing.put_calendar(Calendar("closed", weekend=())))
        await asyncio.sleep(0.3)  # virtual: saved, and not yet planned by
        assert not saving.done()

    async def look(scheduler):
        await asyncio.sleep(300)  # virtual
        return len(lives.diary)

    lives = Standing(FaultyStore())
    lives.die(change)
    lives.store.before = nothing
    assert lives.live(look) == 5


def test_replace_ends_one_that_was_let_go_on_while_its_replacement_was_written():
    began: list[float] = []

    async def cling():
        began.append(lives.elapsed_s)
        try:
            await asyncio.sleep(1000)  # virtual
        except asyncio.CancelledError:
            if len(began) == 1:
                await asyncio.sleep(29.95 - lives.elapsed_s)  # virtual: its end is written
            raise

    async def scene(scheduler):
        made = await scheduler.recurring(id="x", overlap="REPLACE").every(10, "cling")
        lives.store.before = lambda changes: asyncio.sleep(0.2)  # virtual
        await asyncio.sleep(35)  # virtual
        await made.pause()
        lives.store.before = nothing
        running = [job async for job in scheduler.jobs(schedule="x", state=JobState.ACTIVE)]
        await scheduler.jobs(schedule="x").cancel()
        return [(job.nominal_at - T0).total_seconds() for job in running]

    lives = Standing(FaultyStore())
    assert lives.live(scene, {"cling": cling}) == [30]


def test_who_stops_waiting_just_before_his_turn_is_passed_over():
    async def scene():
        custody = Custody()
        await custody.take()
        first, second = asyncio.create_task(custody.take()), asyncio.create_task(custody.take())
        await asyncio.sleep(0)
        first.cancel()
        custody.give()  # before the first has noticed
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        return custody.wanted, custody.try_take()

    assert asyncio.run(scene()) == (False, False)


@pytest.mark.parametrize("verb", ["update", "resume"])
@pytest.mark.parametrize("then", ["trigger", "nothing"])
def test_the_write_of_an_edit_that_was_cancelled_is_there_before_anybody_looks_at_the_schedule_again(verb, then):
    """The end of a loop cancels every task; a trigger then wrote the position of before, and slots had two rows."""

    async def scene(scheduler):
        made = await scheduler.recurring(id="x", misfire="SKIP", misfire_grace_s=0).every(0.3, "note")
        await made.pause()
        await asyncio.sleep(10)  # virtual
        lives.store.before = lambda changes: asyncio.sleep(0.2)  # virtual
        editing = asyncio.create_task(made.update(Every(3600)) if verb == "update" else made.resume())
        await asyncio.sleep(0.1)  # virtual: it is being written
        [errand] = [task for task in asyncio.all_tasks() if task.get_name() == "timewheel edit of a schedule"]
        errand.cancel()
        with pytest.raises(asyncio.CancelledError):
            await editing
        if then == "trigger":
            await made.trigger()
        await asyncio.sleep(1)  # virtual
        lives.store.before = nothing
        assert (await lives.rows("x"))[0] == (0.3, 9.9, 33, SKIPPED, "paused")

    lives = Standing(FaultyStore())
    lives.live(scene)
