"""Options of jobs and tasks: which exist, where each belongs, and what values it may have. The one place that judges.

Pure: no asyncio, clock, randomness, files or sockets. `@scheduler.task(...)`, `scheduler.options(...)` and the HTTP API
all come here, so an option means the same wherever it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from timewheel.checks import shown
from timewheel.errors import InvalidOption
from timewheel.flow import DependencyFails
from timewheel.misfits import instead
from timewheel.model import RetryPolicy
from timewheel.option_types import JobOptions, OneShotOptions, ScheduleOptions, TaskOptions
from timewheel.option_values import MAX_NAME, MAX_TAGS, READERS
from timewheel.policies import MAX_KEY, Queue, Rate, Retry, Unique, as_policy
from timewheel.work.classify import Classifier

__all__ = [
    "MAX_KEY",
    "MAX_NAME",
    "MAX_TAGS",
    "JobOptions",
    "OneShotOptions",
    "Options",
    "Queue",
    "Rate",
    "Retry",
    "ScheduleOptions",
    "TaskOptions",
    "Unique",
    "as_policy",
    "one_shot_options",
    "task_options",
]


@dataclass(slots=True)
class Options:
    """Options after their check, in the units of the model. A field that was not given is None or empty.

    The fields that end in `given` tell `retry=None` (one attempt), `timeout_s=None` and `heartbeat_timeout_s=None` (no
    limit) from silence. `asks_flow`: whether one was given that becomes part of the job's flow control. `expires_at`
    and `deadline` are wall.
    """

    queue: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    retry_given: bool = False
    timeout_us: int | None = None
    timeout_given: bool = False
    heartbeat_timeout_us: int | None = None
    heartbeat_given: bool = False
    tags: tuple[str, ...] = ()
    # of a job
    expires_after_us: int | None = None
    deadline_after_us: int | None = None
    concurrency_key: str | None = None
    rate_key: str | None = None
    cost: int | None = None
    partition_key: str | None = None
    idempotency_key: str | None = None
    misfire_grace_us: int | None = None
    unique: Unique | None = None
    expires_at: int | None = None
    deadline: int | None = None
    wait_for: tuple[int, ...] | None = None
    if_dependency_fails: DependencyFails | None = None
    asks_flow: bool = False
    # of a task
    classify: Classifier | None = None
    idempotent: bool = True
    dependency: str | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    key_rate: Rate | None = None
    key_concurrency: int | None = None
    cancel_grace_us: int = 0


def one_shot_options(given: Mapping[str, Any]) -> Options:
    """The options of a job that runs once, checked. Raises InvalidOption for an unknown, misplaced or bad one."""
    options = _read(given, ONE_SHOT_NAMES)
    _check_together(options, given)
    return options


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
        field, read = READERS[name]
        try:
            setattr(options, field, read(value))
        except InvalidOption as error:
            error.field = name
            raise
    options.retry_given = "retry" in given
    options.timeout_given = "timeout_s" in given
    options.heartbeat_given = "heartbeat_timeout_s" in given
    options.asks_flow = not _FLOW_NAMES.isdisjoint(given)
    return options


def _check_together(options: Options, given: Mapping[str, Any]) -> None:
    """Raise InvalidOption where two options of one job exclude each other, or one needs another."""
    for instant, after in (("expires_at", "expires_after_s"), ("deadline", "deadline_after_s")):
        if given.get(instant) is not None and given.get(after) is not None:
            raise InvalidOption(
                f"{instant}={shown(given[instant])} and {after}={shown(given[after])} say the same thing twice: give "
                f"one of them",
                field=after,
            )
    check_cost(options.cost, options.rate_key)
    if options.if_dependency_fails is not None and options.wait_for is None:
        raise InvalidOption(
            f"if_dependency_fails={shown(given['if_dependency_fails'])} says what becomes of a job that waits for "
            f"others: name them, like wait_for=[job]",
            field="if_dependency_fails",
        )


def check_cost(cost: int | None, rate_key: str | None, key_rate: Rate | None = None, whose: str = "") -> None:
    """Raise InvalidOption for a cost without a key that has it, or above the burst of the key's rate.

    `key_rate`: what `whose` declares; None: not known.
    """
    if cost is None or cost == 1:
        return
    if rate_key is None:
        raise InvalidOption(f"cost={cost} is what a start takes of a rate_key: give rate_key=..., too", field="cost")
    if key_rate is not None and cost > key_rate.burst:
        raise InvalidOption(
            f"cost={cost} is above the burst of {whose}, key_rate={key_rate!r}, which is the most that a start takes: "
            f"lower the cost, or declare a burst of at least {cost}",
            field="cost",
        )


TASK_NAMES = frozenset(TaskOptions.__annotations__)
JOB_NAMES = frozenset(JobOptions.__annotations__)
ONE_SHOT_NAMES = frozenset(OneShotOptions.__annotations__)
SCHEDULE_NAMES = frozenset(ScheduleOptions.__annotations__)
_FLOW_NAMES = frozenset(
    {"heartbeat_timeout_s", "expires_after_s", "deadline_after_s", "rate_key", "cost", "partition_key"}
    | {"unique", "expires_at", "deadline", "wait_for", "if_dependency_fails"}
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
    if name in TASK_NAMES:
        raise InvalidOption(f"{start}: it is declared with the task; write @scheduler.task({name}=...)")
    if names is SCHEDULE_NAMES and name in _ELSEWHERE:
        raise InvalidOption(f"{start}: {_ELSEWHERE[str(name)]}")
    raise InvalidOption(f"{start}; {instead(name, names)}")
