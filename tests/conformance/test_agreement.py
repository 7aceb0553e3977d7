"""All stores side by side under the same random batches: equal outcomes, equal dumps, and an oracle beside them.

Agreement alone is no proof: `timewheel.testing.invariants` checks every dump.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.conformance.batches import BatchMaker
from tests.conformance.factories import FACTORIES
from timewheel.errors import NotOwner
from timewheel.model import SECOND_US, Now
from timewheel.store.changes import KEY_KEEPING_US
from timewheel.testing.answers import check_claims, check_reads
from timewheel.testing.builders import START, later, owner, stamp
from timewheel.testing.invariants import check_dump, check_step


def by_name(outcome, lanes):
    """An outcome with the names of lanes in place of their numbers, which each store gives as it likes."""
    if hasattr(outcome, "lane"):
        return outcome._replace(lane=lanes.get(outcome.lane))
    if hasattr(outcome, "places"):
        return outcome._replace(places=[(lanes[lane], *place) for lane, *place in outcome.places])
    if hasattr(outcome, "jobs"):
        return outcome._replace(jobs=[by_name(job, lanes) for job in outcome.jobs])
    return outcome


class StoreAgreement(RuleBasedStateMachine):
    """Drives every store of `factories` alike."""

    def __init__(self, factories=None):
        super().__init__()
        self._factories = factories or FACTORIES
        self._runner = asyncio.Runner()
        self._folder = Path(tempfile.mkdtemp())
        self._stores = {}
        self._now, self._boot_us = START, 0
        self._epochs = {}
        self._next_id = 0
        self._dump = {}

    def teardown(self):
        self._runner.run(self._close())
        self._runner.close()
        shutil.rmtree(self._folder)

    async def _close(self):
        for store in self._stores.values():
            await store.close()

    # ---- rules -------------------------------------------------------------------------------------------------------

    @initialize()
    def start(self):
        self._runner.run(self._start())

    async def _start(self):
        for name, hooks in self._factories.items():
            folder = self._folder / name
            folder.mkdir()
            self._stores[name] = await hooks.fresh(folder)
        await self._own()
        self._dump = await self._agreed_dump()

    @rule(data=st.data())
    def commit_few(self, data):
        self._commit_drawn(data, 1, 3)

    @rule(data=st.data())
    def commit_some(self, data):
        self._commit_drawn(data, 4, 10)

    @rule(data=st.data())
    def commit_many(self, data):
        self._commit_drawn(data, 10, 20)

    def _commit_drawn(self, data, least, most):
        maker = BatchMaker(data.draw, self._dump, self._now, self._next_id)
        changes = maker.batch(least, most)
        self._next_id = maker.next_id
        self._runner.run(self._commit(changes))

    async def _commit(self, changes):
        outcomes = {}
        for name, store in self._stores.items():
            written = await store.commit(changes, self._stamp(name))
            lanes = {lane.number: (lane.queue, lane.priority, lane.clock) for lane in await store.lanes()}
            outcomes[name] = [by_name(outcome, lanes) for outcome in written]
        agreed = self._agreed(outcomes)
        before, self._dump = self._dump, await self._agreed_dump()
        check_step(before, self._dump)
        check_claims(changes, agreed, self._dump, self._stamp(next(iter(self._stores))))

    @rule(data=st.data(), off=st.sampled_from([-1, 1]))
    def write_under_another_epoch(self, data, off):
        changes = BatchMaker(data.draw, self._dump, self._now, self._next_id + 1000).batch(1, 5)
        self._runner.run(self._write_under_another_epoch(changes, off))

    async def _write_under_another_epoch(self, changes, off):
        for name, store in self._stores.items():
            with pytest.raises(NotOwner):
                await store.commit(changes, stamp(self._epochs[name] + off, self._now))
        assert await self._agreed_dump() == self._dump

    @rule(
        us=st.sampled_from([1, 20_000, SECOND_US, 60 * SECOND_US, KEY_KEEPING_US - 1, KEY_KEEPING_US]),
        step_us=st.sampled_from([0, 0, 0, -KEY_KEEPING_US, -SECOND_US, SECOND_US]),
    )
    def time_passes(self, us, step_us):
        wall_us, steady_us = later(us, self._now)
        self._now, self._boot_us = Now(max(wall_us + step_us, SECOND_US), steady_us), self._boot_us + us

    @rule(dies=st.booleans())
    def the_owner_dies_or_reopens(self, dies):
        self._runner.run(self._the_owner_dies() if dies else self._the_owner_reopens())

    async def _the_owner_dies(self):
        for name, store in list(self._stores.items()):
            self._stores[name] = await self._factories[name].crashed(store)
        assert await self._agreed_dump() == self._dump
        await self._own()
        assert await self._agreed_dump() == self._dump

    async def _the_owner_reopens(self):
        for store in self._stores.values():
            await store.reopen()
        assert await self._agreed_dump() == self._dump

    @rule()
    def read(self):
        self._runner.run(self._read())

    async def _read(self):
        stories = {}
        for name, store in self._stores.items():
            await check_reads(store, self._dump, self._epochs[name])
            depths = [(depth.lane[1:], *depth[1:]) for depth in await store.depths(self._now)]
            stories[name] = (
                sorted(depths),
                await store.fullest_second(self._now, 60 * SECOND_US),
                [entry[1:] for entry in await store.entries()],
            )
        self._agreed(stories)

    # ---- agreement ---------------------------------------------------------------------------------------------------

    async def _own(self):
        anchors = {}
        for name, store in self._stores.items():
            ownership = await store.own(owner(f"boot-{self._epochs.get(name, 0)}"))
            assert ownership.epoch > self._epochs.get(name, 0)
            self._epochs[name], anchors[name] = ownership
        self._agreed(anchors)

    def _stamp(self, name):
        return stamp(self._epochs[name], self._now, self._boot_us)

    def _agreed(self, by_store):
        """What all stores say alike."""
        (first, told), *others = by_store.items()
        for name, other in others:
            assert other == told, f"{name} differs from {first}"
        return told

    async def _agreed_dump(self):
        dump = self._agreed({name: await store.dump() for name, store in self._stores.items()})
        check_dump(dump)
        return dump


TestAgreement = StoreAgreement.TestCase
TestAgreement.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
