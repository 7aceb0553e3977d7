"""What exceptions of other libraries tell: HTTP status and Retry-After, in every form they are met in."""

from __future__ import annotations

import email.message
import math
import urllib.error
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from timewheel.model import SECOND_US
from timewheel.work.classify import RETRYABLE, Verdict, VerdictKind, classify
from timewheel.work.foreign import http_status, retry_after_us

NOW_US = 1_767_571_200 * SECOND_US  # Mon, 05 Jan 2026 00:00:00 GMT
DAY_US = 24 * 3600 * SECOND_US


class Thing:
    """An object with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Trap:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(name)


class Trapped(Exception):
    @property
    def status(self) -> int:
        raise RuntimeError("no status")

    @property
    def retry_after(self) -> int:
        raise SystemExit(1)


def error(**attributes: Any) -> Exception:
    made = Exception("from elsewhere")
    vars(made).update(attributes)
    return made


def answer(status: int, **headers: str) -> Thing:
    return Thing(status_code=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def urllib_error(code: int, wait: str) -> urllib.error.HTTPError:
    headers = email.message.Message()
    headers["Retry-After"] = wait
    return urllib.error.HTTPError("http://x", code, "no", headers, None)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (error(), None),
        (error(status=404), 404),
        (error(status=HTTPStatus.CONFLICT), 409),
        (error(status_code=429), 429),
        (error(response=answer(503)), 503),
        (error(response=Thing(status=502)), 502),
        (error(code=500), 500),
        (urllib_error(503, "1"), 503),
        (error(status=404, code=500), 404),
        (error(status="404"), None),
        (error(status="odd", code=500), 500),
        (error(status=True), None),
        (error(status=99), None),
        (error(status=100), 100),
        (error(status=599), 599),
        (error(status=600), None),
        (error(status=404.0), None),
        (error(status=lambda: 404), None),
        (error(response=Trap()), None),
        (error(response=Trap(), code=500), 500),
        (Trapped(), None),
    ],
)
def test_status(given: Exception, status: int | None) -> None:
    found = http_status(given)
    assert found == status
    assert type(found) in (int, type(None))


@pytest.mark.parametrize(
    ("given", "after_us"),
    [
        (error(), None),
        (error(retry_after=30), 30 * SECOND_US),
        (error(retry_after=0), 0),
        (error(retry_after=0.25), SECOND_US // 4),
        (error(retry_after="7"), 7 * SECOND_US),
        (error(retry_after=timedelta(minutes=1)), 60 * SECOND_US),
        (error(retry_after_s=1.5), 1_500_000),
        (error(retry_after=1, retry_after_s=2), SECOND_US),
        (error(retry_after=None, retry_after_s=2), 2 * SECOND_US),
        (error(retry_after=10**400), None),
        (error(retry_after=1e12), DAY_US),
        (error(retry_after="99999999999"), DAY_US),
        (error(retry_after=86_399), 86_399 * SECOND_US),
        (error(retry_after=-1), None),
        (error(retry_after=timedelta(seconds=-1)), None),
        (error(retry_after=math.nan), None),
        (error(retry_after=math.inf), None),
        (error(retry_after=True), None),
        (error(retry_after="soon"), None),
        (error(retry_after=lambda: 3), None),
        (error(response=answer(429, Retry_After="120")), 120 * SECOND_US),
        (error(response=Thing(headers={"retry-after": "3"})), 3 * SECOND_US),
        (error(response=answer(503, Retry_After="Mon, 05 Jan 2026 00:01:00 GMT")), 60 * SECOND_US),
        (error(response=answer(503, Retry_After="Sun, 04 Jan 2026 00:01:00 GMT")), 0),
        (error(response=answer(503, Retry_After="Mon, 05 Jan 2026 00:01:00")), 60 * SECOND_US),
        (
            error(
                response=answer(503, Retry_After="Mon, 05 Jan 2026 09:01:00 GMT", Date="Mon, 05 Jan 2026 09:00:30 GMT")
            ),
            30 * SECOND_US,
        ),
        (error(response=answer(503, Retry_After="Mon, 05 Jan 2026 01:01:00 +0100")), 60 * SECOND_US),
        (error(headers={"Retry-After": "Mon, 05 Jan 2026 00:01:00 GMT", "Date": 5}), 60 * SECOND_US),
        (error(headers={"Retry-After": f"Mon, 05 Jan 2026 00:01:00 GMT ({'x' * 68})"}), 60 * SECOND_US),
        (error(headers={"Retry-After": f"Mon, 05 Jan 2026 00:01:00 GMT ({'x' * 69})"}), None),
        (error(response=answer(503, Retry_After="x" * 10_000)), None),
        (error(headers={"Retry-After": "4"}), 4 * SECOND_US),
        (error(headers={"Retry-After": 4}), 4 * SECOND_US),
        (error(headers="Retry-After: 4"), None),
        (error(headers=Trap(), retry_after_s=2), 2 * SECOND_US),
        (error(response=Trap(), headers={"Retry-After": "4"}), 4 * SECOND_US),
        (urllib_error(503, "9"), 9 * SECOND_US),
        (Trapped(), None),
    ],
)
def test_retry_after(given: Exception, after_us: int | None) -> None:
    assert retry_after_us(given, NOW_US) == after_us


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (error(status=429), Verdict(VerdictKind.THROTTLED)),
        (error(status=429, headers={"Retry-After": "4"}), Verdict(VerdictKind.THROTTLED, 4 * SECOND_US)),
        (error(response=answer(503, Retry_After="5")), Verdict(VerdictKind.THROTTLED, 5 * SECOND_US)),
        (error(retry_after=30), Verdict(VerdictKind.THROTTLED, 30 * SECOND_US)),
        (error(retry_after_s=0), Verdict(VerdictKind.THROTTLED)),
        (error(status=503), RETRYABLE),
        (error(status=404), RETRYABLE),
        (Trapped(), RETRYABLE),
        (SystemExit(429), RETRYABLE),
        (ExceptionGroup("g", [error(status=429)]), RETRYABLE),
    ],
)
def test_who_was_told_to_slow_down_is_throttled_without_a_word(given: BaseException, verdict: Verdict) -> None:
    assert classify(given, None, NOW_US) == verdict
