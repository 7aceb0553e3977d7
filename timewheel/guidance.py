"""Help for those who come from elsewhere, and the checks of a Scheduler's own arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from timewheel.checks import printable, shown
from timewheel.errors import InvalidOption, InvalidRule
from timewheel.policies import Queue, Rate, as_rate
from timewheel.safeguards import Dependency
from timewheel.zones import zone

PERIODIC = 'write @scheduler.periodic("*/5 * * * *"), or with a rule like Every(60)'
_AGAIN = 'again and again: await scheduler.cron("0 9 * * *", fn, *args), or scheduler.every(60, fn, *args)'
_TRANSLATIONS = {
    "add_job": f"await scheduler.at(when, fn, *args) runs a job once; {_AGAIN}",
    "add_schedule": f"await scheduler.at(when, fn, *args) runs a job once; {_AGAIN}",
    "scheduled_job": '@scheduler.periodic("0 9 * * *") declares one in code; @scheduler.task registers a function',
    "periodic_task": '@scheduler.periodic("0 9 * * *") declares one in code; @scheduler.task registers a function',
    "add_periodic_task": "await scheduler.every(seconds, fn, *args); @scheduler.periodic(Every(60)) in code",
    "enqueue": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "enqueue_job": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "send_task": 'await scheduler.now("task.name", *args) runs a registered task by its name',
    "delay": "await scheduler.now(fn, *args), or await scheduler.after(seconds, fn, *args)",
    "apply_async": "await scheduler.options(...).after(seconds, fn, *args) runs a job with options",
    "defer": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "shutdown": "await scheduler.stop(grace_s=10)",
    "close": "await scheduler.stop(grace_s=10)",
    "remove_job": "await job.cancel(), or await (await scheduler.get_job(job_id)).cancel(); a schedule: its delete()",
    "remove_schedule": "await (await scheduler.get_schedule(schedule_id)).delete()",
    "pause_job": "await (await scheduler.get_schedule(schedule_id)).pause()",
    "pause_schedule": "await (await scheduler.get_schedule(schedule_id)).pause()",
    "resume_job": "await (await scheduler.get_schedule(schedule_id)).resume()",
    "unpause_schedule": "await (await scheduler.get_schedule(schedule_id)).resume()",
    "modify_job": "await schedule.update(rule, queue=...); a single job: await job.reschedule(when)",
    "reschedule_job": "await job.reschedule(when); a schedule: await schedule.update(rule)",
    "get_jobs": "async for job in scheduler.jobs(state=...); async for schedule in scheduler.schedules()",
    "get_schedules": "async for schedule in scheduler.schedules(state=...)",
}
_ELSEWHERE = {  # what the verbs with options do not have, and what has it
    **dict.fromkeys(("cron", "every", "schedule"), "scheduler.recurring(...), which takes the options of schedules"),
    **dict.fromkeys(("at", "after", "now", "new", "at_many"), "scheduler.options(...), for jobs that run once"),
    "periodic": "the scheduler itself: @scheduler.periodic(rule, id=...), which takes the options of schedules",
    "recurring": "the scheduler itself: scheduler.recurring(...)",
    "options": "the scheduler itself: scheduler.options(...)",
}


def unknown_attribute(name: str, of: str | None = None) -> str:
    """The message for an attribute that a Scheduler, or what `of` names, does not have."""
    if of is None:
        of = "a Scheduler"
    elif name in _ELSEWHERE:
        return f"{of} has no {name!r}: it is one of {_ELSEWHERE[name]}"
    translation = _TRANSLATIONS.get(name)
    return f"timewheel has no {name!r}: {translation}" if translation else f"{of} has no attribute {name!r}"


def whole(name: str, value: Any, most: int) -> int:
    """A whole number from 1 to `most`. Raises InvalidOption."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidOption(f"{name}={value!r}: it must be a whole number from 1 to {most:,}")
    return value


def flag(name: str, value: Any) -> bool:
    """A bool. Raises InvalidOption."""
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={value!r}: it must be True or False")
    return value


def zone_name(tz: Any) -> str:
    """The name of a time zone. Raises InvalidOption."""
    try:
        zone(tz)
    except InvalidRule as error:
        raise InvalidOption(f"tz: {error}") from error
    return str(tz)


def rate(value: Any) -> Rate | None:
    """A Rate or None. Raises InvalidOption."""
    return as_rate("rate", value)


def queues(value: Any) -> Mapping[str, Queue]:
    """Queue settings by name. Raises InvalidOption."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidOption(f'queues={value!r}: it must map names to Queue, like {{"mail": Queue(concurrency=2)}}')
    for name, settings in value.items():
        if not isinstance(name, str) or not isinstance(settings, Queue):
            raise InvalidOption(f"queues: {name!r}: {settings!r} must be a name and a Queue, like Queue(concurrency=2)")
    return dict(value)


def dependencies(value: Any) -> Mapping[str, Dependency]:
    """What protects dependencies, by name. Raises InvalidOption."""
    if value is None:
        return {}
    like = 'like {"stripe": Dependency(breaker=Breaker(failures=10))}'
    if not isinstance(value, Mapping):
        raise InvalidOption(f"dependencies={shown(value)}: it must map names to Dependency, {like}")
    for name, settings in value.items():
        if not isinstance(settings, Dependency):
            raise InvalidOption(f"dependencies: {shown(name)}: {shown(settings)} must be a Dependency, {like}")
        printable("dependencies", name, 100)
    return dict(value)


def check_choices(*, when_owned: Any, imports: Any, on_failure: Any) -> None:
    """Raise InvalidOption for a bad value of these arguments."""
    if when_owned not in ("raise", "wait"):
        raise InvalidOption(f'when_owned={when_owned!r}: it must be "raise" or "wait"')
    if isinstance(imports, str) or not all(isinstance(module, str) for module in imports):
        raise InvalidOption(f'imports={imports!r}: it must be a list of module names, like ["app.tasks"]')
    if on_failure is not None and not callable(on_failure):
        raise InvalidOption(f"on_failure={on_failure!r}: it must be a function that takes the cause")
