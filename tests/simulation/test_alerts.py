"""Hooks that hear of too many dead letters: when, how often, and that nothing they do hurts the scheduler."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from timewheel import InvalidOption, JournalUnavailable, Permanent, Scheduler
from timewheel.alerting import DeadLetterAlert
from timewheel.hooks import LOOK_S
from timewheel.model import JobState
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore


class Ward:
    """A machine with a task that dies, and what the hooks were told."""

    def __init__(self) -> None:
        self.machine = VirtualMachine(seed=9)
        self.store = MemoryStore()
        self.told: list[DeadLetterAlert] = []

    def scheduler(self) -> Scheduler:
        scheduler = Scheduler(self.store, system=self.machine.system)

        @scheduler.task(name="die")
        async def die() -> None:
            raise Permanent("no")

        return scheduler

    def live(self, scene: Any, scheduler: Scheduler | None = None) -> Any:
        async def life() -> Any:
            async with scheduler or self.scheduler() as started:
                return await scene(started)

        return self.machine.run(life())

    async def die(self, scheduler: Scheduler, jobs: int) -> None:
        for job in [await scheduler.now("die") for _ in range(jobs)]:
            await job.wait(60)

    def words(self) -> list[tuple[str, bool, int]]:
        return [(alert.watched, alert.raised, alert.value) for alert in self.told]


def test_a_burst_of_deaths_raises_one_alarm_and_ends_it() -> None:
    ward = Ward()

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(ward.told.append, rate_per_min=10, size=1000)
        await ward.die(scheduler, 9)
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.told == []
        await ward.die(scheduler, 3)
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.words() == [("rate", True, 12)]
        await ward.die(scheduler, 5)
        await ward.machine.sleep(30)
        assert len(ward.told) == 1, "it goes on: nobody is told again"
        await ward.machine.sleep(60)
        assert [alert.raised for alert in ward.told] == [True, False]
        assert ward.told[0].text == "12 jobs died in the last minute: at the bound of 10"
        assert "no longer" in ward.told[1].text
        await ward.die(scheduler, 10)
        await ward.machine.sleep(LOOK_S + 1)
        assert [alert.raised for alert in ward.told] == [True, False, True]

    ward.live(scene)


def test_size_counts_what_nobody_has_replayed_or_discarded() -> None:
    ward = Ward()

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(ward.told.append, rate_per_min=None, size=5)
        await ward.die(scheduler, 5)
        await ward.machine.sleep(LOOK_S + 1)
        letters = [letter async for letter in scheduler.dead_letters()]
        await letters[0].discard(actor="me", reason="old")
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.words() == [("size", True, 5), ("size", False, 4)]

    ward.live(scene)


def test_an_alarm_survives_a_restart_by_the_journal() -> None:
    ward = Ward()
    ward.live(lambda scheduler: ward.die(scheduler, 6))
    scheduler = ward.scheduler()
    scheduler.on_dead_letters(ward.told.append, rate_per_min=None, size=5)  # before the start

    async def scene(_: Scheduler) -> None:
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.words() == [("size", True, 6)]

    ward.live(scene, scheduler)


def test_async_hooks_are_awaited_and_several_are_told() -> None:
    ward = Ward()

    async def slow(alert: DeadLetterAlert) -> None:
        await asyncio.sleep(1)  # virtual
        ward.told.append(alert)

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(slow, size=1)
        end = scheduler.on_dead_letters(ward.told.append, size=1)
        await ward.die(scheduler, 1)
        await ward.machine.sleep(LOOK_S + 2)
        assert len(ward.told) == 2
        end()
        await (await scheduler.dead_letters()).items[0].discard(actor="me", reason="old")
        await ward.machine.sleep(LOOK_S + 2)
        assert len(ward.told) == 3, "only the one that was not ended is told of the end"

    ward.live(scene)


def cancelled(_: DeadLetterAlert) -> None:
    raise asyncio.CancelledError


def broken(_: DeadLetterAlert) -> None:
    raise ZeroDivisionError


async def broken_later(_: DeadLetterAlert) -> None:
    raise ZeroDivisionError


async def cancelled_later(_: DeadLetterAlert) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("hook", [cancelled, broken, broken_later, cancelled_later])
def test_a_hook_that_raises_hurts_nobody(hook: Any, caplog: pytest.LogCaptureFixture) -> None:
    ward = Ward()

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(hook, size=1, rate_per_min=None)
        scheduler.on_dead_letters(ward.told.append, size=1, rate_per_min=None)
        await ward.die(scheduler, 1)
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.words() == [("size", True, 1)]
        await (await scheduler.dead_letters()).items[0].discard(actor="me", reason="old")
        await ward.machine.sleep(LOOK_S + 1)
        assert scheduler.state == "RUNNING"

    ward.live(scene)
    assert sum("a hook raised" in record.message for record in caplog.records) == 2, (
        "it is told of the end all the same"
    )


def test_a_hook_that_hangs_holds_up_no_job_and_no_stop() -> None:
    ward = Ward()

    async def hang(_: DeadLetterAlert) -> None:
        await asyncio.Event().wait()

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(hang, size=1)
        await ward.die(scheduler, 1)
        await ward.machine.sleep(LOOK_S + 1)
        await ward.die(scheduler, 1)

    ward.live(scene)
    assert ward.machine.awake_us < 60_000_000


def test_a_journal_that_cannot_be_read_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ward = Ward()
    reads = 0

    async def fail(*_: Any, **__: Any) -> int:
        nonlocal reads
        reads += 1
        raise JournalUnavailable("gone for a while", path="memory")

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(ward.told.append, size=1, rate_per_min=None)
        count, ward.store.count_letters = ward.store.count_letters, fail  # type: ignore[method-assign]
        await ward.die(scheduler, 1)
        await ward.machine.sleep(LOOK_S * 20)
        ward.store.count_letters = count  # type: ignore[method-assign]
        assert reads >= 19
        await ward.machine.sleep(LOOK_S + 1)
        assert ward.words() == [("size", True, 1)]

    with caplog.at_level(logging.INFO, "timewheel"):
        ward.live(scene)


def test_a_webhook_is_a_job_of_the_task_that_calls_urls() -> None:
    ward = Ward()
    calls: list[tuple[str, Any]] = []
    scheduler = ward.scheduler()

    @scheduler.task(name="http.request")
    async def request(url: str, json: Any = None) -> None:
        calls.append((url, json))

    async def scene(scheduler: Scheduler) -> None:
        scheduler.on_dead_letters(webhook="https://example.org/alerts", size=3)
        await ward.die(scheduler, 3)
        await ward.machine.sleep(LOOK_S + 1)
        [job] = await scheduler.jobs(task="http.request")
        assert job.state is JobState.COMPLETED
        [(url, body)] = calls
        assert url == "https://example.org/alerts"
        assert body == {
            "type": "dead_letters",
            "watched": "size",
            "raised": True,
            "value": 3,
            "bound": 3,
            "at": body["at"],
            "text": "3 dead letters: at the bound of 3",
        }

    ward.live(scene, scheduler)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"callback": "text"}, "must be a function"),
        ({}, "nobody hears"),
        ({"callback": print, "rate_per_min": 0}, "rate_per_min=0"),
        ({"callback": print, "size": True}, "size=True"),
        ({"webhook": "ftp://x"}, "must be a URL"),
        ({"webhook": "https://example.org"}, "allow_http"),
    ],
)
def test_a_bad_hook_is_refused_with_the_fix(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        Ward().scheduler().on_dead_letters(**given)
