"""What values options may have: each reader takes what was written and gives what the model keeps.

Pure: no asyncio, clock, randomness, files or sockets. A bad value raises InvalidOption (an instant InvalidTime), naming
the option, the value, its range and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from timewheel.checks import microseconds, number, printable, shown, whole
from timewheel.errors import InvalidOption, InvalidTime
from timewheel.flow import DependencyFails
from timewheel.model import PRIORITIES, job_number
from timewheel.policies import MAX_KEY, MAX_SECONDS, Unique, as_limit, as_policy, as_rate, duration
from timewheel.times import delay_us, when_us
from timewheel.work.classify import Classifier, classifier

MAX_TAGS = 20
MAX_NAME = 100
MAX_COST = 1_000
MAX_WAITED = 1_000

Reader = Callable[[Any], Any]


def _text(name: str, most: int, *, none: bool = True) -> Reader:
    return lambda value: None if none and value is None else printable(name, value, most)


def _whole(name: str, least: int, most: int) -> Reader:
    return lambda value: whole(name, value, least, most)


def _duration(name: str) -> Reader:
    """A duration above 0, or None."""

    def read(value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, timedelta) and timedelta() < value <= timedelta(seconds=MAX_SECONDS):
            return delay_us(value)
        allowed = "finite seconds above 0, a timedelta above 0, or None"
        return max(1, microseconds(number(name, value, allowed, 0, MAX_SECONDS, above=True)))

    return read


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidOption(f"tags={shown(value)}: a str would be taken letter by letter; write tags=[{shown(value)}]")
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidOption(f"tags={shown(value)}: it must be a list, tuple, set or frozenset of str")
    tags = tuple(dict.fromkeys(printable("tags: tag", tag, MAX_NAME) for tag in value))
    if len(tags) > MAX_TAGS:
        raise InvalidOption(f"tags={shown(value)}: {len(tags)} tags; at most {MAX_TAGS} are allowed")
    # A set has no order of its own: sorted, so that the same options always give the same record.
    return tuple(sorted(tags)) if isinstance(value, (set, frozenset)) else tags


def _misfire_grace(value: Any) -> int:
    return microseconds(number("misfire_grace_s", value, "finite seconds, at least 0", 0, MAX_SECONDS))


def _instant(name: str) -> Reader:
    """A wall instant, or None."""

    def read(value: Any) -> int | None:
        try:
            return None if value is None else when_us(value, "datetime.now(UTC) + timedelta(seconds={})")
        except InvalidTime as error:
            raise InvalidTime(f"{name}: {error}") from error

    return read


def _unique(value: Any) -> Unique | None:
    if value is None or isinstance(value, Unique):
        return value
    raise InvalidOption(f'unique={shown(value)}: it must be a Unique, like Unique(by=("task", "args")), or None')


def _wait_for(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or (not isinstance(value, Collection) and hasattr(value, "number")):
        raise InvalidOption(f"wait_for={shown(value)}: give a list, like wait_for=[job]")
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidOption(f"wait_for={shown(value)}: it must be a list, tuple, set or frozenset of jobs or their ids")
    numbers = tuple(dict.fromkeys(_waited(place, job) for place, job in enumerate(value)))
    if len(numbers) > MAX_WAITED:
        raise InvalidOption(
            f"wait_for: {len(numbers):,} jobs; at most {MAX_WAITED:,} are allowed: let one job wait for many, "
            f"and others for that one"
        )
    return tuple(sorted(numbers)) if isinstance(value, (set, frozenset)) else numbers


def _waited(place: int, job: Any) -> int:
    """The number of one of the jobs that are waited for, given as a job or as its public id."""
    found = job_number(job) if isinstance(job, str) else getattr(job, "number", None)
    if type(found) is not int:
        raise InvalidOption(
            f"wait_for[{place}]={shown(job)}: it must be a Job, which the verbs give back once it is scheduled, or its "
            f"id, which looks like job-0000100000007"
        )
    return found


def _dependency_fails(value: Any) -> DependencyFails:
    names = list(DependencyFails)
    if not isinstance(value, str) or value not in names:
        raise InvalidOption(
            f"if_dependency_fails={shown(value)}: it must be one of {', '.join(map(repr, map(str, names)))}"
        )
    return DependencyFails(value)


def _classify(value: Any) -> Classifier | None:
    return None if value is None else classifier(value)


def _idempotent(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"idempotent={shown(value)}: it must be True or False")
    return value


READERS: dict[str, tuple[str, Reader]] = {  # option -> field of Options, reader
    "queue": ("queue", _text("queue", MAX_NAME, none=False)),
    "priority": ("priority", _whole("priority", PRIORITIES[0], PRIORITIES[-1])),
    "retry": ("retry", as_policy),
    "timeout_s": ("timeout_us", _duration("timeout_s")),
    "heartbeat_timeout_s": ("heartbeat_timeout_us", _duration("heartbeat_timeout_s")),
    "tags": ("tags", _tags),
    "expires_after_s": ("expires_after_us", _duration("expires_after_s")),
    "deadline_after_s": ("deadline_after_us", _duration("deadline_after_s")),
    "concurrency_key": ("concurrency_key", _text("concurrency_key", MAX_KEY)),
    "rate_key": ("rate_key", _text("rate_key", MAX_KEY)),
    "cost": ("cost", _whole("cost", 1, MAX_COST)),
    "partition_key": ("partition_key", _text("partition_key", MAX_KEY)),
    "idempotency_key": ("idempotency_key", _text("idempotency_key", MAX_KEY, none=False)),
    "misfire_grace_s": ("misfire_grace_us", _misfire_grace),
    "unique": ("unique", _unique),
    "expires_at": ("expires_at", _instant("expires_at")),
    "deadline": ("deadline", _instant("deadline")),
    "wait_for": ("wait_for", _wait_for),
    "if_dependency_fails": ("if_dependency_fails", _dependency_fails),
    "classify": ("classify", _classify),
    "idempotent": ("idempotent", _idempotent),
    "dependency": ("dependency", _text("dependency", MAX_NAME)),
    "rate": ("rate", lambda value: as_rate("rate", value)),
    "concurrency": ("concurrency", lambda value: as_limit("concurrency", value)),
    "key_rate": ("key_rate", lambda value: as_rate("key_rate", value)),
    "key_concurrency": ("key_concurrency", lambda value: as_limit("key_concurrency", value)),
    "cancel_grace_s": ("cancel_grace_us", lambda value: duration("cancel_grace_s", value, zero=True)),
}
