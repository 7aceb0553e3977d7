"""Options of jobs and tasks: which exist, where each belongs, and what values it may have. The one place that judges.

Pure: no asyncio, clock, randomness, files or sockets. `@scheduler.task(...)`, `scheduler.options(...)` and the HTTP API
all come here, so an option means the same wherever it is written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypedDict

from timewheel.checks import microseconds, number, printable, shown, whole
from timewheel.errors import InvalidOption
from timewheel.model import PRIORITIES, RetryPolicy
from timewheel.policies import MAX_SECONDS, Queue, Rate, Retry, as_policy
from timewheel.times import delay_us

__all__ = [
    "JobOptions",
    "OneShotOptions",
    "Options",
    "Queue",
    "Rate",
    "Retry",
    "TaskOptions",
    "as_policy",
    "one_shot_options",
    "task_options",
]

MAX_TAGS = 20
MAX_NAME = 100
MAX_KEY = 255

Tags = list[str] | tuple[str, ...] | set[str] | frozenset[str]


class JobOptions(TypedDict, total=False):
    """Options that every job has. A job's own value goes before its task's."""

    queue: str  # 1 to 100 printable characters
    priority: int  # 0 (first) to 9
    retry: Retry | int | None  # an int: that many attempts in all; None: one attempt
    timeout_s: float | timedelta | None  # of one attempt, above 0; None: no limit
    tags: Tags  # at most 20, each of 1 to 100 printable characters


class OneShotOptions(JobOptions, total=False):
    """Options of a job that runs once: `scheduler.options(...)`."""

    idempotency_key: str  # 1 to 255 printable characters
    misfire_grace_s: float  # seconds, at least 0


class TaskOptions(JobOptions, total=False):
    """Options of a task, the defaults of its jobs: `@scheduler.task(...)`."""


@dataclass(slots=True)
class Options:
    """Options after their check, in the units of the model. A field that was not given is None or empty.

    `retry_given` and `timeout_given` tell `retry=None` (one attempt) and `timeout_s=None` (no limit) from silence.
    """

    queue: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    retry_given: bool = False
    timeout_us: int | None = None
    timeout_given: bool = False
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    misfire_grace_us: int | None = None


def one_shot_options(given: Mapping[str, Any]) -> Options:
    """The options of a job that runs once, checked. Raises InvalidOption for an unknown, misplaced or bad one."""
    return _read(given, ONE_SHOT_NAMES)


def task_options(given: Mapping[str, Any]) -> Options:
    """The options of a task, checked. Raises InvalidOption for an unknown, misplaced or bad one."""
    return _read(given, TASK_NAMES)


def _read(given: Mapping[str, Any], names: frozenset[str]) -> Options:
    options = Options()
    for name, value in given.items():
        if name not in names:
            _refuse_name(name, names)
        _READERS[name](options, value)
    return options


def _read_queue(options: Options, value: Any) -> None:
    options.queue = printable("queue", value, MAX_NAME)


def _read_priority(options: Options, value: Any) -> None:
    options.priority = whole("priority", value, PRIORITIES[0], PRIORITIES[-1])


def _read_retry(options: Options, value: Any) -> None:
    options.retry, options.retry_given = as_policy(value), True


def _read_timeout(options: Options, value: Any) -> None:
    options.timeout_given = True
    if value is None:
        options.timeout_us = None
    elif isinstance(value, timedelta) and timedelta() < value <= timedelta(seconds=MAX_SECONDS):
        options.timeout_us = delay_us(value)
    else:
        allowed = "finite seconds above 0, a timedelta above 0, or None"
        options.timeout_us = max(1, microseconds(number("timeout_s", value, allowed, 0, MAX_SECONDS, above=True)))


def _read_tags(options: Options, value: Any) -> None:
    if isinstance(value, str):
        raise InvalidOption(f"tags={shown(value)}: a str would be taken letter by letter; write tags=[{shown(value)}]")
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidOption(f"tags={shown(value)}: it must be a list, tuple, set or frozenset of str")
    tags = tuple(dict.fromkeys(printable("tags: tag", tag, MAX_NAME) for tag in value))
    if len(tags) > MAX_TAGS:
        raise InvalidOption(f"tags={shown(value)}: {len(tags)} tags; at most {MAX_TAGS} are allowed")
    # A set has no order of its own: sorted, so that the same options always give the same record.
    options.tags = tuple(sorted(tags)) if isinstance(value, (set, frozenset)) else tags


def _read_idempotency_key(options: Options, value: Any) -> None:
    options.idempotency_key = printable("idempotency_key", value, MAX_KEY)


def _read_misfire_grace(options: Options, value: Any) -> None:
    options.misfire_grace_us = microseconds(
        number("misfire_grace_s", value, "finite seconds, at least 0", 0, MAX_SECONDS)
    )


_READERS: dict[str, Callable[[Options, Any], None]] = {
    "queue": _read_queue,
    "priority": _read_priority,
    "retry": _read_retry,
    "timeout_s": _read_timeout,
    "tags": _read_tags,
    "idempotency_key": _read_idempotency_key,
    "misfire_grace_s": _read_misfire_grace,
}

ONE_SHOT_NAMES = frozenset(OneShotOptions.__annotations__)
TASK_NAMES = frozenset(TaskOptions.__annotations__)
_LATER_NAMES = frozenset(
    {"unique", "deadline", "expires_at", "wait_for", "if_dependency_fails", "heartbeat_timeout_s", "expires_after_s"}
    | {"deadline_after_s", "concurrency_key", "rate_key", "cost", "partition_key", "classify", "idempotent", "rate"}
    | {"dependency", "concurrency", "key_rate", "key_concurrency", "cancel_grace_s", "id", "tz", "gap", "fold"}
    | {"misfire", "catch_up_max", "catch_up_per_s", "overlap", "jitter_s", "start", "end", "max_runs", "if_exists"}
)


def _refuse_name(name: object, names: frozenset[str]) -> NoReturn:
    place = "@scheduler.task(...)" if names is TASK_NAMES else "scheduler.options(...)"
    start = f"{shown(name)} is not an option of {place}"
    if name in ONE_SHOT_NAMES:
        raise InvalidOption(f"{start}: it is one of a single job; write scheduler.options({name}=...).at(...)")
    if name == "name":
        raise InvalidOption(f"{start}: it is one of the task; write @scheduler.task(name=...)")
    if name in _LATER_NAMES:
        raise InvalidOption(f"{start}: it is not available in this version; available: {_listed(names)}")
    near = difflib.get_close_matches(name, sorted(names)) if isinstance(name, str) else []
    hint = f"did you mean {' or '.join(near)}?" if near else f"available: {_listed(names)}"
    raise InvalidOption(f"{start}; {hint}")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
