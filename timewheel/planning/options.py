"""The options of a schedule, checked: which exist, what values they may have, and what becomes of them.

Pure, but for looking up a zone's name. `scheduler.recurring(...)`, `@scheduler.periodic(...)`, `Schedule.update`, the
HTTP API and TOML files all come here, so an option means the same wherever it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from timewheel import zones
from timewheel.checks import microseconds, number, printable, shown, whole
from timewheel.errors import InvalidOption, InvalidTime
from timewheel.flow import Terms
from timewheel.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, RetryPolicy
from timewheel.options import SCHEDULE_NAMES, Options, check_cost, job_options, refuse_names
from timewheel.planning.definition import Definition
from timewheel.planning.policies import MOST_CATCH_UP, misfire_kind, overlap_policy
from timewheel.policies import MAX_SECONDS, Rate
from timewheel.recurrence.choices import Fold, Gap, choice
from timewheel.recurrence.rule import Rule
from timewheel.times import delay_us, when_us

MOST_ID = 200
MOST_JITTER_S = 366 * 86_400
MOST_PER_S = 1_000
IF_EXISTS = ("update", "keep", "fail")
_ZONE = ("tz", "gap", "fold")
_MISFIRE = {
    "misfire": "kind",
    "misfire_grace_s": "grace_us",
    "catch_up_max": "catch_up_max",
    "catch_up_per_s": "catch_up_per_s",
}
_JOB = {
    "queue": "queue",
    "priority": "priority",
    "retry": "retry",
    "timeout_s": "timeout_us",
    "tags": "tags",
    "concurrency_key": "concurrency_key",
}
_TERMS = {
    "heartbeat_timeout_s": "heartbeat_timeout_us",
    "expires_after_s": "expires_after_us",
    "deadline_after_s": "deadline_after_us",
    "rate_key": "rate_key",
    "cost": "cost",
    "partition_key": "partition_key",
}
_PLAIN = {"overlap": "overlap", "jitter_s": "jitter_us", "start": "start_us", "end": "end_us", "max_runs": "max_runs"}


class Defaults(Protocol):
    """What a task says of its jobs; None and empty: nothing."""

    @property
    def name(self) -> str:
        """The task's name."""

    @property
    def queue(self) -> str | None:
        """Where its jobs wait."""

    @property
    def priority(self) -> int | None:
        """How soon they start."""

    @property
    def retry(self) -> RetryPolicy | None:
        """How they are tried again."""

    @property
    def timeout_us(self) -> int | None:
        """How long an attempt may take."""

    @property
    def tags(self) -> tuple[str, ...]:
        """What they are found by."""

    @property
    def heartbeat_timeout_us(self) -> int | None:
        """How long a handler may be silent."""

    @property
    def idempotent(self) -> bool:
        """Whether an attempt whose end is not known may be repeated."""

    @property
    def key_rate(self) -> Rate | None:
        """The rate of each rate_key."""


@dataclass(frozen=True, slots=True)
class ScheduleChoices:
    """The options that were given, checked, by their names, in the units of the model; `job`: those of its jobs."""

    job: Options
    values: Mapping[str, Any]

    @property
    def id(self) -> str | None:
        """The schedule's id, or None when the task's name is to serve."""
        found: str | None = self.values.get("id")
        return found

    @property
    def if_exists(self) -> str:
        """What a declaration does where another one is: update, keep or fail."""
        found: str = self.values.get("if_exists", IF_EXISTS[0])
        return found

    def zone_options(self) -> dict[str, Any]:
        """Those of tz, gap and fold that were given: they are for a rule that is given as text."""
        return {name: self.values[name] for name in _ZONE if self.values.get(name) is not None}

    def definition(self, rule: Rule, task: Defaults, arguments: str) -> Definition:
        """A new definition: these options go before the task's. Raises InvalidOption where two exclude each other."""
        plain = Definition(
            rule=rule,
            task=task.name,
            arguments=arguments,
            queue=task.queue or DEFAULT_QUEUE,
            priority=DEFAULT_PRIORITY if task.priority is None else task.priority,
            retry=task.retry or RetryPolicy(),
            timeout_us=task.timeout_us,
            tags=task.tags,
            terms=Terms(heartbeat_timeout_us=task.heartbeat_timeout_us, idempotent=task.idempotent),
        )
        made = self.applied(plain)
        check_cost(made.terms.cost, made.terms.rate_key, task.key_rate, f"the task {task.name}")
        return made

    def applied(self, before: Definition) -> Definition:
        """The definition with the options that were given. Raises InvalidOption where two exclude each other."""
        return replace(before, **self.changes(before))

    def changes(self, before: Definition) -> dict[str, Any]:
        """What `dataclasses.replace` needs for that; of the misfire policy only what was given changes."""
        found = {field: self.values[name] for name, field in _PLAIN.items() if name in self.values}
        found |= {field: getattr(self.job, field) for name, field in _JOB.items() if name in self.values}
        terms = {field: getattr(self.job, field) for name, field in _TERMS.items() if name in self.values}
        if terms:
            found["terms"] = before.terms._replace(**terms)
        misfire = {field: self.values[name] for name, field in _MISFIRE.items() if name in self.values}
        return found | ({"misfire": before.misfire._replace(**misfire)} if misfire else {})


def schedule_options(given: Mapping[str, Any]) -> ScheduleChoices:
    """The options of a schedule, checked.

    Raises InvalidOption for one that is unknown, misplaced or bad, InvalidRule for tz, gap and fold, and InvalidTime
    for start and end; each names the option and the way out.
    """
    refuse_names(given, SCHEDULE_NAMES)
    return ScheduleChoices(
        job_options(given),
        {name: _READERS[name](value) if name in _READERS else value for name, value in given.items()},
    )


def _zone_name(value: Any) -> str | None:
    if value is not None:
        zones.zone(value)
    return None if value is None else str(value)


def _misfire_grace(value: Any) -> int:
    return microseconds(number("misfire_grace_s", value, "finite seconds, at least 0", 0, MAX_SECONDS))


def _catch_up_per_s(value: Any) -> float | None:
    allowed = f"a number above 0, at most {MOST_PER_S:,}, or None (all at once)"
    return None if value is None else float(number("catch_up_per_s", value, allowed, 0, MOST_PER_S, above=True))


def _jitter(value: Any) -> int:
    if isinstance(value, timedelta) and timedelta() <= value <= timedelta(seconds=MOST_JITTER_S):
        return delay_us(value)
    return microseconds(number("jitter_s", value, "seconds or a timedelta, 0 to 366 days", 0, MOST_JITTER_S))


def _instant(name: str, value: Any) -> int | None:
    try:
        return None if value is None else when_us(value, "datetime.now(UTC) + timedelta(seconds={})")
    except InvalidTime as error:
        raise InvalidTime(f"{name}: {error}") from error


def _max_runs(value: Any) -> int | None:
    return None if value is None else whole("max_runs", value, 1, 10**12)


def _if_exists(value: Any) -> str:
    if not isinstance(value, str) or value not in IF_EXISTS:
        raise InvalidOption(f"if_exists={shown(value)}: it must be one of {', '.join(map(repr, IF_EXISTS))}")
    return str(value)


_READERS: dict[str, Any] = {
    "id": lambda value: printable("id", value, MOST_ID),
    "tz": _zone_name,
    "gap": lambda value: choice(Gap, "gap", value),
    "fold": lambda value: choice(Fold, "fold", value),
    "misfire": misfire_kind,
    "misfire_grace_s": _misfire_grace,
    "catch_up_max": lambda value: whole("catch_up_max", value, 1, MOST_CATCH_UP),
    "catch_up_per_s": _catch_up_per_s,
    "overlap": overlap_policy,
    "jitter_s": _jitter,
    "start": lambda value: _instant("start", value),
    "end": lambda value: _instant("end", value),
    "max_runs": _max_runs,
    "if_exists": _if_exists,
}
