"""The loader's law: whatever lies below a lane's frontier is in memory, and memory is bounded."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from tests.simulation.helpers import SlowStore, Stage, t0
from timewheel.events import SweepFound
from timewheel.model import SECOND_US, ZERO_KEY, ClockKind, JobState, Lane
from timewheel.store import frontier, loader, sweep
from timewheel.testing.virtual import VirtualMachine
from timewheel.wheel import ticker
from timewheel_storage.memory import MemoryStore


@pytest.fixture
def _small_pages(monkeypatch):
    """So small that every lane overflows and is paged all the time."""
    monkeypatch.setattr(loader, "PAGE", 5)
    monkeypatch.setattr(loader, "LOW", 2)
    monkeypatch.setattr(loader, "LANE_LIMIT", 10)
    monkeypatch.setattr(loader, "STALE_FLOOR", 5)
    monkeypatch.setattr(loader, "SWEEP_US", 2 * SECOND_US)
    monkeypatch.setattr(sweep, "SWEEP_PAGE", 10_000)


def held_ids(engine, lane):
    """Every job of a lane that is anywhere in memory."""
    entries = engine.ticker._sides[lane.clock].wheel.entries()
    return {job_id for _, job_id, number in entries if number == lane.number} | set(
        engine.loader._queued.known_ids(lane.number)
    )


async def outlaws(engine, store):
    """Jobs below a frontier that are nowhere in memory: (lane number, due_at, job_id)."""
    found = set()
    for book in engine.loader._books.values():
        below = await store.due(book.lane.number, ZERO_KEY, book.frontier.due_at + 1, 1_000_000)
        known = held_ids(engine, book.lane)
        found |= {(book.lane.number, *key) for key in below if key <= tuple(book.frontier) and key[1] not in known}
    return found


async def check_law(stage, scheduler):
    """Two looks: a commit of this turn is placed in the next, and a step of the wall clock is seen within a second."""
    engine, store = scheduler._engine, getattr(stage.store, "inner", stage.store)
    suspects = await outlaws(engine, store)
    if suspects:
        await stage.machine.sleep(1.2)
        suspects &= await outlaws(engine, store)
    assert not suspects


async def make_trouble(stage, scheduler, chance, jobs):
    """One random act on a schedule; `jobs` are those made so far."""
    act = chance.random()
    queue = chance.choice(["a", "b"])
    if act < 0.45 or not jobs:
        maker = scheduler.options(queue=queue, priority=chance.choice([0, 5]))
        delay = chance.choice([0.0, 0.5, 3.0, 20.0, 90.0]) * chance.random()
        tag = len(jobs)
        if chance.random() < 0.5:
            jobs.append(await maker.after(delay, "note", tag))
        else:
            jobs.append(await maker.at(stage.machine.now() + timedelta(seconds=delay), "note", tag))
    elif act < 0.6:
        await chance.choice(jobs).cancel()
    elif act < 0.8:
        await chance.choice(jobs).reschedule(timedelta(seconds=chance.choice([0.1, 5, 60]) * chance.random()))
    elif act < 0.83:
        stage.machine.step(chance.choice([-50, -0.2, 0.2, 50]))
    elif act < 0.85:
        stage.machine.suspend(chance.choice([0.5, 30]))
    elif act < 0.9:
        stage.machine.block(chance.random() * 3)
    else:
        await stage.machine.sleep(chance.choice([0.01, 0.3, 2, 10]))


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_law_of_the_frontier_holds_whatever_is_committed(seed, slow):
    chance = random.Random(seed)
    store = SlowStore(MemoryStore(), seed, commit_s=0.05, read_s=0.05) if slow else MemoryStore()
    stage = Stage(VirtualMachine(seed=seed, shuffle=True), store)

    async def scene(scheduler):
        jobs = []
        for _ in range(100):
            await make_trouble(stage, scheduler, chance, jobs)
            await check_law(stage, scheduler)
        await stage.machine.sleep(150)

    stage.play(scene)
    assert not stage.noticed(SweepFound), "a false alarm is one too"
    jobs = stage.dump()["jobs"].values()
    assert {job.state for job in jobs} <= {JobState.COMPLETED, JobState.CANCELLED}
    assert len(stage.diary) == sum(job.state is JobState.COMPLETED for job in jobs)


@pytest.mark.usefixtures("_small_pages")
def test_memory_is_bounded_by_pages_and_lane_limits():
    stage = Stage()
    most = 0

    async def scene(scheduler):
        nonlocal most
        engine = scheduler._engine
        await scheduler.at_many(
            scheduler.new(timedelta(seconds=1 + number / 7), "note", number) for number in range(300)
        )
        for _ in range(100):
            await stage.machine.sleep(0.5)
            most = max(most, len(engine.ticker) + len(engine.dispatcher.ready))

    stage.play(scene)
    assert stage.tags() == list(range(300))
    assert most <= loader.LANE_LIMIT + 2 * loader.PAGE


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("spread_us", [0, 10, 10_000])
def test_pages_and_portions_do_not_overtake_one_another(spread_us, monkeypatch):
    """B49: what a page brings goes behind what the wheel has not fired yet, however the two doers take turns."""
    monkeypatch.setattr(ticker, "PORTION", 1)
    for seed in range(6):
        stage = Stage(VirtualMachine(seed=seed, shuffle=True), concurrency=2)

        async def scene(scheduler, stage=stage):
            start = stage.machine.now() + timedelta(seconds=5)
            dues = [start + timedelta(microseconds=spread_us * number) for number in range(80)]
            await scheduler.at_many(scheduler.new(due, "busy", number, 0.001) for number, due in enumerate(dues))
            await stage.machine.sleep(8)

        stage.play(scene)
        in_twos = [sorted(stage.tags()[place : place + 2]) for place in range(0, 80, 2)]
        assert in_twos == [[number, number + 1] for number in range(0, 80, 2)], f"seed {seed}"


@pytest.mark.usefixtures("_small_pages")
def test_a_job_of_a_crowded_lane_is_not_late():
    """I7: its frontier had been lowered to it, and the loader looked again only after a second."""
    for seed in range(10):
        chance = random.Random(seed)
        stage = Stage(VirtualMachine(seed=seed))

        async def scene(scheduler, chance=chance, stage=stage):
            await scheduler.at_many(scheduler.new(timedelta(seconds=100 + n), "note", f"far {n}") for n in range(25))
            await stage.machine.sleep(chance.random())
            for tag in range(20):
                await scheduler.after(2 + 3 * chance.random(), "note", tag)
            await stage.machine.sleep(8)
            return [attempt.start_lag_s for job in await scheduler.jobs() for attempt in await job.attempts()]

        lags = stage.play(scene)
        assert len(lags) == 20
        assert max(lags) < 0.01, f"seed {seed}"


def test_the_sweep_finds_a_planted_loss():
    stage = Stage()

    async def scene(scheduler):
        engine = scheduler._engine
        await scheduler.after(5, "note", "lost")
        await scheduler.after(5, "note", "lost too")
        await stage.machine.sleep(1)
        for side in engine.ticker._sides.values():
            side.wheel.advance(1 << 62, 100)  # taken out, and fired to nobody
        await stage.machine.sleep(9)
        assert not stage.diary
        assert await engine.loader.sweep() == 2
        await stage.machine.sleep(0.1)

    stage.play(scene)
    assert sorted(stage.tags()) == ["lost", "lost too"]
    assert stage.noticed(SweepFound) == [SweepFound(2)]


def test_the_sweep_comes_by_itself_within_half_a_minute():
    stage = Stage()

    async def scene(scheduler):
        await scheduler.after(5, "note", "lost")
        await stage.machine.sleep(1)
        for side in scheduler._engine.ticker._sides.values():
            side.wheel.advance(1 << 62, 100)
        await stage.machine.sleep(40)

    stage.play(scene)
    assert 5 < stage.when("lost") < 37


def test_the_sweep_does_not_cry_wolf_when_the_loop_was_blocked():
    """What is due and still in the wheel is not lost: the ticker is as late as the sweep."""
    for seed in range(20):
        stage = Stage(VirtualMachine(seed=seed, shuffle=True))

        async def scene(scheduler, stage=stage):
            await scheduler.at_many(scheduler.new(timedelta(seconds=29 + k / 20), "note", k) for k in range(60))
            await stage.machine.sleep(29.5)
            stage.machine.block(3)
            await stage.machine.sleep(5)

        stage.play(scene)
        assert not stage.noticed(SweepFound), f"seed {seed}"


@pytest.mark.usefixtures("_small_pages")
def test_the_sweep_does_not_cry_wolf_at_a_commit_whose_outcome_is_on_its_way():
    """The journal shows it to readers before its writer hears of it: overdue, and not in memory yet."""
    for seed in range(4):
        store = SlowStore(MemoryStore(), seed, commit_s=0.08, read_s=0.01)
        stage = Stage(VirtualMachine(seed=seed, shuffle=True), store)

        async def scene(scheduler, stage=stage):
            for number in range(150):
                await scheduler.at(t0(-100), "note", number)

        stage.play(scene)
        assert not stage.noticed(SweepFound), f"seed {seed}"


@pytest.mark.usefixtures("_small_pages")
def test_stale_entries_are_thrown_out_by_a_rebuild_that_loses_nothing():
    """10 jobs are moved 30 times each: the wheel may hold their former times only up to the bound."""
    stage = Stage()
    most = 0

    async def scene(scheduler):
        nonlocal most
        jobs = [await scheduler.after(100 + number, "note", number) for number in range(8)]
        for turn in range(30):
            for number, job in enumerate(jobs):
                await job.reschedule(timedelta(seconds=100 - turn + number / 10))
            await stage.machine.sleep(0.1)
            await check_law(stage, scheduler)
            most = max(most, len(scheduler._engine.ticker))
        await stage.machine.sleep(200)

    stage.play(scene)
    assert stage.tags() == list(range(8))
    assert most <= 60


@pytest.mark.usefixtures("_small_pages")
def test_what_is_committed_during_a_rebuild_is_in_the_fresh_wheels_too(monkeypatch):
    """Its page had been read already: only the double insert keeps it."""
    monkeypatch.setattr(loader, "LANE_LIMIT", 200)
    for seed in range(4):
        stage = Stage(VirtualMachine(seed=seed, shuffle=True), SlowStore(MemoryStore(), seed, read_s=0.3))

        async def scene(scheduler, stage=stage):
            engine = scheduler._engine
            jobs = [await scheduler.after(100 + number, "note", number) for number in range(30)]
            await stage.machine.sleep(5)
            rebuilt = asyncio.ensure_future(engine.loader._rebuild())
            turn = 0
            while not rebuilt.done():
                await jobs[turn % 30].reschedule(timedelta(seconds=20 + 60 * stage.machine.random.random()))
                await stage.machine.sleep(0.02)
                turn += 1
            assert turn > 5
            await check_law(stage, scheduler)
            await stage.machine.sleep(150)

        stage.play(scene)
        assert sorted(stage.tags()) == list(range(30)), f"seed {seed}"
        assert not stage.noticed(SweepFound), f"seed {seed}"


class CountingStore(MemoryStore):
    """Counts the pages that are asked for."""

    pages = 0

    async def due(self, lane, after, until_us, limit):
        self.pages += 1
        return await super().due(lane, after, until_us, limit)


@pytest.mark.usefixtures("_small_pages")
def test_a_restart_costs_a_page_a_lane():
    """However many jobs wait: 600 of them in six lanes cost six pages and six looks, the rest stays on disk."""
    stage = Stage(store=CountingStore())

    async def fill(scheduler):
        for queue in "abc":
            far = scheduler.options(queue=queue)
            await scheduler.at_many(far.new(timedelta(seconds=1000 + n), "note", n) for n in range(100))
            await scheduler.at_many(far.new(t0(1000 + n), "note", n) for n in range(100))

    async def look(scheduler):
        stage.store.pages = 0
        await scheduler._engine.loader.loaded.wait()
        await stage.machine.sleep(0.1)
        assert len(scheduler._engine.loader._books) == 6
        return stage.store.pages, len(scheduler._engine.ticker)

    stage.play(fill, crash_after=True)
    assert stage.play(look) == (12, 0), "a page and a look beyond it each; nothing is due within the horizon"
    stage.machine.block(800)
    pages, entries = stage.play(look)
    assert pages == 6
    assert entries == 6 * loader.PAGE


# ---- partitions ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_law_of_the_frontier_holds_for_the_lanes_of_partitions(seed, slow, monkeypatch):
    """They have smaller pages while others fill the memory, and are swept a few at a time."""
    monkeypatch.setattr(frontier, "SHARED", 20)
    monkeypatch.setattr(frontier, "FEW", 2)
    monkeypatch.setattr(sweep, "SWEEP_LANES", 3)
    store = SlowStore(MemoryStore(), seed, commit_s=0.05, read_s=0.05) if slow else MemoryStore()
    stage = Stage(VirtualMachine(seed=seed, shuffle=True), store, concurrency=2)
    chance = random.Random(seed)

    async def scene(scheduler):
        jobs = []
        for _ in range(120):
            maker = scheduler.options(partition_key=chance.choice("abcdef"))
            jobs.append(await maker.after(chance.choice([0.0, 2.0, 90.0]) * chance.random(), "busy", len(jobs), 0.1))
            if chance.random() < 0.3:
                await chance.choice(jobs).reschedule(timedelta(seconds=60 * chance.random()))
            await stage.machine.sleep(chance.choice([0, 0, 0.1, 1]))
            await check_law(stage, scheduler)
        await stage.machine.sleep(200)

    stage.play(scene)
    assert not stage.noticed(SweepFound)
    assert sorted(stage.tags()) == list(range(120))


@pytest.mark.parametrize("comes", ["loaded", "committed"])
def test_the_lanes_of_partitions_share_the_memory(comes, monkeypatch):
    """300 jobs of each of 40 tenants are due in the horizon; none is lost, a fifth of them is in memory at a time."""
    for name, value in {"PAGE": 1_000, "LOW": 500, "LANE_LIMIT": 2_000}.items():
        monkeypatch.setattr(loader, name, value)
    monkeypatch.setattr(frontier, "SHARED", 2_000)
    monkeypatch.setattr(frontier, "FEW", 10)
    stage, most = Stage(), 0

    async def fill(scheduler):
        for tenant in range(40):
            maker = scheduler.options(partition_key=f"tenant {tenant}")
            await scheduler.at_many(maker.new(timedelta(seconds=30 + n / 100), "note", n) for n in range(300))

    async def look(scheduler):
        nonlocal most
        if comes == "committed":
            await fill(scheduler)
        engine = scheduler._engine
        for _ in range(100):
            await stage.machine.sleep(0.5)
            most = max(most, len(engine.ticker) + len(engine.dispatcher.ready))

    if comes == "loaded":
        stage.play(fill, crash_after=True)
    stage.play(look)
    assert len(stage.diary) == 40 * 300
    assert 900 < most <= 2_000 + 40 * 2 * 10


def test_a_lane_without_a_partition_has_its_page_whatever_is_in_memory():
    assert frontier.share(Lane(1, "q", 5, ClockKind.WALL), 10**9, 10_000) == 10_000
    tenant = Lane(1, "q", 5, ClockKind.WALL, "t")
    assert [frontier.share(tenant, held, 10_000) for held in (0, 60_000, 99_999, 10**9)] == [10_000, 5_000, 100, 100]
