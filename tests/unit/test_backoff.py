"""B78 and the formula: exact where it can be, bounded where chance comes in, and never an overflow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.model import SECOND_US, RetryPolicy
from timewheel.work.backoff import delay_us, gives_up, retries_left, throttled_delay_us

ALMOST_ONE = math.nextafter(1.0, 0.0)
PLAIN = RetryPolicy(base_us=SECOND_US, factor=2.0, cap_us=3600 * SECOND_US, jitter=0.0)


@pytest.mark.parametrize("u", [0.0, 0.5, ALMOST_ONE])
def test_b78_doubles_and_then_stays_at_the_cap(u: float) -> None:
    got = [delay_us(PLAIN, n, u) for n in range(1, 10_001)]
    assert got[:12] == [SECOND_US * 2**n for n in range(12)]
    assert got[11] == 2048 * SECOND_US
    assert set(got[12:]) == {3600 * SECOND_US}


@pytest.mark.parametrize("factor", [1.0000001, 2, 100, 1e308, math.inf])
@pytest.mark.parametrize("n", [200, 10**6, 10**9])
def test_b78_no_factor_and_no_count_overflows(factor: float, n: int) -> None:
    got = delay_us(PLAIN._replace(factor=factor), n, 0.5)
    expected = 3600 * SECOND_US if factor > 1.1 or n == 10**9 else None
    assert PLAIN.base_us <= got <= PLAIN.cap_us
    assert expected is None or got == expected


def test_the_cap_is_met_exactly_where_the_power_equals_it() -> None:
    policy = PLAIN._replace(factor=10.0, cap_us=1000 * SECOND_US)
    assert [delay_us(policy, n, 0.0) // SECOND_US for n in range(1, 7)] == [1, 10, 100, 1000, 1000, 1000]


def test_the_default_spreads_at_the_cap_too() -> None:
    policy = RetryPolicy()
    assert (delay_us(policy, 1, 0.0), delay_us(policy, 1, ALMOST_ONE)) == (SECOND_US, 2 * SECOND_US)
    assert (delay_us(policy, 3, 0.0), delay_us(policy, 3, 0.5)) == (4 * SECOND_US, 6 * SECOND_US)
    assert (delay_us(policy, 99, 0.0), delay_us(policy, 99, ALMOST_ONE)) == (150 * SECOND_US, 300 * SECOND_US)


def test_where_the_base_leaves_no_room_for_jitter_the_cap_cuts_it() -> None:
    policy = RetryPolicy(base_us=200, cap_us=300, jitter=1.0)
    assert {delay_us(policy, n, u) for n in (1, 50) for u in (0.0,)} == {200}
    assert {delay_us(policy, n, ALMOST_ONE) for n in (1, 50)} == {300}


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0])
def test_a_factor_that_does_not_grow_stays_at_the_base(factor: float) -> None:
    assert {delay_us(PLAIN._replace(factor=factor), n, 0.0) for n in (1, 2, 10**9)} == {SECOND_US}


POLICIES = st.builds(
    lambda base, extra, factor, jitter: RetryPolicy(base_us=base, cap_us=base + extra, factor=factor, jitter=jitter),
    st.integers(0, 10**12),
    st.integers(0, 10**15),
    st.floats(0, 1e6),
    st.one_of(st.just(0.0), st.floats(0, 10)),
)


@given(POLICIES, st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_i14_within_base_and_cap_and_the_jitter_band(policy: RetryPolicy, n: int, u: float) -> None:
    low, got = delay_us(policy, n, 0.0), delay_us(policy, n, u)
    assert policy.base_us <= low <= got <= policy.cap_us
    assert got <= low * (1 + policy.jitter) + 1
    limit = max(policy.base_us, policy.cap_us / (1 + policy.jitter))
    assert low <= limit + 1
    assert low <= delay_us(policy, n + 1, 0.0) or policy.factor < 1, "the floor never shrinks"


@given(POLICIES, st.integers(1, 30))
def test_the_floor_is_the_formula(policy: RetryPolicy, n: int) -> None:
    power = policy.base_us * policy.factor ** (n - 1)
    want = max(policy.base_us, min(policy.cap_us / (1 + policy.jitter), power))
    assert delay_us(policy, n, 0.0) == pytest.approx(min(want, policy.cap_us), rel=1e-9, abs=1)


def test_the_pick_is_uniform_over_the_band() -> None:
    policy = RetryPolicy(base_us=100, cap_us=10_000, jitter=0.5)
    got = [delay_us(policy, 1, k / 5100) for k in range(5100)]
    assert set(got) == set(range(100, 151))
    assert all(99 <= got.count(value) <= 101 for value in got)


def test_budgets() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert [retries_left(policy, n) for n in range(5)] == [True, True, True, False, False]
    assert not retries_left(RetryPolicy(max_attempts=1), 1)
    assert not gives_up(policy, 0, 10**18)
    ends = RetryPolicy(give_up_after_us=100)
    assert [gives_up(ends, 1000, at) for at in (1099, 1100, 1101)] == [False, False, True]


def test_the_smallest_base_grows_too() -> None:
    policy = RetryPolicy(base_us=1, factor=2.0, cap_us=1000, jitter=0.0)
    assert [delay_us(policy, n, 0.0) for n in range(1, 12)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]


def test_the_cap_is_exact_where_floats_are_not() -> None:
    policy = PLAIN._replace(cap_us=2**53 + 1)
    assert delay_us(policy, 1000, 0.0) == 2**53 + 1


@pytest.mark.parametrize("n", [1, 2, 50])
def test_without_a_base_there_is_nothing_to_grow(n: int) -> None:
    assert delay_us(RetryPolicy(base_us=0, cap_us=1000, jitter=0.0), n, ALMOST_ONE) == 0


DAY_US = 24 * 3600 * SECOND_US


def test_a_throttled_failure_counts_double() -> None:
    got = [throttled_delay_us(PLAIN, n, ALMOST_ONE, 0) // SECOND_US for n in range(1, 9)]
    assert got == [2, 8, 32, 128, 512, 2048, 3600, 3600]
    assert [throttled_delay_us(PLAIN._replace(version=1), n, 0.0, 0) // SECOND_US for n in range(1, 5)] == [1, 2, 4, 8]


def test_those_who_were_told_the_same_moment_do_not_come_back_together() -> None:
    policy = RetryPolicy()
    assert throttled_delay_us(policy, 1, 0.0, 60 * SECOND_US) == 60 * SECOND_US
    assert throttled_delay_us(policy, 1, 0.5, 60 * SECOND_US) == 61 * SECOND_US
    assert throttled_delay_us(policy, 1, ALMOST_ONE, 60 * SECOND_US) == 62 * SECOND_US
    assert throttled_delay_us(policy, 2, 0.5, 60 * SECOND_US) == 64 * SECOND_US
    assert throttled_delay_us(policy, 1, ALMOST_ONE, DAY_US) == DAY_US
    assert throttled_delay_us(policy._replace(version=1), 1, 0.5, 60 * SECOND_US) == 60 * SECOND_US


@given(POLICIES, st.integers(1, 10**9), st.floats(0, 1, exclude_max=True), st.integers(0, DAY_US), st.integers(1, 3))
def test_i14_a_throttled_retry_is_within_its_bounds(
    policy: RetryPolicy, n: int, u: float, asked: int, version: int
) -> None:
    policy = policy._replace(version=version)
    plain, got = delay_us(policy, n, 0.0), throttled_delay_us(policy, n, u, asked)
    assert asked <= got
    assert policy.base_us <= got <= max(policy.cap_us, DAY_US)
    assert got <= max(policy.cap_us, asked + policy.cap_us - policy.base_us), "no later than asked and its own spread"
    assert got >= plain or policy.factor < 1, "never sooner than another failure's earliest"
    assert throttled_delay_us(policy, n, u, 0) <= got
    if version == 1:
        assert got == max(delay_us(policy, n, u), asked)
