"""Dead letters come back safely: single and many, with a canary, at a rate, over restarts; and the audit of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from helpers import STORES, SlowStore, crash

from timewheel import (
    DiscardAnswer,
    InvalidOption,
    InvalidTask,
    JobNotFound,
    JournalBusy,
    JournalFull,
    JournalUnavailable,
    JournalUnknown,
    NotSerializable,
    NotStarted,
    OperationNotFound,
    Overloaded,
    Rate,
    ReplayAnswer,
    Retry,
    Scheduler,
    WaitTimeout,
)
from timewheel.model import JobState
from timewheel.operations import MOST_AT_ONCE
from timewheel.store.letters import OperationState, Replay
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

WHO = {"actor": "ada", "reason": "the bank is back", "cause_fixed": "gateway restarted"}
DONE, STOPPED, RUNNING = OperationState.DONE, OperationState.STOPPED, OperationState.RUNNING


class Bank:
    """A machine whose task `pay` fails while the bank is `down`, or for the numbers in `bad`."""

    def __init__(self, store: Any) -> None:
        self.machine = VirtualMachine(seed=3)
        self.store = store
        self.down = True
        self.bad: set[int] = set()
        self.paid: list[tuple[int, float]] = []

    def scheduler(self) -> Scheduler:
        scheduler = Scheduler(self.store, system=self.machine.system)

        @scheduler.task(name="pay", retry=1)
        async def pay(number: int, amount: int = 1) -> int:
            if self.down or number in self.bad:
                raise ValueError(f"the bank refused {number}")
            self.paid.append((number, self.machine.clock.boot_us() / 1e6))
            return amount

        @scheduler.task(name="slow", retry=1)
        async def slow(number: int) -> None:
            if self.down:
                raise ConnectionError("nobody is there")
            await asyncio.sleep(20)  # virtual

        return scheduler

    def live(self, scene: Any) -> Any:
        async def life() -> Any:
            async with self.scheduler() as scheduler:
                return await scene(scheduler)

        return self.machine.run(life())

    def live_until_death(self, scene: Any, commit: int, written: bool) -> None:
        """The machine dies in that commit after the start, or when the scene ends."""

        async def life() -> None:
            scheduler = self.scheduler()
            await scheduler.start()
            self.store.kill(self.store.commits + commit, written)
            death = asyncio.ensure_future(self.store.died.wait())
            living = asyncio.ensure_future(scene(scheduler))
            await asyncio.wait([death, living], return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()

        self.machine.run(life(), leave=True)
        self.store.kill(0, written=True)  # no other commit
        self.store = crash(self.store)

    async def kill(self, scheduler: Scheduler, jobs: int, task: str = "pay") -> list[Any]:
        """So many dead letters."""
        made = [await scheduler.now(task, number) for number in range(jobs)]
        return [await job.wait(60) for job in made]


@pytest.fixture(params=["memory", "sqlite"])
def bank(request: pytest.FixtureRequest) -> Bank:
    return Bank(STORES[request.param]())


async def collect(pages: Any) -> list[Any]:
    return [one async for one in pages]


# ---- one job ---------------------------------------------------------------------------------------------------------


def test_a_replay_is_a_new_attempt_of_the_same_job(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        assert [letter.id for letter in await scheduler.dead_letters()] == [job.id]
        bank.down = False
        assert await job.replay(**WHO) is ReplayAnswer.REPLAYED
        done = await job.wait(60)
        assert (done.state, done.attempt, done.error) == (JobState.COMPLETED, 2, None)
        assert [attempt.state for attempt in await done.attempts()] == ["FAILED_RETRYABLE", "SUCCEEDED"]
        assert not await scheduler.dead_letters().count()
        [entry] = await scheduler.audit()
        assert (entry.action, entry.job_id, entry.actor, entry.reason) == ("replay", job.id, "ada", WHO["reason"])
        assert (entry.cause_fixed, entry.details, entry.operation_id) == (WHO["cause_fixed"], {}, None)

    bank.live(scene)


def test_of_two_clicks_one_replays(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        answers = await asyncio.gather(*(job.replay(**WHO) for _ in range(3)))
        assert sorted(answers) == ["replayed", "too_late", "too_late"]
        assert sum(map(bool, answers)) == 1
        assert len(await scheduler.audit()) == 1
        dead = await job.wait(60)
        assert dead.attempt == 2

    bank.live(scene)


def test_retries_begin_anew(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        retrying = scheduler.options(retry=Retry(max_attempts=3, base_s=1, cap_s=1))
        dead = await (await retrying.now("pay", 1)).wait(60)
        assert dead.attempt == 3
        await dead.replay(**WHO)
        assert (await dead.refresh()).first_failed_at is None
        assert (await dead.wait(60)).attempt == 6

    bank.live(scene)


def test_cancelled_and_skipped_jobs_can_be_replayed(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        bank.down = False
        job = await scheduler.after(60, "pay", 1)
        await job.cancel("no")
        late = await scheduler.options(expires_after_s=1).after(5, "pay", 2)
        await scheduler.queue("default").pause()
        await bank.machine.sleep(20)
        await scheduler.queue("default").resume()
        late = await late.wait(60)
        assert late.state is JobState.SKIPPED
        for each in (job, late):
            assert await each.replay(**WHO)
            assert (await each.wait(60)).state is JobState.COMPLETED
            assert not await each.replay(**WHO), "a completed job is not run again"

    bank.live(scene)


def test_edited_arguments_replace_the_payload_and_the_old_one_is_kept(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        bank.down = False
        await job.replay(**WHO, kwargs={"amount": 7})
        done = await job.wait(60)
        assert (done.args, done.kwargs, await done.result()) == ((0,), {"amount": 7}, 7)
        [entry] = await scheduler.audit()
        assert entry.details == {"replaced": job.record.arguments}
        assert json.loads(entry.details["replaced"])

    bank.live(scene)


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        ({"args": [1, 2, 3]}, InvalidTask),
        ({"args": [], "kwargs": {"nothing": 1}}, InvalidTask),
        ({"args": [object()]}, NotSerializable),
        ({"args": "text"}, InvalidOption),
        ({"args": {1, 2}}, InvalidOption),
        ({"kwargs": [1]}, InvalidOption),
        ({"cause_fixed": False}, InvalidOption),
        ({"actor": ""}, InvalidOption),
    ],
)
def test_a_bad_replay_changes_nothing(bank: Bank, edit: dict[str, Any], error: type[Exception]) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        with pytest.raises(error):
            await job.replay(**{**WHO, **edit})
        assert (await job.refresh()).record == job.record
        assert not (await scheduler.audit()).items

    bank.live(scene)


def test_arguments_of_a_task_that_is_not_here_cannot_be_checked(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        scheduler._registry._registered.pop("pay")
        with pytest.raises(InvalidTask, match="cannot be checked"):
            await job.replay(**WHO, args=[2])

    bank.live(scene)


def test_a_discarded_letter_stays_dead_and_leaves_the_list(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [one, other] = await bank.kill(scheduler, 2)
        answers = [await one.discard(actor="ada", reason="test data") for _ in range(2)]
        assert answers == [DiscardAnswer.DISCARDED, DiscardAnswer.TOO_LATE]
        assert [bool(answer) for answer in answers] == [True, False]
        assert (await one.refresh()).state is JobState.DEAD
        assert [letter.id for letter in await scheduler.dead_letters()] == [other.id]
        [entry] = await scheduler.audit()
        assert (entry.action, entry.job_id, entry.cause_fixed) == ("discard", one.id, None)
        assert await one.replay(**WHO), "what was discarded can still be replayed"

    bank.live(scene)


def test_a_job_whose_handler_still_runs_is_not_replayed(bank: Bank) -> None:
    async def deaf(scheduler: Scheduler) -> None:
        async def hang() -> None:
            for _ in range(60):
                try:
                    await asyncio.sleep(1)  # virtual
                except asyncio.CancelledError:
                    continue

        scheduler.task(name="hang", retry=1)(hang)
        job = await scheduler.options(timeout_s=1).now("hang")
        await bank.machine.sleep(30)
        if (await job.refresh()).state is JobState.DEAD:
            assert await job.replay(**WHO) is ReplayAnswer.TOO_LATE
            operation = await (await scheduler.dead_letters().replay(**WHO)).wait(60)
            assert (operation.state, operation.done, operation.skipped) == (DONE, 0, 1)
        await bank.machine.sleep(60)
        assert (await job.refresh()).state is JobState.DEAD
        assert await job.replay(**WHO) is ReplayAnswer.REPLAYED

    bank.live(deaf)


def test_ids_of_nothing_are_not_found(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        job.record.job_id += 1 << 20
        for call in (job.replay(**WHO), job.replay(**WHO, args=[1]), job.discard(actor="a", reason="b")):
            with pytest.raises(JobNotFound):
                await call
        for name in ("operation-0000100000007", "job-0000100000007", "nonsense"):
            with pytest.raises(OperationNotFound):
                await scheduler.operation(name)

    bank.live(scene)


# ---- lists -----------------------------------------------------------------------------------------------------------


def test_letters_are_listed_by_what_they_have_in_common(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        pays = await bank.kill(scheduler, 5)
        await bank.machine.sleep(100)
        middle = bank.machine.now()
        await bank.machine.sleep(100)
        slows = await bank.kill(scheduler, 3, "slow")
        letters = scheduler.dead_letters
        assert [job.id for job in await letters()] == [job.id for job in [*slows[::-1], *pays[::-1]]]
        assert await letters(task="pay").count() == 5
        assert await letters(since=middle).count() == 3
        assert await letters(until=middle.timestamp()).count() == 5
        assert await letters(queue="other").count() == 0
        groups = await letters().groups()
        assert [(group.task, group.letters, group.newest) for group in groups] == [
            ("pay", 5, pays[-1].id),
            ("slow", 3, slows[-1].id),
        ]
        assert "refused" in (groups[0].error or "")
        assert groups[0].first_at < middle < groups[1].last_at
        alike = letters(fingerprint=groups[1].fingerprint)
        assert {job.id async for job in alike} == {job.id for job in slows}
        page = await letters(page_size=6)
        rest = await letters(page_size=6, page_token=page.next_page_token)
        assert len(page) == 6
        assert len(rest) == 2
        assert len(await letters().groups(limit=1)) == 1

    bank.live(scene)


@pytest.mark.parametrize(
    "bad",
    [
        {"queue": ""},
        {"task": 5},
        {"page_size": 0},
        {"page_token": "?"},
        {"since": "yesterday"},
        {"fingerprint": "x" * 201},
    ],
)
def test_a_bad_list_is_refused_at_once(bad: dict[str, Any]) -> None:
    with pytest.raises((InvalidOption, ValueError)):
        Scheduler("memory://").dead_letters(**bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"actor": "\0"},
        {"cause_fixed": False},
        {"canary": -1},
        {"canary": True},
        {"canary": 101},
        {"rate": 10},
        {"dry_run": 1},
    ],
)
def test_a_bad_bulk_replay_begins_nothing(bank: Bank, bad: dict[str, Any]) -> None:
    async def scene(scheduler: Scheduler) -> None:
        with pytest.raises(InvalidOption):
            await scheduler.dead_letters().replay(**{**WHO, **bad})
        assert not (await scheduler.operations()).items

    bank.live(scene)


# ---- many ------------------------------------------------------------------------------------------------------------


def test_after_a_canary_the_others_follow_at_the_rate(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        jobs = await bank.kill(scheduler, 100)
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO, canary=3, rate=Rate(20, burst=2))
        assert (operation.state, operation.matched, operation.trying) == (RUNNING, 100, True)
        done = await operation.wait(60)
        assert (done.state, done.done, done.skipped, done.failed) == (DONE, 100, 0, 0)
        assert (done.actor, done.asked_because, done.cause_fixed, done.canary) == (*WHO.values(), 3)
        for job in jobs:
            assert (await job.wait(60)).state is JobState.COMPLETED
        assert {number for number, _ in bank.paid[:3]} == {99, 98, 97}, "the newest are the canaries"
        times = [at for _, at in bank.paid]
        for first in range(100):
            for last in range(first, 100):
                assert last - first + 1 <= (times[last] - times[first] + 0.001) * 20 + 2
        assert times[-1] - times[0] < 6
        acts = Counter(entry.action for entry in await collect(scheduler.audit()))
        assert acts == {"start": 1, "replay": 100}

    bank.live(scene)


def test_a_canary_that_dies_stops_it_and_the_others_stay(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        jobs = await bank.kill(scheduler, 20)
        bank.down, bank.bad = False, {18}
        operation = await (await scheduler.dead_letters().replay(**WHO, canary=2)).wait(60)
        assert (operation.state, operation.done, operation.failed) == (STOPPED, 2, 1)
        assert f"{jobs[18].id} is DEAD: " in (operation.reason or "")
        assert [number for number, _ in bank.paid] == [19]
        assert await scheduler.dead_letters().count() == 19
        await bank.machine.sleep(100)
        assert len(bank.paid) == 1, "never retried on their own"

    bank.live(scene)


def test_it_waits_for_a_slow_canary(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        jobs = await bank.kill(scheduler, 10, "slow")
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO)
        await bank.machine.sleep(15)
        assert [(await job.refresh()).state for job in jobs[:-1]] == [JobState.DEAD] * 9
        with pytest.raises(WaitTimeout, match="RUNNING"):
            await operation.wait(1)
        await operation.wait(60)
        assert {(await job.wait(60)).state for job in jobs} == {JobState.COMPLETED}

    bank.live(scene)


def test_a_dry_run_only_counts(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 7)
        letters = scheduler.dead_letters(task="pay")
        for dry in (
            await letters.replay(**WHO, dry_run=True),
            await letters.discard(actor="ada", reason="old", dry_run=True),
        ):
            assert (dry.dry_run, dry.matched, dry.done, dry.id, dry.state) == (True, 7, 0, "", DONE)
            assert await dry.wait() is await dry.refresh() is await dry.stop(actor="a", reason="b") is dry
        await bank.machine.sleep(30)
        assert await letters.count() == 7
        assert not (await scheduler.audit()).items
        assert not (await scheduler.operations()).items

    bank.live(scene)


def test_many_are_discarded_without_a_rate(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 250)
        kept = await bank.kill(scheduler, 3, "slow")
        operation = await (await scheduler.dead_letters(task="pay").discard(actor="ada", reason="old")).wait(5)
        assert (operation.kind, operation.state, operation.done) == ("discard", DONE, 250)
        assert [job.id for job in await scheduler.dead_letters()] == [job.id for job in reversed(kept)]
        entries = await collect(scheduler.audit(page_size=100))
        assert Counter((entry.action, entry.operation_id) for entry in entries) == {
            ("start", operation.id): 1,
            ("discard", operation.id): 250,
        }

    bank.live(scene)


def test_a_second_click_gets_the_operation_that_runs(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 30)
        bank.down = False
        letters = scheduler.dead_letters()
        clicks = await asyncio.gather(*(letters.replay(**WHO) for _ in range(5)))
        assert len({operation.id for operation in clicks}) == 1
        other = await scheduler.dead_letters().replay(**WHO, rate=Rate(50))
        assert other.id != clicks[0].id
        ended = [await operation.wait(60) for operation in (clicks[0], other)]
        assert sum(operation.done for operation in ended) == 30, "two at once do no job twice"
        await bank.machine.sleep(10)
        assert sorted(number for number, _ in bank.paid) == list(range(30))
        assert [operation.id for operation in await scheduler.operations()] == [other.id, clicks[0].id]

    bank.live(scene)


def test_what_dies_meanwhile_is_not_touched(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        early = await scheduler.after(3, "pay", 1000)
        await bank.kill(scheduler, 60)
        operation = await scheduler.dead_letters().replay(**WHO, canary=0)
        ended = await operation.wait(60)
        assert (ended.done, (await early.refresh()).attempt) == (60, 1)
        await bank.machine.sleep(20)
        assert {job.attempt async for job in scheduler.dead_letters(task="pay")} == {1, 2}
        assert await scheduler.dead_letters().count() == 61

    bank.live(scene)


def test_it_can_be_stopped(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 100)
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO, rate=Rate(5))
        await bank.machine.sleep(3)
        stopped = await operation.stop(actor="bob", reason="wrong bank")
        assert (stopped.state, stopped.reason) == (STOPPED, "stopped by bob: wrong bank")
        assert 10 <= stopped.done <= 30
        await bank.machine.sleep(30)
        assert len(bank.paid) == stopped.done
        newest = (await scheduler.audit()).items[0]
        assert (newest.action, newest.actor, newest.operation_id) == ("stop", "bob", operation.id)
        assert await stopped.stop(actor="bob", reason="again") == stopped, "harmless when it is over"
        with pytest.raises(InvalidOption):
            await stopped.stop(actor="", reason="again")

    bank.live(scene)


def test_one_that_waits_for_its_canary_can_be_stopped(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 3, "slow")
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO)
        await bank.machine.sleep(2)
        assert (await operation.stop(actor="bob", reason="no")).state is STOPPED

    bank.live(scene)


# ---- over restarts ---------------------------------------------------------------------------------------------------


def test_it_goes_on_after_a_restart_at_its_rate(bank: Bank) -> None:
    async def begin(scheduler: Scheduler) -> str:
        await bank.kill(scheduler, 100)
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO, rate=Rate(10))
        await bank.machine.sleep(2.5)
        return operation.id

    async def go_on(scheduler: Scheduler) -> None:
        assert (await scheduler.operation(name)).state is RUNNING
        ended = await (await scheduler.operation(name)).wait(60)
        assert (ended.state, ended.done, ended.skipped) == (DONE, 100, 0)
        await bank.machine.sleep(10)

    name = bank.live(begin)
    assert 0 < len(bank.paid) < 100
    bank.live(go_on)
    times = sorted(at for _, at in bank.paid)
    assert len(times) == 100
    assert max(Counter(int(at) for at in times).values()) <= 21, "what was due while nobody was there runs at once"


def checked(bank: Bank, jobs: int) -> None:
    """After the last restart: the operation ends, and nothing was done twice or left out."""

    async def end(scheduler: Scheduler) -> None:
        await bank.machine.sleep(60)
        operations = await collect(scheduler.operations())
        if not operations:  # it died before the operation was accepted
            assert await scheduler.dead_letters().count() == jobs
            return
        [operation] = operations
        assert (operation.state, operation.done, operation.skipped) == (DONE, jobs, 0)
        replays = Counter(entry.job_id for entry in await collect(scheduler.audit()) if entry.action == "replay")
        assert len(replays) == jobs
        assert set(replays.values()) == {1}
        assert {job.state async for job in scheduler.jobs()} == {JobState.COMPLETED}
        assert {job.attempt async for job in scheduler.jobs(task="pay")} <= {2, 3}, "3: the second was lost"

    bank.live(end)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("commit", range(1, 22, 2))
def test_a_crash_in_any_commit_does_nothing_twice(kind: str, written: bool, commit: int) -> None:
    bank = Bank(SlowStore(STORES[kind](), commit_s=0.01))
    bank.live(lambda scheduler: bank.kill(scheduler, 12))
    bank.down = False

    async def replay(scheduler: Scheduler) -> None:
        operation = await scheduler.dead_letters().replay(**WHO, canary=2, rate=Rate(10))
        await operation.wait(60)

    bank.live_until_death(replay, commit, written)
    checked(bank, 12)


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("commit", range(1, 22, 2))
def test_an_unknown_outcome_of_any_commit_does_nothing_twice(written: bool, commit: int) -> None:
    bank = Bank(SlowStore(STORES["memory"](), commit_s=0.01))
    bank.live(lambda scheduler: bank.kill(scheduler, 12))
    bank.down = False

    async def replay(scheduler: Scheduler) -> None:
        unknown = JournalUnknown("the disk stuttered", path="memory")
        bank.store.faults = {bank.store.commits + commit: (unknown, written)}
        operation = await scheduler.dead_letters().replay(**WHO, canary=2, rate=Rate(10))
        await operation.wait(60)

    bank.live(replay)
    checked(bank, 12)


@pytest.mark.parametrize("after_ms", range(900, 1010, 10))
def test_one_that_begins_while_old_ones_are_looked_for_is_one(after_ms: int) -> None:
    """It is durable before its own process has heard so: whoever looks for those of former processes meets it."""
    bank = Bank(SlowStore(STORES["memory"](), commit_s=0.05))
    bank.live(lambda scheduler: bank.kill(scheduler, 12))
    bank.down = False

    async def replay(scheduler: Scheduler) -> None:
        await bank.machine.sleep(after_ms / 1000)
        operation = await scheduler.dead_letters().replay(**WHO, canary=2, rate=Rate(10))
        ended = await operation.wait(60)
        assert (ended.state, ended.done, ended.skipped) == (DONE, 12, 0)

    bank.live(replay)
    checked(bank, 12)


def test_a_fault_while_old_ones_are_looked_for_begins_none_of_them_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timewheel.operations._PAGE", 1)
    bank = Bank(SlowStore(STORES["memory"](), commit_s=0.01))
    pages = 0

    async def begin(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 12)
        bank.down = False
        await scheduler.dead_letters().replay(**WHO, canary=2, rate=Rate(1))

    async def go_on(scheduler: Scheduler) -> None:
        read = bank.store.operations

        async def stutters(**which: Any) -> Any:
            nonlocal pages
            pages += 1
            if pages == 2:
                raise JournalUnavailable("the disk stuttered", path="memory")
            return await read(**which)

        monkeypatch.setattr(bank.store, "operations", stutters, raising=False)
        await bank.machine.sleep(60)
        monkeypatch.undo()

    bank.live(begin)
    bank.live(go_on)
    assert pages > 2
    checked(bank, 12)


async def replays(scheduler: Scheduler) -> Counter[str | None]:
    return Counter(entry.job_id for entry in await collect(scheduler.audit()) if entry.action == "replay")


def dies_after_the_first_step(jobs: int, **terms: Any) -> Bank:
    """The first step of an operation is written, and its progress is not."""
    bank = Bank(SlowStore(MemoryStore(), commit_s=0.01))
    bank.live(lambda scheduler: bank.kill(scheduler, jobs))
    steps = 0

    class Dying(SlowStore):
        async def commit(self, changes: Any, stamp: Any) -> Any:
            nonlocal steps
            if any(isinstance(change, Replay) for change in changes):
                steps += 1
                self.kill(self.commits + 1, written=True)
            return await super().commit(changes, stamp)

    bank.store = Dying(bank.store.inner, commit_s=0.01)

    async def life() -> None:
        scheduler = bank.scheduler()
        await scheduler.start()
        await scheduler.dead_letters().replay(**WHO, **terms)
        while not steps:
            await asyncio.sleep(0.001)  # virtual
        await bank.store.died.wait()

    bank.machine.run(life(), leave=True)
    bank.store.kill(0, written=True)
    bank.store = crash(bank.store.inner)
    return bank


def test_canaries_of_a_step_that_was_not_counted_are_waited_for() -> None:
    bank = dies_after_the_first_step(12, canary=2)

    async def scene(scheduler: Scheduler) -> None:
        await bank.machine.sleep(20)
        [operation] = await scheduler.operations()
        assert (operation.state, operation.done, operation.failed) == (STOPPED, 2, 2)
        assert (await replays(scheduler)).total() == 2

    bank.live(scene)


def test_jobs_of_a_step_that_was_not_counted_have_had_their_places_in_the_rate() -> None:
    bank = dies_after_the_first_step(60, canary=0, rate=Rate(10))
    bank.down = False

    async def scene(scheduler: Scheduler) -> None:
        await bank.machine.sleep(30)
        [operation] = await scheduler.operations()
        assert (operation.state, operation.done) == (DONE, 60)
        times = sorted(dict(reversed(bank.paid)).values())
        assert len(times) == 60
        for first in range(1, 60):  # the first was due while nobody was there
            for last in range(first, 60):
                assert last - first <= (times[last] - times[first] + 0.05) * 10

    bank.live(scene)


def test_a_clock_set_back_lets_no_job_be_done_twice() -> None:
    bank = dies_after_the_first_step(12, canary=0)
    bank.machine.step(-3600)

    async def scene(scheduler: Scheduler) -> None:
        await bank.machine.sleep(20)
        [operation] = await scheduler.operations()
        assert (operation.state, operation.done, operation.skipped) == (DONE, 12, 0)
        assert set((await replays(scheduler)).values()) == {1}

    bank.live(scene)


def test_an_operation_waits_while_another_program_holds_the_journal() -> None:
    bank = Bank(SlowStore(MemoryStore(), commit_s=0.01))

    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 3)
        busy = JournalBusy("locked", path="memory")
        bank.store.faults = {bank.store.commits + 1 + number: (busy, False) for number in range(5)}
        submitted = asyncio.ensure_future(scheduler.after(60, "pay", 9))
        await bank.machine.sleep(0.5)
        assert isinstance(scheduler.trouble, JournalBusy)
        operation = await scheduler.dead_letters().discard(actor="ada", reason="r")
        assert (await operation.wait(60)).done == 3
        assert (await submitted).created

    bank.live(scene)


def test_a_full_journal_takes_no_operation_and_one_that_runs_waits_for_space() -> None:
    bank = Bank(SlowStore(MemoryStore(), commit_s=0.01))

    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, 60)
        bank.down = False
        operation = await scheduler.dead_letters().replay(**WHO, canary=0, rate=Rate(10))
        await bank.machine.sleep(1)
        full = JournalFull("no space", path="memory")
        bank.store.faults = {bank.store.commits + 1 + number: (full, False) for number in range(30)}
        await bank.machine.sleep(3)
        for ask in (
            scheduler.dead_letters().discard(actor="ada", reason="r"),
            (await scheduler.jobs(state="DEAD")).items[-1].replay(**WHO),
        ):
            with pytest.raises(JournalFull):
                await ask
        bank.store.faults = {}
        ended = await operation.wait(60)
        assert (ended.state, ended.done, ended.skipped) == (DONE, 60, 0)
        assert set((await replays(scheduler)).values()) == {1}

    bank.live(scene)


def test_operations_need_a_running_scheduler(bank: Bank) -> None:
    scheduler = bank.scheduler()

    async def scene(_: Scheduler) -> None:
        with pytest.raises(NotStarted):
            await scheduler.dead_letters().replay(**WHO)
        with pytest.raises(NotStarted):
            await scheduler.dead_letters()

    bank.live(scene)


def test_only_so_many_at_once(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        await bank.kill(scheduler, MOST_AT_ONCE + 5, "slow")
        bank.down = False
        for number in range(MOST_AT_ONCE):
            await scheduler.dead_letters().replay(**WHO, rate=Rate(number + 1))
            await bank.machine.sleep(0.1)
        with pytest.raises(Overloaded):
            await scheduler.dead_letters().replay(**WHO, rate=Rate(1000))
        await bank.machine.sleep(100)
        assert not await scheduler.dead_letters().count()
        await scheduler.dead_letters().replay(**WHO, rate=Rate(1000))

    bank.live(scene)


def test_a_letter_is_named_by_when_it_died(bank: Bank) -> None:
    async def scene(scheduler: Scheduler) -> None:
        [job] = await bank.kill(scheduler, 1)
        died = (await job.refresh()).finished_at
        assert died is not None
        second = timedelta(microseconds=1)
        assert await scheduler.dead_letters(since=died, until=died).count() == 1
        assert await scheduler.dead_letters(since=died + second).count() == 0
        assert await scheduler.dead_letters(until=died - second).count() == 0

    bank.live(scene)
