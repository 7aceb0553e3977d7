"""The public records of policies and limits: Retry, Rate, Queue. Each is frozen and valid from its creation on.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from timewheel.checks import microseconds, number, shown, whole
from timewheel.errors import InvalidOption
from timewheel.model import MAX_TIME_US, SECOND_US, RetryPolicy

MAX_SECONDS = MAX_TIME_US // SECOND_US
MAX_ATTEMPTS = 1_000_000
MAX_RATE_PER_S = 1_000_000
MAX_CONCURRENCY = 100_000


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
    """Limits of one queue: `rate` of starts (a Rate or None) and `concurrency`, jobs at once (1 to 100,000 or None).

    None means no limit of its own. Raises InvalidOption naming the field, the value and its range.
    """

    rate: Rate | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not isinstance(self.rate, Rate):
            raise InvalidOption(f"rate={shown(self.rate)}: it must be a Rate, like Rate(10, per_s=1), or None")
        if self.concurrency is not None:
            whole("concurrency", self.concurrency, 1, MAX_CONCURRENCY)


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
