"""What a batch of settlements may weigh, and what a handler sees of a cancel that the journal refused."""

from __future__ import annotations

import asyncio

import pytest
from helpers import Stage, t0
from lives import FaultyStore

from timewheel import current
from timewheel.errors import JournalFull
from timewheel.store.backlog import BATCH_BYTES
from timewheel.store.changes import Cancel, Settle


def test_large_results_are_written_in_batches_of_bounded_size():
    store = FaultyStore(commit_s=0.2)
    stage = Stage(store=store, concurrency=1_000)
    sizes = []

    async def weigh(changes):
        sizes.append(sum(len(change.result or "") for change in changes if isinstance(change, Settle)))

    store.before = weigh

    async def blob():
        return "x" * 60_000

    async def life():
        scheduler = stage.scheduler()
        scheduler.task(name="blob")(blob)
        await scheduler.start()
        jobs = await scheduler.at_many(scheduler.new(t0(1), "blob") for _ in range(300))
        await asyncio.gather(*(job.wait(60) for job in jobs))
        await scheduler.stop()

    stage.machine.run(life())
    assert sum(sizes) > 300 * 60_000
    assert max(sizes) < BATCH_BYTES + 100_000


def test_a_handler_sees_nothing_of_a_cancel_that_the_journal_refused():
    store = FaultyStore()
    stage = Stage(store=store)
    seen = []

    async def refuse(changes):
        if any(isinstance(change, Cancel) for change in changes):
            raise JournalFull("no space left", path="memory")

    async def look():
        await asyncio.sleep(5)  # virtual
        seen.append(current().cancel_requested)

    async def life():
        scheduler = stage.scheduler()
        scheduler.task(name="look")(look)
        await scheduler.start()
        job = await scheduler.now("look")
        await asyncio.sleep(1)  # virtual
        store.before = refuse
        with pytest.raises(JournalFull):
            await job.cancel()
        state = (await job.wait(60)).state
        await scheduler.stop()
        return state

    assert stage.machine.run(life()) == "COMPLETED"
    assert seen == [False]
