"""Lengths of time, as a test writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel import InvalidTime
from timewheel.testing.kit.delays import UNITS_US, delay_of, difference_of

S = 1_000_000


@pytest.mark.parametrize(
    ("length", "microseconds"),
    [
        ("2h", 7200 * S),
        ("1d 3h", 27 * 3600 * S),
        ("1d3h", 27 * 3600 * S),
        (" 3h 1d ", 27 * 3600 * S),
        ("1.5s", 1_500_000),
        ("2 m", 120 * S),
        ("500ms", 500_000),
        ("7us", 7),
        ("1w", 7 * 86_400 * S),
        ("0s", 0),
        (0, 0),
        (3600, 3600 * S),
        (0.25, 250_000),
        (timedelta(hours=2), 7200 * S),
    ],
)
def test_what_can_be_written(length, microseconds):
    assert delay_of(length) == difference_of(length) == microseconds


@pytest.mark.parametrize(
    "length",
    [
        *("", " ", "2x", "2", "h", "2h 2h", "2h 3", "1h,2m", "1e3s", "-2h", "+-2h", "--2h", "२h", "1hour", "2H"),
        *("9" * 200, "9999999w", -1, True, float("nan"), float("inf"), None, timedelta(seconds=-1)),
    ],
)
def test_what_cannot_is_refused_with_the_way_out(length):
    with pytest.raises(InvalidTime) as caught:
        delay_of(length)
    if isinstance(length, str) and not length.startswith("9"):
        assert repr(length) in str(caught.value)
        assert '"1d 3h"' in str(caught.value)


@pytest.mark.parametrize("length", ["2x", "", "-", "-2", "--2h", True, float("nan"), None])
def test_a_difference_is_checked_as_well(length):
    with pytest.raises((InvalidTime, TypeError)):
        difference_of(length)


@pytest.mark.parametrize("length", ["-1h", -3600, timedelta(hours=-1), "- 1h"])
def test_a_difference_may_be_negative(length):
    assert difference_of(length) == -3600 * S
    assert difference_of("+1h") == 3600 * S


@given(st.dictionaries(st.sampled_from(sorted(UNITS_US)), st.integers(0, 1000), min_size=1), st.sampled_from(["", " "]))
def test_parts_add_up(parts, between):
    text = between.join(f"{number}{unit}" for unit, number in parts.items())
    assert delay_of(text) == sum(number * UNITS_US[unit] for unit, number in parts.items())


@given(st.text(max_size=20))
def test_any_text_is_a_length_or_refused(text):
    try:
        length = delay_of(text)
    except InvalidTime:
        length = 0
    assert length >= 0
