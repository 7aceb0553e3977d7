"""Times and delays at the border: what callers write becomes integer microseconds, and the way back.

Pure: no asyncio, clock, randomness, files or sockets. Inside timewheel every instant is an int of microseconds since
the Unix epoch (UTC); nothing here guesses a zone, so no answer depends on the process's TZ.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from timewheel.checks import microseconds, shown, type_name
from timewheel.errors import InvalidTime
from timewheel.model import MAX_TIME_US, SECOND_US

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = "9999-12-31T23:59:59Z"
_EARLIEST_S = 10**9  # 2001: a smaller number of seconds is a delay that was given to `at`
_LATEST_S = 10**11  # 5138: a larger one counts milliseconds
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt]([01]\d|2[0-3])(:[0-5]\d:[0-5]\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-](?:[01]\d|2[0-3]):[0-5]\d))",
    re.ASCII,
)


def when_us(when: datetime | float, delayed: str = "after({}, ...)") -> int:
    """The wall instant (microseconds) that `when` names: an aware datetime, or int or float Unix seconds.

    An int is exact, a float is taken to the nearest microsecond. In a gap or a fold the datetime's own utcoffset
    decides. Raises InvalidTime for a naive datetime, bool, nan, inf, an instant before 1970 or after
    9999-12-31T23:59:59Z, a number below 1e9 (a delay? then `delayed` is how to write that) or above 1e11
    (milliseconds?), and any other type.
    """
    if isinstance(when, datetime):
        return _instant_us(when)
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        _refuse_type(when, delayed)
    if not _EARLIEST_S <= when <= _LATEST_S:
        _refuse_seconds(when, delayed)
    return microseconds(when)


def _instant_us(when: datetime) -> int:
    if when.tzinfo is None or when.utcoffset() is None:
        raise InvalidTime(
            f"{shown(when)} is naive: it names no instant without a zone. Use datetime.now(timezone.utc) for now, "
            f'.replace(tzinfo=ZoneInfo("Europe/Berlin")) for a wall time in a zone, or .astimezone() for this '
            f"machine's zone"
        )
    instant = _delta_us(when - EPOCH)
    if not 0 <= instant <= MAX_TIME_US:
        raise InvalidTime(f"{shown(when)} is out of range: an instant lies between 1970-01-01T00:00:00Z and {LAST}")
    return instant


def _delta_us(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * SECOND_US + delta.microseconds


def _refuse_type(when: object, delayed: str) -> NoReturn:
    given = f"{shown(when)} ({type_name(type(when))}) is not a time"
    if isinstance(when, str):
        raise InvalidTime(f"{given}. ISO text? Use datetime.fromisoformat(...), with an offset in the text")
    if isinstance(when, timedelta):
        meant = delayed.replace("timedelta(seconds={})", "{}").format(shown(when))
        raise InvalidTime(f"{given}: did you mean {meant}?")
    raise InvalidTime(f"{given}: give an aware datetime, or Unix seconds as int or float")


def _refuse_seconds(when: float, delayed: str) -> NoReturn:
    given = shown(when)
    if not _finite(when):
        raise InvalidTime(f"{given} is not a time: give finite Unix seconds or an aware datetime")
    if when < 0:
        raise InvalidTime(f"{given} is negative: Unix seconds count from 1970, and nothing runs before")
    if when < _EARLIEST_S:
        raise InvalidTime(
            f"{given} Unix seconds is an instant before 2001-09-09: did you mean {delayed.format(given)}? "
            f"For an instant that long ago give an aware datetime"
        )
    if when <= MAX_TIME_US // SECOND_US * 1_000_000:
        raise InvalidTime(
            f"{given} Unix seconds lies beyond the year 5138: milliseconds? Divide by 1000 (microseconds: by 1,000,000)"
            f", or give an aware datetime"
        )
    raise InvalidTime(f"{given} is out of range: the last instant is {LAST}")


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def delay_us(delay: timedelta | float) -> int:
    """The microseconds of a delay: a timedelta, or int or float seconds.

    Exact for timedelta and int of any size up to the year 9999, the nearest microsecond for a float. Raises InvalidTime
    for a negative delay, bool, nan, inf, a delay that reaches beyond 9999-12-31T23:59:59Z, and any other type.
    """
    if isinstance(delay, timedelta):
        result = _delta_us(delay)
    elif isinstance(delay, bool) or not isinstance(delay, (int, float)):
        _refuse_delay_type(delay)
    elif not _finite(delay):
        raise InvalidTime(f"{shown(delay)} is not a delay: give a timedelta or finite seconds, at least 0")
    else:
        result = microseconds(delay)
    if result < 0:
        raise InvalidTime(f"{shown(delay)} is negative: a delay is at least 0; to run at once use now(...)")
    if result > MAX_TIME_US:
        raise InvalidTime(f"{shown(delay)} is out of range: a delay may not reach beyond {LAST}")
    return result


def _refuse_delay_type(delay: object) -> NoReturn:
    given = f"{shown(delay)} ({type_name(type(delay))}) is not a delay"
    if isinstance(delay, datetime):
        raise InvalidTime(f"{given}: did you mean at({shown(delay)}, ...)?")
    raise InvalidTime(f"{given}: give a timedelta, or seconds as int or float")


def utc_datetime(instant_us: int) -> datetime:
    """The instant (wall microseconds) as an aware datetime in UTC, exact. Raises OverflowError beyond year 9999."""
    return EPOCH + timedelta(microseconds=instant_us)


def rfc3339(instant_us: int) -> str:
    """The instant (wall microseconds) as RFC 3339 text, always UTC, always six decimals.

    >>> rfc3339(1_767_571_200_000_000)
    '2026-01-05T00:00:00.000000Z'
    """
    return utc_datetime(instant_us).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_rfc3339(text: str) -> int:
    """The wall microseconds that RFC 3339 text names; its offset is required.

    Digits below a microsecond round up, so that nothing fires early. Raises InvalidTime for any other text, a date that
    does not exist, a leap second, and an instant before 1970 or after 9999-12-31T23:59:59Z.
    """
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        _refuse_text(text)
    date, hour, rest, fraction, offset = match.groups()
    try:
        base = datetime.fromisoformat(f"{date}T{hour}{rest}{offset or '+00:00'}")
    except ValueError as error:
        raise InvalidTime(f"{shown(text)} names no instant: {error}") from None
    below_second = -(-int((fraction or "0").ljust(9, "0")) // 1000)
    instant = _delta_us(base - EPOCH) + below_second
    if not 0 <= instant <= MAX_TIME_US:
        raise InvalidTime(f"{shown(text)} is out of range: an instant lies between 1970-01-01T00:00:00Z and {LAST}")
    return instant


def _refuse_text(text: object) -> NoReturn:
    wanted = 'write it like "2026-01-05T00:00:00Z" or "2026-01-05T01:00:00.5+01:00"'
    if isinstance(text, str) and _RFC3339.fullmatch(text + "Z"):
        raise InvalidTime(f"{shown(text)} has no offset, so it names no instant: {wanted}")
    if isinstance(text, str) and _RFC3339.fullmatch(text.replace(" ", "+")):
        raise InvalidTime(f"{shown(text)} is not RFC 3339: in a URL the + of the offset is written %2B")
    raise InvalidTime(f"{shown(text)} is not RFC 3339: {wanted}")
