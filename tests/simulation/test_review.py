"""Narrow moments: a clock set just before a commit, an unknown claim, a journal that goes while callers wait."""

from __future__ import annotations

import asyncio
import time

import pytest
from helpers import Stage, t0
from lives import FaultyStore

from tests.databases import in_memory
from timewheel.dispatch.gate import Claimant, Gate
from timewheel.errors import JournalOwned, JournalUnavailable, JournalUnknown
from timewheel.model import ClockKind, Now
from timewheel.store.changes import Claim, ClaimedJob
from timewheel.store.port import Owner
from timewheel.store.room import Room
from timewheel_storage.sqlite.files import MemoryFiles
from timewheel_storage.sqlite.store import SqliteStore

GONE = JournalUnavailable("the file is gone", path="memory")
OWNER = Owner("boot-1", 0, 0)


@pytest.mark.parametrize(("event", "steady"), [("step", False), ("suspend", False), ("suspend", True)])
def test_a_commit_between_a_jump_of_the_clock_and_the_next_look_does_not_undo_the_misfire_policy(event, steady):
    stage = Stage()

    async def scene(scheduler):
        verbs = scheduler.options(misfire_grace_s=10)
        job = await (verbs.after(30, "note", "late") if steady else verbs.at(t0(30), "note", "late"))
        await asyncio.sleep(0.35)  # virtual
        getattr(stage.machine, event)(3600)
        await scheduler.after(7200, "note", "another")  # its commit comes before the ticker's next look
        await asyncio.sleep(5)  # virtual
        return (await job.refresh()).state

    assert stage.play(scene) == "SKIPPED"
    assert stage.diary == []


@pytest.mark.parametrize("written", [False, True])
def test_a_claim_of_unknown_outcome_gives_the_only_slot_back_and_the_job_runs(written):
    store = FaultyStore()
    stage = Stage(store=store, concurrency=1)
    claims = []

    async def fault(changes):
        if any(isinstance(change, Claim) for change in changes):
            claims.append(changes)
            if len(claims) == 1:
                raise JournalUnknown("an I/O error", path="memory")

    setattr(store, "after" if written else "before", fault)

    async def scene(scheduler):
        job = await scheduler.after(5, "note", "job")
        await asyncio.sleep(8)  # virtual
        return (await job.refresh()).state

    assert stage.play(scene) == "COMPLETED"


def test_nothing_is_acknowledged_any_more_once_the_journal_was_seen_to_be_gone():
    store = FaultyStore(commit_s=0.5)
    stage = Stage(store=store)
    acknowledged = []

    async def gone():
        raise GONE

    async def life():
        scheduler = stage.scheduler()
        await scheduler.start()
        store.check = gone

        async def submit(number):
            await scheduler.after(1000, "note", number)
            acknowledged.append(scheduler.state)

        await asyncio.wait([asyncio.ensure_future(submit(number)) for number in range(9_000)])
        await scheduler.stop()

    stage.machine.run(life())
    assert "RUNNING" in acknowledged
    assert "FAILED" not in acknowledged


def test_every_waiting_caller_hears_of_the_end_however_many_wait():
    stage = Stage()

    async def life():
        room = Room(lambda: 0 if full else 3)
        waiting = [asyncio.ensure_future(room.wait()) for _ in range(10)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        full.clear()
        room.admit()
        await asyncio.sleep(0.1)  # virtual
        admitted = sum(task.done() and not task.cancelled() for task in waiting)
        room.close()
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), 1)
        return admitted

    full = [True]
    assert stage.machine.run(life()) == 3, "a caller that was cancelled took a place"


def test_read_faults_that_are_far_apart_do_not_add_up_to_a_failure():
    store = FaultyStore()
    stage = Stage(store=store)
    faults = [0]
    read = store.inner.due

    async def due(*where):
        if faults[0]:
            faults[0] -= 1
            raise GONE
        return await read(*where)

    store.due = due

    async def scene(scheduler):
        for _ in range(15):
            faults[0] = 1
            await asyncio.sleep(3600)  # virtual
        assert scheduler.state == "RUNNING"
        faults[0] = 15
        await asyncio.sleep(3600)  # virtual
        return scheduler.state

    async def life():
        scheduler = stage.scheduler()
        await scheduler.start()
        await scheduler.after(10**6, "note", "far")
        state = await scene(scheduler)
        await scheduler.stop()
        return state

    assert stage.machine.run(life()) == "FAILED"


def test_giving_back_a_full_gate_takes_one_pass():
    gate, now = Gate(), Now(0, 0)
    for number in range(5_000):
        kind = ClockKind(number % 2)
        job = ClaimedJob(number, 1, "t", "[]", 1, kind, 10 * (number % 3), None, None, 0, 0, None)
        gate.admit(Claimant(job, "q", now), now)
    gate.withdraw(0)
    began = time.process_time()
    wall = gate.drain(ClockKind.WALL)
    assert time.process_time() - began < 0.5
    assert {each.job.job_id for each in wall} == set(range(2, 5_000, 2))
    assert gate.waiting == {0, *range(1, 5_000, 2)}
    assert len(gate.drain()) == 2_500
    assert gate.waiting == {0}


# ---- a journal in SQLite whose connections take their time -----------------------------------------------------------


class _Connections:
    """One connection that is closed for a while when the journal is opened again."""

    def __init__(self):
        self.connection = in_memory()
        self.writing = False

    async def transact(self, work):
        if not self.writing:
            raise JournalUnavailable("it is not open for writing", path="memory")
        return await self.read(work)

    async def read(self, work):
        answer = work(self.connection)
        await asyncio.sleep(0.1)  # virtual; what was done stays done when the caller is cancelled
        return answer

    async def open_reader(self, *, again=False):
        await asyncio.sleep(0.1)  # virtual

    async def open_writer(self):
        await asyncio.sleep(0.1)  # virtual
        self.writing = True

    async def close_reader(self):
        await asyncio.sleep(0)

    async def close_writer(self):
        self.writing = False

    async def close(self):
        self.writing = False


def _slow_sqlite():
    connections, files = _Connections(), MemoryFiles()
    empty = SqliteStore(connections.read, connections.read, files)
    store = SqliteStore(connections.transact, connections.read, files, connections=connections)
    return store, empty, files


def test_a_start_that_is_cancelled_while_it_takes_the_lock_leaves_none_behind():
    store, empty, files = _slow_sqlite()

    async def life():
        await empty.open()
        await store.open()
        owning = asyncio.ensure_future(store.own(OWNER))
        await asyncio.sleep(0.05)  # virtual
        assert files.locked
        owning.cancel()
        await asyncio.wait([owning])
        assert owning.cancelled()
        assert files.locked is None
        await store.own(OWNER)
        with pytest.raises(JournalOwned):
            await store.own(OWNER)
        assert files.locked, "a refused second start gave the first one's lock away"
        await store.close()

    Stage().machine.run(life())


def test_a_check_waits_while_the_journal_is_opened_again():
    store, empty, _ = _slow_sqlite()

    async def life():
        await empty.open()
        await store.open()
        await store.own(OWNER)
        reopening = asyncio.ensure_future(store.reopen())
        await asyncio.sleep(0.05)  # virtual
        await store.check()
        assert reopening.done()
        await store.close()

    Stage().machine.run(life())
