"""The times of a day, numbered: against the plain list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timewheel.recurrence.times import DayTimes

NUMBERS = st.integers(-100_000, 200_000)


def some(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(0, most), min_size=1, max_size=6).map(lambda values: tuple(sorted(values)))


DAYS = st.builds(DayTimes, some(23), some(59), some(59))


def listed(times: DayTimes) -> list[int]:
    return [hour * 3600 + minute * 60 + second for hour in times[0] for minute in times[1] for second in times[2]]


@given(DAYS)
def test_numbers_and_times_go_together(times: DayTimes) -> None:
    every = listed(times)
    assert times.total == len(every)
    assert [times.at(number) for number in range(times.total)] == every
    assert [times.below(time_s) for time_s in every] == list(range(times.total))


@given(DAYS, NUMBERS, NUMBERS, st.integers(0, 215), st.integers(-1, 1))
def test_first_last_and_between(times: DayTimes, low: int, high: int, near: int, beside: int) -> None:
    every = listed(times)
    edge = every[near % len(every)] + beside  # bounds that fall on a time, or just beside one
    for from_s, end_s in ((low, high), (edge, high), (low, edge), (edge, edge + 1)):
        inside = [time_s for time_s in every if from_s <= time_s < end_s]
        assert times.first(from_s, end_s) == (inside[0] if inside else None)
        assert times.last(from_s, end_s) == (inside[-1] if inside else None)
        assert times.between(from_s, end_s) == len(inside)
