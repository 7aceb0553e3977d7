"""Where the newest so-many slots begin, found without visiting the others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.worlds import rules
from timewheel.planning.drafts import Span
from timewheel.planning.slots import Slots
from timewheel.planning.tail import newest_from
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every

SECOND = 1_000_000
T0 = 1_774_728_000 * SECOND


@settings(max_examples=150, deadline=None)
@given(rules(), st.integers(1, 200), st.data())
def test_it_is_that_of_a_list(drawn, length, data):
    rule = drawn[0]
    if isinstance(rule, Every):
        rule = rule.anchored(T0)
    slots, found, at = Slots(rule, None), [], T0
    for _ in range(length):
        at = slots.first(at)
        found.append(at)
    most = data.draw(st.integers(1, length))
    assert newest_from(slots, Span(found[0], found[-1], length), most) == found[-most]


def test_a_rule_whose_slots_lie_unevenly_takes_few_steps():
    rule = Cron("* * 1 * *")  # 1,440 slots on one day, none for a month
    slots = Slots(rule, None)
    asked = []

    class Counted(Slots):
        def count(self, after, until):
            asked.append(after)
            return super().count(after, until)

    counted = Counted(rule, None)
    first, last = slots.first(T0), slots.last(T0, T0 + 40 * 365 * 86_400 * SECOND)
    span = Span(first, last, slots.count(T0, last))
    for most in (1, 1439, 1440, 1441, 100_000):
        asked.clear()
        start = newest_from(counted, span, most)
        assert slots.count(start - 1, last) == most
        assert slots.first(start - 1) == start
        assert len(asked) < 80
