"""Breakers and retry budgets in a whole scheduler: storms stay small, nobody is lost, and it can be seen afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta

import pytest

from tests.simulation.helpers import STORES, SlowStore, Stage
from timewheel import Breaker, Dependency, InvalidOption, JournalUnknown, Queue, Retry, RetryBudget, Throttled, current
from timewheel.dispatch.breaker import BreakerState
from timewheel.events import BreakerChanged
from timewheel.model import JobState
from timewheel.store.changes import AddEntry, SaveLimits
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

RETRY = Retry(max_attempts=1_000, base_s=1, cap_s=60)


class Target(Stage):
    """A stage with a dependency that is called by the task `call(tag)`: `answer()` may raise, and takes 50 ms."""

    def __init__(self, machine=None, store=None, *, dependencies=None, retry=RETRY, **options):
        super().__init__(machine, store, dependencies=dependencies or {}, **options)
        self.retry = retry
        self.calls_s = []
        self.at_once = self.most_at_once = 0
        self.broken_s = lambda: False
        self.throttled_s = lambda: 0

    async def call(self, tag):
        self._enter(tag)
        self.calls_s.append(self.elapsed_s)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.05)  # virtual
        finally:
            self.at_once -= 1
        if self.broken_s():
            raise ConnectionError("down")
        if wait_s := self.throttled_s():
            raise Throttled("slow down", retry_after_s=wait_s)

    def scheduler(self):
        scheduler = super().scheduler()
        scheduler.task(name="call", dependency="target", retry=self.retry)(self.call)
        return scheduler

    def play(self, scene, *, crash_after=False):
        self.at_once = 0
        return super().play(scene, crash_after=crash_after)

    def states(self):
        return Counter(job.state for job in self.dump()["jobs"].values())

    def within(self, since_s, until_s):
        """How often it was called then."""
        return sum(since_s <= at < until_s for at in self.calls_s)


async def jobs(scheduler, count, queue="default"):
    maker = scheduler.options(queue=queue)
    return await maker.at_many(maker.new(timedelta(0), "call", number) for number in range(count))


def test_a_storm_stays_small_and_everybody_completes():
    """2,000 jobs on one dependency that fails for a minute, throttles for another, and recovers.

    The bounds: before it opens, as many calls as run at once and fail (20 + 5). In the minute of failures one probe
    each 30 s. Of throttlings, one for each Retry-After (10 s). When it is well, at most 100 calls a second come back,
    and a few from retries that wait for their own back-off.
    """
    machine = VirtualMachine(seed=1, shuffle=True)
    target = Target(machine, SlowStore(MemoryStore(), 1, commit_s=0.01), concurrency=20)
    began = target.elapsed_s
    target.broken_s = lambda: target.elapsed_s - began < 60
    target.throttled_s = lambda: 10 if target.elapsed_s - began < 120 else 0
    histories = []

    async def scene(scheduler):
        await jobs(scheduler, 2_000)
        await machine.sleep(90)
        state = scheduler.dependency("target").state()
        assert state.breaker in (BreakerState.OPEN, BreakerState.HALF_OPEN)
        assert state.waiting > 1_900
        await machine.sleep(210)
        histories.append(await scheduler.dependency("target").history())

    target.play(scene, crash_after=True)
    first = target.within(began, began + 5)
    assert 5 <= first <= 25
    assert target.within(began + 5, began + 60) <= 2
    assert 1 <= target.within(began + 60, began + 120) <= 8
    seconds = Counter(int(at) for at in target.calls_s if at > began + 120)
    assert max(seconds.values()) <= 100 + 20
    assert target.states() == {JobState.COMPLETED: 2_000}, "all complete, nothing is dead"
    assert len(target.calls_s) <= 2_000 + 40
    check_dump(target.dump())
    [history] = histories
    assert (history[0].after, history[-1].after) == (BreakerState.CLOSED, BreakerState.OPEN)
    assert "attempts failed" in history[-1].reason
    assert any(event.reason == "it was throttled" for event in history)
    assert len(target.noticed(BreakerChanged)) == len(history)


def test_without_a_breaker_the_same_is_a_storm():
    """What the test above would see if nothing were there: it can fail."""
    target = Target(concurrency=20, dependencies={"target": Dependency(breaker=None)})
    target.broken_s = lambda: True

    async def scene(scheduler):
        await jobs(scheduler, 300)
        await target.machine.sleep(60)

    target.play(scene, crash_after=True)
    assert len(target.calls_s) > 600


@pytest.mark.parametrize("store", STORES)
def test_what_is_open_is_open_after_a_crash_and_spends_no_attempts(store):
    target = Target(store=STORES[store](), concurrency=10)
    target.broken_s = lambda: True
    opened = []

    async def fail(scheduler):
        await jobs(scheduler, 50)
        await target.machine.sleep(3)
        opened.append(len(target.calls_s))
        assert opened[0] <= 15

    async def rest(scheduler):
        await target.machine.sleep(5)
        assert len(target.calls_s) == opened[0]
        assert scheduler.dependency("target").state().breaker is BreakerState.OPEN
        target.broken_s = lambda: False
        await target.machine.sleep(60)
        assert scheduler.dependency("target").state().breaker is BreakerState.CLOSED
        assert "breaker\ntarget" not in await target.store.limits(), "what is closed is forgotten"

    target.play(fail, crash_after=True)
    assert sum(job.failures for job in target.dump()["jobs"].values()) == opened[0]
    target.play(rest)
    assert target.states() == {JobState.COMPLETED: 50}


def test_half_open_lets_probes_through_and_no_more():
    target = Target(concurrency=20, dependencies={"target": Dependency(breaker=Breaker(probes=2, open_s=10))})
    target.broken_s = lambda: True

    async def scene(scheduler):
        await jobs(scheduler, 100)
        await target.machine.sleep(5)
        target.most_at_once = 0
        await target.machine.sleep(60)

    target.play(scene, crash_after=True)
    assert target.most_at_once <= 2
    assert 5 <= target.within(target.calls_s[0] + 5, 10**12) <= 2 * 7


def test_a_person_opens_closes_and_leaves_it_alone(caplog):
    target = Target(concurrency=5)

    async def stop(scheduler):
        await scheduler.dependency("target").force_open("maintenance")
        await jobs(scheduler, 30)
        await target.machine.sleep(30)
        assert not target.calls_s

    async def go(scheduler):
        dependency = scheduler.dependency("target")
        await target.machine.sleep(5)
        assert not target.calls_s, "over a restart, too"
        assert dependency.state().breaker is BreakerState.FORCED_OPEN
        target.broken_s = lambda: True
        await dependency.force_closed()
        await target.machine.sleep(120)
        assert len(target.calls_s) > 60, "however many fail"
        await dependency.auto()
        assert dependency.state().breaker is BreakerState.CLOSED
        await target.machine.sleep(70)
        assert dependency.state().breaker is not BreakerState.CLOSED
        target.broken_s = lambda: False
        await target.machine.sleep(200)

    with caplog.at_level(logging.INFO, "timewheel"):
        target.play(stop, crash_after=True)
        target.play(go)
    assert "target is FORCED_OPEN: maintenance" in caplog.text
    assert target.states() == {JobState.COMPLETED: 30}


def kind_of(change):
    return change.kind if isinstance(change, AddEntry) else None


class Told(MemoryStore):
    """Remembers what is written together."""

    def __init__(self):
        super().__init__()
        self.batches = []

    async def commit(self, changes, stamp):
        self.batches.append([*changes])
        return await super().commit(changes, stamp)


def test_a_force_is_written_at_once_with_its_history_and_the_audit():
    target = Target(store=Told())

    async def scene(scheduler):
        dependency = scheduler.dependency("target")
        await dependency.force_open("maintenance", actor="ada")
        [batch] = [changes for changes in target.store.batches if "audit" in map(kind_of, changes)]
        assert [*filter(None, map(kind_of, batch))] == ["breaker", "audit"]
        assert any("breaker\ntarget" in each.values for each in batch if isinstance(each, SaveLimits))
        await dependency.auto("done")
        await dependency.auto("nothing to do")

    async def look(scheduler):
        told = [(one.action, one.dependency, one.actor, one.reason) for one in await scheduler.audit()]
        assert told == [("auto", "target", None, "done"), ("force_open", "target", "ada", "maintenance")]
        for said in ({"actor": ""}, {"reason": ""}, {"reason": 5}):
            with pytest.raises(InvalidOption, match=next(iter(said))):
                await scheduler.dependency("target").force_open(**said)
        assert scheduler.dependency("target").state().breaker is BreakerState.CLOSED

    target.play(scene, crash_after=True)
    target.play(look)


def test_what_runs_when_it_opens_goes_on_and_what_is_claimed_is_given_back():
    """Jobs of other tasks and dependencies never notice."""
    target = Target(concurrency=10)

    async def scene(scheduler):
        await jobs(scheduler, 30)
        await target.machine.sleep(0.01)
        await scheduler.dependency("target").force_open()
        await scheduler.now("note", "other")
        await target.machine.sleep(2)
        assert len(target.calls_s) <= 20
        assert "other" in target.tags()
        await scheduler.dependency("target").auto()
        await target.machine.sleep(70)

    target.play(scene)
    assert target.states() == {JobState.COMPLETED: 31}
    assert all(job.failures == 0 for job in target.dump()["jobs"].values())


# ---- budgets ---------------------------------------------------------------------------------------------------------

BUDGET = RetryBudget(share=0.2, window_s=10, at_least=3)
OF_A_QUEUE = {"queues": {"default": Queue(retry_budget=BUDGET)}, "dependencies": {"target": Dependency(breaker=None)}}
OF_IT = {"dependencies": {"target": Dependency(breaker=None, retry_budget=BUDGET)}}


@pytest.mark.parametrize("options", [OF_A_QUEUE, OF_IT], ids=["queue", "dependency"])
def test_retries_are_a_share_of_the_starts_and_wait_visibly(options):
    machine = VirtualMachine(seed=3, shuffle=True)
    target = Target(machine, SlowStore(MemoryStore(), 3, commit_s=0.01), concurrency=20, **options)
    target.broken_s = lambda: True
    waited = []

    async def scene(scheduler):
        for _ in range(30):
            await jobs(scheduler, 3)
            await machine.sleep(1)
        of_it = scheduler.dependency("target").state().retries_waiting
        waited.append(of_it if options is OF_IT else scheduler.queue("default").retries_waiting())
        target.broken_s = lambda: False
        await machine.sleep(500)

    target.play(scene)
    starts = sorted((start.elapsed_s, start.attempt > 1) for start in target.diary)
    for at, is_retry in starts:
        if is_retry:
            window = [again for then, again in starts if at - 10 <= then <= at]
            same = sum((at, True) == each for each in starts) - 1  # which of them came first is not known here
            assert sum(window) - same <= 0.2 * len(window) + 3
    assert target.states() == {JobState.COMPLETED: 90}
    assert waited[0] > 40


def test_a_budget_that_is_set_at_run_time_holds_at_once():
    target = Target(concurrency=20, dependencies={"target": Dependency(breaker=None)})
    target.broken_s = lambda: True

    async def scene(scheduler):
        await jobs(scheduler, 40)
        await target.machine.sleep(0.5)
        await scheduler.queue("default").update(retry_budget=RetryBudget(share=0, window_s=60, at_least=4))
        await target.machine.sleep(50)
        assert len(target.calls_s) == 44
        await scheduler.queue("default").update()
        await target.machine.sleep(100)
        assert len(target.calls_s) > 80

    target.play(scene, crash_after=True)


def test_a_dependency_without_a_breaker_says_so():
    target = Target(dependencies={"target": Dependency(breaker=None)})

    async def scene(scheduler):
        assert scheduler.dependency("target").state().breaker is None
        with pytest.raises(InvalidOption, match="has no breaker"):
            await scheduler.dependency("target").force_open()
        with pytest.raises(InvalidOption, match="dependency"):
            scheduler.dependency("")
        assert await scheduler.dependency("elsewhere").history() == []

    target.play(scene)


@pytest.mark.parametrize("value", [5, {"a": 5}, {5: Dependency()}, {"": Dependency()}])
def test_dependencies_are_checked_where_they_are_given(value):
    with pytest.raises(InvalidOption, match="dependencies"):
        Stage(dependencies=value).scheduler()


# ---- over crashes and faults -----------------------------------------------------------------------------------------


class Watched(Target):
    """A target whose breaker is looked at by each call, as it begins."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.calls = []  # (steady us, state, until): of the breaker as each began

    async def call(self, tag):
        engine = current().scheduler._engine
        breaker = engine.guards.of("target").breaker
        self.calls.append((engine.now().steady_us, breaker.state, breaker.until_us))
        await super().call(tag)


@pytest.mark.parametrize("seed", range(6))
def test_nobody_calls_while_it_is_open_whatever_crashes_and_fails(seed):
    """Lives of some seconds, with commits of unknown outcome; the dependency is down, slow or well by chance."""
    machine = VirtualMachine(seed=seed, shuffle=True)
    chance = machine.random
    faults = {
        number: (JournalUnknown("who knows", path="memory"), chance.random() < 0.5) for number in range(40, 4_000, 151)
    }
    settings = Dependency(breaker=Breaker(failures=2, open_s=3, probes=2), retry_budget=RetryBudget(at_least=30))
    target = Watched(
        machine,
        SlowStore(MemoryStore(), seed, commit_s=0.02, faults=faults),
        concurrency=8,
        retry=Retry(max_attempts=1_000, base_s=0.1, cap_s=5),
        dependencies={"target": settings},
    )
    mood = ["well"]
    target.broken_s = lambda: mood[0] == "down"
    target.throttled_s = lambda: 2 if mood[0] == "slow" else 0

    async def live(scheduler):
        await scheduler.at_many(scheduler.new(timedelta(0), "call", number) for number in range(20))
        for _ in range(5):
            mood[0] = chance.choice(["well", "down", "slow"])
            await machine.sleep(chance.random() * 4)

    async def end(_):
        mood[0] = "well"
        await machine.sleep(300)

    for _ in range(6):
        target.play(live, crash_after=True)
    target.play(end)
    closed = {BreakerState.CLOSED, BreakerState.HALF_OPEN}
    for at_us, state, until_us in target.calls:  # one that passed the gate in the very turn that opened it may be late
        assert state in closed or until_us - at_us >= 1_900_000, "it had just been opened"
    states = Counter(state for _, state, _ in target.calls)
    assert states[BreakerState.OPEN] <= 8 * 6
    assert states[BreakerState.HALF_OPEN] > 0
    assert target.states() == {JobState.COMPLETED: 6 * 20}
    check_dump(target.dump())
