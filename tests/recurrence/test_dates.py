"""The days a cron rule names, over the 400 years after which the calendar repeats, against plain predicates."""

from __future__ import annotations

import random
from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recurrence.drawn import days
from timewheel.errors import InvalidRule
from timewheel.recurrence.cron_text import read
from timewheel.recurrence.search import LAST_DAY

DAYS_400 = 146_097


def named(text: str, first: date, count: int) -> list[date]:
    """The first days from `first` on."""
    dates = read(f"0 0 {text}").dates
    found: list[date] = []
    day = dates.next(first.toordinal())
    while day is not None and len(found) < count:
        found.append(date.fromordinal(day))
        day = dates.next(day + 1)
    return found


@given(st.integers(0, 2**32), st.dates(date(1970, 1, 1), date(2200, 1, 1)))
def test_next_and_last_agree_with_the_predicate(seed: int, start: date) -> None:
    text, match = days(random.Random(seed), start)
    first = start.toordinal()
    wanted = [day for day in range(first, first + 1500) if match(date.fromordinal(day))]
    try:
        dates = read(f"0 0 {text}").dates
    except InvalidRule:
        assert not wanted
        return
    found, day = [], dates.next(first)
    while day is not None and day < first + 1500:
        found.append(day)
        day = dates.next(day + 1)
    assert found == wanted
    assert dates.between(first, first + 1500) == len(wanted)
    back, last = [], dates.last(first + 1499)
    while last is not None and last >= first:
        back.append(last)
        last = dates.last(last - 1)
    assert back == wanted[::-1]


@pytest.mark.parametrize("text", ["29 2 *", "L * *", "LW * *", "31 * *", "15W * *", "* * 1#5", "13 * */5", "30W 4,6 *"])
def test_400_years(text: str) -> None:
    """Everything that can happen to a date happens in 400 years, and then again."""
    dates = read(f"0 0 {text}").dates
    start = date(2000, 3, 1).toordinal()
    found: list[int] = []
    day = dates.next(start)
    while day is not None and day < start + 2 * DAYS_400:
        found.append(day)
        day = dates.next(day + 1)
    half = len(found) // 2
    assert [one + DAYS_400 for one in found[:half]] == found[half:]
    assert dates.between(start, start + DAYS_400) == half
    assert max(later - one for one, later in pairwise(found)) <= 40 * 366


def test_a_leap_day_skips_2100() -> None:
    assert named("29 2 *", date(2096, 1, 1), 2) == [date(2096, 2, 29), date(2104, 2, 29)]


def test_the_rarest_day_is_found() -> None:
    """29 February on a Sunday, over a century without leap day."""
    assert named("29 2 */7", date(2061, 1, 1), 2) == [date(2088, 2, 29), date(2128, 2, 29)]


def test_nothing_after_the_last_day() -> None:
    dates = read("0 0 * * *").dates
    assert dates.next(LAST_DAY) == LAST_DAY
    assert read("0 0 29 12 *").dates.next(LAST_DAY) is not None  # the year is not cut short; a search is
    assert read("0 0 1 2 *").dates.next(LAST_DAY) is None
    assert dates.last(date(1968, 12, 31).toordinal()) is None


@pytest.mark.parametrize(
    "text", ["31 2 *", "30 2 *", "31 4,6,9,11 *", "30,31 FEB *", "L-30 2 *", "31W 2 *", "*/29 2 1#5", "29 2 */7#1"]
)
def test_days_that_never_come_are_refused(text: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        read(f"0 0 {text}")
    assert caught.value.field in ("day of month", "day of week")


@pytest.mark.parametrize("text", ["31 2 1", "31 4,5 *", "29 2 *", "L-30 * *", "31 2 1#5", "31W * *", "29 2 */7"])
def test_days_that_come_at_times_are_not(text: str) -> None:
    assert named(text, date(2026, 1, 1), 1)
