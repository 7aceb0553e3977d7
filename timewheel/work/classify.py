"""What did the handler mean by raising? The exceptions with a meaning, and the verdict on any other.

    raised                                            verdict
    Snooze(delay)                                     SNOOZE: run me again later, this was no failure
    Permanent(message)                                PERMANENT: trying again is useless
    Throttled(message, retry_after_s)                 THROTTLED: back off harder, and not before its earliest retry
    Ambiguous(message)                                AMBIGUOUS: nobody knows whether the work was done
    Transient(message)                                RETRYABLE
    any other, if the task's classify= has an opinion what that says
    an exception group with an Ambiguous inside       AMBIGUOUS
    an exception group of nothing but Permanent       PERMANENT
    an exception with HTTP status 429, or that names  THROTTLED
      a Retry-After (see `timewheel.work.foreign`)
    any other exception or group                      RETRYABLE
    CancelledError that nobody asked for              RETRYABLE
    SystemExit, KeyboardInterrupt, GeneratorExit      RETRYABLE

What a handler says by our own exceptions stands: classify= is not asked about those. Inside a group it is, about each
member: one that it calls PERMANENT or AMBIGUOUS is as good as a Permanent or an Ambiguous there.

A handler may raise anything, so nothing here trusts an object of its making: no message is read, and an attribute that
is missing, raises or makes no sense costs the exception its special meaning. Snooze and Throttled inside a group mean
nothing: a group is a failure, and only one that is hopeless in every part is hopeless.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from timewheel.model import MAX_TIME_US, FaultClass
from timewheel.work.foreign import http_status, retry_after_us
from timewheel.work.rules import Classifier, classifier
from timewheel.work.signals import (
    MAX_RETRY_AFTER_US,
    Ambiguous,
    HandlerSignal,
    Permanent,
    Snooze,
    Throttled,
    Transient,
)

__all__ = [
    "MAX_RETRY_AFTER_US",
    "Ambiguous",
    "Classifier",
    "HandlerSignal",
    "Permanent",
    "Snooze",
    "Throttled",
    "Transient",
    "Verdict",
    "VerdictKind",
    "classifier",
    "classify",
]

MAX_MEMBERS = 1_000  # members of an exception group that are looked at; a larger one is RETRYABLE
TOO_MANY_REQUESTS = 429


class VerdictKind(Enum):
    """What an exception makes of its attempt."""

    RETRYABLE = "retryable"
    THROTTLED = "throttled"
    PERMANENT = "permanent"
    AMBIGUOUS = "ambiguous"
    SNOOZE = "snooze"


class Verdict(NamedTuple):
    """The verdict on an exception; `delay_us` is the snooze or the retry-after asked for, else 0 (microseconds)."""

    kind: VerdictKind
    delay_us: int = 0


RETRYABLE = Verdict(VerdictKind.RETRYABLE)
PERMANENT = Verdict(VerdictKind.PERMANENT)
AMBIGUOUS = Verdict(VerdictKind.AMBIGUOUS)
_PLAIN = {FaultClass.TRANSIENT: RETRYABLE, FaultClass.PERMANENT: PERMANENT, FaultClass.AMBIGUOUS: AMBIGUOUS}


def classify(error: BaseException, judge: Classifier | None = None, wall_us: int = 0) -> Verdict:
    """The verdict on what a handler raised of its own accord; never raises itself.

    `judge` is the task's own (see `timewheel.work.rules`). `wall_us` is now: a Retry-After may be a date.
    """
    kind = type(error)
    if issubclass(kind, HandlerSignal):
        return _meant(error, kind)
    fault = None if judge is None else judge(error)
    if fault is FaultClass.THROTTLED:
        return Verdict(VerdictKind.THROTTLED, retry_after_us(error, wall_us) or 0)
    if fault is not None:
        return _PLAIN[fault]
    if issubclass(kind, BaseExceptionGroup):
        return _of_group(error, judge)
    if not issubclass(kind, Exception):  # SystemExit(429) is no answer of a server
        return RETRYABLE
    after_us = retry_after_us(error, wall_us)
    if after_us is not None or http_status(error) == TOO_MANY_REQUESTS:
        return Verdict(VerdictKind.THROTTLED, after_us or 0)
    return RETRYABLE


def _meant(error: BaseException, kind: type) -> Verdict:
    """The verdict on one of our own exceptions, or of a class that was made from one."""
    if issubclass(kind, Snooze):
        delay_us = _attribute(error, "delay_us")
        return RETRYABLE if delay_us is None else Verdict(VerdictKind.SNOOZE, min(delay_us, MAX_TIME_US))
    if issubclass(kind, Throttled):
        return Verdict(VerdictKind.THROTTLED, min(_attribute(error, "retry_after_us") or 0, MAX_RETRY_AFTER_US))
    if issubclass(kind, Permanent):
        return PERMANENT
    return AMBIGUOUS if issubclass(kind, Ambiguous) else RETRYABLE


def _attribute(error: BaseException, name: str) -> int | None:
    """A whole number of microseconds kept in an exception, or None: a subclass may have skipped our constructor."""
    try:
        value = getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a property of the handler's own class may raise anything
        return None
    return value if type(value) is int and value >= 0 else None


def _of_group(group: BaseException, judge: Classifier | None) -> Verdict:
    """The verdict on a group, whose members may be groups, at any depth."""
    waiting = [group]
    hopeless = True
    for _ in range(MAX_MEMBERS):
        if not waiting:
            return PERMANENT if hopeless else RETRYABLE
        error = waiting.pop()
        if issubclass(type(error), BaseExceptionGroup):
            waiting += BaseExceptionGroup.exceptions.__get__(error)
            continue
        fault = _fault_inside(error, judge)
        if fault is FaultClass.AMBIGUOUS:
            return AMBIGUOUS
        hopeless &= fault is FaultClass.PERMANENT
    return RETRYABLE


def _fault_inside(error: BaseException, judge: Classifier | None) -> FaultClass | None:
    kind = type(error)
    if issubclass(kind, HandlerSignal):
        if issubclass(kind, Permanent):
            return FaultClass.PERMANENT
        return FaultClass.AMBIGUOUS if issubclass(kind, Ambiguous) else None
    return None if judge is None else judge(error)
