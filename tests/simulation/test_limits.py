"""Concurrency (I18) and rates (I17): kept at every instant and over restarts; and no slot ever leaks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.helpers import SlowStore, Stage
from timewheel import Queue, Rate
from timewheel.dispatch.limits import Limits
from timewheel.model import SECOND_US, JobState
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore


def check_rate(starts_s, rate):
    """I17: in every window w at most rate * w + burst starts."""
    starts = sorted(starts_s)
    for first, start in enumerate(starts):
        for last in range(first, len(starts)):
            allowed = rate.count / rate.per_s * (starts[last] - start) + rate.burst
            assert last - first + 1 <= allowed + 1e-6, f"{last - first + 1} from {start} to {starts[last]}"


# ---- the books alone -----------------------------------------------------------------------------------------------

QUEUES = ["a", "b"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sampled_from(QUEUES), st.integers(1, 5)),
        st.tuples(st.just("refuse"), st.sampled_from(QUEUES)),
        st.tuples(st.just("enter"), st.sampled_from(QUEUES)),
        st.tuples(st.just("end"), st.sampled_from(QUEUES)),
        st.tuples(st.just("take back"), st.sampled_from(QUEUES)),
        st.tuples(
            st.just("shape"), st.sampled_from(QUEUES), st.none() | st.integers(1, 4), st.none() | st.integers(1, 9)
        ),
        st.tuples(st.just("pause"), st.sampled_from(QUEUES), st.booleans()),
        st.tuples(st.just("pass"), st.integers(0, 2 * SECOND_US)),
    ),
    max_size=60,
)


@given(STEPS, st.none() | st.integers(1, 9))
def test_no_slot_leaks_and_no_limit_is_passed(steps, whole_rate):
    now = 10**9
    limits = Limits(4, Rate(whole_rate, burst=2) if whole_rate else None, {"a": Queue(concurrency=2)}, {}, now)
    promised, running = Counter(), Counter()
    for kind, *arguments in steps:
        if kind == "pass":
            now += arguments[0]
            continue
        queue = arguments[0]
        limit = limits.of(queue)
        match kind:
            case "claim":
                wanted = min(arguments[1], limits.room(queue, now, 0))
                assert not (limit.paused and wanted > 0)
                if wanted > 0:
                    limits.take_slots(queue, wanted)
                    promised[queue] += wanted
                    assert limit.used <= limit.concurrency
                    assert limits.whole.used <= 4
            case "refuse" if promised[queue]:
                limits.return_slots(queue, 1, entered=False)
                promised[queue] -= 1
            case "enter" if promised[queue]:
                if limits.enter(queue, now):
                    promised[queue] -= 1
                    running[queue] += 1
            case "end" if running[queue]:
                limits.return_slots(queue, 1, entered=True)
                running[queue] -= 1
            case "take back" if running[queue]:
                limits.promise_again(queue)
                running[queue] -= 1
                promised[queue] += 1
            case "shape":
                limits.shape(queue, Queue(concurrency=arguments[1], rate=arguments[2] and Rate(arguments[2])), now)
            case "pause":
                limit.paused = arguments[1]
        for name in QUEUES:
            assert (limits.of(name).used, limits.of(name).promised) == (promised[name] + running[name], promised[name])
        assert limits.whole.used == promised.total() + running.total()
        assert limits.whole.promised == promised.total()


# ---- in a scheduler ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_i18_no_more_run_at_once_than_the_whole_and_each_queue_allow(seed):
    machine = VirtualMachine(seed=seed, shuffle=True)
    store = SlowStore(MemoryStore(), seed, commit_s=0.02)
    stage = Stage(machine, store, concurrency=5, queues={"a": Queue(concurrency=2), "b": Queue(concurrency=4)})

    async def scene(scheduler):
        for number in range(90):
            queue = "abc"[number % 3]
            delay = machine.random.random() * 2
            seconds = machine.random.random() / 2
            await scheduler.options(queue=queue).after(delay, "busy", number, seconds, queue)
        while await scheduler.jobs(state=["SCHEDULED", "ACTIVE"]).count():
            assert stage.running.total() <= 5
            await machine.sleep(0.01)

    stage.play(scene)
    assert stage.most_running["a"] == 2
    assert stage.most_running["b"] <= 4
    assert len(stage.diary) == 90


def test_i18_a_smaller_limit_at_run_time_holds_from_then_on():
    stage = Stage(concurrency=10)

    async def scene(scheduler):
        for number in range(30):
            await scheduler.now("busy", number, 1)
        await stage.machine.sleep(1.5)
        await scheduler.queue("default").update(concurrency=2)
        await stage.machine.sleep(1)
        stage.most_running.clear()
        await stage.machine.sleep(10)

    stage.play(scene)
    assert len(stage.diary) == 30
    assert stage.most_running == {"default": 2}


RATES = [Rate(5), Rate(3, burst=4), Rate(1, per_s=0.7, burst=2), Rate(40, burst=10)]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("slow", [False, True])
def test_i17_a_rate_holds_in_every_window_and_is_used(rate, slow):
    """Slow: a commit takes up to 10 ms, so that claims are under way while tokens come."""
    for seed in range(3):
        machine = VirtualMachine(seed=seed, shuffle=True)
        store = SlowStore(MemoryStore(), seed, commit_s=0.01) if slow else MemoryStore()
        stage = Stage(machine, store, rate=rate)

        async def scene(scheduler, machine=machine):
            await scheduler.at_many(scheduler.new(timedelta(0), "note", number) for number in range(60))
            await machine.sleep(60 * rate.per_s / rate.count + 1)

        stage.play(scene)
        check_rate([start.elapsed_s for start in stage.diary], rate)
        assert len(stage.diary) == 60, "and all that is allowed is used"


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_i17_a_rate_of_a_queue_holds_over_crashes(rate):
    """What was saved with a claim counts it as started: a restart brings no fresh bucket."""
    for seed in range(5):
        machine = VirtualMachine(seed=seed, shuffle=True)
        stage = Stage(machine, SlowStore(MemoryStore(), seed, commit_s=0.01), queues={"default": Queue(rate=rate)})

        async def fill(scheduler):
            await scheduler.at_many(scheduler.new(timedelta(0), "note", number) for number in range(60))

        async def live(_, machine=machine):
            await machine.sleep(machine.random.random() * 8 * rate.per_s / rate.count)

        stage.play(fill, crash_after=True)
        for _ in range(10):
            stage.play(live, crash_after=True)
        stage.play(lambda _, machine=machine: machine.sleep(70 * rate.per_s / rate.count + 1))
        check_rate([start.elapsed_s for start in stage.diary], rate)
        assert {job.state for job in stage.dump()["jobs"].values()} == {JobState.COMPLETED}


def test_i17_a_step_of_the_wall_clock_fills_no_bucket():
    stage = Stage(rate=Rate(2))

    async def scene(scheduler):
        await scheduler.at_many(scheduler.new(stage.machine.now(), "note", number) for number in range(40))
        for step_s in (3600, -7200, 3600, 90_000, -90_000):
            await stage.machine.sleep(2.1)
            stage.machine.step(step_s)
        await stage.machine.sleep(30)

    stage.play(scene)
    check_rate([start.elapsed_s for start in stage.diary], Rate(2))
    assert len(stage.diary) == 40


def test_a_paused_queue_starts_nothing_and_the_others_go_on_also_after_a_restart():
    stage = Stage()

    async def pause(scheduler):
        for queue in ("held", "free"):
            await scheduler.options(queue=queue).after(5, "note", queue)
        await scheduler.queue("held").pause()
        await stage.machine.sleep(6)

    async def resume(scheduler):
        await stage.machine.sleep(10)
        assert stage.tags() == ["free"]
        await scheduler.queue("held").resume()
        await stage.machine.sleep(0.1)

    stage.play(pause, crash_after=True)
    stage.play(resume)
    assert stage.tags() == ["free", "held"]


def test_a_rate_leaves_no_job_behind_when_the_system_is_otherwise_idle():
    """Only the dispatcher's own timer wakes it for the next token, however the moments fall."""
    for delay_us in range(0, 500, 13):
        stage = Stage(rate=Rate(10), concurrency=3)

        async def scene(scheduler, delay_us=delay_us, stage=stage):
            await scheduler.at_many(
                scheduler.new(timedelta(microseconds=delay_us * number), "note", number) for number in range(6)
            )
            await stage.machine.sleep(0.7)

        stage.play(scene)
        starts = [start.elapsed_s for start in stage.diary]
        assert bisect_right(starts, 0.61) == 6, f"{delay_us} us: {starts}"
