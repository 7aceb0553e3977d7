"""One tenant with very many queued jobs, another with one: that one starts within a bound, measured in starts.

From the moment at which its making is confirmed, at a concurrency of c, at most

    c  (jobs that were claimed by then)  +  1 for each other tenant that has jobs waiting

start before it, however many jobs these have, however urgent, and whatever the journal does meanwhile; also when all
of them lay there as the process started.

    HYPOTHESIS_PROFILE=deep python -m pytest tests/simulation/test_fair_tenants.py -m slow      100,000 jobs
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from helpers import STORES, SlowStore, Stage

from tests.marks import DEEP
from timewheel.model import JobState

FEW = 5_000
MANY = 100_000
NOW = timedelta(0)


class House(Stage):
    """A stage whose journal takes its time: tenants queue jobs of 10 ms each."""

    def __init__(self, store, concurrency, *, fair=True):
        super().__init__(store=SlowStore(STORES[store](), 4, commit_s=0.005), concurrency=concurrency)
        self.concurrency, self.fair = concurrency, fair

    def tenant(self, scheduler, name, **options):
        return scheduler.options(partition_key=name if self.fair else None, **options)

    async def fill(self, scheduler, jobs, tenants=1, **options):
        """So many jobs of each of the big tenants."""
        for number in range(tenants):
            verbs = self.tenant(scheduler, f"big {number}", **options)
            await verbs.at_many(verbs.new(NOW, "busy", (f"big {number}", n), 0.01) for n in range(jobs))

    async def starts_before_the_one(self, scheduler, **options):
        """How many start between the confirmation of the small tenant's job and its start."""
        await self.tenant(scheduler, "small", **options).now("busy", "the one", 0.01)
        before = len(self.diary)
        while "the one" not in self.tags()[before:]:
            assert len(self.diary) < before + 4_000, "never"
            await self.machine.sleep(0.05)
        return self.tags()[before:].index("the one")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    ("concurrency", "jobs"), [(1, FEW), (20, FEW), pytest.param(20, MANY, marks=[pytest.mark.slow, DEEP])]
)
def test_the_one_starts_within_the_bound_while_the_other_tenant_has_many(store, jobs, concurrency):
    house = House(store, concurrency)

    async def scene(scheduler):
        await house.fill(scheduler, jobs)
        for _ in range(3):
            await house.machine.sleep(0.3)
            assert await house.starts_before_the_one(scheduler) <= concurrency + 1
        waiting = await scheduler.jobs(state=JobState.SCHEDULED).count()
        assert waiting > jobs / 2, "there are many all the time"

    house.play(scene, crash_after=True)


@pytest.mark.parametrize(
    ("store", "jobs"),
    [*((store, FEW) for store in STORES), pytest.param("sqlite", MANY, marks=pytest.mark.slow)],
)
def test_the_one_starts_within_the_bound_when_all_lay_there_at_the_start(store, jobs):
    """It was made last, and is in no page of the journal that begins with the other tenant's jobs."""
    house = House(store, concurrency=5)

    async def fill(scheduler):
        await scheduler.queue("default").pause()
        await house.fill(scheduler, jobs)
        await house.tenant(scheduler, "small").now("busy", "the one", 0.01)

    async def run(scheduler):
        await scheduler.queue("default").resume()
        await house.machine.sleep(2)

    house.play(fill, crash_after=True)
    assert not house.diary
    house.play(run, crash_after=True)
    assert len(house.diary) > 100
    assert house.tags().index("the one") <= 5 + 1


@pytest.mark.parametrize("tenants", [3, 40])
def test_each_other_tenant_has_one_turn_at_most_whatever_its_priority(tenants):
    house = House("memory", concurrency=4)

    async def scene(scheduler):
        await house.fill(scheduler, 100, tenants, priority=0)
        await house.machine.sleep(0.3)
        assert await house.starts_before_the_one(scheduler, priority=9) <= 4 + tenants

    house.play(scene, crash_after=True)


@pytest.mark.parametrize("store", STORES)
def test_a_tenant_that_goes_on_submitting_gets_no_more_than_its_turns(store):
    """While the journal is written to all the time, both get as many starts as long as both have jobs waiting."""
    house = House(store, concurrency=4)

    async def flood(scheduler):
        while True:
            await house.fill(scheduler, 50)
            await house.machine.sleep(0.02)

    async def scene(scheduler):
        flooding = asyncio.ensure_future(flood(scheduler))
        await house.machine.sleep(1)
        small = house.tenant(scheduler, "small")
        await small.at_many(small.new(NOW, "busy", ("small", n), 0.01) for n in range(100))
        before = len(house.diary)
        await house.machine.sleep(2)
        flooding.cancel()
        owners = [tag[0] for tag in house.tags()[before:]]
        last = len(owners) - owners[::-1].index("small")
        assert owners.count("small") == 100
        assert last <= 2 * 100 + 2 * 4

    house.play(scene, crash_after=True)


def test_without_partitions_the_one_waits_for_all():
    """What the tests above would see if the tenants were not told apart: they can fail."""
    house = House("memory", concurrency=5, fair=False)

    async def scene(scheduler):
        await house.fill(scheduler, 2_000)
        await house.machine.sleep(1)
        assert await house.starts_before_the_one(scheduler) > 1_000

    house.play(scene, crash_after=True)
