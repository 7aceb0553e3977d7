"""Slots by bucket, against walking through the slots one by one; and that this never happens."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.model import SECOND_US, Now
from timewheel.planning.definition import Definition
from timewheel.planning.forecast import Window, foreseen
from timewheel.planning.position import first_position
from timewheel.planning.slots import offset_us, slots_of
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Rule

T0 = 1_767_571_200 * SECOND_US  # 2026-01-05T00:00:00Z
HOUR_US = 3600 * SECOND_US
RULES: list[Rule] = [
    Cron("*/5 * * * *"),
    Cron("0 9 * * MON", tz="Europe/Berlin"),
    Cron("30 2 * * *", tz="America/New_York"),
    Cron("15 */7 1,15 * *"),
    Civil(days=3, anchor=datetime(2026, 1, 6, 8), tz="Asia/Tokyo"),
    Every(613),
    Every(timedelta(days=2)),
]


def walked(definition: Definition, now: Now, window: Window) -> dict[int, int]:
    """The same, slot by slot."""
    position = first_position(definition, now, "")
    slots = slots_of(definition, position, now)
    shift = offset_us(now) if isinstance(definition.rule, Every) else 0
    found: Counter[int] = Counter()
    left = definition.max_runs
    after = position.at
    while (slot := slots.first(after)) is not None and slot + shift < window.end_us and left != 0:
        bucket = window.bucket_of(slot + shift)
        if bucket is not None:
            found[bucket] += 1
        left = None if left is None else left - 1
        after = slot
    return dict(found)


@given(
    rule=st.sampled_from(RULES),
    offset_s=st.integers(-7200, 7200),
    ahead_s=st.integers(-3600, 30 * 86_400),
    bucket_s=st.sampled_from([7, 60, 3600, 86_400]),
    buckets=st.integers(1, 60),
    max_runs=st.none() | st.integers(1, 200),
    limits=st.tuples(st.none() | st.integers(0, 20), st.none() | st.integers(21, 60)),
)
def test_it_is_what_walking_finds(
    rule: Rule,
    offset_s: int,
    ahead_s: int,
    bucket_s: int,
    buckets: int,
    max_runs: int | None,
    limits: tuple[int | None, int | None],
) -> None:
    now = Now(T0, T0 - offset_s * SECOND_US)
    start, end = (None if day is None else T0 + day * 24 * HOUR_US for day in limits)
    definition = Definition(rule=rule, task="t", max_runs=max_runs, start_us=start, end_us=end)
    window = Window(T0 + ahead_s * SECOND_US, bucket_s * SECOND_US, buckets)
    found = list(foreseen(definition, first_position(definition, now, ""), now, window))
    assert [bucket for bucket, _ in found] == sorted({bucket for bucket, _ in found})
    assert dict(found) == walked(definition, now, window)


class Counting:
    """How often a rule was asked to count."""

    calls = 0


def test_the_work_does_not_grow_with_the_number_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Cron.count

    def counting(self: Any, after_us: int, until_us: int) -> int:
        Counting.calls += 1
        return count(self, after_us, until_us)

    def never(*_: Any) -> None:
        raise AssertionError("a slot was visited")

    now = Now(T0, T0)
    definition = Definition(rule=Cron("* * * * * *"), task="t")
    position = first_position(definition, now, "")
    monkeypatch.setattr(Cron, "count", counting)
    monkeypatch.setattr(Cron, "following", never)
    found = list(foreseen(definition, position, now, Window(T0 + 1, 24 * HOUR_US, 100)))
    assert [slots for _, slots in found] == [86_400] * 100
    assert Counting.calls <= 100


def test_where_most_stretches_are_empty_the_slots_are_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for name in ("count", "following"):
        plain = getattr(Cron, name)
        monkeypatch.setattr(Cron, name, lambda *given, name=name, plain=plain: calls.update([name]) or plain(*given))
    now = Now(T0, T0)
    definition = Definition(rule=Cron("0 9 * * *"), task="t")
    position = first_position(definition, now, "")
    calls.clear()
    found = list(foreseen(definition, position, now, Window(T0, 60 * SECOND_US, 7 * 1_440)))
    assert found == [(9 * 60 + day * 1_440, 1) for day in range(7)]
    assert (calls["count"], calls["following"]) <= (1, 8)


def test_slots_at_equal_distances_are_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Now(T0, T0 - 90 * SECOND_US)
    definition = Definition(rule=Every(1), task="t")
    position = first_position(definition, now, "")
    monkeypatch.setattr(Every, "count", lambda *_: pytest.fail("its slots were counted"))
    found = list(foreseen(definition, position, now, Window(T0 - HOUR_US, HOUR_US, 3)))
    assert found == [(1, 3_599), (2, 3_600)]


def test_an_empty_stretch_costs_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Now(T0, T0)
    definition = Definition(rule=Cron("0 0 1 6 *"), task="t")
    position = first_position(definition, now, "")
    assert list(foreseen(definition, position, now, Window(T0, HOUR_US, 1_000))) == []


def test_of_a_fixed_delay_only_the_slot_that_is_known_is_foreseen() -> None:
    now = Now(T0, T0 - HOUR_US)
    definition = Definition(rule=Every(600, after_completion=True), task="t")
    position = first_position(definition, now, "")
    assert list(foreseen(definition, position, now, Window(T0, 300 * SECOND_US, 10))) == [(2, 1)]
    unknown = position._replace(next_at=None)
    assert list(foreseen(definition, unknown, now, Window(T0, 300 * SECOND_US, 10))) == []
