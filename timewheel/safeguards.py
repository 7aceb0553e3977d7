"""The public records that keep failures from spreading: Breaker, RetryBudget, Dependency. Frozen and valid.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from timewheel.checks import number, shown, whole
from timewheel.errors import InvalidOption
from timewheel.model import MAX_TIME_US, SECOND_US

MAX_SECONDS = MAX_TIME_US // SECOND_US
MOST = 1_000_000
DAY_S = 86_400


def _window(field: str, value: Any) -> None:
    number(field, value, f"seconds above 0, at most {DAY_S:,}", 0, DAY_S, above=True)


def _share(field: str, value: Any) -> None:
    number(field, value, "a number from 0 to 1", 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When jobs stop calling a dependency that fails, and how they begin again.

    It opens once `failures` attempts (1 to 1,000,000) failed within `window_s` (seconds above 0, at most a day), if
    they are at least `min_share` (0 to 1) of the attempts that ended then. Failures are TRANSIENT and AMBIGUOUS ones; a
    THROTTLED one that says how long to wait opens it for that long at once, another one counts. What is PERMANENT, or
    was cancelled or given back, does not count. Open, it lets nobody start for `open_s` (as window_s); then `probes`
    jobs at a time (1 to 1,000) may try: `closes_after` (1 to 1,000) successes of theirs close it, one failure opens it
    again. Raises InvalidOption naming the field, the value and its range.
    """

    failures: int = 5
    window_s: float = 30
    min_share: float = 0.5
    open_s: float = 30
    probes: int = 1
    closes_after: int = 2

    def __post_init__(self) -> None:
        whole("failures", self.failures, 1, MOST)
        _window("window_s", self.window_s)
        _share("min_share", self.min_share)
        _window("open_s", self.open_s)
        whole("probes", self.probes, 1, 1_000)
        whole("closes_after", self.closes_after, 1, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """How many of the starts may be retries: in any `window_s` at most `share` of the starts, and `at_least` more.

    share: 0 to 1. window_s: seconds above 0, at most a day. at_least: 0 to 1,000,000, but 0 with share 0 would never
    let a retry start. Retries beyond it wait, and spend no attempt. Raises InvalidOption naming the field, the value
    and its range.
    """

    share: float = 0.2
    window_s: float = 60
    at_least: int = 10

    def __post_init__(self) -> None:
        _share("share", self.share)
        _window("window_s", self.window_s)
        whole("at_least", self.at_least, 0, MOST)
        if not self.share and not self.at_least:
            raise InvalidOption("share=0 with at_least=0 would never let a retry start: give at_least=1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """What protects a dependency that tasks name (`@task(dependency="stripe")`).

    breaker: a Breaker; None: none. retry_budget: a RetryBudget of the tasks that name it; None: none. A dependency
    that only tasks name has Dependency(). Raises InvalidOption.
    """

    breaker: Breaker | None = Breaker()
    retry_budget: RetryBudget | None = None

    def __post_init__(self) -> None:
        if self.breaker is not None and not isinstance(self.breaker, Breaker):
            raise InvalidOption(f"breaker={shown(self.breaker)}: it must be a Breaker, like Breaker(), or None")
        as_budget("retry_budget", self.retry_budget)


def as_budget(field: str, value: Any) -> RetryBudget | None:
    """`value` when it is a RetryBudget or None; else InvalidOption."""
    if value is not None and not isinstance(value, RetryBudget):
        raise InvalidOption(f"{field}={shown(value)}: it must be a RetryBudget, like RetryBudget(share=0.2), or None")
    return value
