"""The start gate: nothing enters while it is withdrawn, nothing enters early, nothing waits there for ever."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.helpers import BusyMachine, SlowStore, Stage, crash, t0
from timewheel.dispatch.gate import PATIENCE_US, Claimant, Gate
from timewheel.model import SECOND_US, AttemptState, ClockKind, JobState, Now, RetryPolicy
from timewheel.store.changes import ClaimedJob
from timewheel.testing.virtual import LoopThreads, VirtualMachine
from timewheel_storage.memory import MemoryStore

WALL, STEADY = ClockKind.WALL, ClockKind.STEADY


def claimant(job_id, due_at, now, clock=WALL, attempt=1):
    job = ClaimedJob(job_id, attempt, "t", "[]", 1, clock, due_at, RetryPolicy(), None, 0, 0, None)
    return Claimant(job, "default", now)


# ---- the gate alone ------------------------------------------------------------------------------------------------

JOBS = st.integers(1, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), JOBS, st.integers(-20, 20)),  # due so much after now
        st.tuples(st.just("withdraw"), JOBS),
        st.tuples(st.just("resolve"), JOBS, st.booleans()),  # whether the verb ended the attempt
        st.tuples(st.just("pass"), st.integers(1, 30)),
        st.tuples(st.just("set back"), st.integers(1, 60)),
        st.tuples(st.just("drain"), st.sampled_from([None, WALL, STEADY])),
        st.just(("open",)),
    ),
    min_size=5,
    max_size=60,
)


class GateModel:
    """What the gate must do, in the plainest terms: who is there, and which verbs are under way."""

    def __init__(self):
        self.gate = Gate()
        self.now = Now(1_000, 1_000)
        self.there = {}  # job id -> claimant
        self.verbs = {}  # job id -> how many are under way
        self.attempts = {}

    def step(self, kind, *arguments):
        getattr(self, kind.replace(" ", "_"))(*arguments)
        assert self.gate.waiting == set(self.there)

    def claim(self, job_id, after):
        if job_id in self.there or self.verbs.get(job_id):
            return  # a store claims no job twice; a claim that crosses a verb is tried by the scenarios below
        clock = ClockKind(job_id % 2)
        number = self.attempts[job_id] = self.attempts.get(job_id, 0) + 1
        one = self.there[job_id] = claimant(job_id, self.now.on(clock) + after, self.now, clock, number)
        self.gate.admit(one, self.now)

    def withdraw(self, job_id):
        self.verbs[job_id] = self.verbs.get(job_id, 0) + 1
        self.gate.withdraw(job_id)

    def resolve(self, job_id, ended):
        if not self.verbs.get(job_id):
            return
        self.verbs[job_id] -= 1
        gone = self.gate.resolve(job_id, self.attempts.get(job_id) if ended else None)
        assert gone is (self.there.pop(job_id, None) if ended else None)

    def set_back(self, us):
        self.now = Now(self.now.wall_us - us, self.now.steady_us)

    def drain(self, kind):
        free = {job_id for job_id, one in self.there.items() if not self.verbs.get(job_id)}
        expected = {job_id for job_id in free if kind is None or self.there[job_id].job.clock is kind}
        assert {one.job.job_id for one in self.gate.drain(kind)} == expected
        for job_id in expected:
            del self.there[job_id]

    def open(self):
        """As the dispatcher does it: whoever comes too early goes back, everybody else enters."""
        entered = set()
        for one in self.gate.candidates(self.now):
            if one.early_by(self.now) > 0:
                self.gate.admit(one, self.now)
                continue
            self.gate.left(one)
            entered.add(one.job.job_id)
        assert not any(self.verbs.get(job_id) for job_id in entered), "entered while it was withdrawn"
        due = {j for j, one in self.there.items() if not self.verbs.get(j) and one.early_by(self.now) <= 0}
        assert entered == due, "stuck at the gate, or entered early"
        for job_id in entered:
            del self.there[job_id]


setattr(GateModel, "pass", lambda self, us: setattr(self, "now", Now(self.now.wall_us + us, self.now.steady_us + us)))


@settings(max_examples=300)
@given(STEPS)
def test_the_gate_in_every_interleaving(steps):
    model = GateModel()
    for step in steps:
        model.step(*step)
    for job_id, verbs in list(model.verbs.items()):
        for _ in range(verbs):
            model.step("resolve", job_id, False)
    model.step("pass", 1_000)
    model.step("open")
    assert not model.there
    assert not model.gate.waiting
    assert not model.gate.has_open()


def test_patience_counts_from_the_time_that_the_job_could_have_entered():
    early = claimant(1, 5 * SECOND_US, Now(4 * SECOND_US, 0))
    late = claimant(2, 1 * SECOND_US, Now(4 * SECOND_US, 0))
    for one, since in ((early, 5 * SECOND_US), (late, 4 * SECOND_US)):
        assert not one.out_of_patience(Now(since + PATIENCE_US - 1, 0))
        assert one.out_of_patience(Now(since + PATIENCE_US, 0))


# ---- the gate in a scheduler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_us", [1, 37, 111])
def test_a_job_whose_time_comes_while_the_pump_runs_is_not_forgotten(read_us):
    """The pump found it early, and set its timer when its time had come: no timer, and nobody looked again."""
    for after_us in range(0, 1_000, 31):
        stage = Stage(BusyMachine(read_us=read_us), SlowStore(MemoryStore(), after_us, commit_s=0.04))

        async def scene(scheduler, stage=stage, after_us=after_us):
            await scheduler.after(1 + after_us / 1e6, "note", "only")
            await stage.machine.sleep(5)

        stage.play(scene)
        assert stage.when("only") < 1.2, f"{after_us} us"


def test_a_claim_that_crosses_a_step_back_holds_no_slot_until_its_time_comes_again():
    """B42: nothing waits 120 s, least of all the jobs behind it."""
    stage = Stage(store=SlowStore(MemoryStore(), commit_s=2.0), concurrency=1)

    async def scene(scheduler):
        await scheduler.at(t0(10), "note", "at")
        await scheduler.after(15, "note", "after")
        await stage.machine.sleep(10.1 - stage.elapsed_s)
        assert not stage.diary, "the claim is still being committed"
        stage.machine.step(-120)
        await stage.machine.sleep(140)

    stage.play(scene)
    assert stage.when("after") < 30
    assert 130 <= stage.when("at") < 135


def test_a_job_that_waits_for_a_token_does_not_enter_after_a_step_back():
    """I6: the gate reads the clock at the moment of entering, not at the moment of the claim."""
    stage = Stage(store=SlowStore(MemoryStore(), commit_s=0.01))

    async def scene(scheduler):
        await scheduler.at(t0(10), "block", "blocker", 0.5)
        await scheduler.at(t0(10), "note", "at")
        await scheduler.at(t0(10.2), "note", "later")
        asyncio.get_running_loop().call_later(10.01 - stage.elapsed_s, stage.machine.step, -120)
        await stage.machine.sleep(200)

    stage.play(scene)
    for start in stage.diary:
        assert start.wall_s >= {"blocker": 10, "at": 10, "later": 10.2}[start.tag]


def test_a_job_at_the_gate_does_not_enter_after_a_step_back_too_small_to_be_seen():
    """Its time had come; it waits for a token; then its time has not come again: no event tells the gate."""
    stage = Stage()

    async def scene(scheduler):
        await scheduler.at(t0(1), "note", "at")
        limits = scheduler._engine.dispatcher.limits
        entering, limits.enter = limits.enter, lambda queue, now_us: False
        await stage.machine.sleep(1.05)
        stage.machine.step(-0.2)
        limits.enter = entering
        await stage.machine.sleep(1)

    stage.play(scene)
    assert stage.when("at") == pytest.approx(1.2)


class LateThreads(LoopThreads):
    """Threads that are free only after five seconds."""

    def start(self, call):
        asyncio.get_running_loop().call_later(5, call)


def test_a_sync_job_that_waits_for_a_thread_does_not_enter_after_a_step_back():
    """I6, for handlers that passed the gate and have not been entered yet."""
    machine = VirtualMachine()
    object.__setattr__(machine.system, "threads", LateThreads)
    stage = Stage(machine, concurrency=1)

    async def scene(scheduler):
        await scheduler.at(t0(10), "sync", "at")
        await scheduler.after(30, "note", "after")
        await machine.sleep(12)
        machine.step(-120)
        await machine.sleep(140)

    stage.play(scene)
    assert [(start.tag, start.wall_s >= 10) for start in stage.diary] == [("after", False), ("at", True)]
    assert stage.when("after") == pytest.approx(30, abs=0.1)
    assert stage.when("at") == pytest.approx(135, abs=0.1)


def test_a_small_step_back_makes_nobody_late():
    """What had fired before it is claimed all the same: below 250 ms nothing is dropped and loaded afresh."""
    stage = Stage()

    async def scene(scheduler):
        asyncio.get_running_loop().call_later(9.99, stage.machine.step, -0.2)
        await scheduler.at(t0(10), "note", "fired")
        await scheduler.at(t0(10.01), "note", "in the wheel")
        await stage.machine.sleep(9.995)
        await scheduler.at(t0(10), "note", "new")
        await stage.machine.sleep(5)

    stage.play(scene)
    assert stage.when("fired") == stage.when("new") == pytest.approx(10.2)
    assert stage.when("in the wheel") == pytest.approx(10.21)


def test_a_job_that_waited_a_second_for_a_token_is_given_back():
    """Its claim is RELEASED (not_entered) and costs it nothing; it starts when its limit allows."""
    stage = Stage()

    async def scene(scheduler):
        job = await scheduler.after(1, "note", "patient")
        limits = scheduler._engine.dispatcher.limits
        entering, limits.enter = limits.enter, lambda queue, now_us: False
        await stage.machine.sleep(2.5)
        limits.enter = entering
        await job.wait(5)
        return await job.attempts()

    first, *_, last = stage.play(scene)
    assert (first.state, first.reason) == (AttemptState.RELEASED, "not_entered")
    assert last.state is AttemptState.SUCCEEDED
    assert stage.when("patient") < 3.6
    [job] = stage.dump()["jobs"].values()
    assert (job.failures, job.losses) == (0, 0)


@pytest.mark.parametrize("queue", ["a", "b", "c"])
def test_of_two_claims_that_come_back_together_none_forgets_a_job_on_its_last_chance(queue):
    """The chance went to the first claim, which did not need it; the job came back in the second."""
    stage = Stage(store=SlowStore(MemoryStore(), commit_s=0.02))

    async def first(scheduler):
        for other in "abc":
            await scheduler.options(queue=other).after(1, "note", other)
        await scheduler.options(queue=queue).now("busy", "killer", 1)
        await stage.machine.sleep(0.1)

    async def on(_):
        await stage.machine.sleep(0.1)

    for scene in (first, on, on):
        stage.play(scene, crash_after=True)
    stage.machine.block(2)  # nobody is there meanwhile: all four are due when the next owner begins
    stage.play(lambda _: stage.machine.sleep(3))
    assert {job.state for job in stage.dump()["jobs"].values()} == {JobState.COMPLETED}


def test_a_crash_frees_the_journal():
    """The helper that every crash in these tests uses: another owner may come at once."""
    stage = Stage(store=SlowStore(MemoryStore()))
    stage.play(lambda _: stage.machine.sleep(1), crash_after=True)
    crash(stage.store)
    stage.play(lambda _: stage.machine.sleep(1))
