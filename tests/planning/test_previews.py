"""What a preview shows: the next slots, when their jobs are due, and what is left out and why."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.worlds import TZDATA, World, definitions
from timewheel.errors import InvalidRule
from timewheel.model import Now
from timewheel.planning.definition import Definition
from timewheel.planning.position import first_position
from timewheel.planning.preview import upcoming
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import SkipReason

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


T0 = us("2026-01-05T00:00")


def shown(rule, n=3, *, now=T0, after=None, position=None, **options):
    definition = Definition(rule=rule, task="t", **options)
    return upcoming(definition, "s", position, Now(now, now), n, after)


def told(found):
    return [(one.local.isoformat(), one.offset_s // 60, one.reason, one.count, tuple(one.notes)) for one in found]


def test_the_next_slots_with_their_local_time_and_offset():
    found = shown(Cron("30 2 * * *", tz="Europe/Berlin"), now=us("2026-03-28T00:00"))
    assert told(found) == [
        ("2026-03-28T02:30:00", 60, None, 1, ()),
        ("2026-03-29T03:00:00", 120, None, 1, ("gap",)),
        ("2026-03-30T02:30:00", 120, None, 1, ()),
    ]
    assert [one.nominal.isoformat() for one in found][1] == "2026-03-29T02:30:00"
    assert [one.scheduled_us for one in found] == [one.nominal_us for one in found]


def test_what_a_gap_swallows_is_shown_where_the_clocks_change():
    found = shown(Cron("0,30 2 * * *", tz="Europe/Berlin", gap="SKIP"), 4, now=us("2026-03-28T00:00"))
    assert told(found)[2] == ("2026-03-29T03:00:00", 120, "gap", 2, ())
    assert (found[2].nominal_us, found[2].scheduled_us) == (us("2026-03-29T01:00"), None)
    assert found[2].nominal == datetime(2026, 3, 29, 2, 0)
    assert [one.reason for one in found] == [None, None, "gap", None, None]


def test_what_a_calendar_leaves_out_is_shown_and_what_it_moves_says_so():
    calendar = Calendar("c", [date(2026, 1, 7)])
    found = shown(Cron("0 9,17 * * *", calendar=calendar), 5)
    assert told(found)[4:6] == [
        ("2026-01-07T09:00:00", 0, "calendar", 2, ()),
        ("2026-01-08T09:00:00", 0, None, 1, ()),
    ]
    rolled = shown(Cron("0 9 7 * *", calendar=calendar, roll="following"), 1)
    assert told(rolled) == [("2026-01-08T09:00:00", 0, None, 1, ("roll",))]
    assert rolled[0].nominal == datetime(2026, 1, 7, 9)


def test_jitter_is_that_of_the_job_that_will_be_made():
    world = World(Definition(rule=Cron("0 * * * *"), task="t", jitter_us=HOUR), T0)
    foreseen = upcoming(world.definition, world.schedule, world.position, world.now, 1)[0]
    assert T0 + HOUR < foreseen.scheduled_us < T0 + 2 * HOUR
    world.steady = T0 + HOUR
    assert [job.scheduled_at for job in world.look().jobs] == [foreseen.scheduled_us]


def test_an_interval_is_shown_as_the_clocks_stand():
    definition = Definition(rule=Every(60), task="t", jitter_us=10 * SECOND)
    position = first_position(definition, Now(T0, T0), TZDATA)
    found = upcoming(definition, "s", position, Now(T0 + HOUR, T0), 2, T0 + HOUR + 90 * SECOND)
    assert [one.nominal_us for one in found] == [T0 + HOUR + 120 * SECOND, T0 + HOUR + 180 * SECOND]
    assert [one.local for one in found] == [datetime(2026, 1, 5, 1, 2), datetime(2026, 1, 5, 1, 3)]
    assert found[0].nominal == found[0].local
    assert 0 <= found[0].scheduled_us - found[0].nominal_us < 10 * SECOND


def test_it_goes_on_after_the_instant_asked_for_and_never_promises_what_was_served():
    rule = Cron("0 * * * *")
    assert shown(rule, 1, after=T0 + 5 * HOUR)[0].nominal_us == T0 + 6 * HOUR
    world = World(Definition(rule=rule, task="t"), T0)
    world.steady += 2 * HOUR
    world.carry_out(world.look())
    back = Now(T0 + HOUR, T0 + 2 * HOUR)
    assert upcoming(world.definition, "s", world.position, back, 1)[0].nominal_us == T0 + 3 * HOUR
    found = upcoming(world.definition, "s", world.position, back, 3, T0)
    assert [(one.nominal_us - T0) // HOUR for one in found] == [1, 2, 3]
    assert [(one.reason, one.scheduled_us) for one in found] == [("past", None), ("past", None), (None, T0 + 3 * HOUR)]


def at(definition, now, n, after):
    """What a schedule shows that was made at T0, when nothing of it has been planned since; hours after T0."""
    position = first_position(definition, Now(T0, T0), TZDATA)
    found = upcoming(definition, "s", position, Now(now, now), n, after)
    return [((one.nominal_us - T0) / HOUR, one.reason) for one in found]


def test_from_an_instant_that_is_past_it_shows_what_the_rule_tells_and_what_has_come():
    hourly = Definition(rule=Cron("0 * * * *"), task="t", jitter_us=HOUR // 2)
    assert at(hourly, T0 + HOUR, 4, T0 - 2 * HOUR) == [(-1, "past"), (0, "past"), (1, "past"), (2, None)]
    before = at(hourly, T0, 3, us("2020-01-01T00:00"))
    assert before == [((us(f"2020-01-01T0{hour}:00") - T0) / HOUR, "past") for hour in (1, 2, 3)]
    started = Definition(rule=Cron("0 * * * *"), task="t", start_us=T0 - HOUR)
    assert at(started, T0, 3, us("2020-01-01T00:00")) == [(-1, "past"), (0, "past"), (1, None)]
    gap = Definition(rule=Cron("30 2 * * *", tz="Europe/Berlin", gap="SKIP"), task="t")
    assert [reason for _, reason in at(gap, us("2026-04-01T00:00"), 3, us("2026-03-28T00:00"))] == [
        "past", "gap", "past", "past",
    ]  # fmt: skip


def test_of_an_interval_that_is_past_the_phase_goes_back_to_its_anchor():
    every = Definition(rule=Every(3600), task="t")
    assert at(every, T0 + HOUR, 5, T0 - 2 * HOUR) == [(-1, "past"), (0, "past"), (1, "past"), (2, None), (3, None)]
    assert at(every, T0, 1, T0 - 90 * MINUTE) == [(-1, "past")]
    assert at(every, T0, 1, T0 - 1) == [(0, "past")]
    anchored = Definition(rule=Every(3600, anchor=datetime.fromtimestamp((T0 - HOUR) // SECOND, UTC)), task="t")
    assert at(anchored, T0, 3, T0 - 9 * HOUR) == [(-1, "past"), (0, "past"), (1, None)]
    delay = Definition(rule=Every(3600, after_completion=True), task="t")
    assert at(delay, T0, 3, T0 - 9 * HOUR) == [(1, None)]


def test_past_slots_do_not_count_as_runs():
    definition = Definition(rule=Cron("0 * * * *"), task="t", max_runs=2)
    found = at(definition, T0, 9, T0 - 3 * HOUR)
    assert found == [(-2, "past"), (-1, "past"), (0, "past"), (1, None), (2, None)]


def test_it_ends_where_the_schedule_ends():
    assert len(shown(Cron("0 * * * *"), 10, end_us=T0 + 3 * HOUR)) == 2
    assert len(shown(Cron("0 * * * *"), 10, max_runs=4)) == 4
    assert shown(Cron("0 * * * *"), 10, start_us=T0 + DAY)[0].nominal_us == T0 + DAY
    assert len(shown(Every(60), 10, end_us=T0 + 3 * MINUTE)) == 2
    position = first_position(Definition(rule=Every(60), task="t"), Now(T0, T0), TZDATA)._replace(made=9)
    assert shown(Every(60), 10, max_runs=9, position=position) == []


def test_of_a_fixed_delay_only_the_next_slot_is_known_and_none_while_it_runs():
    rule = Every(60, after_completion=True)
    assert [one.nominal_us for one in shown(rule, 5)] == [T0 + MINUTE]
    position = first_position(Definition(rule=rule, task="t"), Now(T0, T0), TZDATA)
    assert shown(rule, 5, position=position._replace(next_at=None)) == []
    assert shown(rule, 5, position=position, after=T0 + MINUTE) == []


def test_a_rule_without_its_calendar_is_refused():
    with pytest.raises(InvalidRule, match="only the name"):
        shown(Cron("0 9 * * *", calendar="c"))


@settings(max_examples=100, deadline=None)
@given(definitions(), st.integers(1, 8))
def test_what_is_foreseen_is_what_comes(drawn, n):
    """A schedule that is planned on time, with jobs that end at once, makes exactly the jobs that were foreseen."""
    definition, start_us, _ = drawn
    world = World(definition, start_us)
    foreseen = upcoming(definition, world.schedule, world.position, world.now, n)
    runs = [one for one in foreseen if one.reason is None]
    while len(world.jobs) < len(runs):
        world.wait_for_slot(0)
        world.carry_out(world.look())
        world.unfinished.clear()
    assert [job.scheduled_at for _, job in world.jobs] == [one.scheduled_us for one in runs]
    assert [job.origin.nominal_at for _, job in world.jobs] == [one.nominal_us for one in runs]
    lost = [(row.first_at + 1, row.count) for row in world.rows if row.reason == SkipReason.GAP]
    assert lost == [(one.nominal_us, one.count) for one in foreseen if one.reason == SkipReason.GAP][: len(lost)]
    if len(runs) < n:
        assert world.look().ended
