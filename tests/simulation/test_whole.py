"""The whole scheduler under random use, clock steps, suspends and crashes, on one thread and in virtual time.

Each seed is several lives of one journal. What must hold is checked on what the handlers saw, on what the verbs
answered, and on the journal after each life. A failure names its seed: run that one alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.simulation.helpers import STORES, MemorySqlite, SlowStore, Stage
from tests.simulation.test_limits import check_rate
from timewheel import CancelAnswer, JournalUnknown, Queue, Rate, RescheduleAnswer, Retry
from timewheel.events import SweepFound
from timewheel.model import AttemptState, ClockKind, JobState, job_text
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine

RATE = Rate(4, burst=2)
QUEUES = {"rated": Queue(rate=RATE), "narrow": Queue(concurrency=2)}
WHOLE = 6
LIVES = 4
UNKNOWN = JournalUnknown("an I/O error from COMMIT", path="simulated")
RETRY = Retry(max_attempts=3, base_s=0.5, cap_s=2)


class World:
    """One seed: its stage, its chance, and what its users were told."""

    def __init__(self, seed, store="memory", slow=True):
        self.chance = random.Random(f"{seed} world")
        machine = VirtualMachine(seed=seed, shuffle=True)
        journal = SlowStore(STORES[store](), seed, commit_s=0.015 * slow, read_s=0.01 * slow)
        self.stage = Stage(machine, journal, concurrency=WHOLE, queues=QUEUES)
        self.acknowledged = {}  # public id -> tag
        self.cancelled = {}  # public id -> how long the diary was when the answer came
        self.answers = []
        self.keys = {}  # idempotency key -> public id
        self.gentle = seed % 2  # the machine does not stop in the middle of a commit
        self.tags = 0

    # -- what users do --

    async def user(self, scheduler, acts):
        known = sorted(self.acknowledged)
        jobs = [await scheduler.get_job(job_id) for job_id in self.chance.sample(known, min(2, len(known)))]
        for _ in range(acts):
            await self.stage.machine.sleep(self.chance.choice([0, 0, 0.003, 0.05, 0.4]))
            with suppress(JournalUnknown):  # it happened or not: nothing is acknowledged
                await self.act(scheduler, jobs)

    async def act(self, scheduler, jobs):
        chance = self.chance.random()
        if chance < 0.5 or not jobs:
            jobs.append(await self.make(scheduler))
        elif chance < 0.6:
            jobs.append(await self.make_once(scheduler, f"key {self.chance.randrange(5)}"))
        elif chance < 0.8:
            await self.cancel(self.chance.choice(jobs))
        else:
            await self.move(self.chance.choice(jobs))

    async def make(self, scheduler):
        chance = self.chance
        self.tags += 1
        queue = chance.choice(["default", "rated", "narrow"])
        options = {"queue": queue, "priority": chance.choice([0, 5, 9]), "retry": RETRY}
        if chance.random() < 0.2:
            options["timeout_s"] = 0.2
        busy = ("busy", self.tags, chance.random() / 2, queue)
        call = chance.choice([("note", self.tags), ("sync", self.tags), busy, ("fail", self.tags, 1)])
        delay = timedelta(seconds=chance.choice([0, 0.3, 3, 20]) * chance.random())
        if chance.random() < 0.5:
            job = await scheduler.options(**options).after(delay, *call)
        else:
            job = await scheduler.options(**options).at(self.stage.machine.now() + delay - timedelta(seconds=1), *call)
        self.acknowledged[job.id] = self.tags
        return job

    async def make_once(self, scheduler, key):
        """I4: whoever uses this key gets the same job."""
        job = await scheduler.options(idempotency_key=key, retry=RETRY).after(1, "note", key)
        assert self.keys.setdefault(key, job.id) == job.id
        self.acknowledged[job.id] = key
        return job

    async def cancel(self, job):
        answer = await job.cancel("changed my mind")
        self.answers.append((job.id, answer))
        if answer is CancelAnswer.CANCELLED:
            self.cancelled[job.id] = len(self.stage.diary)

    async def move(self, job):
        if self.chance.random() < 0.5:
            answer = await job.reschedule(timedelta(seconds=self.chance.random() * 3))
        else:
            answer = await job.reschedule(self.stage.machine.now() + timedelta(seconds=self.chance.random() * 3))
        assert answer in (RescheduleAnswer.MOVED, RescheduleAnswer.TOO_LATE)
        self.answers.append((job.id, answer))

    async def fate(self):
        """What happens to the machine."""
        machine, chance = self.stage.machine, self.chance
        while True:
            await machine.sleep(chance.random() * 4)
            while self.gentle and self.stage.store.busy:
                await machine.sleep(0.001)
            act = chance.choice(["step", "step", "suspend", "block", "nothing"])
            if act == "step":
                machine.step(chance.choice([-3600, -20, -0.2, 0.2, 20, 3600]))
            elif act == "suspend":
                machine.suspend(chance.random() * 20)
            elif act == "block":
                machine.block(chance.random())

    # -- lives --

    def live_and_die(self):
        """Users and fate at work, until the machine dies in some commit, or after some time."""
        store = self.stage.store
        store.kill(store.commits + self.chance.randrange(1, 60), self.chance.random() < 0.5)
        store.faults = {store.commits + self.chance.randrange(8, 40): (UNKNOWN, self.chance.random() < 0.5)}

        async def scene(scheduler):
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(self.user(scheduler, 12)) for _ in range(3)]
            doom = [loop.create_task(store.died.wait()), loop.create_task(self.fate())]
            await asyncio.wait([doom[0], *tasks], timeout=self.chance.random() * 15, return_when="FIRST_EXCEPTION")
            for task in tasks:
                if task.done():
                    task.result()

        self.stage.play_until_death(scene, store)
        self.check_journal()

    def live_in_peace(self):
        """No more faults: everything comes to an end (I29)."""

        async def scene(scheduler):
            for _ in range(200):
                await self.stage.machine.sleep(2)
                open_states = ["SCHEDULED", "WAITING", "ACTIVE"]
                if not await scheduler.jobs(state=open_states).count():
                    return
            raise AssertionError(f"still open: {[job async for job in scheduler.jobs(state=open_states)]}")

        store = self.stage.store
        store.kill(0, True)
        store.faults = {}
        self.stage.machine.step(2 * 3600)  # whatever was scheduled by a clock that was set back
        self.stage.play(scene)
        self.check_journal()

    # -- what must hold --

    def check_journal(self):
        """I1 (what is acknowledged is there), I4, I10, I11, I12, by the journal alone."""
        self.dump = self.stage.dump()
        check_dump(self.dump)
        numbers = {job_text(number) for number in self.dump["jobs"]}
        assert numbers >= self.acknowledged.keys()

    def check_starts(self):
        """I6: never early by the job's clock. One start an attempt, and none after a cancel that said so (I9)."""
        attempts = {(job_text(job_id), number): one for (job_id, number), one in self.dump["attempts"].items()}
        seen = set()
        for place, start in enumerate(self.stage.diary):
            key = (start.job_id, start.attempt)
            assert key not in seen, f"{key} started twice"
            seen.add(key)
            attempt = attempts[key]
            assert start.now.on(attempt.clock) >= attempt.scheduled_at, f"{key} started early"
            if start.job_id in self.cancelled:
                assert place < self.cancelled[start.job_id], f"{start.job_id} started after its cancel"

    def check_ends(self):
        """I1: exactly one final state, and it fits the attempts and the answers."""
        for job_id, job in self.dump["jobs"].items():
            assert job.state.final
            succeeded = [one.state for (number, _), one in self.dump["attempts"].items() if number == job_id].count(
                AttemptState.SUCCEEDED
            )
            assert succeeded == (job.state is JobState.COMPLETED)
            assert job.losses <= 4
            assert (job.reason == "crash_loop") == (job.losses == 4)
        for job_id in self.cancelled:
            [job] = [job for number, job in self.dump["jobs"].items() if job_text(number) == job_id]
            assert job.state is JobState.CANCELLED

    def check_limits(self):
        """I17 over crashes (as long as a claim takes no more than a second), I18 at every instant."""
        if self.gentle:
            check_rate([moment_s for queue, moment_s in self.stage.entered if queue == "rated"], RATE)
        assert self.stage.most_running["narrow"] <= 2
        assert self.stage.most_running_at_all <= WHOLE

    def trace(self):
        """Everything that happened, as one number."""
        jobs = sorted((number, job.state, job.attempt, job.due_at) for number, job in self.dump["jobs"].items())
        return hashlib.sha256(repr((self.stage.diary, self.answers, jobs)).encode()).hexdigest()

    def run(self):
        for _ in range(LIVES):
            self.live_and_die()
        self.live_in_peace()
        self.check_starts()
        self.check_ends()
        self.check_limits()
        assert not self.stage.noticed(SweepFound)
        return self


@pytest.mark.parametrize("block", range(10))
def test_the_whole_on_the_model(block):
    for seed in range(block * 10, block * 10 + 10):
        run_seed(seed, "memory")


@pytest.mark.parametrize("block", range(5))
def test_the_whole_on_sqlite(block):
    for seed in range(1000 + block * 5, 1000 + block * 5 + 5):
        run_seed(seed, "sqlite")


def run_seed(seed, store):
    try:
        World(seed, store, slow=seed % 3 > 0).run()
    except BaseException as error:
        error.add_note(f"seed {seed} on {store}")
        raise


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", [7, 8])
def test_i28_the_same_seed_gives_the_same_trace(seed, store):
    traces = {World(seed, store).run().trace() for _ in range(2)}
    assert len(traces) == 1
    assert World(seed + 100, store).run().trace() not in traces


@pytest.mark.parametrize("seed", range(6))
def test_i16_recovery_may_be_cut_short_any_number_of_times(seed):
    """Owners that die in one of the first commits of their recovery leave what one whole recovery leaves."""
    chance = random.Random(seed)
    stage = Stage(
        VirtualMachine(seed=seed, shuffle=True), SlowStore(MemorySqlite(), seed, commit_s=0.01), concurrency=20
    )

    async def begin(scheduler):
        for number in range(20):
            await scheduler.now("busy", number, 30)
        await stage.machine.sleep(5)

    stage.play(begin, crash_after=True)
    for _ in range(6):
        stage.store.kill(stage.store.commits + 1 + chance.randrange(3), chance.random() < 0.5)
        stage.play_until_death(lambda _: asyncio.Event().wait(), stage.store)
        check_dump(stage.dump())
    losses = {job.losses for job in stage.dump()["jobs"].values()}
    stage.play(lambda _: stage.machine.sleep(400))
    jobs = stage.dump()["jobs"].values()
    assert losses <= {0, 1, 2, 3, 4}
    assert {job.state for job in jobs} <= {JobState.COMPLETED, JobState.DEAD}
    assert all((job.state is JobState.DEAD) == (job.reason == "crash_loop") for job in jobs)


@pytest.mark.parametrize("store", STORES)
def test_i13_a_job_that_kills_the_process_is_dead_after_its_fourth_loss(store):
    stage = Stage(store=STORES[store]())

    async def scene(scheduler):
        await scheduler.now("busy", "killer", 10)
        await stage.machine.sleep(1)

    stage.play(scene, crash_after=True)
    for losses in range(1, 5):
        stage.play(lambda _: stage.machine.sleep(1), crash_after=True)
        [job] = stage.dump()["jobs"].values()
        assert job.losses == losses
        assert job.state is (JobState.DEAD if losses == 4 else JobState.ACTIVE)
    assert job.reason == "crash_loop"
    assert len(stage.diary) == 4


def test_a_loop_that_ends_under_a_running_scheduler_ends():
    """asyncio.run cancels every task and waits for all of them: a scheduler that nobody stopped may not hold it up."""
    stage = Stage()

    async def forgetful():
        scheduler = stage.scheduler()
        await scheduler.start()
        await scheduler.after(1000, "note", "never")
        asyncio.get_running_loop().call_later(100, stage.machine.suspend, 1e9)

    stage.machine.run(forgetful())
    assert stage.elapsed_s < 100


def test_the_clock_of_a_job_is_the_one_its_caller_named():
    stage = Stage()

    async def scene(scheduler):
        at = await scheduler.at(stage.machine.now() + timedelta(seconds=5), "note", 1)
        after = await scheduler.after(5, "note", 2)
        await after.reschedule(stage.machine.now() + timedelta(seconds=6))
        await at.reschedule(timedelta(seconds=6))
        return (await at.refresh()).record.due_clock, (await after.refresh()).record.due_clock

    assert stage.play(scene) == (ClockKind.STEADY, ClockKind.WALL)
