"""Handlers that do not stop when they have timed out: each holds its concurrency key until it ends (I18)."""

from __future__ import annotations

import asyncio

import pytest
from helpers import SlowStore
from lives import Lives, states

from timewheel import CancelAnswer, Retention, Retry
from timewheel.model import AttemptState, JobState
from timewheel_storage.memory import MemoryStore

KEY = {"concurrency_key": "k"}
ENDS_S = 40  # a handler that clings; it times out after 5 s, and that it does not stop is seen a second later
FLAT = Retry(max_attempts=2, base_s=100, factor=1, cap_s=100, jitter=0)


class Clinging:
    """Lives with two tasks: `clings` goes on for 40 s whatever it is told, `other` takes a second."""

    def __init__(self, store=None, **declared):
        self.lives = Lives(store=store)
        self.declared = declared
        self.ends_s = ENDS_S
        self.diary = []  # (seconds, what happened)
        self.running, self.most = 0, 0

    def play(self, scene, *, dies=False, **options):
        async def clings():
            async with self._diary("clings"):
                end = self.now_s + self.ends_s
                while self.now_s < end:
                    try:
                        await asyncio.sleep(end - self.now_s)  # virtual
                    except asyncio.CancelledError:
                        continue

        async def other():
            async with self._diary("other"):
                await asyncio.sleep(1)  # virtual

        async def declared(scheduler):
            scheduler.task(name="clings", timeout_s=5, **self.declared)(clings)
            scheduler.task(name="other", key_concurrency=self.declared.get("key_concurrency"))(other)
            self._began_s = self.lives.machine.clock.boot_us() / 1e6
            return await scene(scheduler)

        self.running = 0
        return (self.lives.die if dies else self.lives.live)(declared, **options)

    @property
    def now_s(self):
        return self.lives.machine.clock.boot_us() / 1e6 - self._began_s

    def _diary(self, name):
        clinging = self

        class Entry:
            async def __aenter__(self):
                clinging.diary.append((round(clinging.now_s), f"{name} begins"))
                clinging.running += 1
                clinging.most = max(clinging.most, clinging.running)

            async def __aexit__(self, *_):
                clinging.diary.append((round(clinging.now_s), f"{name} ends"))
                clinging.running -= 1

        return Entry()


ONE_AFTER_THE_OTHER = [(0, "clings begins"), (40, "clings ends"), (40, "other begins"), (41, "other ends")]


@pytest.mark.parametrize("waits", [True, False], ids=["waited before", "comes later"])
@pytest.mark.parametrize(
    ("options", "declared", "reason"),
    [
        ({"retry": None}, {}, "exhausted"),
        ({"retry": FLAT}, {"idempotent": False}, "ambiguous"),
        ({"retry": FLAT, "deadline_after_s": 20}, {}, "deadline"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_i18_a_handler_that_outlives_its_dead_job_holds_the_key_until_it_ends(options, declared, reason, waits):
    clinging = Clinging(**declared)

    async def scene(scheduler):
        job = await scheduler.options(**KEY, **options).now("clings")
        other = await scheduler.options(**KEY).after(1 if waits else 10, "other")
        free = await scheduler.options(concurrency_key="another").after(10, "other")
        await asyncio.sleep(7)  # virtual
        job = await job.refresh()
        assert (job.state, job.reason) == (JobState.DEAD, reason), "seen at once, not when its handler ends"
        assert [letter.id async for letter in scheduler.dead_letters()] == [job.id]
        await asyncio.sleep(20)  # virtual
        other, free = await other.refresh(), await free.refresh()
        assert (other.state, other.reason) == (JobState.WAITING, "key")
        assert free.state is JobState.COMPLETED
        assert (await other.wait(60)).state is JobState.COMPLETED
        assert (await job.refresh()).state is JobState.DEAD
        assert await states(job) == [AttemptState.TIMED_OUT]

    clinging.play(scene)
    free = [(10, "other begins"), (11, "other ends")]
    assert clinging.diary == [ONE_AFTER_THE_OTHER[0], *free, *ONE_AFTER_THE_OTHER[1:]]


@pytest.mark.parametrize("when_s", [3, 5.5, 20], ids=["while it may run", "while it is to stop", "while it overruns"])
def test_i18_a_cancel_ends_the_job_and_not_what_its_handler_holds(when_s):
    clinging = Clinging()

    async def scene(scheduler):
        job = await scheduler.options(**KEY, retry=FLAT).now("clings")
        other = await scheduler.options(**KEY).after(8, "other")
        await asyncio.sleep(when_s)  # virtual
        answer = await job.cancel("enough")
        assert answer is (CancelAnswer.CANCELLED if when_s > 6 else CancelAnswer.REQUESTED)
        await asyncio.sleep(30 - when_s)  # virtual
        if when_s > 3:  # else it was never timed out: the job is ACTIVE until its handler ends
            assert (await job.refresh()).state is JobState.CANCELLED
        assert ((await other.refresh()).state, (await other.refresh()).reason) == (JobState.WAITING, "key")
        await other.wait(60)

    clinging.play(scene)
    assert clinging.diary == ONE_AFTER_THE_OTHER


def test_i18_it_holds_the_key_though_its_job_is_forgotten():
    clinging = Clinging()
    clinging.ends_s = 3000

    async def scene(scheduler):
        job = await scheduler.options(**KEY, retry=None).now("clings")
        await asyncio.sleep(10)  # virtual
        await job.discard(actor="me", reason="known")
        await asyncio.sleep(2000)  # virtual
        assert not (await clinging.lives.store.dump())["jobs"]
        other = await scheduler.options(**KEY).now("other")
        await other.wait(2000)

    clinging.play(scene, retention=Retention(discarded_s=0))
    assert clinging.diary[1:3] == [(3000, "clings ends"), (3000, "other begins")]


def test_it_holds_the_key_once_and_others_begin_as_its_limit_lets():
    clinging = Clinging(key_concurrency=3)

    async def scene(scheduler):
        first = await scheduler.options(**KEY, retry=None).now("clings")
        second = await scheduler.options(**KEY, retry=FLAT).now("clings")  # WAITING (overrun), and still running
        await asyncio.sleep(10)  # virtual
        assert [(await each.refresh()).state for each in (first, second)] == [JobState.DEAD, JobState.WAITING]
        others = [await scheduler.options(**KEY).now("other") for _ in range(3)]
        for other in others:
            await other.wait(60)
        await second.cancel("enough")

    clinging.play(scene)
    begun = [s for s, what in clinging.diary if what == "other begins"]
    assert (begun, clinging.most) == ([10, 11, 12], 3)


def test_a_crash_ends_the_handler_and_frees_the_key():
    clinging = Clinging()

    async def begin(scheduler):
        await scheduler.options(**KEY, retry=None).now("clings")
        await scheduler.options(**KEY).after(1, "other")
        await asyncio.sleep(10)  # virtual

    async def go_on(scheduler):
        await asyncio.sleep(5)  # virtual
        assert [job.state async for job in scheduler.jobs(task="other")] == [JobState.COMPLETED]
        assert [job.state async for job in scheduler.jobs(task="clings")] == [JobState.DEAD]

    clinging.play(begin, dies=True)
    clinging.play(go_on)
    assert clinging.diary == [(0, "clings begins"), (0, "other begins"), (1, "other ends")]


@pytest.mark.parametrize("commit_s", [0.05, 0.7])
def test_i18_a_claim_that_was_asked_for_before_its_job_died_does_not_take_the_key(commit_s):
    """It is written in one batch with that end, or in the next: the end comes first in either."""
    for seed in range(12):
        clinging = Clinging(SlowStore(MemoryStore(), seed, commit_s=commit_s))

        async def scene(scheduler, seed=seed):
            await scheduler.options(**KEY, retry=None).now("clings")
            others = [await scheduler.options(**KEY).after(5 + (i + seed / 12) / 10, "other") for i in range(14)]
            for other in others:
                await other.wait(100)

        clinging.play(scene)
        assert clinging.most == 1, clinging.diary
        assert [what for _, what in clinging.diary].count("other ends") == 14
