"""What handlers do: return anything, raise anything, hang, block. Each has one end, and the scheduler lives."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
import sys

import pytest
from lives import FaultyStore, Lives, nothing, states

from timewheel import JobDead, Permanent, Queue, Rate, ResultOmitted, Retry, Snooze, Throttled, Transient, current
from timewheel.errors import JournalBusy, JournalUnknown, NotInJob
from timewheel.events import LoopGap
from timewheel.model import AttemptState, JobState
from timewheel.store.changes import Claim, Settle, Submit

ONCE = {"retry": None}
FLAT = Retry(max_attempts=3, base_s=10, factor=1, cap_s=10, jitter=0)
caller = contextvars.ContextVar("caller", default="nobody")


async def fine():
    return "fine"


async def still_works(scheduler):
    """The scheduler runs another job to its end."""
    return await (await scheduler.now(fine)).result(timeout_s=60) == "fine"


# ---- B72: what handlers raise ----------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, one, two):
        super().__init__(one)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


RAISED = {
    "cancelled": asyncio.CancelledError("by itself"),
    "exit": SystemExit(3),
    "generator exit": GeneratorExit(),
    "group": ExceptionGroup("several", [ValueError("one")]),
    "group with cancelled": BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError("one")]),
    "stop iteration": StopIteration(4),
    "two arguments": TwoArguments(1, 2),
    "unprintable": Unprintable(),
    "huge": ValueError("x" * 50_000_000),
}


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("name", RAISED)
def test_b70_b72_whatever_is_raised_is_one_failed_attempt(name, sync):
    async def on_loop():
        raise RAISED[name]

    def in_thread():
        raise RAISED[name]

    async def scene(scheduler):
        job = await scheduler.options(**ONCE).now("raises")
        with pytest.raises(JobDead) as dead:
            await job.result(timeout_s=60)
        [attempt] = await job.attempts()
        assert attempt.state is AttemptState.FAILED_RETRYABLE
        assert dead.value.job.reason == "exhausted"
        assert dead.value.job.error == attempt.error
        assert len(attempt.error) <= 4096
        assert attempt.error_kind
        assert await still_works(scheduler)

    Lives().live(scene, {"raises": in_thread if sync else on_loop})


def functions_of(attempt):
    """The functions that a stored error names."""
    return [line.rpartition(".")[2] for line in attempt.error.splitlines() if line.startswith("  File")]


def test_a_stored_error_begins_in_the_handler_and_a_raised_one_is_a_line():
    async def on_loop():
        raise Permanent("no\nuse") from KeyError("why")

    def in_thread():
        raise Permanent("no\nuse") from KeyError("why")

    def awaitable():
        return on_loop()

    async def scene(scheduler):
        for name, deepest in (("on_loop", "on_loop"), ("in_thread", "in_thread"), ("awaitable", "on_loop")):
            job = await scheduler.now(name)
            with pytest.raises(JobDead) as dead:
                await job.result(timeout_s=60)
            [attempt] = await job.attempts()
            assert str(dead.value) == f"{job.id} of {name} failed for good (permanent): timewheel.Permanent: no"
            assert dead.value.job.error == attempt.error
            assert "caused by KeyError" in attempt.error
            assert attempt.error_kind == "timewheel.Permanent"
            assert functions_of(attempt) == [deepest]

    Lives().live(scene, {"on_loop": on_loop, "in_thread": in_thread, "awaitable": awaitable})


def test_a_call_that_fails_itself_shows_no_frame_of_ours():
    async def scene(scheduler):
        job = await scheduler.options(**ONCE).now("builtin", -1)
        await job.wait(timeout_s=60)
        [attempt] = await job.attempts()
        assert attempt.error_kind == "ValueError"
        assert functions_of(attempt) == []

    Lives().live(scene, {"builtin": chr})


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_b72_keyboard_interrupt_fails_the_attempt_and_stops_in_order(sync):
    lives = Lives()
    finished = []

    async def neighbour():
        await asyncio.sleep(5)  # virtual
        finished.append("neighbour")

    def interrupt():
        raise KeyboardInterrupt

    async def interrupt_on_loop():
        raise KeyboardInterrupt

    scheduler = lives.scheduler({"interrupt": interrupt if sync else interrupt_on_loop, "neighbour": neighbour})

    async def main():
        await scheduler.start()
        await scheduler.now("neighbour")
        await scheduler.now("interrupt")
        never = await scheduler.after(1, "neighbour")
        await scheduler.run_forever()
        return never

    with pytest.raises(KeyboardInterrupt):
        lives.machine.run(main())
    assert scheduler.state == "STOPPED"
    assert finished == ["neighbour"]
    [record] = [job for job in lives.store._journal.jobs.values() if job.task == "interrupt"]
    assert (record.state, record.failures) == (JobState.SCHEDULED, 1)


def test_b72_a_handler_cancels_every_task_of_the_scheduler():
    """Also the tasks of handlers that have not begun; nothing hangs, and each job still comes to an end."""
    lives = Lives()

    async def vandal():
        me = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not me and not task.get_name().startswith("Task-"):
                task.cancel()

    async def scene(scheduler):
        scheduler.task(name="fine", retry=FLAT)(fine)
        drafts = [scheduler.new(lives.machine.now(), name) for name in ["vandal", *["fine"] * 5, "vandal"]]
        jobs = await scheduler.at_many(drafts)
        done = [await job.wait(timeout_s=600) for job in jobs]
        assert {job.state for job in done} == {JobState.COMPLETED}
        assert await still_works(scheduler)

    lives.live(scene, {"vandal": vandal})


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", [Submit, Claim, Settle], ids=lambda kind: kind.__name__)
def test_b72_a_commit_that_a_stranger_cancels_is_not_forgotten(kind, moment):
    """The task inside which a commit runs is cancelled: nobody waits for ever, and nothing is stuck in ACTIVE."""
    store = FaultyStore()
    ran = []

    async def count():
        ran.append(current().attempt)

    async def vandalism(changes):
        if any(isinstance(change, kind) for change in changes):
            setattr(store, moment, nothing)
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    async def scene(scheduler):
        setattr(store, moment, vandalism)
        try:
            job = await scheduler.options(idempotency_key="once").now("count")
        except JournalUnknown:
            job = await scheduler.options(idempotency_key="once").now("count")
        assert (await job.wait(60)).state is JobState.COMPLETED
        assert getattr(store, moment) is nothing
        assert await still_works(scheduler)

    Lives(store=store).live(scene, {"count": count})
    assert len(ran) == 1


# ---- B70: what handlers return ---------------------------------------------------------------------------------------


def endless():
    found = []
    found.append(found)
    return found


UNSTORABLE = {
    "open file": lambda: sys.stderr,
    "generator": lambda: (each for each in ()),
    "refers to itself": endless,
    "too large": lambda: "x" * 70_000,
    "not a number": object,
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_b70_a_result_that_cannot_be_kept_does_not_change_the_outcome(name):
    async def handler():
        return UNSTORABLE[name]()

    async def scene(scheduler):
        job = await scheduler.now("odd")
        with pytest.raises(ResultOmitted) as omitted:
            await job.result(timeout_s=60)
        assert omitted.value.job.id == job.id
        assert omitted.value.job.state is JobState.COMPLETED
        assert await states(job) == [AttemptState.SUCCEEDED]
        assert await still_works(scheduler)

    Lives().live(scene, {"odd": handler})


# ---- B74: blocking handlers ------------------------------------------------------------------------------------------


def test_b74_an_async_handler_that_blocks_makes_others_late_and_drops_none():
    lives = Lives()
    ran = []

    async def block():
        lives.machine.block(2)

    async def short(number):
        ran.append(number)

    async def scene(scheduler):
        blocker = await scheduler.after(1, "block")
        late = [await scheduler.after(1.5, "short", number) for number in range(3)]
        await asyncio.gather(*(job.wait(60) for job in [blocker, *late]))
        [attempt] = await late[0].attempts()
        assert 1.5 <= attempt.start_lag_s < 1.6
        assert ran == [0, 1, 2]

    lives.live(scene, {"block": block, "short": short})


def test_b74_a_gap_of_the_loop_is_told_with_its_culprit():
    lives = Lives()
    gaps = []

    class Watchdog:
        def beat(self):
            pass

        def culprit(self):
            return "block (app.py:7)"

        def stop(self):
            pass

    lives.machine.system = type(lives.machine.system)(
        lives.machine.clock, lives.machine.random.random, lives.machine.system.threads, Watchdog
    )

    async def block():
        lives.machine.block(2)

    async def scene(scheduler):
        scheduler.notices.subscribe(lambda notice: gaps.append(notice) if isinstance(notice, LoopGap) else None)
        await (await scheduler.after(1, "block")).wait(60)
        await asyncio.sleep(1)  # virtual

    lives.live(scene, {"block": block})
    [gap] = gaps
    assert gap.culprit == "block (app.py:7)"
    assert 1_900_000 < gap.gap_us <= 2_000_000


# ---- B77: an inner error ---------------------------------------------------------------------------------------------


def test_b77_a_job_that_cancels_itself_ends_cancelled():
    async def suicidal():
        job = await current().scheduler.get_job(current().job_id)
        await job.cancel("myself")
        await asyncio.sleep(1)  # virtual
        return "never"

    async def scene(scheduler):
        job = await (await scheduler.now("suicidal")).wait(60)
        assert (job.state, job.reason) == (JobState.CANCELLED, "myself")
        assert await states(job) == [AttemptState.CANCELLED]
        assert await still_works(scheduler)

    Lives().live(scene, {"suicidal": suicidal})


@pytest.mark.parametrize("error", [ValueError("listener"), asyncio.CancelledError()], ids=["error", "cancelled"])
def test_b77_a_listener_that_raises_is_taken_off(error, caplog):
    heard = []

    def listener(notice):
        heard.append(notice)
        raise error

    async def scene(scheduler):
        scheduler.notices.subscribe(listener)
        assert await still_works(scheduler)
        assert await still_works(scheduler)

    with caplog.at_level(logging.ERROR, "timewheel"):
        Lives().live(scene)
    assert len(heard) == 1
    assert "a subscriber of notices raised" in caplog.text


# ---- B80, retries and time-outs --------------------------------------------------------------------------------------


def test_b80_exhausted_retries_end_in_a_dead_letter_with_everything():
    lives = Lives()
    began = []

    async def failing(a, *, b):
        began.append(lives.machine.awake_us)
        raise ValueError(f"try {current().attempt}")

    async def scene(scheduler):
        job = await scheduler.options(retry=FLAT).now("failing", 1, b=[2])
        with pytest.raises(JobDead, match="try 3"):
            await job.result()
        [dead] = await scheduler.jobs(state="DEAD")
        assert (dead.id, dead.args, dead.kwargs, dead.reason) == (job.id, (1,), {"b": [2]}, "exhausted")
        assert "ValueError: try 3" in dead.error
        attempts = await dead.attempts()
        assert [attempt.number for attempt in attempts] == [1, 2, 3]
        assert [attempt.error_kind for attempt in attempts] == ["ValueError"] * 3
        assert ["try 1" in attempts[0].error, "try 2" in attempts[1].error] == [True, True]

    lives.live(scene, {"failing": failing})
    gaps = [(after - before) / 1e6 for before, after in itertools.pairwise(began)]
    assert gaps == pytest.approx([10, 10], abs=0.01)


def test_handlers_say_what_happens_next():
    lives = Lives()
    raised = [Transient("again"), Throttled("slow down", retry_after_s=60), Snooze(100), Snooze(0), Permanent("never")]
    began = []

    async def wilful():
        began.append(round(lives.machine.awake_us / 1e6))
        raise raised[current().attempt - 1]

    async def scene(scheduler):
        job = await (await scheduler.options(retry=FLAT).now("wilful")).wait()
        assert (job.state, job.reason, job.record.failures) == (JobState.DEAD, "permanent", 3)
        assert await states(job) == [
            AttemptState.FAILED_RETRYABLE,
            AttemptState.FAILED_RETRYABLE,
            AttemptState.RELEASED,
            AttemptState.RELEASED,
            AttemptState.FAILED_PERMANENT,
        ]

    lives.live(scene, {"wilful": wilful})
    assert began == [0, 10, 70, 170, 170]


def test_a_timed_out_handler_is_cancelled_and_retried():
    lives = Lives()
    seen = []

    async def slow():
        try:
            await asyncio.sleep(60)  # virtual
        except asyncio.CancelledError:
            seen.append(current().attempt)
            raise

    async def scene(scheduler):
        job = await (await scheduler.options(timeout_s=5, retry=FLAT).now("slow")).wait()
        assert (job.state, job.reason) == (JobState.DEAD, "exhausted")
        attempts = await job.attempts()
        assert {attempt.state for attempt in attempts} == {AttemptState.TIMED_OUT}
        took = attempts[0].finished_at - attempts[0].started_at
        assert took.total_seconds() == pytest.approx(5, abs=0.01)

    lives.live(scene, {"slow": slow})
    assert seen == [1, 2, 3]


def test_a_handler_that_returns_after_its_timeout_has_not_succeeded():
    async def clinging():
        try:
            await asyncio.sleep(60)  # virtual
        except asyncio.CancelledError:
            return "in time, honestly"

    async def scene(scheduler):
        job = await (await scheduler.options(timeout_s=5, **ONCE).now("clinging")).wait()
        assert (job.state, job.record.result) == (JobState.DEAD, None)
        assert await states(job) == [AttemptState.TIMED_OUT]

    Lives().live(scene, {"clinging": clinging})


def test_a_handler_that_swallows_its_timeout_holds_its_slot_until_it_ends():
    lives = Lives()
    runs = []

    async def stubborn():
        runs.append(current().attempt)
        if current().attempt == 1:
            for _ in range(3):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(20)  # virtual
        return current().attempt

    async def scene(scheduler):
        job = await scheduler.options(timeout_s=5, retry=FLAT).now("stubborn")
        other = await scheduler.after(1, fine)
        await asyncio.sleep(30)  # virtual
        job = await job.refresh()
        assert (job.state, job.reason) == (JobState.WAITING, "overrun")
        assert await states(job) == [AttemptState.TIMED_OUT]
        assert (await other.refresh()).state is JobState.SCHEDULED
        assert await job.result() == 2
        assert await other.result() == "fine"
        assert await states(job) == [AttemptState.TIMED_OUT, AttemptState.SUCCEEDED]
        kinds = [kind for _, _, kind, _ in await lives.store.entries()]
        assert kinds.count("late_result") == 1

    lives.live(scene, {"stubborn": stubborn}, concurrency=1)
    assert runs == [1, 2]


# ---- current() and contexts ------------------------------------------------------------------------------------------


def test_current_tells_the_handler_who_it_is(caplog):
    lives = Lives()
    seen = []

    async def curious():
        me = current()
        me.log.warning("hello")
        inner = await asyncio.create_task(_ask())
        seen.append((me.job_id, me.attempt, me.scheduled_at, me.idempotency_key, me.cancel_requested, inner is me))
        assert me.scheduler is lives.running
        if me.attempt == 1:
            raise Transient

    async def _ask():
        return current()

    async def scene(scheduler):
        lives.running = scheduler
        due = lives.machine.now().replace(hour=1)
        job = await scheduler.options(retry=FLAT).at(due, "curious")
        await job.result()
        (first, second) = seen
        assert first == (job.id, 1, due, job.id, False, True)
        assert (second[0], second[1], second[3]) == (job.id, 2, job.id)
        assert (second[2] - due).total_seconds() == pytest.approx(10, abs=0.01)
        with pytest.raises(NotInJob):
            current()

    with caplog.at_level(logging.WARNING, "timewheel.task"):
        lives.live(scene, {"curious": curious})
    assert [(record.job_id, record.attempt) for record in caplog.records if record.name == "timewheel.task"] == [
        (seen[0][0], 1),
        (seen[0][0], 2),
    ]


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_context_variables_of_callers_and_other_jobs_do_not_leak(sync):
    """Each handler gets a fresh copy of the context that the scheduler was started in, whoever let it start."""
    lives = Lives()
    seen = []

    def leave_a_trace():
        seen.append(caller.get())
        caller.set("a former job")

    async def on_loop():
        leave_a_trace()

    async def scene(scheduler):
        caller.set("a request")
        jobs = await scheduler.at_many([scheduler.new(lives.machine.now(), "task") for _ in range(5)])
        await asyncio.sleep(0.09)  # virtual: the second is claimed by now, and waits for the rate
        assert len(seen) == 1
        await scheduler.queue("default").update(rate=None)  # which lets it start in this very context
        for job in jobs:
            await job.result(60)

    token = caller.set("who started")
    lives.live(scene, {"task": leave_a_trace if sync else on_loop}, queues={"default": Queue(rate=Rate(10))})
    caller.reset(token)
    assert seen == ["who started"] * 5


# ---- a journal in trouble --------------------------------------------------------------------------------------------


def test_b77_a_journal_that_takes_nothing_for_30_seconds_costs_no_job_its_outcome():
    store = FaultyStore()
    lives = Lives(store=store)
    busy = JournalBusy("held by another program", path="memory")
    ran = []

    async def count(number):
        ran.append(number)

    async def gone(changes):
        if changes and 10 <= lives.machine.awake_us / 1e6 < 40:
            raise busy

    async def scene(scheduler):
        store.before = gone
        jobs = [await scheduler.after(5 * number, "count", number) for number in range(12)]
        for job in jobs:
            await job.wait(200)
            assert await states(job) == [AttemptState.SUCCEEDED]

    lives.live(scene, {"count": count})
    assert sorted(ran) == list(range(12))


@pytest.mark.parametrize(("moment", "made_anew"), [("before", True), ("after", False)])
def test_an_unknown_commit_is_answered_honestly_and_the_key_finds_what_became_of_it(moment, made_anew):
    store = FaultyStore()
    ran = []

    async def count():
        ran.append(current().job_id)

    async def once(changes):
        setattr(store, moment, nothing)
        raise JournalUnknown("the disk coughed", path="memory")

    async def scene(scheduler):
        setattr(store, moment, once)
        keyed = scheduler.options(idempotency_key="k")
        with pytest.raises(JournalUnknown):
            await keyed.now("count")
        job = await keyed.now("count")
        assert job.created is made_anew
        await job.result(60)
        assert await scheduler.jobs().count() == 1

    Lives(store=store).live(scene, {"count": count})
    assert len(ran) == 1
