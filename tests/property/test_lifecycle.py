"""I13, I14: every ending has one legal decision; budgets only grow; what is permanent never returns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.flow import Flow
from timewheel.model import (
    BUDGET_STATES,
    LAST_CHANCE_LOSSES,
    MAX_TIME_US,
    SECOND_US,
    AttemptState,
    FaultClass,
    JobState,
    Now,
    RetryPolicy,
)
from timewheel.work.backoff import delay_us, throttled_delay_us
from timewheel.work.classify import AMBIGUOUS, MAX_RETRY_AFTER_US, PERMANENT, RETRYABLE, Verdict, VerdictKind
from timewheel.work.lifecycle import (
    NO_TERMS,
    Counters,
    Decision,
    Ending,
    EndingKind,
    Terms,
    decide,
    decide_lost,
)

A, J, F = AttemptState, JobState, FaultClass
RETRIED = (F.TRANSIENT, F.THROTTLED, F.AMBIGUOUS)
LEGAL = {  # attempt, job, whether due_at is set, reason, fault
    (A.SUCCEEDED, J.COMPLETED, False, None, None),
    *((A.FAILED_RETRYABLE, J.SCHEDULED, True, None, fault) for fault in RETRIED),
    *((A.FAILED_RETRYABLE, J.DEAD, False, why, fault) for fault in RETRIED for why in ("exhausted", "gave_up")),
    *((A.FAILED_RETRYABLE, J.DEAD, False, "deadline", fault) for fault in RETRIED),
    (A.FAILED_RETRYABLE, J.DEAD, False, "ambiguous", F.AMBIGUOUS),
    (A.FAILED_PERMANENT, J.DEAD, False, "permanent", F.PERMANENT),
    (A.TIMED_OUT, J.SCHEDULED, True, None, F.AMBIGUOUS),
    (A.TIMED_OUT, J.WAITING, True, "overrun", F.AMBIGUOUS),
    *((A.TIMED_OUT, J.DEAD, False, why, F.AMBIGUOUS) for why in ("exhausted", "gave_up", "deadline", "ambiguous")),
    (A.CANCELLED, J.CANCELLED, False, None, None),
    (A.RELEASED, J.SCHEDULED, True, "snoozed", None),
    (A.RELEASED, J.DEAD, False, "deadline", None),
    (A.RELEASED, J.SCHEDULED, False, "not_entered", None),
    (A.RELEASED, J.SCHEDULED, False, "shutdown", None),
    (A.RELEASED, J.DEAD, False, "ambiguous", F.AMBIGUOUS),
    (A.LOST, J.SCHEDULED, True, None, F.AMBIGUOUS),
    *((A.LOST, J.DEAD, False, why, F.AMBIGUOUS) for why in ("crash_loop", "deadline", "ambiguous")),
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
    lambda attempts, base, extra, factor, jitter, ends, version: RetryPolicy(
        attempts, base, factor, base + extra, jitter, ends, version=version
    ),
    st.integers(1, 15),
    st.integers(0, 10**8),
    st.integers(0, 10**9),
    st.floats(1, 100),
    st.floats(0, 2),
    st.none() | st.integers(0, 10**11),
    st.integers(1, 2),
)
TERMS = st.builds(Terms, st.booleans(), st.none() | st.integers(NOW - 10**9, NOW + 10**11))
CHANCES = st.floats(0, 1, exclude_max=True)


def check_legal(before: Counters, after: Decision) -> None:
    assert (after.attempt_state, after.job_state, after.due_at is not None, after.reason, after.fault) in LEGAL
    spends = after.attempt_state in BUDGET_STATES
    assert after.failures == before.failures + spends
    assert after.losses == before.losses + (after.attempt_state is A.LOST)
    assert after.due_at is None or NOW <= after.due_at <= MAX_TIME_US
    if before.first_failed_at is not None:
        assert after.first_failed_at == before.first_failed_at
    else:
        assert after.first_failed_at == (NOW if spends else None)


@given(ENDINGS, COUNTERS, POLICIES, CHANCES, TERMS, st.booleans())
def test_every_decision_is_legal(
    ending: Ending, counters: Counters, policy: RetryPolicy, u: float, terms: Terms, overrun: bool
) -> None:
    overrun = overrun and ending.kind is EndingKind.TIMED_OUT
    after = decide(ending, counters, policy, NOW, u, terms=terms, overrun=overrun)
    check_legal(counters, after)
    assert (after.job_state is J.WAITING) <= overrun
    assert not (overrun and after.job_state is J.SCHEDULED)
    if terms == NO_TERMS:
        assert after == decide(ending, counters, policy, NOW, u, overrun=overrun)


@given(ENDINGS, COUNTERS, POLICIES, CHANCES, TERMS)
def test_i14_a_deadline_ends_retries_and_nothing_else(
    ending: Ending, counters: Counters, policy: RetryPolicy, u: float, terms: Terms
) -> None:
    without = decide(ending, counters, policy, NOW, u, terms=terms._replace(deadline_at=None))
    after = decide(ending, counters, policy, NOW, u, terms=terms)
    deadline = terms.deadline_at
    tried_again = without.due_at is not None
    failed = (without.fault in RETRIED and without.attempt_state is not A.RELEASED) or ending == NOT_ENTERED
    if deadline is None or (without.due_at or NOW) < deadline:
        assert after == without
    elif (tried_again and deadline <= (without.due_at or 0)) or (failed and deadline <= NOW):
        assert (after.attempt_state, after.job_state, after.reason) == (without.attempt_state, J.DEAD, "deadline")
        assert (after.failures, after.fault) == (without.failures, without.fault)
    else:
        assert after == without


@given(COUNTERS, POLICIES, CHANCES, TERMS)
def test_b80_what_nobody_knows_is_never_tried_again_where_that_would_harm(
    counters: Counters, policy: RetryPolicy, u: float, terms: Terms
) -> None:
    harmful = terms._replace(idempotent=False)
    for ending in (TIMED_OUT, SHUTDOWN, Ending.raised(AMBIGUOUS)):
        after = decide(ending, counters, policy, NOW, u, terms=harmful)
        assert (after.job_state, after.fault) == (J.DEAD, F.AMBIGUOUS)
        assert after.reason in ("ambiguous", "deadline")
    lost = decide_lost(counters, NOW, harmful)
    check_legal(counters, lost)
    assert (lost.job_state, lost.losses) == (J.DEAD, counters.losses + 1)
    known = Ending.raised(RETRYABLE)
    assert decide(known, counters, policy, NOW, u, terms=harmful) == decide(
        known, counters, policy, NOW, u, terms=terms._replace(idempotent=True)
    )


@given(COUNTERS, POLICIES, CHANCES, st.none() | st.integers(0, 10**12))
def test_i14_a_retry_is_within_its_bounds(
    counters: Counters, policy: RetryPolicy, u: float, after_us: int | None
) -> None:
    verdict = RETRYABLE if after_us is None else Verdict(VerdictKind.THROTTLED, after_us)
    after = decide(Ending.raised(verdict), counters, policy, NOW, u)
    asked = min(after_us or 0, MAX_RETRY_AFTER_US)
    if after_us is None:
        wanted = delay_us(policy, after.failures, u)
    else:
        wanted = throttled_delay_us(policy, after.failures, u, asked)
    first = NOW if counters.first_failed_at is None else counters.first_failed_at
    ends = policy.give_up_after_us
    if after.failures >= policy.max_attempts:
        assert after.reason == "exhausted"
    elif ends is not None and NOW + wanted > first + ends:
        assert after.reason == "gave_up"
    else:
        assert after.due_at == NOW + wanted
        assert max(policy.base_us, asked) <= wanted <= max(policy.cap_us, MAX_RETRY_AFTER_US)


@given(COUNTERS, POLICIES, CHANCES)
def test_i14_a_permanent_error_never_retries(counters: Counters, policy: RetryPolicy, u: float) -> None:
    after = decide(Ending.raised(PERMANENT), counters, policy, NOW, u)
    assert (after.attempt_state, after.job_state, after.due_at) == (A.FAILED_PERMANENT, J.DEAD, None)
    assert (after.reason, after.fault) == ("permanent", F.PERMANENT)


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
    assert first == (A.FAILED_RETRYABLE, J.SCHEDULED, NOW + SECOND_US, 1, 0, NOW, None, F.TRANSIENT)
    second = decide(raised, Counters(1, 0, NOW), POLICY, NOW + 5, 0.0)
    assert second == (A.FAILED_RETRYABLE, J.SCHEDULED, NOW + 5 + 2 * SECOND_US, 2, 0, NOW, None, F.TRANSIENT)
    third = decide(raised, Counters(2, 0, NOW), POLICY, NOW + 9, 0.0)
    assert third == (A.FAILED_RETRYABLE, J.DEAD, None, 3, 0, NOW, "exhausted", F.TRANSIENT)


def test_one_attempt_means_no_retry() -> None:
    assert decide(TIMED_OUT, Counters(), POLICY._replace(max_attempts=1), NOW, 0.0).reason == "exhausted"


def test_giving_up_is_judged_by_when_the_retry_would_come() -> None:
    policy = POLICY._replace(give_up_after_us=2 * SECOND_US + 7)
    just = decide(Ending.raised(RETRYABLE), Counters(1, 0, NOW), policy, NOW + 7, 0.0)
    late = decide(Ending.raised(RETRYABLE), Counters(1, 0, NOW), policy, NOW + 8, 0.0)
    assert (just.job_state, late.job_state, late.reason) == (J.SCHEDULED, J.DEAD, "gave_up")


def test_throttled_waits_for_the_later_of_the_two_and_a_day_at_most() -> None:
    def due(after_us: int, version: int) -> int | None:
        policy = POLICY._replace(version=version)
        return decide(Ending.raised(Verdict(VerdictKind.THROTTLED, after_us)), Counters(), policy, NOW, 0.0).due_at

    assert (due(0, 1), due(0, 2)) == (NOW + SECOND_US, NOW + 2 * SECOND_US)
    assert due(SECOND_US + 1, 1) == NOW + SECOND_US + 1
    assert due(2 * SECOND_US + 1, 2) == NOW + 2 * SECOND_US + 1
    assert due(10**15, 1) == due(10**15, 2) == NOW + 24 * 3600 * SECOND_US


def test_a_timeout_spends_like_a_failure_and_waits_while_its_thread_goes_on() -> None:
    assert decide(TIMED_OUT, Counters(), POLICY, NOW, 0.0) == (
        A.TIMED_OUT, J.SCHEDULED, NOW + SECOND_US, 1, 0, NOW, None, F.AMBIGUOUS,
    )  # fmt: skip
    assert decide(TIMED_OUT, Counters(), POLICY, NOW, 0.0, overrun=True) == (
        A.TIMED_OUT, J.WAITING, NOW + SECOND_US, 1, 0, NOW, "overrun", F.AMBIGUOUS,
    )  # fmt: skip
    last = decide(TIMED_OUT, Counters(2, 0, NOW), POLICY, NOW, 0.0, overrun=True)
    assert (last.attempt_state, last.job_state, last.reason) == (A.TIMED_OUT, J.DEAD, "exhausted")


@pytest.mark.parametrize("counters", [Counters(), Counters(2, 3, NOW - 5)])
def test_what_spends_nothing(counters: Counters) -> None:
    def decided(ending: Ending) -> Decision:
        return decide(ending, counters, POLICY, NOW, 0.0)

    snooze = Ending.raised(Verdict(VerdictKind.SNOOZE, 30))
    assert decided(snooze) == (A.RELEASED, J.SCHEDULED, NOW + 30, *counters, "snoozed", None)
    assert decided(NOT_ENTERED) == (A.RELEASED, J.SCHEDULED, None, *counters, "not_entered", None)
    assert decided(SHUTDOWN) == (A.RELEASED, J.SCHEDULED, None, *counters, "shutdown", None)
    assert decided(CANCELLED) == (A.CANCELLED, J.CANCELLED, None, *counters, None, None)
    assert decided(RETURNED) == (A.SUCCEEDED, J.COMPLETED, None, *counters, None, None)


def test_nothing_is_due_after_the_end_of_time() -> None:
    snooze = Ending.raised(Verdict(VerdictKind.SNOOZE, MAX_TIME_US))
    assert decide(snooze, Counters(), POLICY, NOW, 0.0).due_at == MAX_TIME_US


def test_i13_the_fourth_loss_is_the_last() -> None:
    counters = Counters(1, 0, NOW - 9)
    for losses in range(1, LAST_CHANCE_LOSSES + 1):
        after = decide_lost(counters, NOW)
        check_legal(counters, after)
        assert after == (A.LOST, J.SCHEDULED, NOW, 1, losses, NOW - 9, None, F.AMBIGUOUS)
        counters = counters._replace(losses=losses)
    after = decide_lost(counters, NOW)
    check_legal(counters, after)
    assert after == (A.LOST, J.DEAD, None, 1, 4, NOW - 9, "crash_loop", F.AMBIGUOUS)


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


HARMFUL = Terms(idempotent=False)


def test_an_ambiguous_failure_is_retried_like_any_other_unless_that_would_harm() -> None:
    raised = Ending.raised(AMBIGUOUS)
    assert decide(raised, Counters(), POLICY, NOW, 0.0) == (
        A.FAILED_RETRYABLE, J.SCHEDULED, NOW + SECOND_US, 1, 0, NOW, None, F.AMBIGUOUS,
    )  # fmt: skip
    assert decide(raised, Counters(), POLICY, NOW, 0.0, terms=HARMFUL) == (
        A.FAILED_RETRYABLE, J.DEAD, None, 1, 0, NOW, "ambiguous", F.AMBIGUOUS,
    )  # fmt: skip


def test_a_stop_costs_nothing_but_makes_what_must_not_run_twice_a_matter_for_people() -> None:
    spent = Counters(2, 1, NOW - 5)
    assert decide(SHUTDOWN, spent, POLICY, NOW, 0.0, terms=HARMFUL) == (
        A.RELEASED, J.DEAD, None, *spent, "ambiguous", F.AMBIGUOUS,
    )  # fmt: skip
    assert decide(NOT_ENTERED, spent, POLICY, NOW, 0.0, terms=HARMFUL).job_state is J.SCHEDULED


def test_the_first_reason_counts() -> None:
    late, strict = Terms(False, NOW), POLICY._replace(give_up_after_us=1)
    reasons = [
        decide(Ending.raised(PERMANENT), Counters(), strict, NOW, 0.0, terms=late).reason,
        decide(TIMED_OUT, Counters(9, 0, 0), strict, NOW, 0.0, terms=late).reason,
        decide(TIMED_OUT, Counters(9, 0, 0), strict, NOW, 0.0, terms=HARMFUL).reason,
        decide(TIMED_OUT, Counters(9, 0, 0), strict, NOW, 0.0, terms=Terms(True, NOW + 1)).reason,
        decide(TIMED_OUT, Counters(), strict, NOW, 0.0, terms=Terms(True, NOW + 1)).reason,
        decide(TIMED_OUT, Counters(), strict, NOW, 0.0).reason,
        decide_lost(Counters(0, 3), NOW, late).reason,
        decide_lost(Counters(0, 2), NOW, late).reason,
        decide_lost(Counters(0, 2), NOW, HARMFUL).reason,
        decide_lost(Counters(0, 2), NOW, Terms(True, NOW + 1)).reason,
    ]
    assert reasons == [
        "permanent", "deadline", "ambiguous", "exhausted", "deadline", "gave_up",
        "crash_loop", "deadline", "ambiguous", None,
    ]  # fmt: skip


@pytest.mark.parametrize(("delay", "over"), [(SECOND_US - 1, False), (SECOND_US, True), (MAX_TIME_US, True)])
def test_a_snooze_to_the_deadline_or_beyond_it_gives_the_job_up(delay: int, over: bool) -> None:
    ending = Ending.raised(Verdict(VerdictKind.SNOOZE, delay))
    after = decide(ending, Counters(), POLICY, NOW, 0.0, terms=Terms(True, NOW + SECOND_US))
    assert (after.attempt_state, after.job_state, after.failures) == (A.RELEASED, J.DEAD if over else J.SCHEDULED, 0)
    assert after.reason == ("deadline" if over else "snoozed")


def test_terms_put_the_deadline_of_the_wall_on_the_steady_scale() -> None:
    now = Now(wall_us=5_000, steady_us=100)
    assert Terms.of(None, now) is NO_TERMS == Terms(True, None)
    assert Terms.of(Flow(), now) == NO_TERMS
    assert Terms.of(Flow(deadline=5_007, idempotent=False), now) == Terms(False, 107)
    assert [Terms(True, 107).over(instant) for instant in (106, 107, 108)] == [False, True, True]
    assert not NO_TERMS.over(MAX_TIME_US)


@pytest.mark.parametrize("counters", [Counters(), Counters(2, 3, NOW - 5)])
def test_what_came_too_late_to_be_entered_is_given_up_and_spends_nothing(counters: Counters) -> None:
    def decided(deadline: int) -> Decision:
        return decide(NOT_ENTERED, counters, POLICY, NOW, 0.0, terms=Terms(True, deadline))

    assert decided(NOW) == (A.RELEASED, J.DEAD, None, *counters, "deadline", None)
    assert decided(NOW + 1) == (A.RELEASED, J.SCHEDULED, None, *counters, "not_entered", None)
