"""I13, I14: every ending has one legal decision; budgets only grow; what is permanent never returns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.model import (
    BUDGET_STATES,
    LAST_CHANCE_LOSSES,
    MAX_TIME_US,
    SECOND_US,
    AttemptState,
    JobState,
    RetryPolicy,
)
from timewheel.work.backoff import delay_us
from timewheel.work.classify import MAX_RETRY_AFTER_US, PERMANENT, RETRYABLE, Verdict, VerdictKind
from timewheel.work.lifecycle import (
    Counters,
    Decision,
    Ending,
    EndingKind,
    decide,
    decide_lost,
)

A, J = AttemptState, JobState
LEGAL = {  # attempt, job, whether due_at is set, reason
    (A.SUCCEEDED, J.COMPLETED, False, None),
    (A.FAILED_RETRYABLE, J.SCHEDULED, True, None),
    (A.FAILED_RETRYABLE, J.DEAD, False, "exhausted"),
    (A.FAILED_RETRYABLE, J.DEAD, False, "gave_up"),
    (A.FAILED_PERMANENT, J.DEAD, False, "permanent"),
    (A.TIMED_OUT, J.SCHEDULED, True, None),
    (A.TIMED_OUT, J.WAITING, True, "overrun"),
    (A.TIMED_OUT, J.DEAD, False, "exhausted"),
    (A.TIMED_OUT, J.DEAD, False, "gave_up"),
    (A.CANCELLED, J.CANCELLED, False, None),
    (A.RELEASED, J.SCHEDULED, True, "snoozed"),
    (A.RELEASED, J.SCHEDULED, False, "not_entered"),
    (A.RELEASED, J.SCHEDULED, False, "shutdown"),
    (A.LOST, J.SCHEDULED, True, None),
    (A.LOST, J.DEAD, False, "crash_loop"),
}
NOW = 1_800_000_000 * SECOND_US
POLICY = RetryPolicy(max_attempts=3, base_us=SECOND_US, factor=2.0, cap_us=60 * SECOND_US, jitter=0.0)
RETURNED, TIMED_OUT, CANCELLED, NOT_ENTERED, SHUTDOWN = (
    Ending(EndingKind.RETURNED),
    Ending(EndingKind.TIMED_OUT),
    Ending(EndingKind.CANCELLED),
    Ending(EndingKind.NOT_ENTERED),
    Ending(EndingKind.SHUTDOWN),
)

VERDICTS = st.builds(Verdict, st.sampled_from(VerdictKind), st.integers(0, 10**12))
ENDINGS = st.one_of(
    st.sampled_from([RETURNED, TIMED_OUT, CANCELLED, NOT_ENTERED, SHUTDOWN]), VERDICTS.map(Ending.raised)
)
COUNTERS = st.one_of(
    st.just(Counters()),
    st.builds(Counters, st.integers(1, 12), st.integers(0, 3), st.integers(NOW - 10**10, NOW)),
)
POLICIES = st.builds(
    lambda attempts, base, extra, factor, jitter, ends: RetryPolicy(attempts, base, factor, base + extra, jitter, ends),
    st.integers(1, 15),
    st.integers(0, 10**8),
    st.integers(0, 10**9),
    st.floats(1, 100),
    st.floats(0, 2),
    st.none() | st.integers(0, 10**11),
)
CHANCES = st.floats(0, 1, exclude_max=True)


def check_legal(before: Counters, after: Decision) -> None:
    assert (after.attempt_state, after.job_state, after.due_at is not None, after.reason) in LEGAL
    spends = after.attempt_state in BUDGET_STATES
    assert after.failures == before.failures + spends
    assert after.losses == before.losses + (after.attempt_state is A.LOST)
    assert after.due_at is None or NOW <= after.due_at <= MAX_TIME_US
    if before.first_failed_at is not None:
        assert after.first_failed_at == before.first_failed_at
    else:
        assert after.first_failed_at == (NOW if spends else None)


@given(ENDINGS, COUNTERS, POLICIES, CHANCES, st.booleans())
def test_every_decision_is_legal(
    ending: Ending, counters: Counters, policy: RetryPolicy, u: float, overrun: bool
) -> None:
    overrun = overrun and ending.kind is EndingKind.TIMED_OUT
    after = decide(ending, counters, policy, NOW, u, overrun=overrun)
    check_legal(counters, after)
    assert (after.job_state is J.WAITING) <= overrun
    assert not (overrun and after.job_state is J.SCHEDULED)


@given(COUNTERS, POLICIES, CHANCES, st.none() | st.integers(0, 10**12))
def test_i14_a_retry_is_within_its_bounds(
    counters: Counters, policy: RetryPolicy, u: float, after_us: int | None
) -> None:
    verdict = RETRYABLE if after_us is None else Verdict(VerdictKind.THROTTLED, after_us)
    after = decide(Ending.raised(verdict), counters, policy, NOW, u)
    backoff = delay_us(policy, after.failures, u)
    wanted = max(backoff, min(after_us or 0, MAX_RETRY_AFTER_US))
    first = NOW if counters.first_failed_at is None else counters.first_failed_at
    ends = policy.give_up_after_us
    if after.failures >= policy.max_attempts:
        assert after.reason == "exhausted"
    elif ends is not None and NOW + wanted > first + ends:
        assert after.reason == "gave_up"
    else:
        assert after.due_at == NOW + wanted
        assert policy.base_us <= wanted <= max(policy.cap_us, MAX_RETRY_AFTER_US)


@given(COUNTERS, POLICIES, CHANCES)
def test_i14_a_permanent_error_never_retries(counters: Counters, policy: RetryPolicy, u: float) -> None:
    after = decide(Ending.raised(PERMANENT), counters, policy, NOW, u)
    assert (after.attempt_state, after.job_state, after.due_at) == (A.FAILED_PERMANENT, J.DEAD, None)


@given(POLICIES, st.lists(CHANCES, min_size=16, max_size=16))
def test_i14_a_job_that_always_fails_ends(policy: RetryPolicy, chances: list[float]) -> None:
    now, counters = 0, Counters()
    for attempt, u in enumerate(chances, 1):
        after = decide(Ending.raised(RETRYABLE), counters, policy, now, u)
        assert after.failures == attempt
        if after.job_state is J.DEAD:
            assert attempt <= policy.max_attempts
            assert after.reason == "gave_up" or attempt == policy.max_attempts
            return
        assert after.due_at is not None
        assert now + policy.base_us <= after.due_at <= now + policy.cap_us
        assert policy.give_up_after_us is None or after.due_at <= policy.give_up_after_us
        now, counters = after.due_at, Counters(after.failures, after.losses, after.first_failed_at)
    pytest.fail("it went on for ever")


def test_retries_and_then_exhausted() -> None:
    raised = Ending.raised(RETRYABLE)
    first = decide(raised, Counters(), POLICY, NOW, 0.0)
    assert first == (A.FAILED_RETRYABLE, J.SCHEDULED, NOW + SECOND_US, 1, 0, NOW, None)
    second = decide(raised, Counters(1, 0, NOW), POLICY, NOW + 5, 0.0)
    assert second == (A.FAILED_RETRYABLE, J.SCHEDULED, NOW + 5 + 2 * SECOND_US, 2, 0, NOW, None)
    third = decide(raised, Counters(2, 0, NOW), POLICY, NOW + 9, 0.0)
    assert third == (A.FAILED_RETRYABLE, J.DEAD, None, 3, 0, NOW, "exhausted")


def test_one_attempt_means_no_retry() -> None:
    assert decide(TIMED_OUT, Counters(), POLICY._replace(max_attempts=1), NOW, 0.0).reason == "exhausted"


def test_giving_up_is_judged_by_when_the_retry_would_come() -> None:
    policy = POLICY._replace(give_up_after_us=2 * SECOND_US + 7)
    just = decide(Ending.raised(RETRYABLE), Counters(1, 0, NOW), policy, NOW + 7, 0.0)
    late = decide(Ending.raised(RETRYABLE), Counters(1, 0, NOW), policy, NOW + 8, 0.0)
    assert (just.job_state, late.job_state, late.reason) == (J.SCHEDULED, J.DEAD, "gave_up")


def test_throttled_waits_for_the_later_of_the_two_and_a_day_at_most() -> None:
    def due(after_us: int) -> int | None:
        return decide(Ending.raised(Verdict(VerdictKind.THROTTLED, after_us)), Counters(), POLICY, NOW, 0.0).due_at

    assert due(0) == NOW + SECOND_US
    assert due(SECOND_US + 1) == NOW + SECOND_US + 1
    assert due(10**15) == NOW + 24 * 3600 * SECOND_US


def test_a_timeout_spends_like_a_failure_and_waits_while_its_thread_goes_on() -> None:
    assert decide(TIMED_OUT, Counters(), POLICY, NOW, 0.0) == (
        A.TIMED_OUT, J.SCHEDULED, NOW + SECOND_US, 1, 0, NOW, None,
    )  # fmt: skip
    assert decide(TIMED_OUT, Counters(), POLICY, NOW, 0.0, overrun=True) == (
        A.TIMED_OUT, J.WAITING, NOW + SECOND_US, 1, 0, NOW, "overrun",
    )  # fmt: skip
    last = decide(TIMED_OUT, Counters(2, 0, NOW), POLICY, NOW, 0.0, overrun=True)
    assert (last.attempt_state, last.job_state, last.reason) == (A.TIMED_OUT, J.DEAD, "exhausted")


@pytest.mark.parametrize("counters", [Counters(), Counters(2, 3, NOW - 5)])
def test_what_spends_nothing(counters: Counters) -> None:
    snooze = Ending.raised(Verdict(VerdictKind.SNOOZE, 30))
    assert decide(snooze, counters, POLICY, NOW, 0.0) == (A.RELEASED, J.SCHEDULED, NOW + 30, *counters, "snoozed")
    assert decide(NOT_ENTERED, counters, POLICY, NOW, 0.0) == (A.RELEASED, J.SCHEDULED, None, *counters, "not_entered")
    assert decide(SHUTDOWN, counters, POLICY, NOW, 0.0) == (A.RELEASED, J.SCHEDULED, None, *counters, "shutdown")
    assert decide(CANCELLED, counters, POLICY, NOW, 0.0) == (A.CANCELLED, J.CANCELLED, None, *counters, None)
    assert decide(RETURNED, counters, POLICY, NOW, 0.0) == (A.SUCCEEDED, J.COMPLETED, None, *counters, None)


def test_nothing_is_due_after_the_end_of_time() -> None:
    snooze = Ending.raised(Verdict(VerdictKind.SNOOZE, MAX_TIME_US))
    assert decide(snooze, Counters(), POLICY, NOW, 0.0).due_at == MAX_TIME_US


def test_i13_the_fourth_loss_is_the_last() -> None:
    counters = Counters(1, 0, NOW - 9)
    for losses in range(1, LAST_CHANCE_LOSSES + 1):
        after = decide_lost(counters, NOW)
        check_legal(counters, after)
        assert after == (A.LOST, J.SCHEDULED, NOW, 1, losses, NOW - 9, None)
        counters = counters._replace(losses=losses)
    after = decide_lost(counters, NOW)
    check_legal(counters, after)
    assert after == (A.LOST, J.DEAD, None, 1, 4, NOW - 9, "crash_loop")


def test_an_ending_that_raised_says_so_and_needs_a_verdict() -> None:
    assert Ending.raised(RETRYABLE) == (EndingKind.RAISED, RETRYABLE)
    with pytest.raises(AssertionError, match=r"^a handler that raised has a verdict(\n|$)"):
        decide(Ending(EndingKind.RAISED), Counters(), POLICY, NOW, 0.0)


def test_only_a_throttled_handler_says_when_to_come_back() -> None:
    slow = Ending.raised(Verdict(VerdictKind.RETRYABLE, 10**9))
    assert decide(slow, Counters(), POLICY, NOW, 0.0).due_at == NOW + SECOND_US


def test_without_a_base_a_retry_is_due_at_once() -> None:
    policy = POLICY._replace(base_us=0, cap_us=0)
    assert decide(TIMED_OUT, Counters(), policy, NOW, 0.0).due_at == NOW
    assert decide(Ending.raised(RETRYABLE), Counters(), policy, NOW, 0.0).due_at == NOW
