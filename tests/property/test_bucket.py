"""I17: starts in any window w never exceed rate * w + burst, exactly; and nearly all that is allowed can be used."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.dispatch.bucket import Bucket
from timewheel.errors import InvalidOption

SECOND = 1_000_000
COUNTS = st.one_of(st.integers(1, 50_000), st.sampled_from([0.1, 0.3, 1.5, 2.7, 33.333, 50_000.5]))
PERIODS = st.sampled_from([100_000, 777_777, SECOND, 60 * SECOND, 3600 * SECOND])  # an interval is over 1 us
BURSTS = st.integers(1, 20)
STARTS_AT = st.integers(0, 2 * 10**15)
SEEDS = st.integers(0, 2**32)


def interval_of(count: float, per_us: int) -> Fraction:
    return Fraction(per_us) / Fraction(str(count))


def audit(starts: list[int], interval: Fraction, burst: int) -> None:
    """Every closed window that begins and ends at a start: n - 1 <= (w / T + burst) - 1, in exact arithmetic.

    n <= w/T + burst for all i <= j is t_j - j*T >= max over i of (t_i - i*T) - (burst - 1) * T, one pass.
    """
    worst = None
    for index, start in enumerate(starts):
        drift = start - index * interval
        worst = drift if worst is None else max(worst, drift)
        assert worst - drift <= (burst - 1) * interval, f"start {index} at {start} is one too many"


def brute_audit(starts: list[int], interval: Fraction, burst: int) -> bool:
    return all(
        j - i + 1 <= (starts[j] - starts[i]) / interval + burst
        for i in range(len(starts))
        for j in range(i, len(starts))
    )


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 4), st.sampled_from([Fraction(1), Fraction(10, 3)]))
def test_the_audit_itself_agrees_with_brute_force(times: list[int], burst: int, interval: Fraction) -> None:
    times.sort()
    try:
        audit(times, interval, burst)
        found = True
    except AssertionError:
        found = False
    assert found == brute_audit(times, interval, burst)


@given(COUNTS, PERIODS, BURSTS, STARTS_AT, SEEDS)
def test_no_window_sees_too_many_starts_over_restarts(
    count: float, per_us: int, burst: int, now: int, seed: int
) -> None:
    chance = random.Random(seed)
    interval = interval_of(count, per_us)
    bucket = Bucket.of(count, per_us, burst)
    starts: list[int] = []
    for _ in range(120):
        now += chance.choice([0, 0, 1, int(interval), int(interval) + 1, int(interval * chance.random() * burst)])
        act = chance.random()
        if act < 0.1:
            bucket = Bucket.of(count, per_us, burst, bucket.tat)
        elif act < 0.2:
            bucket = Bucket.of(count, per_us, burst, bucket.tat, now_us=now)
        else:
            room = bucket.room(now)
            n = max(1, room) if act < 0.5 else chance.randint(1, burst + 1)
            took = bucket.spend(now, n)
            assert took == (n <= room)
            starts += [now] * n if took else []
    audit(starts, interval, burst)


@given(COUNTS, PERIODS, BURSTS, STARTS_AT, st.booleans(), SEEDS)
def test_asked_as_early_as_allowed_the_rate_is_reached(
    count: float, per_us: int, burst: int, now: int, restarts: bool, seed: int
) -> None:
    chance = random.Random(seed)
    interval = interval_of(count, per_us)
    bucket, first, restarted, starts = Bucket.of(count, per_us, burst), now, 0, []
    for _ in range(200):
        now = max(now, bucket.ready_at())
        if starts and now > starts[-1]:
            assert bucket.room(now - 1) == 0, "it was ready before it said so"
        assert bucket.room(now) >= 1
        assert bucket.spend(now)
        starts.append(now)
        if restarts and chance.random() < 0.2:
            restarted += 1
            bucket = Bucket.of(count, per_us, burst, bucket.tat, now_us=now)
    audit(starts, interval, burst)
    rounded = len(starts) if burst == 1 else 1 + restarted  # microseconds
    assert starts[-1] - first <= (len(starts) - burst) * interval + rounded


@given(COUNTS, PERIODS, BURSTS, STARTS_AT, st.integers(0, 60), st.integers(0, 60), st.integers(0, 30_000))
def test_room_ready_and_spend_tell_the_same_story(
    count: float, per_us: int, burst: int, now: int, spent: int, reserved: int, ahead: int
) -> None:
    bucket = Bucket.of(count, per_us, burst)
    for _ in range(min(spent, burst)):
        assert bucket.spend(now)
    room = bucket.room(now, reserved, ahead)
    assert 0 <= room <= burst + ahead / interval_of(count, per_us)
    assert (room > 0) == (bucket.ready_at(reserved, now) <= now + ahead)
    assert bucket.room(now, reserved) == max(0, bucket.room(now) - reserved)
    if reserved < burst:
        at = max(now, bucket.ready_at(reserved))
        assert bucket.room(at, reserved) >= 1
        assert at == now or bucket.room(at - 1, reserved) == 0


@given(COUNTS, PERIODS, BURSTS, STARTS_AT, st.integers(0, 30_000), SEEDS)
def test_a_crash_after_a_claim_brings_no_start_too_many(
    count: float, per_us: int, burst: int, now: int, ahead: int, seed: int
) -> None:
    """Claims are saved as started at the latest instant they may be; the process dies anywhere between."""
    chance = random.Random(seed)
    interval = interval_of(count, per_us)
    bucket, starts = Bucket.of(count, per_us, burst), []
    for _ in range(20):
        claimed = min(bucket.room(now, 0, ahead), 30)
        saved = bucket.promised(now + ahead, claimed)
        end = now + ahead
        for _ in range(chance.randint(0, claimed)):
            now = max(now, bucket.ready_at())
            if now > end:
                assert burst == 1, "room promised more than may start"
                break
            assert bucket.spend(now)
            starts.append(now)
        if chance.random() < 0.5:
            assert saved >= bucket.tat
            bucket = Bucket.of(count, per_us, burst, saved, now_us=now)
        now += chance.choice([0, 1, ahead, int(interval)])
    audit(starts, interval, burst)


@given(COUNTS, COUNTS, PERIODS, BURSTS, BURSTS, STARTS_AT, SEEDS)
def test_a_change_of_rate_keeps_what_was_spent(
    count: float, other: float, per_us: int, burst: int, wide: int, now: int, seed: int
) -> None:
    chance = random.Random(seed)
    old, new = interval_of(count, per_us), interval_of(other, per_us)
    bucket = Bucket.of(count, per_us, burst)
    trace: list[Fraction] = []  # starts on a scale of tokens: elapsed / T
    clock, tokens, interval = now, Fraction(0), old
    for step in range(80):
        if step == 40:
            free = bucket.room(clock)
            bucket.rerate(other, per_us, wide, clock)
            assert bucket.room(clock) <= max(0, wide - burst + free)
            assert bucket.room(clock) >= max(0, wide - burst + free - 1)
            interval = new
        moved = chance.choice([0, 1, int(interval), int(interval * chance.random() * 3)])
        clock, tokens = clock + moved, tokens + moved / interval
        while chance.random() < 0.8 and bucket.spend(clock):
            trace.append(tokens)
    audit_tokens(trace, max(burst, wide))


def audit_tokens(trace: list[Fraction], burst: int) -> None:
    worst = None
    for index, at in enumerate(trace):
        worst = at - index if worst is None else max(worst, at - index)
        assert worst - (at - index) <= burst - 1


def test_three_a_second_is_exact_for_a_day() -> None:
    bucket = Bucket.of(3, SECOND, 2)
    starts = []
    for _ in range(3 * 3600 + 2):
        starts.append(max(0, bucket.ready_at()))
        assert bucket.spend(starts[-1])
    assert starts[:5] == [0, 0, 333334, 666667, SECOND]
    assert starts[-1] == 3600 * SECOND  # no drift of a third of a microsecond a start


def test_a_rate_is_the_number_that_was_written() -> None:
    bucket = Bucket.of(0.3, SECOND, 3)
    assert bucket.spend(0, 3)
    assert bucket.tat == 10 * SECOND


def test_a_value_saved_under_a_slow_rate_does_not_block_a_fast_one() -> None:
    slow = Bucket.of(1, 3600 * SECOND, 10)
    assert slow.spend(0, 10)
    fast = Bucket.of(100, SECOND, 10, slow.tat, now_us=SECOND)
    assert fast.room(SECOND) == 0
    assert fast.room(SECOND + 10_000) == 1


def test_all_or_none() -> None:
    bucket = Bucket(SECOND, 1, 3)
    assert not bucket.spend(0, 4)
    assert bucket.room(0) == 3
    assert bucket.spend(0, 3)
    assert bucket.tat == 3 * SECOND
    assert bucket.room(SECOND - 1) == 0
    assert bucket.room(SECOND) == 1
    assert bucket.room(10**15) == bucket.burst == 3
    assert bucket.room(SECOND, reserved=5) == 0


def test_waiting_behind_the_reserved_ones() -> None:
    bucket = Bucket.of(10, SECOND, 1)
    assert bucket.room(0, 0, 200_000) == 3
    assert bucket.room(0, 2, 200_000) == 1
    assert bucket.ready_at(2, 0) == 200_000
    assert bucket.promised(200_000, 2) == 400_000


@pytest.mark.parametrize(
    ("count", "per_us", "burst"),
    [
        (0, SECOND, 1),
        (-1, SECOND, 1),
        (float("nan"), SECOND, 1),
        (float("inf"), SECOND, 1),
        (True, SECOND, 1),
        ("3", SECOND, 1),
        (1, 0, 1),
        (1, SECOND, 0),
        (1, SECOND, True),
        (1, SECOND, 1.5),
        (1e-300, SECOND, 1),
        (1, 10**18, 2),
    ],
)
def test_what_is_no_limit_is_refused_and_changes_nothing(count: float, per_us: int, burst: int) -> None:
    with pytest.raises(InvalidOption):
        Bucket.of(count, per_us, burst)
    bucket = Bucket.of(1, SECOND, 2)
    bucket.spend(0)
    with pytest.raises(InvalidOption):
        bucket.rerate(count, per_us, burst, 0)
    assert (bucket.tat, bucket.burst, bucket.room(0)) == (SECOND, 2, 1)


@pytest.mark.parametrize(
    ("count", "per_us", "burst", "words"),
    [
        (-1, SECOND, 1, "a count above 0, got -1"),
        ("3", SECOND, 1, "a count above 0, got '3'"),
        (1, 0, 1, "a period and a count above 0, got 1 per 0 us"),
        (1, SECOND, 0, "a whole number of at least 1, got 0"),
        (2, 10**18, 4, "4 starts take 2000000000000000000 us"),
    ],
)
def test_a_refusal_names_what_was_wrong(count: float, per_us: int, burst: int, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        Bucket.of(count, per_us, burst)


def test_a_bucket_made_from_its_parts_is_held_to_the_same() -> None:
    with pytest.raises(InvalidOption, match="got 0 per 1000000 us"):
        Bucket(SECOND, 0, 1)


def test_the_edges_of_what_is_a_limit() -> None:
    assert Bucket.of(1, 1, 1).room(0) == 1
    assert Bucket.of(1, 10**18, 1).room(0) == 1


def test_large_whole_numbers_are_exact_too() -> None:
    bucket = Bucket.of(2**53 + 1, 2**53 + 1, 5)
    assert bucket.spend(0)
    assert bucket.tat == 1


def test_a_full_bucket_stays_full_over_a_change_of_rate_and_counts_in_whole_numbers() -> None:
    bucket = Bucket.of(1, SECOND, 2)
    bucket.rerate(3, SECOND, 2, 5 * SECOND)
    assert (bucket.tat, bucket.room(5 * SECOND)) == (5 * SECOND, 2)
    assert type(bucket.tat) is int
    assert bucket.spend(5 * SECOND)
    bucket.rerate(7, SECOND, 2, 5 * SECOND)
    assert type(bucket.tat) is int


def test_a_bucket_that_was_idle_counts_the_reserved_ones_from_now() -> None:
    bucket = Bucket.of(3, SECOND, 1)
    assert bucket.ready_at(2, SECOND) == SECOND + 666_667
    assert bucket.ready_at(0, SECOND) == SECOND
