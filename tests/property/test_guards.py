"""Breakers and retry budgets against slow references, and the laws that they promise."""

from __future__ import annotations

from fractions import Fraction
from heapq import heapreplace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel import InvalidOption
from timewheel.dispatch.breaker import BreakerState, CircuitBreaker, Transition
from timewheel.dispatch.budget import Budget
from timewheel.dispatch.spread import ABSENT_US, GAP_US, Spread
from timewheel.model import SECOND_US, FaultClass
from timewheel.safeguards import Breaker, Dependency, RetryBudget

T, TH, AM, PE = FaultClass.TRANSIENT, FaultClass.THROTTLED, FaultClass.AMBIGUOUS, FaultClass.PERMANENT
CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
START = 1_000 * SECOND_US

# ---- breakers --------------------------------------------------------------------------------------------------------

SETTINGS = st.builds(
    Breaker,
    failures=st.integers(1, 4),
    window_s=st.sampled_from([1, 10, 0.5]),
    min_share=st.sampled_from([0, 0.5, 1]),
    open_s=st.sampled_from([1, 5]),
    probes=st.integers(1, 3),
    closes_after=st.integers(1, 3),
)
WAITS = st.integers(0, 2 * SECOND_US)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), WAITS, st.integers(1, 4)),
        st.tuples(
            st.just("end"), WAITS, st.sampled_from([None, None, T, T, AM, PE, TH]), st.sampled_from([0, 700_000])
        ),
        st.tuples(st.just("leave"), WAITS),
    ),
    max_size=80,
)


class World:
    """Jobs that come, start when they may, and end; everything that happened."""

    def __init__(self, settings: Breaker) -> None:
        self.settings = settings
        self.now = START
        self.went: list[tuple[int, Transition]] = []
        self.breaker = CircuitBreaker(settings, None, self.now, lambda change: self.went.append((self.now, change)))
        self.running: list[int] = []
        self.probes: set[int] = set()
        self.jobs = 0
        self.ends: list[tuple[int, bool]] = []  # since it was closed: (when, a failure)

    def come(self, jobs: int) -> None:
        for _ in range(jobs):
            self.jobs += 1
            instant = self.breaker.turn(self.jobs, self.now)
            state = self.breaker.state
            if instant is None:
                assert state is not OPEN, "while it is open nobody starts"
                self.breaker.start(self.jobs)
                assert self.breaker.holds(self.jobs)
                self.running.append(self.jobs)
                if state is HALF_OPEN:
                    self.probes.add(self.jobs)
            else:
                assert state is not CLOSED, "while it is closed everybody may start"
                until = self.breaker.until_us if state is OPEN else self.now
                assert until <= instant <= until + self.settings.open_s * SECOND_US + SECOND_US // 2
            assert len(self.probes & set(self.running)) <= self.settings.probes or state is CLOSED

    def end(self, fault: FaultClass | None, retry_after_us: int) -> None:
        if not self.running:
            return
        job = self.running.pop(0)
        before, went = self.breaker.state, len(self.went)
        if fault is None:
            self.breaker.succeeded(job, self.now)
        else:
            self.breaker.failed(job, fault, self.now, retry_after_us if fault is TH else 0)
        self.breaker.left(job)
        self.check(job, before, self.breaker.state, fault, fault is TH and retry_after_us > 0)
        if len(self.went) > went:
            self.ends, self.probes = [], set()

    def check(self, job: int, before: BreakerState, after: BreakerState, fault: FaultClass | None, told: bool) -> None:
        if fault is PE:
            assert after is before, "what is permanent does not count"
        elif told:
            assert after is OPEN
            assert self.breaker.until_us >= self.now + 700_000
        elif before is HALF_OPEN and fault is not None:
            assert after is (OPEN if job in self.probes else HALF_OPEN)
        elif before is CLOSED:
            self.ends.append((self.now, fault is not None))
            width = self.settings.window_s * SECOND_US
            for counted in (width * 9 // 10, width):  # the law, with its blur of a tenth
                recent = [failed for when, failed in self.ends if when > self.now - counted]
                opens = sum(recent) >= self.settings.failures and sum(recent) >= self.settings.min_share * len(recent)
                if opens == (after is OPEN):
                    return
            whens = [when for when, _ in self.ends]
            assert fault is not None or after is CLOSED
            assert any(self.now - width <= when <= self.now - width * 9 // 10 for when in whens), "it is no blur"


@given(SETTINGS, STEPS)
def test_a_breaker_does_what_its_states_say(settings: Breaker, steps: list[tuple[object, ...]]) -> None:
    world = World(settings)
    for step in steps:
        world.now += int(step[1])  # type: ignore[call-overload]
        match step:
            case ("come", _, int(jobs)):
                world.come(jobs)
            case ("end", _, fault, int(retry_after_us)):
                world.end(fault, retry_after_us)  # type: ignore[arg-type]
            case ("leave", _) if world.running:
                world.breaker.left(world.running.pop())
    allowed = {(CLOSED, OPEN), (OPEN, HALF_OPEN), (HALF_OPEN, OPEN), (HALF_OPEN, CLOSED)}
    assert {(change.before, change.after) for _, change in world.went} <= allowed
    for (when, change), (then, following) in pairwise(world.went):
        assert change.after is following.before
        if change.after is OPEN:
            assert then >= change.until_us >= when, "it stays open for its time"  # type: ignore[operator]


def test_one_that_only_fails_is_called_by_probes_alone() -> None:
    """The storm: 10,000 jobs, each of which comes again when it is told; calls in ten minutes, and moves."""
    breaker = CircuitBreaker(Breaker(), None, START)
    due = [(START, job) for job in range(10_000)]
    calls = moves = 0
    while due[0][0] < START + 600 * SECOND_US:
        now, job = due[0]
        told = breaker.turn(job, now)
        if told is None:
            calls += 1
            breaker.start(job)
            breaker.failed(job, T, now)
            breaker.left(job)
            told = now + SECOND_US  # its own retry
        else:
            moves += 1
        heapreplace(due, (told, job))
    assert calls <= 5 + 600 / 30 + 1
    assert moves <= 10_000 * (600 / 30 + 2), "and each is moved about once each time that it is open"


def breaker_that_is(state: BreakerState, **settings: int) -> CircuitBreaker:
    breaker = CircuitBreaker(Breaker(**{"failures": 1, "closes_after": 1, **settings}), None, START)
    if state is not CLOSED:
        breaker.failed(0, T, START)
    if state is HALF_OPEN:
        assert breaker.turn(1, START + 30 * SECOND_US) is None
    return breaker


@pytest.mark.parametrize("state", [CLOSED, OPEN, HALF_OPEN])
def test_what_is_saved_comes_back(state: BreakerState) -> None:
    breaker = breaker_that_is(state)
    again = CircuitBreaker(Breaker(), breaker.value, START)
    assert again.state is (CLOSED if state is CLOSED else OPEN)
    if state is not CLOSED:
        assert again.turn(5, START) == START + 30 * SECOND_US
        assert again.turn(5, START + 30 * SECOND_US) is None
        assert again.state is HALF_OPEN


@pytest.mark.parametrize("forced", [BreakerState.FORCED_OPEN, BreakerState.FORCED_CLOSED])
@pytest.mark.parametrize("state", [CLOSED, OPEN, HALF_OPEN])
def test_what_a_person_forces_holds_whatever_ends(state: BreakerState, forced: BreakerState) -> None:
    breaker = breaker_that_is(state)
    breaker.force(forced, "because")
    for breaker_ in (breaker, CircuitBreaker(Breaker(), breaker.value, START)):
        for fault in (T, AM, TH, PE):
            breaker_.failed(2, fault, START + 1, 5_000_000)
        breaker_.succeeded(1, START + 1)
        for later in (0, 3_600):
            now = START + later * SECOND_US
            assert (breaker_.turn(3, now) is None) == (forced is BreakerState.FORCED_CLOSED)
        assert breaker_.state is forced
        assert breaker_.holds(4) == (forced is BreakerState.FORCED_CLOSED)
        breaker_.force(CLOSED, "again")
        assert breaker_.turn(3, START + 2) is None


def test_stragglers_count_for_nothing_in_half_open() -> None:
    breaker = breaker_that_is(HALF_OPEN, probes=2)
    breaker.start(1)
    now = START + 31 * SECOND_US
    breaker.succeeded(77, now)
    breaker.failed(78, T, now)
    assert breaker.state is HALF_OPEN
    assert breaker.turn(2, now) is None, "of two probes one is taken"
    breaker.start(2)
    assert breaker.turn(3, now) is not None
    breaker.left(2)
    assert breaker.turn(3, now) is None, "a place that is given back is free"
    breaker.succeeded(1, now)
    assert breaker.state is CLOSED


def test_a_throttling_that_says_longer_makes_it_longer() -> None:
    breaker = breaker_that_is(CLOSED)
    breaker.failed(1, TH, START, 10 * SECOND_US)
    breaker.failed(2, TH, START, 60 * SECOND_US)
    breaker.failed(3, TH, START, 20 * SECOND_US)
    assert breaker.until_us == START + 60 * SECOND_US


# ---- budgets ---------------------------------------------------------------------------------------------------------

BUDGETS = st.builds(
    RetryBudget, share=st.sampled_from([0, 0.1, 0.5, 1]), window_s=st.sampled_from([1, 7]), at_least=st.integers(1, 5)
)
COMES = st.lists(st.tuples(st.integers(0, SECOND_US), st.booleans(), st.integers(0, 400_000)), max_size=120)


@given(BUDGETS, COMES)
def test_retries_stay_within_their_budget_in_every_window(
    settings: RetryBudget, comes: list[tuple[int, bool, int]]
) -> None:
    """As the dispatcher does it: judged, and started somewhat later, if that is still allowed then."""
    budget = Budget(settings)
    now, starts, retries = START, [], []
    for job, (wait, is_retry, delay) in enumerate(comes):
        now += wait
        if is_retry:
            told = budget.turn(job, now)
            if told is not None:
                assert now < told <= now + settings.window_s * 1_100_000
                continue
            budget.promise()
            now += delay
            entered = budget.may_enter(now)
            budget.take_back()
            if not entered:
                continue
            retries.append(now)
        budget.start(now, retry=is_retry)
        starts.append(now)
    width = settings.window_s * SECOND_US
    for end in retries:
        in_window = [at for at in starts if end - width <= at <= end]
        of_them = [at for at in retries if end - width <= at <= end]
        same = retries.count(end) - 1  # which of those of one instant came first is not known here
        assert len(of_them) - same <= Fraction(str(settings.share)) * len(in_window) + settings.at_least


def test_a_budget_is_used_and_says_who_waits() -> None:
    budget = Budget(RetryBudget(share=0.5, window_s=5, at_least=2))
    for _ in range(10):
        budget.start(START, retry=False)
    started = 0
    for job in range(100):
        if budget.turn(job, START) is None:
            budget.start(START, retry=True)
            started += 1
    assert started == 14, "half of 24, and two"
    assert (budget.spread.waiting(START), budget.deferred) == (86, 86)
    assert budget.turn(99, START + 6 * SECOND_US) is None, "what was is forgotten"
    assert budget.spread.waiting(START + 6 * SECOND_US) == 85
    assert budget.spread.waiting(START + 60 * SECOND_US) == 0, "those that never came again are not counted for ever"


def test_promised_retries_count() -> None:
    budget = Budget(RetryBudget(share=0, at_least=3))
    for job in range(3):
        assert budget.turn(job, START) is None
        budget.promise()
    assert budget.turn(3, START) is not None
    budget.take_back()
    assert budget.turn(3, START) is None


# ---- the rest --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(0, 100_000)), max_size=60))
def test_instants_are_apart_and_within_the_span(asks: list[tuple[int, int]]) -> None:
    spread, now, told = Spread(), START, []
    for job, (wait, span) in enumerate(asks):
        now += wait
        instant = spread.tell(job, now, span)
        assert now <= instant <= now + span
        told.append(instant)
    if all(span == 100_000 for _, span in asks):
        assert all(later - earlier >= GAP_US or later <= earlier for earlier, later in pairwise(told))


def test_those_who_wait_are_forgotten_when_they_come_or_are_gone() -> None:
    spread = Spread()
    for job in range(5):
        spread.tell(job, START, SECOND_US)
    spread.came(0)
    spread.came(77)
    assert spread.waiting(START) == 4
    assert spread.waiting(START + 2 * ABSENT_US) == 0


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Breaker(failures=0), "failures"),
        (lambda: Breaker(window_s=0), "window_s"),
        (lambda: Breaker(min_share=1.5), "min_share"),
        (lambda: Breaker(open_s=float("inf")), "open_s"),
        (lambda: Breaker(probes=True), "probes"),
        (lambda: Breaker(closes_after=0), "closes_after"),
        (lambda: RetryBudget(share=-0.1), "share"),
        (lambda: RetryBudget(window_s="1"), "window_s"),  # type: ignore[arg-type]
        (lambda: RetryBudget(at_least=-1), "at_least"),
        (lambda: RetryBudget(share=0, at_least=0), "at_least"),
        (lambda: Dependency(breaker=5), "breaker"),  # type: ignore[arg-type]
        (lambda: Dependency(retry_budget=0.2), "retry_budget"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: object, field: str) -> None:
    with pytest.raises(InvalidOption, match=field):
        make()  # type: ignore[operator]
