"""What did the handler mean by raising? The exceptions with a meaning, and the verdict on any other.

    raised                                            verdict
    Snooze(delay)                                     SNOOZE: run me again later, this was no failure
    Permanent(message)                                PERMANENT: trying again is useless
    an exception group of nothing but Permanent       PERMANENT
    Throttled(message, retry_after_s)                 THROTTLED: a failure that names its earliest retry
    Transient(message)                                RETRYABLE
    any other exception or group                      RETRYABLE
    CancelledError that nobody asked for              RETRYABLE
    SystemExit, KeyboardInterrupt, GeneratorExit      RETRYABLE

A handler may raise anything, so nothing here trusts an object of its making: no message is read, and an attribute that
is missing, raises or makes no sense costs the exception its special meaning. Snooze and Throttled inside a group mean
nothing: a group is a failure, and only one that is hopeless in every part is hopeless.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import NamedTuple, TypeAlias

from timewheel import times
from timewheel.model import MAX_TIME_US, SECOND_US, FaultClass

Classifier: TypeAlias = Callable[[BaseException], FaultClass | None]  # None: it has no opinion

MAX_RETRY_AFTER_US = 24 * 3600 * SECOND_US  # what a throttled handler may ask for; more is cut down to it
MAX_MEMBERS = 1_000  # members of an exception group that are looked at; a larger one is RETRYABLE


class HandlerSignal(Exception):
    """Base of the exceptions with which a handler says what should happen next. They stay in the process."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class Permanent(HandlerSignal):
    """The job can never succeed: no retry, whatever its policy; it becomes a dead letter at once."""


class Transient(HandlerSignal):
    """The attempt failed and may be retried, like one that raised any ordinary exception."""


class Throttled(HandlerSignal):
    """The other side asked to slow down: a failed attempt, retried after the back-off or `retry_after_s`, the later.

    `retry_after_s` is in seconds, finite and not negative (InvalidTime otherwise); more than 24 h counts as 24 h.
    """

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_us = None if retry_after_s is None else times.delay_us(retry_after_s)


class Snooze(HandlerSignal):
    """Not now: run the job again `delay` from now. Spends neither the retry budget nor the crash budget.

    `delay` is a timedelta or seconds, finite and not negative (InvalidTime otherwise).
    """

    def __init__(self, delay: timedelta | int | float) -> None:
        self.delay_us = times.delay_us(delay)
        super().__init__(f"snoozed for {delay}{'' if isinstance(delay, timedelta) else ' s'}")


class VerdictKind(Enum):
    """What an exception makes of its attempt."""

    RETRYABLE = "retryable"
    THROTTLED = "throttled"
    PERMANENT = "permanent"
    SNOOZE = "snooze"


class Verdict(NamedTuple):
    """The verdict on an exception; `delay_us` is the snooze or the retry-after asked for, else 0 (microseconds)."""

    kind: VerdictKind
    delay_us: int = 0


RETRYABLE = Verdict(VerdictKind.RETRYABLE)
PERMANENT = Verdict(VerdictKind.PERMANENT)


def classify(error: BaseException) -> Verdict:
    """The verdict on what a handler raised of its own accord; never raises itself."""
    kind = type(error)
    if issubclass(kind, Snooze):
        delay_us = _attribute(error, "delay_us")
        return RETRYABLE if delay_us is None else Verdict(VerdictKind.SNOOZE, min(delay_us, MAX_TIME_US))
    if issubclass(kind, Throttled):
        return Verdict(VerdictKind.THROTTLED, min(_attribute(error, "retry_after_us") or 0, MAX_RETRY_AFTER_US))
    if issubclass(kind, Permanent) or (issubclass(kind, BaseExceptionGroup) and _all_permanent(error)):
        return PERMANENT
    return RETRYABLE


def _attribute(error: BaseException, name: str) -> int | None:
    """A whole number of microseconds kept in an exception, or None: a subclass may have skipped our constructor."""
    try:
        value = getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a property of the handler's own class may raise anything
        return None
    return value if type(value) is int and value >= 0 else None


def _all_permanent(group: BaseException) -> bool:
    """Whether a group holds Permanent and nothing else, at any depth."""
    waiting = [group]
    for _ in range(MAX_MEMBERS):
        if not waiting:
            return True
        error = waiting.pop()
        if issubclass(type(error), BaseExceptionGroup):
            waiting += BaseExceptionGroup.exceptions.__get__(error)
        elif not issubclass(type(error), Permanent):
            return False
    return False
