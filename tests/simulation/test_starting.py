"""Starts that do not go as planned: stopped half way, or on a full journal; and drafts that were refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from lives import FaultyStore

from timewheel import JournalFull, Scheduler
from timewheel.testing.virtual import VirtualMachine

FULL = JournalFull("no space left", path="memory")


async def idle(number: int) -> int:
    """A handler that does nothing."""
    return number


def refuse_while(condition):
    async def before(changes):
        if condition(changes):
            raise FULL

    return before


def test_a_stop_during_a_start_stops_what_the_start_began():
    machine = VirtualMachine()
    scheduler = Scheduler(FaultyStore(commit_s=1.0), system=machine.system)

    async def main() -> None:
        starting = asyncio.ensure_future(scheduler.start())
        await machine.sleep(0.5)
        await scheduler.stop()
        await starting
        assert scheduler.state == "STOPPED"

    machine.run(main())


def test_a_start_on_a_full_journal_raises_and_can_be_tried_again():
    machine = VirtualMachine()
    store = FaultyStore()
    failures = []
    scheduler = Scheduler(store, system=machine.system, on_failure=failures.append)
    scheduler.task(name="idle")(idle)

    async def main() -> None:
        store.before = refuse_while(lambda changes: True)
        with pytest.raises(JournalFull):
            await scheduler.start()
        assert failures == []
        store.before = refuse_while(lambda changes: False)
        async with scheduler:
            assert await (await scheduler.now("idle", 3)).result(5) == 3

    machine.run(main())


def test_drafts_that_were_refused_can_be_scheduled_later_at_their_full_delay():
    machine = VirtualMachine()
    store = FaultyStore()
    scheduler = Scheduler(store, system=machine.system)
    scheduler.task(name="idle")(idle)

    async def main() -> None:
        async with scheduler:
            drafts = [scheduler.new(timedelta(seconds=60), "idle", n) for n in range(3)]
            store.before = refuse_while(bool)
            with pytest.raises(JournalFull):
                await scheduler.at_many(drafts)
            store.before = refuse_while(lambda changes: False)
            await machine.sleep(5)
            jobs = await scheduler.at_many(drafts)
            asked = machine.now() + timedelta(seconds=60)
            assert [abs(job.scheduled_at - asked) < timedelta(milliseconds=1) for job in jobs] == [True] * 3
            assert len({job.id for job in jobs}) == 3

    machine.run(main())


def test_a_fault_while_a_batch_is_told_ends_the_scheduler_and_leaves_nobody_waiting(monkeypatch):
    machine = VirtualMachine()
    scheduler = Scheduler("memory://", system=machine.system)
    scheduler.task(name="idle")(idle)

    async def main() -> None:
        await scheduler.start()
        engine = scheduler._engine
        assert engine is not None

        def fault(changes, outcomes):
            raise RuntimeError("a planted fault")

        monkeypatch.setattr(engine.consequences, "draw", fault)
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="planted"):
                await scheduler.now("idle", 1)
        assert scheduler.state == "FAILED"
        await scheduler.stop()

    machine.run(main())


def test_the_sweep_gets_to_a_loss_behind_a_page_of_jobs_that_may_not_start(monkeypatch):
    monkeypatch.setattr("timewheel.store.sweep.SWEEP_PAGE", 10)
    machine = VirtualMachine()
    scheduler = Scheduler("memory://", system=machine.system)
    scheduler.task(name="idle")(idle)

    async def main() -> None:
        async with scheduler:
            await scheduler.queue("default").pause()
            await scheduler.at_many(scheduler.new(timedelta(0), "idle", n) for n in range(25))
            await machine.sleep(5)
            engine = scheduler._engine
            assert engine is not None
            ready = engine.dispatcher.ready
            entries = ready.take("default", 25, engine.now())
            lost = entries.pop(22)
            for entry in entries:
                ready.push(*entry)
            found = [await engine.loader.sweep() for _ in range(3)]
            assert sum(found) == 1
            assert lost[1] in engine.dispatcher.queued.known_ids(lost[2])
            await scheduler.queue("default").resume()
            await machine.sleep(1)
            assert await scheduler.jobs(state="COMPLETED").count() == 25

    machine.run(main())
