"""All stores side by side, whatever befalls them, and the laws of a journal after every step.

Equal outcomes and equal dumps are asked of all stores. What they tell must keep the laws (`invariants`, `outcomes`,
`answers` and `recoveries` of `timewheel.testing`), since stores that agree may all be wrong.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests import databases
from tests.conformance.batches import BatchMaker
from tests.conformance.factories import FACTORIES
from tests.conformance.flow_batches import LIMITS
from tests.conformance.schedule_batches import SCHEDULES, TASKS
from tests.conformance.seen import note_batch
from timewheel.model import SECOND_US, Now
from timewheel.store.changes import KEY_KEEPING_US, TakeOver
from timewheel.testing.answers import check_claims, check_reads, pages_rebuild_the_same
from timewheel.testing.answers_schedules import ledger_of
from timewheel.testing.builders import START, later, owner, put_schedule, settle_lost, stamp
from timewheel.testing.invariants import check_dump, check_step, demand, nothing_changed
from timewheel.testing.invariants_schedules import nobody_waits_in_vain
from timewheel.testing.outcomes import Step, check_outcomes

SEEDS = st.integers(0, 1 << 32)  # of batches: drawing each part of them by itself takes most of the time


def by_name(outcome, lanes):
    """An outcome with the names of lanes in place of their numbers, which each store gives as it likes."""
    if hasattr(outcome, "lane"):
        return outcome._replace(lane=lanes.get(outcome.lane))
    if hasattr(outcome, "place"):
        return outcome._replace(place=outcome.place and (lanes[outcome.place[0]], outcome.place[1]))
    if hasattr(outcome, "places"):
        return outcome._replace(places=[(lanes[lane], *place) for lane, *place in outcome.places])
    if hasattr(outcome, "jobs"):
        jobs, asked = ([by_name(job, lanes) for job in some] for some in (outcome.jobs, outcome.asked))
        return outcome._replace(jobs=jobs, asked=asked)
    return outcome


class StoreMachine(RuleBasedStateMachine):
    """Drives every store of `factories` alike. A rule acts and says what must hold; the laws look after it."""

    factories = FACTORIES
    seen: ClassVar[Counter[str]] = Counter()
    """What was drawn, over all runs: see `tests.conformance.seen`."""

    def __init__(self):
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = Path(tempfile.mkdtemp())
        self._stores = {}
        self._now, self._boot_us = START, 0
        self._epoch = 0
        self._next_id = 0
        self._dump = {}
        self._laws = []  # of the last rule: called with the dump before and the dump after it
        self._shown = []  # open attempts of former owners, as they were when the last one began

    def teardown(self):
        self._runner.run(self._close())
        self._runner.close()
        databases.close_all()
        shutil.rmtree(self._folder)

    async def _close(self):
        for store in self._stores.values():
            await store.close()

    @initialize(seed=SEEDS)
    def start(self, seed):
        """A journal in which there is something to act on."""
        self._runner.run(self._start())
        self._runner.run(self._commit([put_schedule(name) for name in SCHEDULES]))
        self.the_laws_hold()
        for more in range(3):
            self._runner.run(self._commit(self._drawn(seed + more, 12, 20)))
            self.the_laws_hold()
            self._now = later(1, self._now)  # so that some have ended before now

    async def _start(self):
        for name, hooks in self.factories.items():
            folder = self._folder / name
            folder.mkdir()
            self._stores[name] = await hooks.fresh(folder)
        await self._own()
        self._dump = await self._agreed_dump()

    # ---- batches -----------------------------------------------------------------------------------------------------

    @rule(seed=SEEDS)
    def commit_few(self, seed):
        self._runner.run(self._commit(self._drawn(seed, 1, 4)))

    @rule(seed=SEEDS)
    def commit_some(self, seed):
        self._runner.run(self._commit(self._drawn(seed, 5, 14)))

    @rule(seed=SEEDS)
    def commit_many(self, seed):
        self._runner.run(self._commit(self._drawn(seed, 14, 28)))

    def _drawn(self, seed, least, most):
        maker = BatchMaker(seed, self._dump, self._now, self._next_id)
        changes = maker.batch(least, most)
        self._next_id = maker.next_id
        note(f"  a batch: {changes}")
        return changes

    async def _commit(self, changes):
        outcomes = {}
        for name, store in self._stores.items():
            outcomes[name] = await self._named(store, await store.commit(changes, self._stamp))
        self._agreed({name: [type(outcome) for outcome in told] for name, told in outcomes.items()})  # tuples are equal
        self._expect_outcomes(changes, self._agreed(outcomes))

    async def _named(self, store, outcomes):
        lanes = {lane.number: tuple(lane[1:]) for lane in await store.lanes()}
        return [by_name(outcome, lanes) for outcome in outcomes]

    def _expect_outcomes(self, changes, outcomes):
        note_batch(self.seen, changes, outcomes)
        at = self._stamp

        def law(before, after):
            check_step(before, after, letters=True)
            check_claims(changes, outcomes, after, at)
            check_outcomes(Step(before, changes, outcomes, after, at))

        self._laws.append(law)

    @rule()
    def whoever_may_goes_on(self):
        """I29: as a new owner does it."""
        self._runner.run(self._commit([TakeOver(everything=True, key_limits=LIMITS)]))
        self._laws.append(lambda _, after: nobody_waits_in_vain(after))

    # ---- time --------------------------------------------------------------------------------------------------------

    @rule(
        us=st.sampled_from([1, 20_000, SECOND_US, 60 * SECOND_US, KEY_KEEPING_US - 1, KEY_KEEPING_US]),
        step_us=st.sampled_from([0, 0, 0, -KEY_KEEPING_US, -SECOND_US, SECOND_US]),
    )
    def time_passes(self, us, step_us):
        wall_us, steady_us = later(us, self._now)
        self._now, self._boot_us = Now(max(wall_us + step_us, SECOND_US), steady_us), self._boot_us + us
        self._laws.append(nothing_changed)

    # ---- what a recovery read long ago -------------------------------------------------------------------------------

    @rule()
    def it_writes_what_it_read(self):
        """I24: meanwhile each may have been settled, and be SCHEDULED, ACTIVE again or final."""
        if self._shown:
            shown, self._shown = self._shown, []
            self.seen["reaped what was read before"] += 1
            losses = [
                settle_lost(
                    job.job_id,
                    job.losses + 1,
                    attempt=attempt.number,
                    claim_epoch=attempt.epoch,
                    due_at=self._now.steady_us,
                    failures=job.failures,
                )
                for job, attempt in shown
            ]
            self._runner.run(self._commit(losses))

    # ---- reads -------------------------------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 4), until_us=st.sampled_from([-SECOND_US, 0, 1, SECOND_US, 1 << 60]))
    def read(self, limit, until_us):
        self._runner.run(self._look_at_reads(limit, self._now.wall_us + until_us))

    async def _look_at_reads(self, limit, until_us):
        stories = {}
        for name, store in self._stores.items():
            await check_reads(store, self._dump, self._epoch)
            await pages_rebuild_the_same(store, limit, until_us)
            depths = [(depth.lane[1:], *depth[1:]) for depth in await store.depths(self._now)]
            stories[name] = (
                sorted(depths),
                await store.fullest_second(self._now, 60 * SECOND_US),
                [entry[1:] for entry in await store.entries()],
                [[entry[1:] for entry in await ledger_of(store, name, 10_000)] for name in SCHEDULES],
            )
        self._agreed(stories)
        self._laws.append(nothing_changed)

    # ---- laws --------------------------------------------------------------------------------------------------------

    @invariant()
    def the_laws_hold(self):
        self._runner.run(self._look())

    async def _look(self):
        before, self._dump = self._dump, await self._agreed_dump()
        laws, self._laws = self._laws, []
        for law in laws:
            law(before, self._dump)

    async def _agreed_dump(self):
        dumps = {name: await store.dump() for name, store in self._stores.items()}
        first, *others = dumps.values()
        for other in others:
            nothing_changed(first, other)
        check_dump(first, LIMITS)
        return first

    def _agreed(self, by_store):
        """What all stores say alike."""
        (first, told), *others = by_store.items()
        for name, other in others:
            assert other == told, f"{name} differs from {first}"
        return told

    async def _own(self):
        """Every store begins the next epoch."""
        granted = {}
        for name, store in self._stores.items():
            granted[name] = await store.own(owner(f"boot-{self._epoch}"))
        ownership = self._agreed(granted)
        demand(ownership.epoch > self._epoch, "I22", "an epoch that is not newer", ownership, self._epoch)
        self._epoch = ownership.epoch
        shown = {}
        for name, store in self._stores.items():
            shown[name] = await store.open_attempts(below_epoch=self._epoch, after=0, limit=1000)
        self._shown = self._agreed(shown)

    @property
    def _stamp(self):
        return stamp(self._epoch, self._now, self._boot_us)


ALL_TASKS = st.lists(st.sampled_from(TASKS), unique=True).map(tuple)
