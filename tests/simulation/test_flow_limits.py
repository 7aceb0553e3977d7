"""Rates and concurrency of tasks and keys in a whole scheduler (I17, I18), also over crashes; what follows from it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta

import pytest

from tests.property.test_admission import check_windows
from tests.simulation.helpers import SlowStore, Stage
from tests.simulation.test_limits import check_rate
from timewheel import Queue, Rate, Unique, current
from timewheel.events import JobsEnded
from timewheel.model import SECOND_US, JobState
from timewheel.store.changes import Claimed, Defer
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore


class CountingStore:
    """Another store, and how often jobs were deferred, claimed and released in it."""

    def __init__(self, inner):
        self.inner = inner
        self.deferred = Counter()
        self.claimed = Counter()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def commit(self, changes, stamp):
        outcomes = await self.inner.commit(changes, stamp)
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(change, Defer):
                self.deferred.update(row[0] for row in change.rows)
            elif isinstance(outcome, Claimed):
                self.claimed.update(job.job_id for job in outcome.jobs)
        return outcomes


class Floor(Stage):
    """A stage with a task `work(tag, seconds, marks)` declared with `declared`: who runs is counted by each mark."""

    def __init__(self, declared, machine=None, store=None, **options):
        super().__init__(machine, store, **options)
        self.declared = declared
        self.at_work = Counter()
        self.most_at_work = Counter()
        self.starts_s = defaultdict(list)  # by mark

    async def work(self, tag, seconds=0.0, marks=()):
        self._enter(tag)
        for mark in ("all", *marks):
            self.starts_s[mark].append(self.elapsed_s)
            self.at_work[mark] += 1
            self.most_at_work[mark] = max(self.at_work[mark], self.most_at_work[mark])
        try:
            await asyncio.sleep(seconds)  # virtual
        finally:
            self.at_work.subtract(("all", *marks))

    def scheduler(self):
        scheduler = super().scheduler()
        scheduler.task(name="work", **self.declared)(self.work)
        return scheduler

    def play(self, scene, *, crash_after=False):
        self.at_work.clear()
        return super().play(scene, crash_after=crash_after)

    async def now(self):
        """The states of all jobs at present."""
        return Counter(job.state for job in (await self.store.dump())["jobs"].values())

    def states(self):
        return Counter(job.state for job in self.dump()["jobs"].values())


def slow(seed, commit_s=0.01):
    machine = VirtualMachine(seed=seed, shuffle=True)
    return machine, SlowStore(MemoryStore(), seed, commit_s=commit_s)


# ---- rates -----------------------------------------------------------------------------------------------------------

RATES = [Rate(5), Rate(3, burst=4), Rate(1, per_s=0.7, burst=2), Rate(40, burst=10)]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("commit_s", [0, 0.01])
def test_i17_a_rate_of_a_task_holds_in_every_window_and_is_used(rate, commit_s):
    floor = Floor({"rate": rate}, *slow(1, commit_s))

    async def scene(scheduler):
        await scheduler.at_many(scheduler.new(timedelta(0), "work", number) for number in range(60))
        await floor.machine.sleep(60 * rate.per_s / rate.count + 2)

    floor.play(scene)
    check_rate([start.elapsed_s for start in floor.diary], rate)
    assert len(floor.diary) == 60, "and all that is allowed is used"


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_i17_rates_of_tasks_and_keys_hold_over_crashes(rate):
    for seed in range(4):
        floor = Floor({"key_rate": rate, "rate": Rate(100, burst=50)}, *slow(seed))

        async def fill(scheduler):
            for key in "xy":
                for number in range(30):
                    await scheduler.options(rate_key=key).now("work", number, 0, [key])

        async def live(_, floor=floor):
            await floor.machine.sleep(floor.machine.random.random() * 8 * rate.per_s / rate.count)

        floor.play(fill, crash_after=True)
        for _ in range(8):
            floor.play(live, crash_after=True)
        floor.play(lambda _, floor=floor: floor.machine.sleep(120 * rate.per_s / rate.count + 1))
        for key in "xy":
            check_rate(floor.starts_s[key], rate)
        check_rate(floor.starts_s["all"], Rate(100, burst=50))
        assert floor.states() == {JobState.COMPLETED: 60}
        check_dump(floor.dump())


def test_each_key_has_a_rate_of_its_own_and_jobs_without_one_are_free():
    floor = Floor({"key_rate": Rate(1)})

    async def scene(scheduler):
        for number in range(5):
            for key in "xy":
                await scheduler.options(rate_key=key).now("work", number, 0, [key])
            await scheduler.now("work", number, 0, ["free"])
        await floor.machine.sleep(0.1)
        assert len(floor.starts_s["free"]) == 5
        assert len(floor.starts_s["x"]) == len(floor.starts_s["y"]) == 1
        await floor.machine.sleep(4)

    floor.play(scene)
    for key in "xy":
        assert [round(start, 2) for start in floor.starts_s[key]] == [0, 1, 2, 3, 4]


def test_a_cost_takes_so_many_tokens():
    floor = Floor({"key_rate": Rate(10, burst=10)})

    async def scene(scheduler):
        for number, cost in enumerate([10, 5, 1, 10]):
            await scheduler.options(rate_key="x", cost=cost).now("work", number)
        await floor.machine.sleep(5)

    floor.play(scene)
    assert [(start.tag, round(start.elapsed_s, 2)) for start in floor.diary] == [(0, 0), (1, 0.5), (2, 0.6), (3, 1.6)]


def test_the_strictest_of_several_rates_holds():
    floor = Floor({"rate": Rate(10), "key_rate": Rate(5)}, queues={"default": Queue(key_rate=Rate(2), rate=Rate(50))})

    async def scene(scheduler):
        for number in range(10):
            await scheduler.options(rate_key="x").now("work", number, 0, ["x"])
            await scheduler.options(rate_key="x", queue="other").now("work", number, 0, ["other"])
        await floor.machine.sleep(8)

    floor.play(scene)
    check_rate(floor.starts_s["all"], Rate(5))
    check_rate(floor.starts_s["x"], Rate(2))
    assert len(floor.starts_s["all"]) == 20


@pytest.mark.parametrize(
    ("jobs", "commit_s", "more"),
    [(1_500, 0, 0), (1_500, 0.02, 0), pytest.param(10_000, 0.02, 20, marks=pytest.mark.slow)],
)
def test_many_jobs_of_one_key_cost_about_two_moves_each(jobs, commit_s, more):
    """`more`: moves in all beyond two a job; in a long run a few jobs come late behind a slow commit."""
    machine, inner = slow(2, commit_s)
    store = CountingStore(inner)
    floor = Floor({"key_rate": Rate(100, burst=10)}, machine, store)

    async def scene(scheduler):
        keyed = scheduler.options(rate_key="x")
        await scheduler.at_many(keyed.new(timedelta(0), "work", number) for number in range(jobs))
        await machine.sleep(jobs / 100 + 2)

    floor.play(scene)
    assert floor.states() == {JobState.COMPLETED: jobs}, "and the rate is used"
    assert store.deferred.total() <= 2 * jobs + more
    assert store.claimed.total() <= jobs * 1.01, "and next to none is claimed in vain"
    check_windows([(round(start.elapsed_s * SECOND_US), 1) for start in floor.diary], Rate(100, burst=10))


def test_a_key_rate_that_is_set_at_run_time_holds_from_then_on_and_is_lifted():
    floor = Floor({})

    async def scene(scheduler):
        keyed = scheduler.options(rate_key="x")
        await scheduler.queue("default").update(key_rate=Rate(1))
        for number in range(20):
            await keyed.now("work", number)
        await floor.machine.sleep(4.5)
        assert len(floor.diary) == 5
        await scheduler.queue("default").update(key_rate=None)
        late = await keyed.now("work", "late")
        await floor.machine.sleep(0.1)
        assert (await late.refresh()).state == "COMPLETED"
        await floor.machine.sleep(20)

    floor.play(scene)
    assert floor.states() == {JobState.COMPLETED: 21}


def test_a_queue_that_is_paused_lets_nobody_overtake_and_goes_on():
    floor = Floor({"rate": Rate(10)})

    async def scene(scheduler):
        await scheduler.at_many(scheduler.new(timedelta(0), "work", number) for number in range(20))
        await floor.machine.sleep(0.5)
        await scheduler.queue("default").pause()
        await floor.machine.sleep(30)
        assert len(floor.diary) <= 7
        await scheduler.queue("default").resume()
        await floor.machine.sleep(2.5)

    floor.play(scene)
    check_rate(floor.starts_s["all"], Rate(10))
    assert len(floor.diary) == 20


def test_what_is_idle_is_not_kept_in_the_journal():
    floor = Floor({"key_rate": Rate(10)})

    async def scene(scheduler):
        for number in range(100):
            await scheduler.options(rate_key=f"key {number}").now("work", number)
            await floor.machine.sleep(0.2)
        assert len(await floor.store.limits()) < 20

    floor.play(scene)


# ---- concurrency -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_i18_no_more_jobs_of_a_task_run_than_may_and_no_slot_stays_empty(seed):
    floor = Floor({"concurrency": 3}, *slow(seed, 0.02))

    async def scene(scheduler):
        for number in range(60):
            await scheduler.options(queue="ab"[number % 2]).after(number / 60, "work", number, 1)
            await scheduler.now("note", "free")
        await floor.machine.sleep(0.2)
        assert floor.tags().count("free") == 60, "others do not wait"
        await floor.machine.sleep(24)

    floor.play(scene)
    assert floor.most_at_work["all"] == 3
    assert floor.states()[JobState.COMPLETED] == 120
    check_dump(floor.dump())


def test_i18_slots_of_a_task_over_crashes():
    for seed in range(4):
        floor = Floor({"concurrency": 2}, *slow(seed))

        async def fill(scheduler):
            await scheduler.at_many(scheduler.new(timedelta(0), "work", number, 0.5) for number in range(40))

        async def live(_, floor=floor):
            await floor.machine.sleep(floor.machine.random.random() * 2)

        floor.play(fill, crash_after=True)
        for _ in range(2):
            floor.play(live, crash_after=True)
            check_dump(floor.dump())
        floor.play(lambda _, floor=floor: floor.machine.sleep(14))
        assert floor.most_at_work["all"] == 2
        assert floor.states() == {JobState.COMPLETED: 40}


def test_waiters_of_a_task_start_in_the_order_in_which_they_were_due():
    floor = Floor({"concurrency": 2})

    async def scene(scheduler):
        for number in range(40):
            await scheduler.now("work", number, 0.3)
            await floor.machine.sleep(0.1)
        await floor.machine.sleep(4)

    floor.play(scene)
    assert floor.tags() == list(range(40))


def test_a_paused_queue_does_not_keep_the_slots_of_a_task_from_the_others():
    floor = Floor({"concurrency": 1})

    async def scene(scheduler):
        await scheduler.options(queue="open").now("work", "first", 5)
        await floor.machine.sleep(1)
        for queue in ("held", "open"):
            await scheduler.options(queue=queue).now("work", queue, 1)
        await floor.machine.sleep(1)
        await scheduler.queue("held").pause()
        await floor.machine.sleep(10)
        assert floor.tags() == ["first", "open"]
        await scheduler.queue("held").resume()
        await floor.machine.sleep(1)

    floor.play(scene)
    assert floor.tags() == ["first", "open", "held"]


def test_waiters_of_a_task_that_is_not_limited_any_more_go_on_after_a_restart():
    floor = Floor({"concurrency": 1})

    async def fill(scheduler):
        await scheduler.at_many(scheduler.new(timedelta(0), "work", number, 100) for number in range(20))
        await floor.machine.sleep(5)
        assert await floor.now() == {JobState.ACTIVE: 1, JobState.WAITING: 19}

    floor.play(fill, crash_after=True)
    floor.declared = {}
    floor.play(lambda _: floor.machine.sleep(1), crash_after=True)
    assert floor.most_at_work["all"] == 20


def test_an_end_of_any_kind_frees_the_slot():
    floor = Floor({"concurrency": 1, "retry": None})

    async def scene(scheduler):
        cancelled = await scheduler.now("work", "cancelled", 100)
        timed_out = await scheduler.options(timeout_s=1).now("work", "timed out", 100)
        bad = await scheduler.now("work", "bad", "no number")
        moved = await scheduler.now("work", "moved", 1)
        await scheduler.now("work", "last", 1)
        await floor.machine.sleep(1)
        await moved.reschedule(timedelta(seconds=50))
        await cancelled.cancel()
        await floor.machine.sleep(10)
        assert floor.tags() == ["cancelled", "timed out", "bad", "last"]
        assert [(await job.refresh()).state for job in (cancelled, timed_out, bad)] == ["CANCELLED", "DEAD", "DEAD"]
        await floor.machine.sleep(60)

    floor.play(scene)
    assert floor.tags()[-1] == "moved"


@pytest.mark.parametrize("seed", range(3))
def test_i18_so_many_jobs_of_a_key_run_as_the_strictest_of_task_and_queue_allows(seed):
    floor = Floor(
        {"key_concurrency": 3},
        *slow(seed),
        queues={"narrow": Queue(key_concurrency=2), "wide": Queue(key_concurrency=9)},
    )

    async def scene(scheduler):
        for number in range(30):
            for queue in ("narrow", "wide"):
                keyed = scheduler.options(queue=queue, concurrency_key=queue)
                await keyed.now("work", number, 0.5, [queue])
        await floor.machine.sleep(12)

    floor.play(scene)
    assert floor.most_at_work["narrow"] == 2
    assert floor.most_at_work["wide"] == 3
    assert floor.states() == {JobState.COMPLETED: 60}


def test_more_jobs_of_a_key_run_once_its_queue_allows_more():
    floor = Floor({})

    async def scene(scheduler):
        for number in range(10):
            await scheduler.options(concurrency_key="x").now("work", number, 50)
        await floor.machine.sleep(1)
        assert floor.at_work["all"] == 1
        await scheduler.queue("default").update(key_concurrency=4)
        await floor.machine.sleep(1)
        assert floor.at_work["all"] == 4

    floor.play(scene, crash_after=True)


def test_a_task_that_is_declared_while_the_scheduler_runs_is_limited_from_then_on():
    floor = Floor({})
    late = Counter()

    async def handler():
        late["now"] += 1
        late["most"] = max(late["most"], late["now"])
        assert current().attempt == 1
        await asyncio.sleep(1)  # virtual
        late["now"] -= 1

    async def scene(scheduler):
        scheduler.task(name="late", concurrency=2)(handler)
        for _ in range(10):
            await scheduler.now("late")
        await floor.machine.sleep(6)

    floor.play(scene)
    assert late["most"] == 2
    assert floor.states() == {JobState.COMPLETED: 10}


def test_everything_at_once_leaves_nobody_behind():
    """Rates, slots and keys of one task together, with cancels, pauses, clock steps and crashes in between."""
    for seed in range(4):
        limits = {"rate": Rate(20, burst=3), "concurrency": 3, "key_rate": Rate(8, burst=3), "key_concurrency": 2}
        floor = Floor(limits, *slow(seed, 0.02), concurrency=5)
        chance = floor.machine.random

        async def live(scheduler, floor=floor, chance=chance):
            jobs = []
            for number in range(25):
                key = chance.choice("xy")
                given = {"rate_key": key, "cost": chance.choice([1, 1, 3]), "concurrency_key": key}
                options = scheduler.options(**given) if chance.random() < 0.7 else scheduler
                jobs.append(await options.after(chance.random(), "work", number, chance.random() / 3, [key]))
            for _ in range(6):
                await floor.machine.sleep(chance.random())
                match chance.randrange(4):
                    case 0:
                        await chance.choice(jobs).cancel()
                    case 1:
                        await scheduler.queue("default").pause()
                    case 2:
                        floor.machine.step(chance.choice([-3600, 3600]))
                    case _:
                        await chance.choice(jobs).reschedule(timedelta(seconds=1))
                await scheduler.queue("default").resume()

        for _ in range(4):
            floor.play(live, crash_after=chance.random() < 0.7)
            check_dump(floor.dump())
        floor.play(lambda _, floor=floor: floor.machine.sleep(120))
        check_rate(floor.starts_s["all"], Rate(20, burst=3))
        assert floor.most_at_work["all"] <= 3
        assert set(floor.states()) <= {JobState.COMPLETED, JobState.CANCELLED}


# ---- what follows from a batch ---------------------------------------------------------------------------------------


def test_jobs_that_wait_for_others_go_on_in_time_and_who_waits_for_the_given_up_is_told():
    floor = Floor({})

    async def scene(scheduler):
        first = await scheduler.now("work", "first", 2)
        second = await scheduler.options(wait_for=[first]).now("work", "second", 1)
        third = await scheduler.options(wait_for=[second]).now("work", "third")
        await third.wait(timeout_s=4)
        assert floor.tags() == ["first", "second", "third"]
        doomed = await scheduler.after(1000, "work", "doomed")
        heir = await scheduler.options(wait_for=[doomed]).now("work", "heir")
        heir_of_heir = await scheduler.options(wait_for=[heir]).now("work", "heir of heir")
        await doomed.cancel()
        assert (await heir_of_heir.wait(timeout_s=1)).state == "CANCELLED"

    floor.play(scene)
    assert sum(notice.jobs for notice in floor.noticed(JobsEnded)) == 3


def test_a_deadline_and_an_expiry_end_jobs_that_did_not_start_and_waiters_hear_of_it():
    floor = Floor({}, concurrency=1)

    async def scene(scheduler):
        await scheduler.now("work", "long", 20)
        await floor.machine.sleep(1)
        given_up = await scheduler.options(deadline_after_s=5).now("work", "given up")
        expired = await scheduler.options(expires_after_s=5).now("work", "expired")
        assert (await given_up.wait(timeout_s=60)).state == "DEAD"
        assert (await expired.wait(timeout_s=1)).state == "SKIPPED"

    floor.play(scene)
    ended = {notice.state: notice.jobs for notice in floor.noticed(JobsEnded)}
    assert ended == {JobState.DEAD: 1, JobState.SKIPPED: 1}
    assert floor.tags() == ["long"]


@pytest.mark.parametrize(("on_conflict", "starts"), [("keep", 5), ("reschedule", 2), ("replace", 2)])
def test_a_unique_job_that_is_met_is_kept_moved_or_replaced(on_conflict, starts):
    floor = Floor({})

    async def scene(scheduler):
        unique = scheduler.options(unique=Unique(by=("task", "args"), on_conflict=on_conflict))
        first = await unique.after(5, "work", "x")
        second = await unique.after(2, "work", "x")
        assert (second.id == first.id) is (on_conflict != "replace")
        await second.wait(timeout_s=30)
        if on_conflict == "replace":
            assert (await first.wait(timeout_s=1)).state == "CANCELLED"

    floor.play(scene)
    assert floor.when("x") == starts


def test_a_job_that_is_told_an_instant_after_its_end_ends_in_time():
    floor = Floor({"rate": Rate(1, per_s=100)})

    async def scene(scheduler):
        await scheduler.now("work", "first")
        given_up = await scheduler.options(deadline_after_s=5).now("work", "given up")
        expired = await scheduler.options(expires_after_s=7).now("work", "expired")
        await floor.machine.sleep(4.9)
        assert (await given_up.refresh()).state == "SCHEDULED"
        await floor.machine.sleep(0.2)
        assert (await given_up.refresh()).state == "DEAD"
        await floor.machine.sleep(2)
        assert (await expired.refresh()).state == "SKIPPED"
        last = await scheduler.now("work", "last")
        await floor.machine.sleep(300)
        assert (await last.refresh()).state == "COMPLETED"

    floor.play(scene)
