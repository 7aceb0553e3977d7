"""What does an exception of somebody else's library tell? Its HTTP status and its Retry-After, read without trust.

Pure; clocks are arguments. An attribute that is missing, raises or makes no sense is as good as none: a foreign object
may do anything.

    status         status, status_code, response.status_code, response.status, code: the first that is an int from 100
                   to 599
    Retry-After    retry_after, retry_after_s, response.headers["Retry-After"], headers["Retry-After"]: seconds as a
                   number, a timedelta or text, or an HTTP date as text
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeAlias, TypeVar

from timewheel.model import SECOND_US
from timewheel.times import utc_datetime
from timewheel.work.signals import MAX_RETRY_AFTER_US

P = ParamSpec("P")
T = TypeVar("T")
Path: TypeAlias = tuple[str, ...]
MAX_RETRY_AFTER_S = MAX_RETRY_AFTER_US / SECOND_US
_STATUSES: tuple[Path, ...] = (
    ("status",),
    ("status_code",),
    ("response", "status_code"),
    ("response", "status"),
    ("code",),
)
_WAITS: tuple[Path, ...] = (("retry_after",), ("retry_after_s",))
_HEADERS: tuple[Path, ...] = (("response", "headers"), ("headers",))
_SECONDS = re.compile(r"\d{1,18}(\.\d{1,9})?", re.ASCII)


def http_status(error: BaseException) -> int | None:
    """The HTTP status that an exception carries; None when there is none. Never raises."""
    for path in _STATUSES:
        status = _trying(_status_at, error, path)
        if status is not None:
            return status
    return None


def retry_after_us(error: BaseException, wall_us: int) -> int | None:
    """How long an exception asks to wait, in microseconds, from 0 to 24 h; None when it does not. Never raises.

    A date is read against the answer's own Date header, whose clock wrote it, else against `wall_us`.
    """
    for path in _WAITS:
        found = _trying(_wait_at, error, path, wall_us)
        if found is not None:
            return found
    for path in _HEADERS:
        found = _trying(_wait_in, error, path, wall_us)
        if found is not None:
            return found
    return None


def retry_after_s(value: str | None, date: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks to wait, from 0 to 24 h; None when it is missing or makes no sense.

    An HTTP date in it is read against the answer's own `date` header, whose clock wrote it, else against `now`.

    >>> retry_after_s("120", None, datetime.now(UTC))
    120.0
    >>> retry_after_s("Mon, 05 Jan 2026 00:01:00 GMT", "Mon, 05 Jan 2026 00:00:00 GMT", datetime.now(UTC))
    60.0
    """
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    until = _http_date(value)
    if until is None:
        return None
    return min(max((until - (_http_date(date) or now)).total_seconds(), 0.0), MAX_RETRY_AFTER_S)


def _http_date(text: str | None) -> datetime | None:
    if text is None or len(text) > 100:
        return None
    from email.utils import parsedate_to_datetime  # it takes long to import, and few have a date to read

    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


# ---- reading what is not ours ----------------------------------------------------------------------------------------


def _trying(read: Callable[P, T | None], *args: P.args, **kwargs: P.kwargs) -> T | None:
    try:
        return read(*args, **kwargs)
    except BaseException:  # noqa: BLE001 - a property of a foreign object may raise anything
        return None


def _at(thing: Any, path: Path) -> Any:
    for name in path:
        thing = getattr(thing, name, None)
    return thing


def _status_at(error: BaseException, path: Path) -> int | None:
    status = int.__index__(_at(error, path))  # raises for what is no int
    return status if 100 <= status <= 599 else None


def _wait_at(error: BaseException, path: Path, wall_us: int) -> int | None:
    return _wait_of(_at(error, path), None, wall_us)


def _wait_in(error: BaseException, path: Path, wall_us: int) -> int | None:
    headers = _at(error, path)
    if headers is None:
        return None
    return _wait_of(_header(headers, "Retry-After"), _header(headers, "Date"), wall_us)


def _header(headers: Any, name: str) -> Any:
    """A header of a mapping, whether or not that tells the case of its names apart."""
    found = headers.get(name)
    return headers.get(name.lower()) if found is None else found


def _wait_of(value: Any, date: Any, wall_us: int) -> int | None:
    if isinstance(value, str):
        seconds = retry_after_s(value, date if isinstance(date, str) else None, utc_datetime(wall_us))
    elif isinstance(value, timedelta):
        seconds = timedelta.total_seconds(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    else:
        return None
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return round(min(seconds, MAX_RETRY_AFTER_S) * SECOND_US)
