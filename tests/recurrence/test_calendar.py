"""Business days: what a calendar closes, where dates roll to, and the rules that need both."""

from __future__ import annotations

import copy
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.errors import InvalidRule
from timewheel.recurrence.calendar import MOST_DAYS, Calendar
from timewheel.recurrence.choices import Roll
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Note

DAYS = st.dates(date(2026, 1, 1), date(2026, 3, 31))
XMAS = Calendar("xmas", [date(2026, 12, 24), (date(2026, 12, 25), date(2026, 12, 28)), date(2026, 12, 31)])


def run_dates(rule: Cron | Civil, start: date, count: int) -> list[str]:
    after = datetime(start.year, start.month, start.day, tzinfo=UTC)
    found = []
    for one in rule.occurrences(round(after.timestamp()) * 10**6):
        found.append(one.local.date().isoformat())
        if len(found) == count:
            break
    return found


@given(st.lists(st.one_of(DAYS, st.tuples(DAYS, DAYS).map(lambda pair: (min(pair), max(pair))))), DAYS)
def test_open_days_are_those_outside_of_every_range(exclude: list[Any], day: date) -> None:
    calendar = Calendar("x", exclude, weekend=("sun",))

    def is_open(one: date) -> bool:
        ranges = [pair if isinstance(pair, tuple) else (pair, pair) for pair in exclude]
        return one.weekday() != 6 and not any(first <= one <= last for first, last in ranges)

    assert calendar.is_open(day.toordinal()) is is_open(day)
    later = earlier = day
    while not is_open(later):
        later += timedelta(days=1)
    while not is_open(earlier):
        earlier -= timedelta(days=1)
    assert calendar.next_open(day.toordinal()) == later.toordinal()
    assert calendar.last_open(day.toordinal()) == earlier.toordinal()


def test_ranges_are_joined_so_that_equal_sets_are_equal() -> None:
    one = Calendar("x", [date(2026, 1, 3), date(2026, 1, 1), (date(2026, 1, 2), date(2026, 1, 2)), date(2026, 1, 1)])
    other = Calendar("x", [(date(2026, 1, 1), date(2026, 1, 3))], weekend=["sun", "sat"])
    assert one == other
    assert hash(one) == hash(other)
    assert one.exclude == ((date(2026, 1, 1), date(2026, 1, 3)),)
    assert one != Calendar("y", one.exclude)
    assert one != Calendar("x", one.exclude, weekend=())
    assert one != "x"


def test_a_calendar_comes_back_from_its_data() -> None:
    again = Calendar.from_data(json.loads(json.dumps(XMAS.to_data())))
    assert again == XMAS
    assert copy.deepcopy(XMAS) is XMAS


@pytest.mark.parametrize(
    "change",
    [{"kind": "cron"}, {"version": 2}, {"exclude": [["2026-01-01"]]}, {"exclude": [["x", "y"]]}, {"weekend": 5}],
)
def test_other_data_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRule):
        Calendar.from_data(XMAS.to_data() | change)


@pytest.mark.parametrize(
    ("arguments", "options", "field"),
    [
        (("",), {}, "calendar"),
        ((5,), {}, "calendar"),
        (("x\n",), {}, "calendar"),
        (("x" * 201,), {}, "calendar"),
        (("x", ["2026-01-01"]), {}, "exclude"),
        (("x", [datetime(2026, 1, 1)]), {}, "exclude"),
        (("x", [(date(2026, 1, 2), date(2026, 1, 1))]), {}, "exclude"),
        (("x", [(date(2026, 1, 2),)]), {}, "exclude"),
        (("x", [(date(1, 1, 1), date(9999, 12, 31))]), {}, "exclude"),
        (("x", [date(2026, 1, 1)] * (MOST_DAYS + 1)), {}, "exclude"),
        (("x",), {"weekend": "sat"}, "weekend"),
        (("x",), {"weekend": ("Saturday",)}, "weekend"),
        (("x",), {"weekend": ("mon", "tue", "wed", "thu", "fri", "sat", "sun")}, "weekend"),
    ],
)
def test_what_is_no_calendar_is_refused(arguments: tuple[Any, ...], options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Calendar(*arguments, **options)
    assert caught.value.field == field


@pytest.mark.parametrize("exclude", ["2026-12-25", ["2026-12-25"]])
def test_a_date_that_is_a_text_is_told_how_to_be_one(exclude: Any) -> None:
    with pytest.raises(InvalidRule, match=r"'2026-12-25' is neither .*: write date.fromisoformat"):
        Calendar("x", exclude)


def test_the_last_business_day_of_the_month() -> None:
    rule = Cron("0 18 L * *", tz="Europe/London", calendar=XMAS, roll="preceding")
    assert run_dates(rule, date(2026, 10, 1), 4) == ["2026-10-30", "2026-11-30", "2026-12-30", "2027-01-29"]


def test_the_25th_or_the_working_day_before() -> None:
    rule = Cron("0 9 25 * *", tz="Europe/London", calendar=XMAS, roll="preceding")
    assert run_dates(rule, date(2026, 10, 1), 4) == ["2026-10-23", "2026-11-25", "2026-12-23", "2027-01-25"]


def test_rolls() -> None:
    """31 January 2026 is a Saturday, 28 February one as well."""
    wanted = {
        "following": ["2026-02-02", "2026-03-31", "2026-06-01"],
        "preceding": ["2026-01-30", "2026-03-31", "2026-05-29"],
        "modified following": ["2026-01-30", "2026-03-31", "2026-05-29"],
    }
    for roll, days in wanted.items():
        rule = Cron("0 9 31 * *", calendar=Calendar("weekdays"), roll=roll)  # type: ignore[arg-type]
        assert run_dates(rule, date(2026, 1, 1), 3) == days
    within = Cron("0 9 14 * *", calendar=Calendar("weekdays"), roll=Roll.MODIFIED_FOLLOWING)
    assert run_dates(within, date(2026, 2, 1), 1) == ["2026-02-16"]


def test_dates_that_roll_to_one_day_run_once() -> None:
    rule = Cron("0 9 24-28 12 *", calendar=XMAS, roll="following")
    assert run_dates(rule, date(2026, 1, 1), 2) == ["2026-12-29", "2027-12-24"]
    first = next(rule.occurrences(0 + 1_767_225_600_000_000))
    assert first.notes == (Note.ROLL,)
    assert first.nominal == datetime(2026, 12, 24, 9)


def test_a_date_that_is_moved_and_a_real_one_are_one() -> None:
    rule = Cron("0 9 27,29 12 *", calendar=XMAS, roll="following")
    first = next(rule.occurrences(1_767_225_600_000_000))
    assert (first.local, first.notes) == (datetime(2026, 12, 29, 9), ())


def test_without_a_roll_closed_days_are_left_out() -> None:
    rule = Cron("0 9 * * *", calendar=XMAS)
    assert run_dates(rule, date(2026, 12, 22), 5) == [
        "2026-12-22",
        "2026-12-23",
        "2026-12-29",
        "2026-12-30",
        "2027-01-01",
    ]
    every_other = Civil(days=1, anchor=datetime(2026, 12, 1, 9), calendar=Calendar("x", XMAS.exclude, weekend=()))
    assert run_dates(every_other, date(2026, 12, 23), 3) == ["2026-12-23", "2026-12-29", "2026-12-30"]


def test_a_rule_that_falls_on_weekends_only_never_runs() -> None:
    weekdays = Calendar("weekdays")
    for make in (
        lambda **more: Cron("0 9 * * SAT", calendar=weekdays, **more),
        lambda **more: Civil(weeks=2, anchor=datetime(2026, 1, 10, 9), calendar=weekdays, **more),
        lambda **more: Civil(weeks=1, anchor=datetime(2400, 1, 1, 9), calendar=weekdays, **more),
    ):
        with pytest.raises(InvalidRule, match="weekend") as caught:
            make()
        assert caught.value.field == "calendar"
        assert make(roll="following").next_after(datetime(2399, 1, 1, tzinfo=UTC))
    assert Cron("0 9 29 2 *", calendar=weekdays).next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(
        2028, 2, 29, 9, tzinfo=UTC
    )


def test_a_closed_quarter_of_a_century_is_walked_over() -> None:
    closed = Calendar("closed", [(date(2026, 1, 1), date(2053, 5, 17))])  # 19 May 2053 is a Monday
    after = datetime(2026, 1, 2, tzinfo=UTC)
    assert Cron("* * * * *", calendar=closed).next_after(after) == datetime(2053, 5, 19, tzinfo=UTC)
    for roll, day in (("following", 19), ("preceding", 20), ("modified_following", 19)):
        rule = Cron("0 0 * * TUE", calendar=closed, roll=roll)  # type: ignore[arg-type]
        assert rule.next_after(after) == datetime(2053, 5, day, tzinfo=UTC)


def test_a_roll_needs_a_calendar() -> None:
    with pytest.raises(InvalidRule, match="weekdays") as caught:
        Cron("0 9 * * *", roll="following")
    assert caught.value.field == "roll"


def test_a_calendar_by_name_is_looked_up_later() -> None:
    rule = Cron("0 9 25 * *", calendar="xmas", roll="preceding")
    for ask in (
        lambda: rule.next_after(datetime(2026, 1, 1, tzinfo=UTC)),
        lambda: rule.count(0, 1),
        lambda: rule.latest(0, 1),
        lambda: rule.with_calendar(Calendar("other")),
        lambda: Cron("0 9 * * *").with_calendar(XMAS),
    ):
        with pytest.raises(InvalidRule) as caught:
            ask()
        assert caught.value.field == "calendar"
    known = rule.with_calendar(XMAS)
    assert known == Cron("0 9 25 * *", calendar=XMAS, roll="preceding")
    assert known.to_data() == rule.to_data()
    assert "'xmas'" in rule.explain()
