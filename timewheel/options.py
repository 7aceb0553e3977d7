"""Options of jobs and tasks: which exist, where each belongs, and what values it may have. The one place that judges.

Pure: no asyncio, clock, randomness, files or sockets. `@scheduler.task(...)`, `scheduler.options(...)` and the HTTP API
all come here, so an option means the same wherever it is written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn, TypedDict

from timewheel.checks import microseconds, number, printable, shown, whole
from timewheel.errors import InvalidOption
from timewheel.model import PRIORITIES, RetryPolicy
from timewheel.planning.policies import MisfireName, OverlapName
from timewheel.policies import MAX_SECONDS, Queue, Rate, Retry, as_policy
from timewheel.recurrence.choices import FoldName, GapName
from timewheel.times import delay_us

__all__ = [
    "JobOptions",
    "OneShotOptions",
    "Options",
    "Queue",
    "Rate",
    "Retry",
    "ScheduleOptions",
    "TaskOptions",
    "as_policy",
    "one_shot_options",
    "task_options",
]

MAX_TAGS = 20
MAX_NAME = 100
MAX_KEY = 255

Tags = list[str] | tuple[str, ...] | set[str] | frozenset[str]


class TaskOptions(TypedDict, total=False):
    """Options of a task, the defaults of its jobs: `@scheduler.task(...)`."""

    queue: str  # 1 to 100 printable characters
    priority: int  # 0 (first) to 9
    retry: Retry | int | None  # an int: that many attempts in all; None: one attempt
    timeout_s: float | timedelta | None  # of one attempt, above 0; None: no limit
    tags: Tags  # at most 20, each of 1 to 100 printable characters


class JobOptions(TaskOptions, total=False):
    """Options that every job has. A job's own value goes before its task's."""

    concurrency_key: str | None  # 1 to 255 printable characters; of all jobs with it one runs at a time


class OneShotOptions(JobOptions, total=False):
    """Options of a job that runs once: `scheduler.options(...)`."""

    idempotency_key: str  # 1 to 255 printable characters
    misfire_grace_s: float  # seconds, at least 0


class ScheduleOptions(JobOptions, total=False):
    """Options of a schedule, and of its jobs: `scheduler.recurring(...)`, `@scheduler.periodic(rule, ...)`."""

    id: str  # 1 to 200 printable characters; without it the task's name
    tz: str | None  # of a rule given as text, like gap and fold
    gap: GapName
    fold: FoldName
    misfire: MisfireName  # of slots that were missed: LATEST
    misfire_grace_s: float  # seconds, at least 0: a slot that is reached later was missed (10)
    catch_up_max: int  # of misfire ALL: at most so many, 1 to 1,000 (100)
    catch_up_per_s: float | None  # of misfire ALL: so many a second (1); None: at once
    overlap: OverlapName  # while a job of the schedule is not final: SKIP
    jitter_s: float | timedelta  # jobs are due so much later, at most (0)
    start: datetime | float | None  # the first instant that may be a slot
    end: datetime | float | None  # the first instant that is none any more
    max_runs: int | None  # jobs that the rule makes in all
    if_exists: Literal["update", "keep", "fail"]  # declared again and different: update


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
    concurrency_key: str | None = None


def one_shot_options(given: Mapping[str, Any]) -> Options:
    """The options of a job that runs once, checked. Raises InvalidOption for an unknown, misplaced or bad one."""
    return _read(given, ONE_SHOT_NAMES)


def task_options(given: Mapping[str, Any]) -> Options:
    """The options of a task, checked. Raises InvalidOption for an unknown, misplaced or bad one."""
    return _read(given, TASK_NAMES)


def job_options(given: Mapping[str, Any]) -> Options:
    """Those of the options that are options of every job, checked; any others are left alone. Raises InvalidOption."""
    return _read({name: value for name, value in given.items() if name in JOB_NAMES}, JOB_NAMES)


def refuse_names(given: Mapping[str, Any], names: frozenset[str]) -> None:
    """Raise InvalidOption, with the way out, when an option is not one of `names`."""
    for name in given:
        if name not in names:
            _refuse_name(name, names)


def _read(given: Mapping[str, Any], names: frozenset[str]) -> Options:
    options = Options()
    refuse_names(given, names)
    for name, value in given.items():
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


def _read_concurrency_key(options: Options, value: Any) -> None:
    options.concurrency_key = None if value is None else printable("concurrency_key", value, MAX_KEY)


_READERS: dict[str, Callable[[Options, Any], None]] = {
    "queue": _read_queue,
    "priority": _read_priority,
    "retry": _read_retry,
    "timeout_s": _read_timeout,
    "tags": _read_tags,
    "idempotency_key": _read_idempotency_key,
    "misfire_grace_s": _read_misfire_grace,
    "concurrency_key": _read_concurrency_key,
}

TASK_NAMES = frozenset(TaskOptions.__annotations__)
JOB_NAMES = frozenset(JobOptions.__annotations__)
ONE_SHOT_NAMES = frozenset(OneShotOptions.__annotations__)
SCHEDULE_NAMES = frozenset(ScheduleOptions.__annotations__)
_LATER_NAMES = frozenset(
    {"unique", "deadline", "expires_at", "wait_for", "if_dependency_fails", "heartbeat_timeout_s", "expires_after_s"}
    | {"deadline_after_s", "rate_key", "cost", "partition_key", "classify", "idempotent", "rate", "dependency"}
    | {"concurrency", "key_rate", "key_concurrency", "cancel_grace_s"}
)
_ELSEWHERE = {  # names that other schedulers have: how to say it here
    "calendar": "it is one of the rule; write Cron(..., calendar=...)",
    "roll": "it is one of the rule; write Cron(..., calendar=..., roll=...)",
    "timezone": "did you mean tz?",
    "coalesce": "write misfire='LATEST' (True) or misfire='ALL' (False)",
    "max_instances": "write overlap=Overlap.ALLOW(limit=...), or 'SKIP' for one at a time",
}
_PLACES = {
    TASK_NAMES: "@scheduler.task(...)",
    ONE_SHOT_NAMES: "scheduler.options(...)",
    SCHEDULE_NAMES: "scheduler.recurring(...)",
}


def _refuse_name(name: object, names: frozenset[str]) -> NoReturn:
    start = f"{shown(name)} is not an option of {_PLACES[names]}"
    if name in ONE_SHOT_NAMES:
        raise InvalidOption(f"{start}: it is one of a single job; write scheduler.options({name}=...).at(...)")
    if name in SCHEDULE_NAMES:
        raise InvalidOption(f"{start}: it is one of a schedule; write scheduler.recurring({name}=...).cron(...)")
    if name == "name":
        raise InvalidOption(f"{start}: it is one of the task; write @scheduler.task(name=...)")
    if name in _LATER_NAMES:
        raise InvalidOption(f"{start}: it is not available in this version; available: {_listed(names)}")
    if names is SCHEDULE_NAMES and name in _ELSEWHERE:
        raise InvalidOption(f"{start}: {_ELSEWHERE[str(name)]}")
    near = difflib.get_close_matches(name, sorted(names)) if isinstance(name, str) else []
    hint = f"did you mean {' or '.join(near)}?" if near else f"available: {_listed(names)}"
    raise InvalidOption(f"{start}; {hint}")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
