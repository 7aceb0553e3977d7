"""The agenda against a dictionary: what comes up, when, and for how long nothing does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timewheel.model import ClockKind, Now
from timewheel.planning import agenda as agenda_module
from timewheel.planning.agenda import Agenda

NAMES = st.sampled_from("abcdefgh")
TIMES = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(ClockKind), TIMES),
    st.tuples(st.just("drop"), NAMES),
    st.tuples(st.just("take"), TIMES, TIMES, st.integers(0, 4)),
)


def due(model, now):
    return {name for name, (clock, at) in model.items() if at <= now.on(clock)}


@given(st.lists(STEPS, max_size=60), st.sampled_from([0, 1_000]))
def test_each_schedule_comes_up_at_its_newest_time_once(steps, floor):
    agenda_module._STALE_FLOOR, kept = floor, agenda_module._STALE_FLOOR
    try:
        follow(steps)
    finally:
        agenda_module._STALE_FLOOR = kept


def follow(steps):
    agenda, model = Agenda(), {}
    for what, *given_ in steps:
        if what == "put":
            name, clock, at = given_
            agenda.put(name, clock, at)
            model[name] = clock, at
        elif what == "drop":
            agenda.drop(*given_)
            model.pop(*given_, None)
        else:
            wall, steady, most = given_
            now = Now(wall, steady)
            waits = [max(0, at - now.on(clock)) for clock, at in model.values()]
            assert agenda.wait_us(now) == min(waits, default=None)
            expected = due(model, now)
            taken = agenda.take(now, most)
            assert len(taken) == len(set(taken)) == min(most, len(expected))
            assert set(taken) <= expected
            for clock in ClockKind:  # the most overdue first
                mine = [model[name][1] for name in taken if model[name][0] is clock]
                assert mine == sorted(mine)
            for name in taken:
                del model[name]
        assert len(agenda) == len(model)


def test_what_was_moved_often_leaves_no_heap_behind():
    agenda = Agenda()
    for at in range(50_000):
        agenda.put("a", ClockKind.WALL, at)
    assert len(agenda._heaps[ClockKind.WALL]) < 2_000
    assert agenda.take(Now(50_000, 0), 10) == ["a"]
