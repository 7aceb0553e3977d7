"""What no checker can catch is refused with the fix, through the public verbs."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta

import pytest

from timewheel import (
    CancelAnswer,
    InvalidOption,
    InvalidTask,
    InvalidTime,
    Job,
    NotStarted,
    RescheduleAnswer,
    Scheduler,
)
from timewheel.guidance import _TRANSLATIONS

NOON = datetime(2030, 1, 5, 12)


def handler(number=0):
    return number


def refused(call, error):
    """The message of a call that is refused before any input or output: the scheduler is not even started."""
    scheduler = Scheduler("memory://")
    scheduler.task(name="handler")(handler)
    with pytest.raises(error) as caught:
        asyncio.run(call(scheduler))
    message = str(caught.value)
    assert 20 < len(message) < 500
    return message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.at(NOON, handler), "is naive"),
        (lambda s: s.at(NOON, handler), 'replace(tzinfo=ZoneInfo("Europe/Berlin"))'),
        (lambda s: s.at(5, handler), "did you mean after(5, ...)?"),
        (lambda s: s.at_many([s.new(5, handler)]), "did you mean new(timedelta(seconds=5), ...)?"),
        (lambda s: s.at(1_767_571_200_000, handler), "milliseconds?"),
        (lambda s: s.at(True, handler), "True (bool) is not a time"),
        (lambda s: s.at("2026-01-05T00:00:00Z", handler), "datetime.fromisoformat"),
        (lambda s: s.at(timedelta(5), handler), "did you mean after("),
        (lambda s: s.at(float("nan"), handler), "finite"),
        (lambda s: s.at(None, handler), "aware datetime, or Unix seconds"),
        (lambda s: s.after(-1, handler), "is negative"),
        (lambda s: s.after(NOON, handler), "did you mean at("),
        (lambda s: s.after(False, handler), "False (bool) is not a delay"),
        (lambda s: s.after(float("inf"), handler), "finite seconds"),
    ],
)
def test_times(call, words):
    assert words in refused(call, InvalidTime)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.now(lambda: None), "a lambda has no name to find it by; write a def at module level"),
        (lambda s: s.now(handler()), "give a function, or the name of a registered task"),
        (lambda s: s.now("handlr"), "did you mean handler?"),
        (lambda s: s.now(handler, 1, 2), "too many positional arguments"),
        (lambda s: s.now(handler, queue="mail"), "queue is an option: write scheduler.options(queue=...).at(...)"),
        (lambda s: s.now(handler, retry=3, priority=1), "write scheduler.options(retry=..., priority=...).at(...)"),
    ],
)
def test_targets_and_misplaced_options(call, words):
    assert words in refused(call, InvalidTask)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "x"}, "write @scheduler.task(name=...)"),
        ({"priorty": 1}, "did you mean priority?"),
        ({"tz": "UTC"}, "write scheduler.recurring(tz=...)"),
        ({"unique": True}, "is not available in this version"),
        ({"tags": "urgent"}, "write tags=['urgent']"),
        ({"priority": 10}, "from 0 to 9"),
        ({"timeout_s": 0}, "above 0"),
    ],
)
def test_options(options, words):
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidOption) as caught:
        scheduler.options(**options)
    assert words in str(caught.value)


def test_an_option_of_one_job_on_a_task_is_told_where_it_belongs():
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidOption, match=r"write scheduler\.options\(idempotency_key=\.\.\.\)\.at"):
        scheduler.task(idempotency_key="k")(handler)


@pytest.mark.parametrize(
    ("name", "translation"),
    [
        ("add_job", "await scheduler.at(when, fn, *args)"),
        ("scheduled_job", "@scheduler.task registers a function"),
        ("enqueue", "await scheduler.now(fn, *args)"),
        ("enqueue_job", "await scheduler.now(fn, *args)"),
        ("send_task", 'await scheduler.now("task.name", *args)'),
        ("delay", "await scheduler.after(seconds, fn, *args)"),
        ("apply_async", "await scheduler.options(...).after(seconds, fn, *args)"),
        ("defer", "await scheduler.now(fn, *args)"),
        ("shutdown", "await scheduler.stop(grace_s=10)"),
        ("remove_job", "await job.cancel()"),
        ("reschedule_job", "await job.reschedule(when)"),
        ("get_jobs", "async for job in scheduler.jobs(state=...)"),
        ("cron", "recurring schedules are not in this version"),
        ("every", "recurring schedules are not in this version"),
        ("schedule", "recurring schedules are not in this version"),
        ("recurring", "recurring schedules are not in this version"),
        ("periodic", "recurring schedules are not in this version"),
        ("schedules", "recurring schedules are not in this version"),
        ("get_schedule", "recurring schedules are not in this version"),
        ("dead_letters", 'dead letters: scheduler.jobs(state="DEAD")'),
    ],
)
def test_verbs_of_other_schedulers_answer_with_the_translated_line(name, translation):
    scheduler = Scheduler("memory://")
    for place in (scheduler, scheduler.options(priority=1)):
        with pytest.raises(AttributeError) as caught:
            getattr(place, name)
        assert str(caught.value).startswith(f"timewheel has no {name!r}: ")
        assert translation in str(caught.value)
        assert not hasattr(place, name)


def test_what_is_unknown_everywhere_is_an_ordinary_attribute_error():
    scheduler = Scheduler("memory://")
    for place in (scheduler, scheduler.options(priority=1)):
        with pytest.raises(AttributeError, match="has no attribute 'bogus'"):
            _ = place.bogus
    with pytest.raises(AttributeError, match=r"^a Scheduler has no"):
        _ = scheduler.bogus
    with pytest.raises(
        AttributeError, match=r"^scheduler\.options\(\.\.\.\), which has at, after, now, new and at_many"
    ):
        _ = scheduler.options().bogus


def test_a_number_that_is_a_delay_is_told_how_to_reschedule_by_it():
    async def main():
        async with Scheduler("memory://") as scheduler:
            scheduler.task(name="handler")(handler)
            job = await scheduler.after(60, handler)
            await job.reschedule(0.05)

    with pytest.raises(InvalidTime, match=r"did you mean reschedule\(timedelta\(seconds=0\.05\)\)\?"):
        asyncio.run(main())


def test_a_translated_line_names_only_what_exists():
    scheduler = Scheduler("memory://")
    for line in _TRANSLATIONS.values():
        assert all(hasattr(scheduler, name) for name in re.findall(r"scheduler\.(\w+)", line)), line
        assert all(hasattr(Job, name) for name in re.findall(r"job\.(\w+)", line)), line


@pytest.mark.parametrize("drafts", [[handler], ["handler"], [None]])
def test_at_many_takes_drafts_only(drafts):
    async def main():
        async with Scheduler("memory://") as scheduler:
            await scheduler.at_many(drafts)

    with pytest.raises(InvalidOption, match=r"at_many takes what scheduler\.new\(\.\.\.\) makes"):
        asyncio.run(main())


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.now("handler"),
        lambda s: s.get_job("job-0000100000007"),
        lambda s: s.jobs().count(),
        lambda s: s.at_many([]),
        lambda s: s.queue("x").pause(),
        lambda s: s.statistics(),
    ],
)
def test_before_the_start_every_verb_names_the_way(call):
    assert "use it inside `async with scheduler:` or after `start()`" in refused(call, NotStarted)


def test_answers_are_false_only_when_it_was_too_late():
    """`if await job.cancel():` means what it says."""
    assert [answer.name for answer in CancelAnswer if answer] == ["CANCELLED", "REQUESTED"]
    assert [answer.name for answer in RescheduleAnswer if answer] == ["MOVED"]
