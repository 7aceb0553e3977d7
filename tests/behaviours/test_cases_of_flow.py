"""Cases about jobs that are kept from starting, or did not end well: whatever holds a job, what was promised holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.marks import DEEP
from tests.simulation.helpers import STORES, MemorySqlite, SlowStore, Stage, t0
from timewheel import Breaker, Dependency, Permanent, Queue, Rate, Retention, Retry, RetryBudget, Unique, current
from timewheel.events import JobsEnded
from timewheel.model import CancelAnswer, JobState, ReplayAnswer
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

HOUR_S = 3600
WHO = {"actor": "ada", "reason": "it is back", "cause_fixed": True}
BOTH = pytest.mark.parametrize("store", STORES)


class Held(Stage):
    """A stage with one task for each thing that can hold a job; `hold[way](scheduler)` makes a job that it holds.

    The tasks note their jobs' tags. What holds them lasts for an hour, or until `free` (breakers, pauses).
    """

    def __init__(self, store, **options):
        super().__init__(
            VirtualMachine(seed=2, quiet=True),
            store,
            dependencies={"target": Dependency(breaker=Breaker(), retry_budget=RetryBudget(share=0, at_least=1))},
            queues={"shelf": Queue()},
            **options,
        )
        self.hold = {
            "task": self._task,
            "key": self._key,
            "rate": self._rate,
            "jobs": self._jobs,
            "breaker": self._breaker,
            "back-off": self._back_off,
            "pause": self._pause,
        }

    def scheduler(self):
        scheduler = super().scheduler()
        scheduler.task(name="one", concurrency=1)(self.busy)
        scheduler.task(name="each", key_concurrency=1)(self.busy)
        scheduler.task(name="hourly", rate=Rate(1, per_s=HOUR_S))(self.note)
        scheduler.task(name="call", dependency="target")(self.note)
        return scheduler

    async def _task(self, scheduler):
        await scheduler.now("one", "holder", HOUR_S)
        return await scheduler.now("one", "held", 1)

    async def _key(self, scheduler):
        keyed = scheduler.options(concurrency_key="k")
        await keyed.now("each", "holder", HOUR_S)
        return await keyed.now("each", "held", 1)

    async def _rate(self, scheduler):
        await scheduler.now("hourly", "holder")
        return await scheduler.now("hourly", "held")

    async def _jobs(self, scheduler):
        first = await scheduler.now("busy", "holder", HOUR_S)
        return await scheduler.options(wait_for=[first]).now("note", "held")

    async def _breaker(self, scheduler):
        await scheduler.dependency("target").force_open("maintenance")
        return await scheduler.now("call", "held")

    async def _back_off(self, scheduler):
        slow = Retry(max_attempts=2, base_s=HOUR_S, cap_s=HOUR_S)
        return await scheduler.options(retry=slow).now("fail", "held", 1)

    async def _pause(self, scheduler):
        await scheduler.queue("shelf").pause()
        return await scheduler.options(queue="shelf").now("note", "held")

    async def free(self, scheduler):
        """Nobody holds breakers and queues any more."""
        await scheduler.dependency("target").auto()
        await scheduler.queue("shelf").resume()


WAYS = pytest.mark.parametrize("way", list(Held(MemoryStore()).hold))


# ---- B54, B82: what is held for long ---------------------------------------------------------------------------------


@BOTH
@WAYS
def test_b54_a_job_that_is_held_for_an_hour_over_three_restarts_starts_once(store, way):
    """Each life is 15 minutes; two are killed, one is stopped in order."""
    held = Held(STORES[store]())

    async def begin(scheduler):
        job = await held.hold[way](scheduler)
        await held.machine.sleep(HOUR_S / 4)
        return job.id

    async def wait(scheduler):
        await held.machine.sleep(HOUR_S / 4)

    async def end(scheduler):
        await held.free(scheduler)
        await held.machine.sleep(2 * HOUR_S)
        return await (await scheduler.get_job(job_id)).refresh()

    job_id = held.play(begin, crash_after=True)
    starts = held.tags().count("held")  # the back-off comes after a first attempt
    held.play(wait, crash_after=True)
    held.play(wait)
    job = held.play(end)
    assert starts == (way == "back-off")
    assert held.tags().count("held") == starts + 1
    assert (job.state, job.attempt) == (JobState.COMPLETED, starts + 1)
    check_dump(held.dump())


@BOTH
@WAYS
def test_b82_a_held_job_whose_cancel_was_confirmed_never_starts_though_the_process_died(store, way):
    held = Held(STORES[store]())

    async def cancel(scheduler):
        job = await held.hold[way](scheduler)
        await held.machine.sleep(30)
        held.diary.clear()
        assert await job.cancel("no more") is CancelAnswer.CANCELLED
        return job.id

    async def later(scheduler):
        await held.free(scheduler)
        await held.machine.sleep(3 * HOUR_S)
        return await scheduler.get_job(job_id)

    job_id = held.play(cancel, crash_after=True)
    job = held.play(later)
    assert "held" not in held.tags()
    assert (job.state, job.reason) == (JobState.CANCELLED, "no more")


# ---- B37: what is held is given back ---------------------------------------------------------------------------------


class Ends(Stage):
    """A stage with a task of one slot, one slot a key, and one probe of a breaker that is half-open."""

    def __init__(self, store):
        breaker = Breaker(failures=1, min_share=0, open_s=10, closes_after=2)
        super().__init__(VirtualMachine(seed=3), store, dependencies={"target": Dependency(breaker=breaker)})
        self.how = "well"

    async def work(self, tag):
        self._enter(tag)
        if tag == "bad":
            if self.how == "raises":
                raise ValueError("bad")
            if self.how == "permanent":
                raise Permanent("bad")
            if self.how == "cancels itself":
                raise asyncio.CancelledError
            await asyncio.sleep(100)  # virtual

    def scheduler(self):
        scheduler = super().scheduler()
        limits = {"concurrency": 1, "key_concurrency": 1, "dependency": "target", "retry": None, "cancel_grace_s": 0}
        scheduler.task(name="work", **limits)(self.work)
        return scheduler


@BOTH
@pytest.mark.parametrize("how", ["raises", "permanent", "cancels itself", "times out", "is cancelled", "is killed"])
def test_b37_a_slot_a_key_and_a_probe_are_given_back_however_the_run_ends(store, how):
    """The bad job holds all three; the good ones behind it run, and the breaker closes."""
    stage = Ends(STORES[store]())

    async def bad(scheduler):
        stage.how = "raises"
        await scheduler.now("work", "bad")  # opens the breaker
        await stage.machine.sleep(11)
        stage.how = how
        keyed = scheduler.options(concurrency_key="k", timeout_s=3 if how == "times out" else None)
        job = await keyed.now("work", "bad")
        goods = [await scheduler.options(concurrency_key="k").now("work", ("good", n)) for n in range(3)]
        await stage.machine.sleep(1)
        if how == "is cancelled":
            await job.cancel()
        if how != "is killed":
            await stage.machine.sleep(60)
        return goods

    async def good(scheduler):
        await stage.machine.sleep(120)
        assert scheduler.dependency("target").state().breaker == "CLOSED"
        return [(await scheduler.get_job(each.id)).state for each in goods]

    goods = stage.play(bad, crash_after=how == "is killed")
    stage.how = "raises"  # the killed one comes again
    assert stage.play(good) == [JobState.COMPLETED] * 3
    assert stage.tags().count("bad") == 2 + (how == "is killed")


# ---- B41: what is left out leaves a trace ----------------------------------------------------------------------------


@BOTH
def test_b41_whatever_ends_a_job_before_its_start_is_kept_with_its_reason_and_counted(store):
    stage = Stage(store=STORES[store](), concurrency=1)

    async def scene(scheduler):
        await scheduler.now("busy", "holder", 100)
        failing = await scheduler.options(retry=None).after(200, "fail", "failing", 1)
        replacing = Unique(on_conflict="replace")
        made = {
            ("SKIPPED", "expired"): scheduler.options(expires_after_s=10).now("note", "expired"),
            ("DEAD", "deadline"): scheduler.options(deadline_after_s=10).now("note", "deadline"),
            ("CANCELLED", "dependency"): scheduler.options(wait_for=[failing]).now("note", "dependency"),
            ("CANCELLED", "replaced"): scheduler.options(unique=replacing).after(300, "note", "replaced"),
            ("COMPLETED", None): scheduler.options(unique=replacing).after(310, "note", "replaced"),
        }
        jobs = {ending: await job for ending, job in made.items()}
        await stage.machine.sleep(400)
        for (state, reason), job in jobs.items():
            job = await job.refresh()
            assert (job.state, job.reason) == (state, reason)
            assert job.id in [each.id async for each in scheduler.jobs(state=state)], "found by its state"

    stage.play(scene)
    assert stage.tags() == ["holder", "failing", "replaced"]
    counted = Counter()
    for notice in stage.noticed(JobsEnded):
        counted[notice.state] += notice.jobs
    assert counted == {JobState.SKIPPED: 1, JobState.DEAD: 1, JobState.CANCELLED: 2}


# ---- B51: retries do not overtake first tries for ever ---------------------------------------------------------------


@pytest.mark.parametrize("where", ["worker", "task", "key", "rate"])
def test_b51_jobs_that_fail_for_ever_let_a_first_try_through(where):
    """20 jobs retry as soon as they failed; one slot, or a token each 100 ms: who was due first goes first."""
    stage = Stage(concurrency=1 if where == "worker" else 50)
    limits = {
        "worker": {},
        "task": {"concurrency": 1},
        "key": {"key_concurrency": 1},
        "rate": {"rate": Rate(10)},
    }[where]

    async def work(tag):
        stage._enter(tag)
        if where != "rate":
            await asyncio.sleep(0.1)  # virtual
        if tag == "failing":
            raise ValueError("again")

    async def scene(scheduler):
        scheduler.task(name="work", retry=Retry(max_attempts=10_000, base_s=0.01, cap_s=0.01), **limits)(work)
        keyed = scheduler.options(concurrency_key="k")
        for _ in range(20):
            await keyed.now("work", "failing")
        for number in range(5):
            await stage.machine.sleep(5)
            before = len(stage.diary)
            await keyed.now("work", number)
            await stage.machine.sleep(5)
            assert stage.tags()[before:].index(number) <= 20 + 1, "each of them once at most"

    stage.play(scene, crash_after=True)
    assert stage.tags().count("failing") > 300


# ---- B55: what blocks its own heartbeat ------------------------------------------------------------------------------


@BOTH
def test_b55_a_run_that_keeps_itself_from_saying_that_it_lives_starts_once(store):
    """Silence of a second ends a run; one holds the loop up for six, one awaits for six and says that it lives."""
    stage = Stage(store=STORES[store]())

    async def lively(tag):
        stage._enter(tag)
        for _ in range(12):
            await asyncio.sleep(0.5)  # virtual
            current().heartbeat()

    async def scene(scheduler):
        scheduler.task(name="lively")(lively)
        watched = scheduler.options(heartbeat_timeout_s=1)
        awaits = await watched.now("lively", "awaits")
        await stage.machine.sleep(0.7)
        jobs = [awaits, await watched.now("block", "blocks", 6)]
        await stage.machine.sleep(20)
        return [await job.refresh() for job in jobs]

    jobs = stage.play(scene)
    assert [job.state for job in jobs] == [JobState.COMPLETED] * 2
    assert Counter(stage.tags()) == {"blocks": 1, "awaits": 1}


# ---- B66: history ----------------------------------------------------------------------------------------------------


def load(rounds, round_s=20, jobs=400):
    """Jobs are due all the time, and never fewer than wait; what the journal holds after each round."""
    stage = Stage(
        VirtualMachine(seed=6), MemorySqlite(), concurrency=2, retention=Retention(completed_s=100, dead_s=50)
    )
    held = []

    async def scene(scheduler):
        for number in range(rounds):
            await scheduler.at_many(scheduler.new(timedelta(0), "busy", None, 0.1) for _ in range(jobs))
            for _ in range(5):
                await scheduler.options(retry=None).now("fail", "dies", 1)
            await stage.machine.sleep(round_s)
            stage.diary.clear()
            assert scheduler._engine.dispatcher.ready.queue_size("default") > 0 or number == 0, "busy all the time"
            [(pages,)] = stage.store.connection.execute("PRAGMA page_count").fetchall()
            rows = [
                stage.store.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in tables(stage.store)
            ]
            held.append((pages, sum(rows), len(scheduler._engine.dispatcher.ready)))

    stage.play(scene, crash_after=True)
    return held


def tables(store):
    """All of a journal."""
    found = store.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return [name for (name,) in found]


def levels_off(rounds):
    """Nothing grows any more once the first jobs have been forgotten; how many jobs went through."""
    held = load(rounds)
    begin = 12  # rounds: the retention, a pass, and a little
    for what, name in enumerate(("pages of the file", "rows", "entries in memory")):
        early = max(each[what] for each in held[begin : begin + 8])
        late = max(each[what] for each in held[-8:])
        assert late <= early * 1.05 + 20, f"{name} go on growing: {[each[what] for each in held]}"


def test_b66_file_and_rows_level_off_while_jobs_wait_all_the_time():
    levels_off(30)


@pytest.mark.slow
@DEEP
def test_b66_file_and_rows_level_off_over_a_hundred_thousand_jobs():
    levels_off(250)


# ---- B80: dead letters that arrive -----------------------------------------------------------------------------------


@BOTH
def test_b80_a_schedule_goes_on_when_a_job_of_it_dies_and_the_letter_says_which_slot_it_was(store):
    stage = Stage(VirtualMachine(quiet=True), STORES[store]())

    async def scene(scheduler):
        verbs = scheduler.recurring(id="hourly", retry=Retry(max_attempts=2, base_s=1, cap_s=1, jitter=0))
        await verbs.every(HOUR_S, "fail", "hourly", 2)
        await stage.machine.sleep(2.5 * HOUR_S)
        letters = [letter async for letter in scheduler.dead_letters()]
        assert [letter.scheduled_at for letter in letters] == [t0(2 * HOUR_S), t0(HOUR_S)]
        for letter in letters:
            assert (letter.args, letter.attempt, letter.reason) == (("hourly", 2), 2, "exhausted")
            assert "attempt 2 of hourly" in letter.error
            assert [each.error_kind for each in await letter.attempts()] == ["ValueError"] * 2
        [group] = await scheduler.dead_letters().groups()
        assert group.letters == 2

    stage.play(scene)
    assert len(stage.diary) == 4


@BOTH
@pytest.mark.parametrize("crash", [False, True])
def test_b80_a_replay_works_once_however_often_it_is_clicked_and_keeps_the_id(store, crash):
    """Three at once, and two more later: after the process died, or after it only went on."""
    stage = Stage(VirtualMachine(seed=8, shuffle=True), SlowStore(STORES[store](), 8, commit_s=0.02))

    async def click(scheduler):
        job = await scheduler.options(retry=None).now("fail", "letter", 1)
        await job.wait(10)
        answers = await asyncio.gather(*(job.replay(**WHO) for _ in range(3)))
        assert Counter(answers) == {ReplayAnswer.REPLAYED: 1, ReplayAnswer.TOO_LATE: 2}
        return job.id

    async def again(scheduler):
        job = await scheduler.get_job(job_id)
        assert [await job.replay(**WHO) for _ in range(2)] == [ReplayAnswer.TOO_LATE] * 2
        job = await job.wait(10)
        assert (job.state, job.reason, job.id) == (JobState.COMPLETED, None, job_id)
        numbers = [(each.number, each.state.value) for each in await job.attempts()]
        assert [number for number, _ in numbers] == list(range(1, len(numbers) + 1))
        assert (numbers[0][1], numbers[-1][1]) == ("FAILED_RETRYABLE", "SUCCEEDED")
        assert Counter(state for _, state in numbers)["SUCCEEDED"] == 1
        assert len(await scheduler.audit()) == 1, "the clicks that did nothing are no deeds"
        await stage.machine.sleep(60)

    job_id = stage.play(click, crash_after=crash)
    stage.play(again)
    assert len(stage.diary) <= 2 + crash


@BOTH
def test_b80_a_job_without_its_task_is_no_dead_letter_and_runs_once_the_task_is_back(store):
    stage = Stage(store=STORES[store]())

    async def make(scheduler):
        scheduler.task(name="gone")(stage.note)
        return (await scheduler.after(10, "gone", "back")).id

    async def without(scheduler):
        await stage.machine.sleep(60)
        job = await scheduler.get_job(job_id)
        assert (job.state, job.reason) == (JobState.WAITING, "unresolvable")
        assert await scheduler.dead_letters().count() == 0

    async def back(scheduler):
        await stage.machine.sleep(5)

    job_id = stage.play(make, crash_after=True)
    stage.play(without, crash_after=True)
    plain = stage.scheduler

    def with_it():
        scheduler = plain()
        scheduler.task(name="gone")(stage.note)
        return scheduler

    stage.scheduler = with_it
    stage.play(back)
    assert stage.tags() == ["back"]


# ---- B81: cancel tells the truth about held jobs ---------------------------------------------------------------------


def cancels(seed, jobs):
    """What cancel said of each of so many jobs, its state in the end, its starts and its successes."""
    stage = Stage(VirtualMachine(seed=seed, shuffle=True), SlowStore(MemoryStore(), seed, commit_s=0.02))
    chance = stage.machine.random
    starts, successes, answers = Counter(), Counter(), {}

    async def work(number):
        starts[number] += 1
        await asyncio.sleep(0.05)  # virtual
        successes[number] += 1

    async def one(scheduler, number, before):
        """Make a job that something may hold, and cancel it at some moment."""
        kinds = [
            {"concurrency_key": f"k{number % 5}"},
            {"rate_key": f"r{number % 5}"},
            {"partition_key": f"p{number % 3}"},
            {"wait_for": [before]} if before else {},
            {"expires_after_s": 60, "deadline_after_s": 120},
        ]
        delay_s = chance.uniform(0, 2)
        job = await scheduler.options(**chance.choice(kinds)).after(delay_s, "work", number)

        async def cancel():
            await stage.machine.sleep(delay_s + chance.uniform(-0.5, 1.5) * chance.choice([0.1, 1]))
            answers[number] = await job.cancel()

        return job, asyncio.ensure_future(cancel())

    async def scene(scheduler):
        limits = {"concurrency": 8, "key_concurrency": 1, "key_rate": Rate(20), "rate": Rate(100, burst=5)}
        scheduler.task(name="work", **limits)(work)
        made = []
        for number in range(jobs):
            made.append(await one(scheduler, number, made[-1][0] if made else None))
            await stage.machine.sleep(0.01)
        await asyncio.gather(*(task for _, task in made))
        return [await job.wait(600) for job, _ in made]

    jobs_then = stage.play(scene)
    check_dump(stage.dump())
    return [(answers[n], job.state, starts[n], successes[n]) for n, job in enumerate(jobs_then)]


TRUTHS = {
    (CancelAnswer.CANCELLED, JobState.CANCELLED, 0, 0),
    (CancelAnswer.REQUESTED, JobState.CANCELLED, 1, 0),
    (CancelAnswer.REQUESTED, JobState.COMPLETED, 1, 1),
    (CancelAnswer.TOO_LATE, JobState.COMPLETED, 1, 1),
    (CancelAnswer.TOO_LATE, JobState.CANCELLED, 0, 0),  # the one that it waited for had been cancelled
}


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 22))])
def test_b81_cancels_of_jobs_that_limits_hold_tell_the_truth_too(seed):
    told = cancels(seed, 300)
    assert {each[0] for each in told} == set(CancelAnswer)
    for number, each in enumerate(told):
        assert each in TRUTHS, f"seed {seed}, job {number}: {each}"


# ---- B78: the back-off of the throttled ------------------------------------------------------------------------------


def test_b78_the_harder_back_off_of_throttled_jobs_is_bounded_too():
    """HTTP 429 without a word of how long, 40 times: the delays never shrink, overflow or pass the cap."""
    stage = Stage(VirtualMachine(seed=4, quiet=True))
    began = []

    class TooMany(Exception):
        status = 429

    async def work():
        began.append(stage.elapsed_s)
        raise TooMany

    async def scene(scheduler):
        scheduler.task(name="work", retry=Retry(max_attempts=40, base_s=1, factor=9, cap_s=HOUR_S, jitter=0))(work)
        job = await (await scheduler.now("work")).wait(50 * HOUR_S)
        assert (job.state, job.reason) == (JobState.DEAD, "exhausted")

    stage.play(scene)
    delays = [after - before for before, after in pairwise(began)]
    assert len(delays) == 39
    assert all(1 <= delay <= HOUR_S + 0.1 for delay in delays)
    assert all(sooner <= later + 0.1 for sooner, later in pairwise(delays))
    assert delays[10:] == pytest.approx([HOUR_S] * 29, abs=0.1)
