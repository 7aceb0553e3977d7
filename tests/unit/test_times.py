"""Times and delays at the border: exact, never guessed, refused with the way out."""

from __future__ import annotations

import math
import os
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from timewheel.errors import InvalidTime
from timewheel.model import MAX_TIME_US
from timewheel.times import delay_us, parse_rfc3339, rfc3339, utc_datetime, when_us

NOON = 1_767_614_400  # 2026-01-05T12:00:00Z


def message(call, *args):
    with pytest.raises(InvalidTime) as caught:
        call(*args)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (NOON, NOON * 10**6),
        (float(NOON), NOON * 10**6),
        (NOON + 0.000001, NOON * 10**6 + 1),
        (NOON + 0.123457, NOON * 10**6 + 123457),
        (10**9, 10**15),
        (10**11, 10**17),
        (datetime(2026, 1, 5, 12, tzinfo=UTC), NOON * 10**6),
        (datetime(2026, 1, 5, 4, tzinfo=ZoneInfo("America/Los_Angeles")), NOON * 10**6),
        (datetime(2026, 1, 5, 17, 45, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=45))), NOON * 10**6 + 7),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), MAX_TIME_US),
    ],
)
def test_an_instant_is_the_same_however_it_is_written(when, expected):
    assert when_us(when) == expected
    assert type(when_us(when)) is int


def test_a_gap_and_a_fold_follow_the_datetime_itself():
    berlin = ZoneInfo("Europe/Berlin")
    for wall in (datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30)):
        for fold in (0, 1):
            aware = wall.replace(tzinfo=berlin, fold=fold)
            assert when_us(aware) == round(aware.timestamp()) * 10**6
    assert (
        when_us(datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1))
        - when_us(datetime(2026, 10, 25, 2, 30, tzinfo=berlin))
        == 3600 * 10**6
    )


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def test_a_naive_datetime_is_refused_in_every_zone_with_both_fixes(zone, monkeypatch):
    monkeypatch.setitem(os.environ, "TZ", zone)
    time.tzset()
    try:
        text = message(when_us, datetime(2026, 1, 5, 12, 0))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "datetime.datetime(2026, 1, 5, 12, 0) is naive" in text
    for fix in ("datetime.now(timezone.utc)", ".replace(tzinfo=ZoneInfo(", ".astimezone()"):
        assert fix in text


class NoOffset(tzinfo):
    def utcoffset(self, _):
        return None


def test_a_tzinfo_without_an_offset_is_naive():
    assert "naive" in message(when_us, datetime(2026, 1, 5, tzinfo=NoOffset()))


def test_a_delay_in_the_place_of_a_time_is_told_how_to_be_one():
    seconds = "datetime.now(UTC) + timedelta(seconds={})"
    given = timedelta(hours=1)
    assert f"did you mean datetime.now(UTC) + {given!r}?" in message(when_us, given, seconds)
    assert "did you mean datetime.now(UTC) + timedelta(seconds=60)?" in message(when_us, 60, seconds)


@pytest.mark.parametrize(
    ("when", "parts"),
    [
        (True, ["True (bool) is not a time", "aware datetime"]),
        (math.nan, ["nan is not a time", "finite"]),
        (math.inf, ["inf is not a time", "finite"]),
        (-math.inf, ["-inf is not a time"]),
        (-1, ["-1 is negative", "1970"]),
        (5, ["5 Unix seconds", "did you mean after(5, ...)?"]),
        (0, ["did you mean after(0, ...)?"]),
        (999_999_999.5, ["did you mean after(999999999.5, ...)?"]),
        (NOON * 1000, ["1767614400000", "milliseconds?", "1000"]),
        (10**11 + 1, ["milliseconds?", "aware datetime"]),
        (NOON * 10**6, ["milliseconds?", "1,000,000"]),
        (1e300, ["1e+300 is out of range", "9999-12-31T23:59:59Z"]),
        (10**400, ["is out of range"]),
        (datetime.min, ["naive"]),
        (datetime.min.replace(tzinfo=UTC), ["out of range", "1970-01-01"]),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), ["out of range"]),
        (datetime.max.replace(tzinfo=UTC), ["out of range", "9999-12-31T23:59:59Z"]),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), ["out of range"]),
        ("2026-01-05T12:00:00Z", ["'2026-01-05T12:00:00Z' (str)", "ISO text? Use datetime.fromisoformat"]),
        (timedelta(seconds=5), ["did you mean after(datetime.timedelta(seconds=5), ...)?"]),
        (None, ["None (NoneType) is not a time", "Unix seconds"]),
    ],
)
def test_a_bad_time_is_refused_with_the_value_and_the_way_out(when, parts):
    text = message(when_us, when)
    for part in parts:
        assert part in text
    assert len(text) < 400


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        (-0.0, 0),
        (1.5, 1_500_000),
        (0.0000004, 0),
        (0.0000006, 1),
        (0.1, 100_000),
        ((2**31 - 1) / 1000, (2**31 - 1) * 1000),
        (2**31 / 1000, 2**31 * 1000),
        (timedelta(milliseconds=2**32 + 5000), (2**32 + 5000) * 1000),
        ((2**32 + 5000) / 1000, (2**32 + 5000) * 1000),
        (timedelta(days=400), 400 * 86_400 * 10**6),
        (timedelta(days=3652, microseconds=1), 3652 * 86_400 * 10**6 + 1),
        (10 * 365 * 86_400, 10 * 365 * 86_400 * 10**6),
        (MAX_TIME_US // 10**6, MAX_TIME_US),
    ],
)
def test_delays_are_exact_at_any_width(delay, expected):
    assert delay_us(delay) == expected
    assert type(delay_us(delay)) is int


@pytest.mark.parametrize(
    ("delay", "parts"),
    [
        (-1, ["-1 is negative", "at least 0", "now(...)"]),
        (-(10**400), ["is negative"]),
        (timedelta(microseconds=-1), ["is negative"]),
        (math.nan, ["nan is not a delay", "finite"]),
        (math.inf, ["inf is not a delay"]),
        (True, ["True (bool) is not a delay"]),
        ("5", ["'5' (str) is not a delay", "timedelta"]),
        (None, ["None (NoneType)"]),
        (datetime(2026, 1, 5, tzinfo=UTC), ["did you mean at("]),
        (timedelta.max, ["out of range", "9999-12-31T23:59:59Z"]),
        (MAX_TIME_US // 10**6 + 1, ["out of range"]),
        (1e300, ["out of range"]),
        (10**400, ["out of range"]),
    ],
)
def test_a_bad_delay_is_refused_with_the_value_and_the_way_out(delay, parts):
    text = message(delay_us, delay)
    for part in parts:
        assert part in text
    assert len(text) < 400


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (NOON * 10**6 + 5, "2026-01-05T12:00:00.000005Z"),
        (MAX_TIME_US, "9999-12-31T23:59:59.000000Z"),
        (2**31 * 10**6, "2038-01-19T03:14:08.000000Z"),
    ],
)
def test_rfc3339_text_and_back(instant, text):
    assert rfc3339(instant) == text
    assert parse_rfc3339(text) == instant
    assert when_us(utc_datetime(instant)) == instant
    assert utc_datetime(instant).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-05T12:00:00Z", NOON * 10**6),
        ("2026-01-05t12:00:00.25z", NOON * 10**6 + 250_000),
        ("2026-01-05T13:00:00+01:00", NOON * 10**6),
        ("2026-01-05T06:30:00-05:30", NOON * 10**6),
        ("2026-01-05T12:00:00-00:00", NOON * 10**6),
        ("2026-01-05T12:00:00.000000001Z", NOON * 10**6 + 1),  # rounds up: never early
        ("2026-01-05T12:00:00.999999999Z", (NOON + 1) * 10**6),
        ("2026-01-05T12:00:00.123456000Z", NOON * 10**6 + 123_456),
    ],
)
def test_other_ways_to_write_an_instant(text, instant):
    assert parse_rfc3339(text) == instant


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-01-05T12:00:00", "has no offset"),
        ("2026-01-05T12:00:00 01:00", "%2B"),
        ("2026-01-05", "is not RFC 3339: write it like"),
        ("2026-01-05 12:00:00Z", "is not RFC 3339"),
        ("20260105T120000Z", "is not RFC 3339"),
        ("2026-01-05T12:00Z", "is not RFC 3339"),
        ("2026-01-05T12:00:60Z", "is not RFC 3339"),
        ("2026-01-05T24:00:00Z", "is not RFC 3339"),
        ("2026-01-05T12:00:00+24:00", "is not RFC 3339"),
        ("2026-01-05T12:00:00.Z", "is not RFC 3339"),
        ("2026-01-05T12:00:00.1234567890Z", "is not RFC 3339"),
        ("2026-01-05T12:00:00Z\n", "is not RFC 3339"),
        ("\uff12\uff10\uff12\uff16-01-05T12:00:00Z", "is not RFC 3339"),
        ("2026-02-29T12:00:00Z", "names no instant"),
        ("1969-12-31T23:59:59Z", "out of range"),
        ("9999-12-31T23:59:59-01:00", "out of range"),
        ("0001-01-01T00:00:00+14:00", "out of range"),
        ("x" * 10_000, "is not RFC 3339"),
        (None, "None is not RFC 3339"),
        (NOON, f"{NOON} is not RFC 3339"),
    ],
)
def test_text_that_is_no_instant_is_refused(text, part):
    refused = message(parse_rfc3339, text)
    assert part in refused
    assert len(refused) < 300
