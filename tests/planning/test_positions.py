"""Where a schedule begins, and what a changed rule makes of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.worlds import TZDATA
from timewheel.errors import InvalidOption
from timewheel.model import ClockKind, Now
from timewheel.planning.definition import Definition
from timewheel.planning.position import Wake, first_position, renewed, settled, wake_at
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.schedule_records import Position

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
T0 = 1_767_571_200 * SECOND


def definition(rule, **options):
    return Definition(rule=rule, task="t", **options)


def begun(rule, now=None, **options):
    return first_position(definition(rule, **options), now or Now(T0, T0), TZDATA)


def test_rules_of_wall_time_count_on_the_wall_and_intervals_on_steady_time():
    now = Now(T0 + HOUR, T0)
    assert begun(Cron("0 * * * *"), now) == Position(
        ClockKind.WALL, T0 + HOUR, next_at=T0 + 2 * HOUR, offset_us=HOUR, tzdata=TZDATA
    )
    assert begun(Civil(days=1, anchor=datetime(2026, 1, 1, 9)), now).clock is ClockKind.WALL
    assert begun(Every(60), now) == Position(ClockKind.STEADY, T0, next_at=T0 + MINUTE, offset_us=HOUR, tzdata=TZDATA)


def test_a_slot_that_is_now_has_passed():
    assert begun(Cron("0 * * * *")).next_at == T0 + HOUR
    assert begun(Every(3600, anchor=T0 / SECOND)).next_at == T0 + HOUR


@pytest.mark.parametrize(
    ("anchor", "start", "first"),
    [
        (T0 + 10 * SECOND, None, T0 + 10 * SECOND),
        (T0 + 10 * DAY, None, T0 + 10 * DAY),
        (T0 - 10 * SECOND, None, T0 + 50 * SECOND),
        (T0 - 60 * SECOND, None, T0 + 60 * SECOND),
        (None, T0 + 90 * SECOND, T0 + 90 * SECOND),
        (None, T0 - 10 * SECOND, T0 + 50 * SECOND),
        (T0 - 10 * SECOND, T0 + 50 * SECOND, T0 + 50 * SECOND),
        (T0 - 10 * SECOND, T0 + 50 * SECOND + 1, T0 + 110 * SECOND),
    ],
)
def test_the_phase_of_an_interval_is_its_anchor_or_its_start(anchor, start, first):
    for ahead in (0, 5 * HOUR):  # wall instants are taken to steady time as the clocks stand
        rule = Every(60, anchor=None if anchor is None else (anchor + ahead) / SECOND)
        start_us = None if start is None else start + ahead
        assert begun(rule, Now(T0 + ahead, T0), start_us=start_us).next_at == first


@given(st.integers(1, 10**9), st.integers(-(10**10), 10**10), st.none() | st.integers(-(10**10), 10**10))
def test_the_first_slot_of_an_interval_is_the_first_of_its_phase(interval_us, anchor, start):
    interval_us = max(1_000, interval_us)
    rule = Every.__new__(Every)
    rule._set(interval_us=interval_us, anchor_us=T0 + anchor, after_completion=False)
    first = begun(rule, start_us=None if start is None else T0 + start).next_at
    least = max([T0 + anchor, T0 + 1] + ([] if start is None else [T0 + start]))
    assert first >= least
    assert (first - T0 - anchor) % interval_us == 0
    assert first - interval_us < least


def test_a_start_to_come_is_where_slots_of_wall_time_begin():
    assert begun(Cron("0 * * * *"), start_us=T0 + 2 * HOUR).next_at == T0 + 2 * HOUR
    assert begun(Cron("0 * * * *"), start_us=T0 + 2 * HOUR + 1).next_at == T0 + 3 * HOUR
    assert begun(Cron("0 * * * *"), start_us=T0 - 9 * HOUR).next_at == T0 + HOUR


def test_an_end_that_has_passed_leaves_nothing():
    for rule in (Cron("0 * * * *"), Every(3600), Every(3600, after_completion=True)):
        assert begun(rule, end_us=T0 + HOUR).next_at is None
        assert begun(rule, end_us=T0 + HOUR + 1).next_at == T0 + HOUR


def test_a_changed_rule_keeps_the_turn_and_the_runs_and_begins_a_turn_when_it_goes_back():
    before = Position(ClockKind.WALL, T0, turn=3, made=7)
    rule = definition(Cron("0 * * * *"))
    same = first_position(rule, Now(T0, T0), TZDATA, before)
    assert (same.turn, same.made, same.at) == (3, 7, T0)
    back = first_position(rule, Now(T0 - 1, T0), TZDATA, before)
    assert (back.turn, back.at) == (4, T0 - 1)
    from_steady = first_position(rule, Now(T0, T0), TZDATA, before._replace(clock=ClockKind.STEADY))
    assert from_steady.turn == 4, "what was served on the wall before is not known"
    to_steady = first_position(definition(Every(60)), Now(T0 - 1, T0 - 1), TZDATA, before)
    assert to_steady.turn == 3


def test_runs_that_are_spent_stay_spent():
    before = Position(ClockKind.WALL, T0, made=7)
    assert first_position(definition(Cron("0 * * * *"), max_runs=7), Now(T0, T0), TZDATA, before).next_at is None
    assert first_position(definition(Cron("0 * * * *"), max_runs=8), Now(T0, T0), TZDATA, before).next_at is not None


def test_other_zone_data_moves_the_next_slot_and_nothing_else():
    rule = definition(Cron("0 * * * *"))
    position = first_position(rule, Now(T0, T0), "2020a")
    assert renewed(rule, position._replace(next_at=5), Now(T0, T0), TZDATA) == position._replace(tzdata=TZDATA)
    delay = definition(Every(60, after_completion=True))
    waiting = Position(ClockKind.STEADY, T0, next_at=None, tzdata="2020a")
    assert renewed(delay, waiting, Now(T0, T0), TZDATA) == waiting._replace(tzdata=TZDATA)


def test_the_offset_is_that_at_which_the_slots_were_served():
    rule = definition(Cron("30 2 * * *"))
    position = first_position(rule, Now(T0, T0), TZDATA)
    assert settled(rule, position, Now(T0 + 5, T0)).offset_us == 5
    assert settled(rule, position, Now(T0 - HOUR, T0)) == position, "served up to T0 by a clock that was an hour ahead"


def test_a_start_to_come_is_no_step_back():
    rule = definition(Cron("*/5 * * * *"), start_us=T0 + DAY)
    position = first_position(rule, Now(T0, T0), TZDATA)
    assert settled(rule, position, Now(T0 - 4 * HOUR, T0)).turn == 0


def test_when_to_wake():
    position = Position(ClockKind.WALL, 5, next_at=9)
    assert wake_at(position) == Wake(ClockKind.WALL, 9)
    assert wake_at(position._replace(catch_up_until=8, catch_up_at=3)) == Wake(ClockKind.STEADY, 3)
    assert wake_at(position._replace(next_at=None)) is None


def test_a_rule_is_wild_when_its_minute_or_hour_is_a_star_and_it_runs_in_real_time():
    assert Cron("*/5 * * * *").wild
    assert Cron("0 * * * *").wild
    assert Cron("* 3 * * *", fold="BOTH").wild
    assert not Cron("* * * * *", fold="FIRST").wild
    assert not Cron("5 3 * * *").wild
    assert not Cron("* 5 3 * * *").wild, "a star in the seconds"
    assert not Every(60).wild
    assert not Civil(days=1, anchor=datetime(2026, 1, 1, 9)).wild


def test_a_definition_whose_parts_exclude_each_other_is_refused():
    with pytest.raises(InvalidOption, match="not after start"):
        definition(Every(60), start_us=5, end_us=5)
    with pytest.raises(InvalidOption, match="max_runs=0"):
        definition(Every(60), max_runs=0)
    assert datetime.fromtimestamp(T0 / SECOND, UTC).isoformat() == "2026-01-05T00:00:00+00:00"
