"""A definition is a value, and its text says all of it and nothing more."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import date

import orjson
import pytest
from hypothesis import given, settings

from tests.planning.worlds import definitions
from timewheel.errors import InvalidRule
from timewheel.flow import Terms
from timewheel.model import ClockKind, RetryPolicy
from timewheel.planning.definition import Definition, definition_from_text
from timewheel.planning.policies import Misfire, MisfirePolicy, Overlap
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every

PLAIN = Definition(rule=Every(60), task="t")
OTHER = {
    "rule": Every(61),
    "task": "u",
    "arguments": "[1]",
    "queue": "q",
    "priority": 1,
    "retry": RetryPolicy(2),
    "timeout_us": 1,
    "tags": ("a",),
    "concurrency_key": "k",
    "terms": Terms(partition_key="p"),
    "misfire": MisfirePolicy(Misfire.SKIP),
    "overlap": Overlap.ALLOW.policy,
    "jitter_us": 1,
    "start_us": 1,
    "end_us": 1,
    "max_runs": 1,
    "declared": "code",
}


@settings(max_examples=200, deadline=None)
@given(definitions())
def test_a_definition_comes_back_as_it_was(drawn):
    definition = drawn[0]
    text = definition.to_text()
    again = definition_from_text(text, {})
    assert again == definition
    assert again.to_text() == text


def test_each_field_is_in_the_text():
    assert OTHER.keys() == {field.name for field in fields(Definition)}
    for name, value in OTHER.items():
        other = replace(PLAIN, **{name: value})
        assert other != PLAIN
        assert other.to_text() != PLAIN.to_text()
        assert definition_from_text(other.to_text(), {}) == other


def test_a_schedule_without_flow_control_has_the_text_that_it_always_had():
    data = orjson.loads(PLAIN.to_text())
    assert data["version"] == 1
    assert "terms" not in data
    assert replace(PLAIN, terms=Terms(cost=1)).to_text() == PLAIN.to_text()


def test_one_with_flow_control_is_of_a_version_that_those_who_know_none_refuse():
    text = replace(PLAIN, terms=Terms("k", 2, 3, 4, 5, False, "p")).to_text()
    assert orjson.loads(text)["version"] == 2
    assert definition_from_text(text, {}).terms == Terms("k", 2, 3, 4, 5, False, "p")


def test_the_text_does_not_depend_on_the_order_of_its_making():
    assert PLAIN.to_text() == Definition(task="t", rule=Every(60)).to_text()
    assert list(orjson.loads(PLAIN.to_text())) == sorted(orjson.loads(PLAIN.to_text()))


def test_a_calendar_is_kept_by_name_and_looked_up():
    calendar = Calendar("holidays", [date(2026, 12, 25)])
    definition = replace(PLAIN, rule=Cron("0 9 * * *", calendar=calendar))
    assert definition.calendar == "holidays"
    assert replace(PLAIN, rule=Cron("0 9 * * *", calendar="holidays")).to_text() == definition.to_text()
    assert definition_from_text(definition.to_text(), {"holidays": calendar}) == definition
    with pytest.raises(InvalidRule, match="'holidays' is not saved") as caught:
        definition_from_text(definition.to_text(), {})
    assert caught.value.field == "calendar"


def test_the_clock_is_that_of_the_rule():
    assert (PLAIN.clock, PLAIN.fixed_delay, PLAIN.calendar) == (ClockKind.STEADY, False, None)
    assert replace(PLAIN, rule=Every(60, after_completion=True)).fixed_delay
    cron = replace(PLAIN, rule=Cron("0 9 * * *"))
    assert (cron.clock, cron.fixed_delay, cron.calendar) == (ClockKind.WALL, False, None)


def test_other_options_leave_the_slots_as_they_are():
    for name, value in OTHER.items():
        assert PLAIN.same_slots(replace(PLAIN, **{name: value})) == (name not in ("rule", "start_us"))
    dates = [Calendar("h", [date(2026, 12, day)]) for day in (25, 26)]
    one, other = (replace(PLAIN, rule=Cron("0 9 * * *", calendar=calendar)) for calendar in dates)
    assert not one.same_slots(other)


def edited(**changes):
    return orjson.dumps(orjson.loads(PLAIN.to_text()) | changes).decode()


def without(name):
    data = orjson.loads(PLAIN.to_text())
    del data[name]
    return orjson.dumps(data).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        edited(kind="job"),
        edited(version=2),
        edited(version=3),
        edited(terms={}),
        edited(terms=Terms("k")._asdict()),
        edited(terms={}, version=2),
        edited(terms=None, version=2),
        edited(terms=Terms("k")._asdict() | {"colour": 1}, version=2),
        edited(terms=Terms(cost=2)._asdict(), version=2),
        edited(rule=5),
        edited(rule={"kind": "every", "version": 9}),
        edited(misfire={"kind": "SOMETIMES", "grace_us": 0, "catch_up_max": 1, "catch_up_per_s": None}),
        edited(misfire=None),
        edited(overlap={"kind": "SKIP"} | {"colour": 1}),
        edited(retry=[1]),
        edited(tags=None),
        edited(colour="red"),
        without("queue"),
        edited(misfire={"kind": "SKIP"}),
        edited(max_runs=0),
        edited(rule=Cron("0 9 * * *").to_data() | {"tz": "Mars/Olympus"}),
        PLAIN.to_text()[:-1],
    ],
)
def test_what_is_no_definition_is_refused_with_words(text):
    with pytest.raises(InvalidRule) as caught:
        definition_from_text(text, {})
    assert 5 < len(str(caught.value)) < 500
    assert caught.value.field


def test_equal_definitions_share_their_parts_since_many_stay_in_memory():
    text = Definition(rule=Cron("5 4 * * *", tz="Europe/Berlin"), task="t").to_text()
    one, other = definition_from_text(text, {}), definition_from_text(text, {})
    assert one is not other
    assert all(getattr(one, name) is getattr(other, name) for name in ("rule", "retry", "misfire", "overlap"))
    later = Definition(rule=Cron("6 4 * * *", tz="Europe/Berlin"), task="t")
    assert later.rule.expr == "6 4 * * *"
