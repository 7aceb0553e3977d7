"""B72 and B70: whatever a handler raises has one verdict, and no object of its making is trusted."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest

from timewheel.errors import InvalidTime, TimewheelError
from timewheel.model import MAX_TIME_US
from timewheel.work.classify import (
    AMBIGUOUS,
    MAX_RETRY_AFTER_US,
    PERMANENT,
    RETRYABLE,
    Ambiguous,
    HandlerSignal,
    Permanent,
    Snooze,
    Throttled,
    Transient,
    Verdict,
    VerdictKind,
    classify,
)


class NeedsTwo(Exception):
    def __init__(self, one: object, two: object) -> None:
        pass


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparing")

    __hash__ = None  # type: ignore[assignment]


class Faceless(Exception):
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no class")


class LazySnooze(Snooze):
    def __init__(self) -> None:
        pass


class BadSnooze(Snooze):
    def __init__(self) -> None:
        pass

    @property
    def delay_us(self) -> int:  # type: ignore[override]
        raise RuntimeError("no delay")


class OwnPermanent(Permanent):
    def __init__(self) -> None:
        pass


def nested(depth: int, leaf: Exception) -> Exception:
    for _ in range(depth):
        leaf = ExceptionGroup("more", [leaf])
    return leaf


def spoiled(error: Exception, **attributes: object) -> Exception:
    vars(error).update(attributes)
    return error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        Transient("x"),
        HandlerSignal("x"),
        TimeoutError(),
        asyncio.CancelledError(),
        asyncio.CancelledError("with a message"),
        SystemExit(0),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(1),
        StopAsyncIteration(),
        ExceptionGroup("g", [ValueError()]),
        BaseExceptionGroup("g", [asyncio.CancelledError()]),
        BaseExceptionGroup("g", [KeyboardInterrupt(), Permanent("x")]),
        ExceptionGroup("g", [Permanent("x"), ValueError()]),
        ExceptionGroup("g", [Permanent("x"), ExceptionGroup("h", [Permanent("y"), Transient("z")])]),
        ExceptionGroup("g", [Snooze(5)]),
        ExceptionGroup("g", [Throttled("x", 5), Permanent("x")]),
        ExceptionGroup("g", [Permanent("x")] * 5000),
        nested(50, ValueError()),
        nested(5000, Permanent("x")),
        NeedsTwo(1, 2),
        Hostile(),
        LazySnooze(),
        BadSnooze(),
        spoiled(Snooze(1), delay_us="soon"),
        spoiled(Snooze(1), delay_us=-1),
        spoiled(Snooze(1), delay_us=1.5),
        TimewheelError("x"),
        InvalidTime("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_b72_retryable(error: BaseException) -> None:
    assert classify(error) == RETRYABLE == Verdict(VerdictKind.RETRYABLE, 0)


@pytest.mark.parametrize(
    "error",
    [
        Permanent("x"),
        Permanent(),
        OwnPermanent(),
        ExceptionGroup("g", [Permanent("x"), OwnPermanent()]),
        nested(50, Permanent("x")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_permanent(error: BaseException) -> None:
    assert classify(error) == PERMANENT == Verdict(VerdictKind.PERMANENT, 0)


def test_an_exception_that_hides_its_class() -> None:
    assert classify(Faceless()) == RETRYABLE


def test_raising_the_bare_class_means_the_same() -> None:
    with pytest.raises(Permanent) as caught:
        raise Permanent
    assert classify(caught.value) == PERMANENT


@pytest.mark.parametrize(
    ("delay", "delay_us"),
    [
        (0, 0),
        (1, 1_000_000),
        (0.1, 100_000),
        (1.1, 1_100_000),
        (1e-9, 0),
        (timedelta(days=1, microseconds=1), 86_400_000_001),
        (123456789.000001, 123456789000001),
    ],
)
def test_snooze(delay: timedelta | float, delay_us: int) -> None:
    assert classify(Snooze(delay)) == Verdict(VerdictKind.SNOOZE, delay_us)


BAD = [-1, -1e-3, math.nan, math.inf, -math.inf, timedelta(microseconds=-1), "5", None, True, 5j]


@pytest.mark.parametrize("delay", [*BAD, timedelta.max, 10**400, 1e300])
def test_a_snooze_that_makes_no_sense_is_refused(delay: object) -> None:
    with pytest.raises(InvalidTime) as caught:
        Snooze(delay)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)
    assert classify(caught.value) == RETRYABLE


def test_a_snooze_made_longer_behind_our_back_is_cut() -> None:
    assert classify(spoiled(Snooze(1), delay_us=10**30)) == Verdict(VerdictKind.SNOOZE, MAX_TIME_US)


@pytest.mark.parametrize(
    ("after_s", "after_us"),
    [
        (None, 0),
        (0, 0),
        (2.5, 2_500_000),
        (86_400, MAX_RETRY_AFTER_US),
        (86_401, MAX_RETRY_AFTER_US),
        (1e9, MAX_RETRY_AFTER_US),
    ],
)
def test_throttled(after_s: float | None, after_us: int) -> None:
    assert classify(Throttled("slow down", retry_after_s=after_s)) == Verdict(VerdictKind.THROTTLED, after_us)


@pytest.mark.parametrize("after_s", [bad for bad in BAD if bad is not None and not isinstance(bad, timedelta)])
def test_a_retry_after_that_makes_no_sense_is_refused(after_s: object) -> None:
    with pytest.raises(InvalidTime):
        Throttled("x", after_s)  # type: ignore[arg-type]


def test_throttled_without_sense_is_throttled_all_the_same() -> None:
    assert classify(spoiled(Throttled("x", 1), retry_after_us="soon")) == Verdict(VerdictKind.THROTTLED, 0)


def test_they_are_ordinary_exceptions_with_their_message() -> None:
    for kind in (Permanent, Transient, Throttled, Ambiguous):
        assert issubclass(kind, HandlerSignal)
        assert str(kind("the reason")) == "the reason"
    assert not issubclass(HandlerSignal, TimewheelError)
    assert str(Snooze(2)) == "snoozed for 2 s"
    assert str(Snooze(timedelta(seconds=2))) == "snoozed for 0:00:02"


class OwnAmbiguous(Ambiguous):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    "error",
    [
        Ambiguous("x"),
        Ambiguous(),
        OwnAmbiguous(),
        ExceptionGroup("g", [ValueError(), Ambiguous("x")]),
        ExceptionGroup("g", [Permanent("x"), Ambiguous("x")]),
        nested(50, OwnAmbiguous()),
    ],
    ids=lambda error: type(error).__name__,
)
def test_ambiguous(error: BaseException) -> None:
    assert classify(error) == AMBIGUOUS == Verdict(VerdictKind.AMBIGUOUS, 0)
