"""The public records of policies and limits: Retry, Rate, Queue, Unique. Each is frozen and valid from its creation on.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import orjson

from timewheel.checks import microseconds, number, printable, shown, whole
from timewheel.errors import InvalidOption
from timewheel.flow import OnConflict, Uniqueness
from timewheel.model import MAX_TIME_US, SECOND_US, JobState, RetryPolicy
from timewheel.safeguards import RetryBudget, as_budget

MAX_SECONDS = MAX_TIME_US // SECOND_US
MAX_ATTEMPTS = 1_000_000
MAX_RATE_PER_S = 1_000_000
MAX_CONCURRENCY = 100_000
MAX_WEIGHT = 1_000
MAX_KEY = 255


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed job is tried again: exponential back-off with jitter.

    max_attempts: attempts in all, the first included (1 = no retry), 1 to 1,000,000.
    base_s, cap_s: the shortest and the longest delay, seconds, 0 <= base_s <= cap_s.
    factor: how much the delay grows with each failure, at least 1.
    jitter: the random share added to a delay, at least 0; 1.0 spreads it over [d, 2d], never beyond the cap.
    give_up_after_s: seconds since the first failure after which no retry is made, or None.
    Raises InvalidOption naming the field, the value and its range.
    """

    max_attempts: int = 5
    base_s: float = 1
    factor: float = 2
    cap_s: float = 300
    jitter: float = 1.0
    give_up_after_s: float | None = None

    def __post_init__(self) -> None:
        whole("max_attempts", self.max_attempts, 1, MAX_ATTEMPTS)
        number("base_s", self.base_s, "finite seconds, at least 0", 0, MAX_SECONDS)
        number("factor", self.factor, "a finite number, at least 1", 1)
        number("cap_s", self.cap_s, "finite seconds, at least base_s", 0, MAX_SECONDS)
        number("jitter", self.jitter, "a finite number, at least 0", 0)
        if self.cap_s < self.base_s:
            raise InvalidOption(
                f"base_s={shown(self.base_s)} is over cap_s={shown(self.cap_s)}: raise cap_s to at least base_s"
            )
        if self.give_up_after_s is not None:
            allowed = "finite seconds above 0, or None"
            number("give_up_after_s", self.give_up_after_s, allowed, 0, MAX_SECONDS, above=True)

    def policy(self) -> RetryPolicy:
        """The same policy as the record that is stored: microseconds, versioned."""
        return RetryPolicy(
            max_attempts=self.max_attempts,
            base_us=microseconds(self.base_s),
            factor=float(self.factor),
            cap_us=microseconds(self.cap_s),
            jitter=float(self.jitter),
            give_up_after_us=None if self.give_up_after_s is None else max(1, microseconds(self.give_up_after_s)),
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in `per_s` seconds, evenly spaced, of which `burst` may start at once.

    count: an int, at least 1. per_s: finite seconds above 0. burst: an int, at least 1. At most 1,000,000 a second.
    Raises InvalidOption naming the field, the value and its range.
    """

    count: int
    per_s: float = 1
    burst: int = 1

    def __post_init__(self) -> None:
        whole("count", self.count, 1, 10**9)
        number("per_s", self.per_s, "finite seconds above 0", 0, MAX_SECONDS, above=True)
        whole("burst", self.burst, 1, 10**6)
        if self.count > self.per_s * MAX_RATE_PER_S:
            raise InvalidOption(
                f"count={self.count} in per_s={shown(self.per_s)} is too fast: at most {MAX_RATE_PER_S:,} a second; "
                f"for no limit give no rate"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Limits of one queue; None means no limit of its own.

    rate: of its starts (a Rate). concurrency: jobs at once, 1 to 100,000. weight: its share of starts where several
    queues have jobs that are due, 1 to 1,000. key_rate: the Rate of each `rate_key` of its jobs. key_concurrency: how
    many jobs of one `concurrency_key` run at once, 1 to 100,000 (one without it). retry_budget: how many of its starts
    may be retries (a RetryBudget). Raises InvalidOption naming the field, the value and its range.
    """

    rate: Rate | None = None
    concurrency: int | None = None
    weight: int = 1
    key_rate: Rate | None = None
    key_concurrency: int | None = None
    retry_budget: RetryBudget | None = None

    def __post_init__(self) -> None:
        as_budget("retry_budget", self.retry_budget)
        as_rate("rate", self.rate)
        as_limit("concurrency", self.concurrency)
        whole("weight", self.weight, 1, MAX_WEIGHT)
        as_rate("key_rate", self.key_rate)
        as_limit("key_concurrency", self.key_concurrency)


def as_rate(field: str, value: Any) -> Rate | None:
    """`value` when it is a Rate or None; else InvalidOption."""
    if value is not None and not isinstance(value, Rate):
        raise InvalidOption(f"{field}={shown(value)}: it must be a Rate, like Rate(10, per_s=1), or None")
    return value


def as_limit(field: str, value: Any) -> int | None:
    """`value` when it is an int from 1 to 100,000 or None; else InvalidOption."""
    return None if value is None else whole(field, value, 1, MAX_CONCURRENCY)


UniqueBy = Literal["task", "args", "queue", "key"]
ConflictName = OnConflict | Literal["keep", "replace", "reschedule", "fail"]
StateName = JobState | Literal["SCHEDULED", "WAITING", "ACTIVE", "COMPLETED", "CANCELLED", "DEAD", "SKIPPED"]
_BY = ("task", "args", "queue", "key")
_UNFINISHED = tuple(state for state in JobState if not state.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """One job of a kind at a time: what becomes of a submission while another job of the same kind stands in the way.

    by: what makes two jobs one of a kind: the same "task" and "args", or the same "key" (and "queue", where it is
    named). Arguments are compared as they were given, but for the order of names. key: a text of 1 to 255 printable
    characters, for by=("key",). states: the states in which a job stands in the way; without it those that are not
    final, and with `period_s` COMPLETED, too. period_s: only a job that was made less than this ago stands in the way;
    seconds or a timedelta, above 0. on_conflict: "keep" gives the job that is there (`created` is False); "replace"
    cancels it and makes the new one, "reschedule" moves it to the new time, and both keep it once it has begun; "fail"
    raises UniqueConflict. Only jobs that were made with a Unique by the same parts stand in the way, and no
    job in that of its own retries. Raises InvalidOption naming the field.
    """

    by: tuple[UniqueBy, ...] | list[UniqueBy] = ("task", "args")
    key: str | None = None
    period_s: float | timedelta | None = None
    states: tuple[StateName, ...] | list[StateName] | set[StateName] | None = None
    on_conflict: ConflictName = "keep"

    def __post_init__(self) -> None:
        _check_by(self.by)
        if ("key" in self.by) != (self.key is not None):
            fix = "give key=..., or leave it out of by" if self.key is None else 'write by=("key",)'
            raise InvalidOption(f"by={shown(self.by)} with key={shown(self.key)}: they go together; {fix}")
        if self.key is not None:
            printable("key", self.key, MAX_KEY)
        if self.on_conflict not in list(OnConflict):
            names = ", ".join(repr(one.value) for one in OnConflict)
            raise InvalidOption(f"on_conflict={shown(self.on_conflict)}: it must be one of {names}")
        self._period_us()
        states = self._states()
        object.__setattr__(self, "by", tuple(name for name in _BY if name in self.by))  # frozen: there is no other way
        if self.states is not None:
            object.__setattr__(self, "states", states)

    def _period_us(self) -> int | None:
        return None if self.period_s is None else duration("period_s", self.period_s)

    def _states(self) -> tuple[JobState, ...]:
        if self.states is None:
            return _UNFINISHED if self.period_s is None else (*_UNFINISHED, JobState.COMPLETED)
        names = list(JobState.__members__)
        is_list = isinstance(self.states, (list, tuple, set, frozenset)) and len(self.states) > 0
        if not is_list or any(not isinstance(state, str) or state not in names for state in self.states):
            raise InvalidOption(f"states={shown(self.states)}: it must be a list of one or more of {', '.join(names)}")
        return tuple(state for state in JobState if state in self.states)

    def of(self, task: str, arguments: str, queue: str) -> Uniqueness:
        """What is stored of a job: `arguments` is the codec's JSON text."""
        values = {"task": task, "queue": queue, "key": self.key}
        if "args" in self.by:
            values["args"] = orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
        text = orjson.dumps([[name, values[name]] for name in sorted(self.by)])
        states = tuple(state.value for state in self._states())
        return Uniqueness(hashlib.sha256(text).hexdigest(), states, OnConflict(self.on_conflict), self._period_us())


def _check_by(by: Any) -> None:
    """Raise InvalidOption for what does not say of what there may be one job."""
    allowed = 'it must be ("task", "args") or ("key",), with "queue" where that matters'
    if isinstance(by, str):
        raise InvalidOption(f"by={shown(by)}: a str would be taken letter by letter; write by=({shown(by)},)")
    names = list(by) if isinstance(by, (list, tuple, set, frozenset)) else []
    known = [name for name in _BY if name in names]
    if len(known) != len(names) or not {"task", "key"} & set(known):
        raise InvalidOption(f"by={shown(by)}: {allowed}")


def duration(field: str, value: Any, *, zero: bool = False) -> int:
    """The microseconds, 1 or more, of seconds or a timedelta above 0; with `zero` also 0. Else InvalidOption."""
    at_least = "at least 0" if zero else "above 0"
    if isinstance(value, timedelta):
        if not timedelta() <= value <= timedelta(seconds=MAX_SECONDS) or (not zero and not value):
            raise InvalidOption(f"{field}={shown(value)}: it must be a timedelta {at_least}, or finite seconds")
        return value // timedelta(microseconds=1)
    allowed = f"finite seconds {at_least}, or a timedelta {at_least}"
    found = microseconds(number(field, value, allowed, 0, MAX_SECONDS, above=not zero))
    return found if zero else max(1, found)


def as_policy(value: Any) -> RetryPolicy:
    """The stored form of a `retry=` value: a Retry, an int (that many attempts in all), or None (one attempt).

    Raises InvalidOption for anything else.
    """
    if value is None:
        return RetryPolicy(max_attempts=1)
    if isinstance(value, Retry):
        return value.policy()
    if isinstance(value, RetryPolicy):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return RetryPolicy(max_attempts=whole("retry", value, 1, MAX_ATTEMPTS))
    raise InvalidOption(
        f"retry={shown(value)}: it must be a Retry, an int (attempts in all, at least 1) or None (one attempt)"
    )
