"""Intervals: steady, never drifting, indifferent to any zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.errors import InvalidRule, InvalidTime
from timewheel.model import MAX_TIME_US
from timewheel.recurrence.interval import Every

T0 = datetime(2026, 1, 5, tzinfo=UTC)
T0_US = 1_767_571_200_000_000


@given(st.integers(1000, 10**15), st.integers(0, 10**16), st.integers(0, 10**16))
def test_slots_are_anchor_plus_whole_intervals(interval: int, anchor: int, after: int) -> None:
    rule = Every(
        timedelta(microseconds=interval), anchor=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=anchor)
    )
    found = rule.following(after)
    assert found is not None
    steps, rest = divmod(found.instant_us - anchor, interval)
    assert rest == 0
    assert steps >= 0
    assert found.instant_us > after
    assert found.instant_us - interval <= after or found.instant_us == anchor, "there is none before it"


@given(st.integers(1000, 10**9), st.integers(0, 10**10), st.integers(0, 10**10), st.integers(0, 10**10))
def test_count_and_latest_agree_with_arithmetic(interval: int, anchor: int, after: int, length: int) -> None:
    rule = Every(
        timedelta(microseconds=interval), anchor=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=anchor)
    )
    until = after + length
    first = max(0, (after - anchor) // interval + 1)
    last = (until - anchor) // interval
    assert rule.count(after, until) == max(0, last - first + 1)
    latest = rule.latest(after, until)
    assert (latest.instant_us if latest else None) == (anchor + last * interval if last >= first else None)


def test_first_one_interval_after_it_was_made_then_steady() -> None:
    rule = Every(7 * 86_400).anchored(T0_US)
    assert [rule.next_after(T0 + timedelta(days=days)) for days in (0, 6, 7, 13.9)] == [
        datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 1, 19, tzinfo=UTC),
        datetime(2026, 1, 19, tzinfo=UTC),
    ]  # fmt: skip
    assert rule.anchored(T0_US + 5) is rule


def test_without_a_phase_it_counts_from_the_moment_asked() -> None:
    rule = Every(90.5)
    assert rule.next_after(T0) == T0 + timedelta(seconds=90.5)
    assert rule.count(T0_US, T0_US + 181_000_000) == 2
    latest = rule.latest(T0_US, T0_US + 200_000_000)
    assert latest is not None
    assert latest.instant_us == T0_US + 181_000_000
    assert rule.latest(T0_US, T0_US + 90_499_999) is None


def test_24_hours_are_24_hours_when_the_clocks_change() -> None:
    anchor = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = Every(timedelta(hours=24), anchor=anchor)
    assert rule.next_after(datetime(2026, 10, 24, 10, tzinfo=UTC)) == datetime(2026, 10, 25, 10, tzinfo=UTC)


def test_nothing_before_the_anchor() -> None:
    rule = Every(60, anchor=T0)
    assert rule.next_after(datetime(1999, 1, 1, tzinfo=UTC)) == T0
    assert rule.next_after(T0) == T0 + timedelta(minutes=1)


def test_ten_years_of_seconds_are_counted_at_once() -> None:
    rule = Every(1, anchor=T0)
    assert rule.count(T0_US, T0_US + 315_532_800 * 10**6) == 315_532_800


def test_the_end_of_time() -> None:
    rule = Every(1e9, anchor=datetime(9990, 1, 1, tzinfo=UTC))
    assert rule.next_after(datetime(9990, 1, 2, tzinfo=UTC)) is None
    assert rule.count(0, 10**20) == 1
    assert Every(1).following(MAX_TIME_US) is None
    assert Every(1).count(MAX_TIME_US, 10**20) == 0


def test_a_fixed_delay_has_no_phase() -> None:
    rule = Every(300, after_completion=True)
    assert rule.anchored(T0_US) is rule
    assert rule.next_after(T0) == T0 + timedelta(minutes=5)
    with pytest.raises(InvalidRule, match="anchor"):
        Every(300, anchor=T0, after_completion=True)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"interval": 0}, "interval"),
        ({"interval": 0.0005}, "interval"),
        ({"interval": -1}, "interval"),
        ({"interval": True}, "interval"),
        ({"interval": "60"}, "interval"),
        ({"interval": float("nan")}, "interval"),
        ({"interval": float("inf")}, "interval"),
        ({"interval": 10**12}, "interval"),
        ({"interval": 60, "anchor": datetime(2026, 1, 1)}, "anchor"),
        ({"interval": 60, "anchor": "now"}, "anchor"),
        ({"interval": 60, "after_completion": 1}, "after_completion"),
    ],
)
def test_what_is_no_interval_is_refused(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Every(arguments.pop("interval"), **arguments)
    assert caught.value.field == field


def test_asked_with_what_is_no_instant() -> None:
    for when in (datetime(2026, 1, 1), 1_767_571_200, None, "2026-01-05"):
        with pytest.raises(InvalidTime):
            Every(60).next_after(when)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Every(1), "every 1 second of elapsed time"),
        (Every(90), "every 90 seconds of elapsed time"),
        (Every(7200), "every 2 hours of elapsed time"),
        (Every(timedelta(days=14)), "every 14 days of elapsed time"),
        (Every(0.25), "every 0.25 seconds of elapsed time"),
        (Every(60, anchor=T0), "every 1 minute of elapsed time, counted from 2026-01-05T00:00:00.000000Z"),
        (Every(60, after_completion=True), "1 minute after each run has ended"),
    ],
)
def test_in_words(rule: Every, words: str) -> None:
    assert rule.explain() == words
