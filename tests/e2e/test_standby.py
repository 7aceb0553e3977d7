"""when_owned="wait": the second process stands by, reads, refuses to write, and takes over when the owner ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from children import Child

from timewheel import JobCancelled, JournalOwned, NotOwner, Scheduler, SchedulerFailed
from timewheel.errors import JournalUnavailable
from timewheel.model import JobState, SchedulerState
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

# ---- two processes ---------------------------------------------------------------------------------------------------

PROGRAM = """
    scheduler = Scheduler("sqlite:///jobs.db", when_owned="wait")

    @scheduler.task(name="work")
    async def work():
        say(sys.argv[1], "runs attempt", current().attempt)
        if sys.argv[1] == "first":
            await forever()
        return "done"

    async def main():
        async with scheduler:
            say(scheduler.state)
            if scheduler.state == "RUNNING":
                job = await scheduler.now(work)
                await forever()
            [job] = await scheduler.jobs()
            for write in (lambda: scheduler.now(work), job.cancel, scheduler.queue("default").pause):
                try:
                    await write()
                except NotOwner as refused:
                    say(type(refused).__name__)
            say("sees", job.state, (await job.attempts())[0].state)
            say("waited", await job.result())
            say(scheduler.state)
            say((await (await scheduler.now(work)).wait()).state)

    asyncio.run(main())
"""


def test_b57_the_second_process_reads_refuses_to_write_and_takes_over_a_killed_owner(tmp_path):
    with Child(tmp_path, PROGRAM, "first") as first:
        assert [first.line(), first.line()] == ["RUNNING", "first runs attempt 1"]
        with Child(tmp_path, PROGRAM, "second") as second:
            assert [second.line() for _ in range(5)] == ["STANDBY", *["NotOwner"] * 3, "sees ACTIVE QUEUED"]
            first.kill()
            runs = [f"second runs attempt {attempt}" for attempt in (2, 1)]
            assert second.rest() == [runs[0], "waited done", "RUNNING", runs[1], "COMPLETED"]
            assert second.end() == 0


# ---- in virtual time -------------------------------------------------------------------------------------------------


class Pair:
    """An owner and one that stands by, on two handles of one journal."""

    def __init__(self):
        self.machine = VirtualMachine()
        self.store = MemoryStore()
        self.owner = self.scheduler(self.store)
        self.second = self.scheduler(self.store.another(), when_owned="wait")

    def scheduler(self, store, **options):
        scheduler = Scheduler(store, system=replace(self.machine.system), **options)

        @scheduler.task(name="work")
        async def work():
            return "done"

        return scheduler


def play(scene):
    pair = Pair()

    async def main():
        await pair.owner.start()
        async with pair.second:
            assert pair.second.state is SchedulerState.STANDBY
            await scene(pair)

    pair.machine.run(main())
    return pair


def test_start_returns_at_once_and_the_take_over_comes_within_a_second():
    async def scene(pair):
        assert pair.machine.awake_us < 1_000
        job = await pair.owner.after(3600, "work")
        await asyncio.sleep(1000)  # virtual
        assert pair.second.state is SchedulerState.STANDBY
        await pair.owner.stop()
        ended = pair.machine.awake_us
        waiting = asyncio.ensure_future((await pair.second.get_job(job.id)).wait())
        while pair.second.state is SchedulerState.STANDBY:
            await asyncio.sleep(0.01)  # virtual
        assert pair.machine.awake_us - ended <= 1_000_000
        assert (await waiting).state is JobState.COMPLETED
        assert await (await pair.second.now("work")).result(60) == "done"

    play(scene)


def test_what_the_owner_does_is_seen_and_waited_for():
    async def scene(pair):
        job = await pair.owner.after(5, "work")
        seen = await pair.second.get_job(job.id)
        assert (seen.state, seen.args) == (JobState.SCHEDULED, ())
        assert await seen.result() == "done"
        assert await pair.second.jobs(state="COMPLETED").count() == 1
        other = await pair.owner.after(5, "work")
        waiting = asyncio.ensure_future((await pair.second.get_job(other.id)).result())
        await other.cancel()
        with pytest.raises(JobCancelled):
            await waiting
        with pytest.raises(NotOwner, match="another process owns memory"):
            await pair.second.now("work")
        await pair.owner.stop()

    play(scene)


def test_a_stop_while_standing_by_leaves_the_owner_alone():
    async def scene(pair):
        await pair.second.stop()
        assert pair.second.state is SchedulerState.STOPPED
        assert await (await pair.owner.now("work")).result(60) == "done"
        await pair.second.start()
        assert pair.second.state is SchedulerState.STANDBY
        await pair.owner.stop()

    play(scene)


def test_a_stranger_who_cancels_the_standby_does_not_end_it():
    async def scene(pair):
        await asyncio.sleep(1)  # virtual
        [standby] = [task for task in asyncio.all_tasks() if task.get_name() == "timewheel standby"]
        standby.cancel()
        await asyncio.sleep(1)  # virtual
        await pair.owner.stop()
        await asyncio.sleep(1)  # virtual
        assert pair.second.state is SchedulerState.RUNNING

    play(scene)


def test_a_take_over_that_fails_is_the_schedulers_failure():
    pair = Pair()

    async def broken(changes, stamp):
        raise JournalUnavailable("the disk is gone", path="memory")

    async def main():
        await pair.owner.start()
        await pair.second.start()
        pair.second._store.commit = broken
        await pair.owner.stop()
        assert isinstance(await pair.second.wait_failed(), JournalUnavailable)
        with pytest.raises(SchedulerFailed):
            await pair.second.jobs().count()
        await pair.second.stop()
        async with pair.scheduler(pair.store.another()) as third:  # the failed one holds nothing
            assert third.state is SchedulerState.RUNNING

    pair.machine.run(main())


def test_when_owned_raise_is_the_default():
    pair = Pair()

    async def main():
        async with pair.owner:
            with pytest.raises(JournalOwned):
                await pair.scheduler(pair.store.another()).start()

    pair.machine.run(main())
