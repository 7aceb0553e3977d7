"""Help for those who come from elsewhere, and the checks of a Scheduler's own arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from timewheel.errors import InvalidOption
from timewheel.policies import Queue, Rate

_NO_SCHEDULES = (
    "recurring schedules are not in this version; let a job schedule its successor: "
    "await scheduler.options(idempotency_key=...).after(seconds, fn, *args)"
)
_TRANSLATIONS = {
    "add_job": "await scheduler.at(when, fn, *args) runs a job once",
    "scheduled_job": "await scheduler.at(when, fn, *args) runs a job once; @scheduler.task registers a function",
    "enqueue": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "enqueue_job": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "send_task": 'await scheduler.now("task.name", *args) runs a registered task by its name',
    "delay": "await scheduler.now(fn, *args), or await scheduler.after(seconds, fn, *args)",
    "apply_async": "await scheduler.options(...).after(seconds, fn, *args) runs a job with options",
    "defer": "await scheduler.now(fn, *args) runs a job as soon as it may",
    "shutdown": "await scheduler.stop(grace_s=10)",
    "close": "await scheduler.stop(grace_s=10)",
    "remove_job": "await job.cancel(), or await (await scheduler.get_job(job_id)).cancel()",
    "reschedule_job": "await job.reschedule(when)",
    "get_jobs": "async for job in scheduler.jobs(state=...)",
    "dead_letters": 'dead letters: scheduler.jobs(state="DEAD")',
    **dict.fromkeys(("cron", "every", "schedule", "recurring", "periodic", "schedules", "get_schedule"), _NO_SCHEDULES),
}


def unknown_attribute(name: str, of: str = "a Scheduler") -> str:
    """The message for an attribute that a Scheduler, or what `of` names, does not have."""
    translation = _TRANSLATIONS.get(name)
    return f"timewheel has no {name!r}: {translation}" if translation else f"{of} has no attribute {name!r}"


def whole(name: str, value: Any, most: int) -> int:
    """A whole number from 1 to `most`. Raises InvalidOption."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidOption(f"{name}={value!r}: it must be a whole number from 1 to {most:,}")
    return value


def rate(value: Any) -> Rate | None:
    """A Rate or None. Raises InvalidOption."""
    if value is not None and not isinstance(value, Rate):
        raise InvalidOption(f"rate={value!r}: it must be a Rate, like Rate(10, per_s=1), or None")
    return value


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


def check_choices(*, when_owned: Any, imports: Any, on_failure: Any) -> None:
    """Raise InvalidOption for a bad value of these arguments."""
    if when_owned not in ("raise", "wait"):
        raise InvalidOption(f'when_owned={when_owned!r}: it must be "raise" or "wait"')
    if isinstance(imports, str) or not all(isinstance(module, str) for module in imports):
        raise InvalidOption(f'imports={imports!r}: it must be a list of module names, like ["app.tasks"]')
    if on_failure is not None and not callable(on_failure):
        raise InvalidOption(f"on_failure={on_failure!r}: it must be a function that takes the cause")
