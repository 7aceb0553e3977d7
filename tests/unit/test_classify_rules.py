"""`classify=`: what it says of every exception, what it is refused for, and that it never breaks a failure."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from timewheel.checks import shown
from timewheel.errors import InvalidOption
from timewheel.model import SECOND_US, FaultClass
from timewheel.work.classify import (
    AMBIGUOUS,
    PERMANENT,
    RETRYABLE,
    Ambiguous,
    Permanent,
    Snooze,
    Throttled,
    Transient,
    Verdict,
    VerdictKind,
    classifier,
    classify,
)

THROTTLED = Verdict(VerdictKind.THROTTLED)


class HttpError(Exception):
    def __init__(self, status: int, retry_after: float | None = None) -> None:
        self.status = status
        self.retry_after = retry_after


class Gone(HttpError):
    pass


class Both(KeyError, ConnectionError):
    pass


class Unlookable(type):
    __hash__ = None  # type: ignore[assignment]


class Odd(Exception, metaclass=Unlookable):
    pass


TABLE = {
    LookupError: "PERMANENT",
    KeyError: "TRANSIENT",
    OSError: FaultClass.AMBIGUOUS,
    ConnectionResetError: "throttled",
    Gone: "AMBIGUOUS",
    404: "permanent",
    409: FaultClass.TRANSIENT,
    503: "Throttled",
}


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (LookupError(), PERMANENT),
        (IndexError(), PERMANENT),
        (KeyError(), RETRYABLE),
        (TimeoutError(), AMBIGUOUS),
        (ConnectionError(), AMBIGUOUS),
        (ConnectionResetError(), THROTTLED),
        (Both(), RETRYABLE),  # the first of its bases that is named
        (ValueError(), RETRYABLE),
        (HttpError(404), PERMANENT),
        (HttpError(409), RETRYABLE),
        (HttpError(409, 30), RETRYABLE),  # what was named goes before what it carries
        (HttpError(503), THROTTLED),
        (HttpError(503, 2), Verdict(VerdictKind.THROTTLED, 2 * SECOND_US)),
        (HttpError(429), THROTTLED),  # not named: as without classify=
        (HttpError(500), RETRYABLE),
        (Gone(404), PERMANENT),  # a status goes before a type
        (Gone(500), AMBIGUOUS),
        (SystemExit(404), RETRYABLE),
        (Odd(), RETRYABLE),
        (Permanent("x"), PERMANENT),
        (Transient("x"), RETRYABLE),
        (Ambiguous("x"), AMBIGUOUS),
        (Throttled("x", 3), Verdict(VerdictKind.THROTTLED, 3 * SECOND_US)),
        (Snooze(4), Verdict(VerdictKind.SNOOZE, 4 * SECOND_US)),
        (ExceptionGroup("g", [IndexError(), Permanent("x")]), PERMANENT),
        (ExceptionGroup("g", [IndexError(), ValueError()]), RETRYABLE),
        (ExceptionGroup("g", [IndexError(), TimeoutError()]), AMBIGUOUS),
    ],
    ids=lambda value: repr(value),
)
def test_a_table(error: BaseException, verdict: Verdict) -> None:
    assert classify(error, classifier(TABLE)) == verdict


def test_a_table_may_name_what_is_no_exception_of_applications_and_whole_groups() -> None:
    judge = classifier({SystemExit: "PERMANENT", ExceptionGroup: "AMBIGUOUS", BaseException: "THROTTLED"})
    assert classify(SystemExit(1), judge) == PERMANENT
    assert classify(ExceptionGroup("g", [Permanent("x")]), judge) == AMBIGUOUS
    assert classify(KeyboardInterrupt(), judge) == THROTTLED


def test_a_rule_that_says_throttled_reads_when_to_come_back() -> None:
    error = HttpError(500)
    error.headers = {"Retry-After": "Mon, 05 Jan 2026 00:01:00 GMT"}  # type: ignore[attr-defined]
    verdict = Verdict(VerdictKind.THROTTLED, 60 * SECOND_US)
    assert classify(error, classifier({HttpError: "THROTTLED"}), 1_767_571_200 * SECOND_US) == verdict


def test_any_status_may_be_named() -> None:
    judge = classifier({100: "PERMANENT", 599: "AMBIGUOUS"})
    assert [classify(HttpError(status), judge) for status in (100, 599)] == [PERMANENT, AMBIGUOUS]


def test_later_changes_of_a_table_do_not_count() -> None:
    table: dict[Any, str] = {ValueError: "PERMANENT"}
    judge = classifier(table)
    table[ValueError] = "AMBIGUOUS"
    assert classify(ValueError(), judge) == PERMANENT


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, RETRYABLE),
        ("PERMANENT", PERMANENT),
        ("permanent", PERMANENT),
        (FaultClass.AMBIGUOUS, AMBIGUOUS),
        ("THROTTLED", THROTTLED),
        (FaultClass.TRANSIENT, RETRYABLE),
    ],
)
def test_a_function(answer: Any, verdict: Verdict) -> None:
    asked: list[BaseException] = []
    judge = classifier(lambda error: asked.append(error) or answer)
    error = ValueError("x")
    assert classify(error, judge) == verdict
    assert asked == [error]
    classify(Permanent("x"), judge)
    assert asked == [error], "our own exceptions say themselves what they mean"


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_function_that_raises_is_told_of_once_and_costs_the_exception_its_meaning(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(error: BaseException) -> str:
        raise kind("what?")

    judge = classifier(broken)
    with caplog.at_level(logging.WARNING, "timewheel"):
        assert classify(HttpError(429, 7), judge) == RETRYABLE
        assert classify(HttpError(429, 7), judge) == RETRYABLE
    [record] = caplog.records
    assert "broken" in record.getMessage()
    assert f"raised {kind.__name__}: what?" in record.getMessage()


@pytest.mark.parametrize("answer", ["fatal", 3, True, object(), VerdictKind.PERMANENT])
def test_nonsense_is_told_of_once_for_each_task(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    first, second = classifier(lambda _: answer), classifier(lambda _: answer)
    with caplog.at_level(logging.WARNING, "timewheel"):
        for judge in (first, first, second):
            assert classify(HttpError(429, 7), judge) == RETRYABLE
    assert len(caplog.records) == 2
    said = caplog.records[0].getMessage()
    assert said.startswith("classify: ")
    assert shown(answer) in said
    assert said.endswith(
        "is not one of TRANSIENT, THROTTLED, PERMANENT, AMBIGUOUS or None: such failures count as TRANSIENT"
    )


async def async_judge(error: BaseException) -> str:
    return "PERMANENT"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "it must be a dict"),
        ("PERMANENT", "classify='PERMANENT': it must be a dict, like {ValueError: 'PERMANENT', 429: 'THROTTLED'}"),
        (ValueError, "it must be a dict"),
        ([ValueError], "it must be a dict"),
        (async_judge, "async_judge at 0x"),
        (async_judge, "it must answer at once; write it with def, not async def"),
        ({404: "NEVER"}, "classify: 404: 'NEVER' must be one of TRANSIENT, THROTTLED, PERMANENT, AMBIGUOUS"),
        ({ValueError: "PERMANANT"}, "classify: ValueError: 'PERMANANT' must be one of TRANSIENT, THROTTLED, PERMANENT, "
         "AMBIGUOUS; did you mean 'PERMANENT'?"),
        ({ValueError: None}, "classify: ValueError: None must be one of"),
        ({ValueError: 3}, "must be one of"),
        ({"ValueError": "PERMANENT"}, "classify: 'ValueError' must be a type of exception, like ValueError"),
        ({int: "PERMANENT"}, "must be a type of exception"),
        ({True: "PERMANENT"}, "must be a type of exception"),
        ({99: "PERMANENT"}, "HTTP status, 100 to 599"),
        ({600: "PERMANENT"}, "HTTP status, 100 to 599"),
        ({(ValueError, KeyError): "PERMANENT"}, "must be a type of exception"),
        ({Throttled: "PERMANENT"}, "classify: timewheel.Throttled says itself what it means; leave it out"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_way_out(value: Any, words: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        classifier(value)
    assert words in str(refused.value)
