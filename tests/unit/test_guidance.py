"""What no checker can catch is refused with the fix, through the public verbs."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta

import pytest

from timewheel import (
    CancelAnswer,
    Every,
    InvalidOption,
    InvalidRule,
    InvalidTask,
    InvalidTime,
    Job,
    NotStarted,
    RescheduleAnswer,
    Schedule,
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
        (lambda s: s.cron("@daily", lambda: None), "a lambda has no name to find it by"),
        (lambda s: s.cron("@daily", handler()), "give a function, or the name of a registered task"),
        (lambda s: s.cron("@daily", "handlr"), "did you mean handler?"),
        (lambda s: s.every(60, handler, 1, 2), "too many positional arguments"),
        (lambda s: s.cron("@daily", handler, misfire="ALL"), "write scheduler.recurring(misfire=...).schedule(...)"),
        (lambda s: s.schedule("@daily", handler, id="x", queue="q"), "write scheduler.recurring(id=..., queue=...)"),
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
        ({"unique": True}, "it must be a Unique, like"),
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
        ("add_job", 'await scheduler.cron("0 9 * * *", fn, *args)'),
        ("add_schedule", "scheduler.every(60, fn, *args)"),
        ("scheduled_job", '@scheduler.periodic("0 9 * * *")'),
        ("scheduled_job", "@scheduler.task registers a function"),
        ("periodic_task", '@scheduler.periodic("0 9 * * *")'),
        ("add_periodic_task", "await scheduler.every(seconds, fn, *args)"),
        ("enqueue", "await scheduler.now(fn, *args)"),
        ("enqueue_job", "await scheduler.now(fn, *args)"),
        ("send_task", 'await scheduler.now("task.name", *args)'),
        ("delay", "await scheduler.after(seconds, fn, *args)"),
        ("apply_async", "await scheduler.options(...).after(seconds, fn, *args)"),
        ("defer", "await scheduler.now(fn, *args)"),
        ("shutdown", "await scheduler.stop(grace_s=10)"),
        ("remove_job", "await job.cancel()"),
        ("remove_schedule", ".delete()"),
        ("pause_job", "scheduler.get_schedule(schedule_id)).pause()"),
        ("resume_job", ".resume()"),
        ("modify_job", "await schedule.update("),
        ("reschedule_job", "await job.reschedule(when)"),
        ("get_jobs", "async for job in scheduler.jobs(state=...)"),
        ("get_schedules", "scheduler.schedules(state=...)"),
    ],
)
def test_verbs_of_other_schedulers_answer_with_the_translated_line(name, translation):
    scheduler = Scheduler("memory://")
    for place in (scheduler, scheduler.options(priority=1), scheduler.recurring(priority=1)):
        with pytest.raises(AttributeError) as caught:
            getattr(place, name)
        assert str(caught.value).startswith(f"timewheel has no {name!r}: ")
        assert translation in str(caught.value)
        assert not hasattr(place, name)


@pytest.mark.parametrize(
    ("make", "name", "way"),
    [
        (lambda s: s.options(), "cron", r"it is one of scheduler\.recurring\(\.\.\.\)"),
        (lambda s: s.options(), "every", r"it is one of scheduler\.recurring\(\.\.\.\)"),
        (lambda s: s.options(), "schedule", r"it is one of scheduler\.recurring\(\.\.\.\)"),
        (lambda s: s.options(), "periodic", r"@scheduler\.periodic\(rule, id=\.\.\.\)"),
        (lambda s: s.recurring(), "at", r"it is one of scheduler\.options\(\.\.\.\)"),
        (lambda s: s.recurring(), "after", r"it is one of scheduler\.options\(\.\.\.\)"),
        (lambda s: s.recurring(), "periodic", r"@scheduler\.periodic\(rule, id=\.\.\.\)"),
        (lambda s: s.recurring(), "options", r"the scheduler itself"),
    ],
)
def test_a_verb_with_the_options_of_another_kind_says_where_it_is(make, name, way):
    with pytest.raises(AttributeError, match=way):
        getattr(make(Scheduler("memory://")), name)


@pytest.mark.parametrize(
    ("decorate", "way"),
    [
        (lambda s: s.cron("*/5 * * * *"), "as a decorator it is @scheduler.periodic('*/5 * * * *')"),
        (lambda s: s.every(60), "as a decorator it is @scheduler.periodic(Every(60))"),
        (lambda s: s.schedule("@daily"), "write `await scheduler.schedule('@daily', fn, *args)`"),
        (lambda s: s.recurring(id="x").cron("@daily"), "@scheduler.periodic('@daily')"),
    ],
)
def test_a_recurring_verb_used_as_a_decorator_names_periodic(decorate, way):
    with pytest.raises(InvalidTask) as caught:
        decorate(Scheduler("memory://"))
    assert way in str(caught.value)


def test_periodic_without_a_rule_says_so():
    with pytest.raises(InvalidRule, match=r'write @scheduler\.periodic\("\*/5 \* \* \* \*"\)'):
        Scheduler("memory://").periodic(handler)


def test_a_rule_given_to_the_wrong_verb_is_told_the_right_one():
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidRule, match=r"write schedule\(Every\(60\), \.\.\.\)"):
        scheduler.cron(Every(60), handler)
    with pytest.raises(InvalidRule, match=r"write schedule\(Every\(60\), \.\.\.\)"):
        scheduler.every(Every(60), handler)
    with pytest.raises(InvalidRule, match="is no cron rule: give a text"):
        scheduler.cron(60, handler)


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
        assert all(hasattr(Job, name) for name in re.findall(r"\bjob\.(\w+)", line)), line
        assert all(hasattr(Schedule, name) for name in re.findall(r"\b(?:schedule|schedule_id\)\))\.(\w+)", line)), line


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
        lambda s: s.cron("@daily", "handler"),
        lambda s: s.every(60, "handler"),
        lambda s: s.get_schedule("x"),
        lambda s: s.schedules().count(),
        lambda s: s.statistics(),
    ],
)
def test_before_the_start_every_verb_names_the_way(call):
    assert "use it inside `async with scheduler:` or after `start()`" in refused(call, NotStarted)


def test_answers_are_false_only_when_it_was_too_late():
    """`if await job.cancel():` means what it says."""
    assert [answer.name for answer in CancelAnswer if answer] == ["CANCELLED", "REQUESTED"]
    assert [answer.name for answer in RescheduleAnswer if answer] == ["MOVED"]
