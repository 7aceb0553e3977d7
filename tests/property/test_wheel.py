"""I8, B47: the wheel fires exactly what a sorted list would, for every insert time, due time, tick and jump."""

from __future__ import annotations

import heapq
import random
import sys
from bisect import insort

import hypothesis.strategies as st
import pytest
from hypothesis import assume, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from timewheel.wheel import level as level_module
from timewheel.wheel import wheel as wheel_module
from timewheel.wheel.level import dues_of
from timewheel.wheel.wheel import Wheel

Entry = tuple[int, int, int]

YEAR_9999_US = 253_402_300_799_999_999
NOW_US = 1_750_000_000_123_456


def drain(wheel: Wheel, now_us: int, limit: int = 1_000) -> list[Entry]:
    """Everything due by now_us, in calls of `limit`; asserts that every call makes progress."""
    fired = wheel.advance(now_us, limit)
    most = 100 + 12 * len(wheel)  # calls: an entry is moved at most once a level, and each call moves one
    while wheel.behind(now_us):
        assert wheel.last_work > 0, "a call that must be repeated did nothing"
        more = wheel.advance(now_us, limit)
        assert len(more) <= limit
        fired += more
        most -= 1
        assert most > 0, "it never ends"
    return fired


def patch_sizes(monkeypatch: pytest.MonkeyPatch, *, portion: int, run: int, exact: int, few: int) -> None:
    """Small thresholds, so that small tests reach cascades, portions and runs."""
    monkeypatch.setattr(wheel_module, "PORTION", portion)
    monkeypatch.setattr(wheel_module, "_EXACT", exact)
    monkeypatch.setattr(wheel_module, "_FEW", few)
    monkeypatch.setattr(level_module, "_RUN", run)


@pytest.fixture(params=[(4_096, 512, 64, 16), (1, 1, 0, 1), (2, 10**9, 64, 1)], ids=["as is", "runs", "scattered"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    portion, run, exact, few = request.param
    patch_sizes(monkeypatch, portion=portion, run=run, exact=exact, few=few)


# --- against a sorted list ------------------------------------------------------------------------------------------

ticks = st.sampled_from([1, 7, 1_000, 1_024, 2_000_000])
limits = st.one_of(st.integers(1, 5), st.integers(1, 10_000))
lanes = st.sampled_from([0, 1, 2**31 - 1])
digits = st.sampled_from([0, 1, 2, 31, 62, 63, 64])
nudges = st.sampled_from([-1, 0, 1])


class WheelMachine(RuleBasedStateMachine):
    """The wheel beside a sorted list. Instants lie near the boundaries of the levels, as seen from the wheel."""

    @initialize(
        tick_us=ticks,
        start=st.one_of(st.integers(0, 64**3), st.integers(0, 64**9)),
        sizes=st.sampled_from([(4_096, 512, 64, 16), (1, 1, 0, 1), (2, 1, 1, 1), (3, 10**9, 64, 1), (1, 2, 0, 4)]),
    )
    def setup(self, tick_us: int, start: int, sizes: tuple[int, int, int, int]) -> None:
        self.patch = pytest.MonkeyPatch()
        self.portion, run, exact, few = sizes
        patch_sizes(self.patch, portion=self.portion, run=run, exact=exact, few=few)
        self.tick_us, self.now_us = tick_us, start
        self.wheel, self.model = Wheel(start, tick_us=tick_us), list[Entry]()
        self.next_id = 0

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def instant(self, digit: int, power: int, nudge_ticks: int, nudge_us: int, *, aligned: bool) -> int:
        """k * 64**n ticks from now or, aligned, from the start of the turn of level n; +- a tick, +- 1 us."""
        tick = self.now_us // self.tick_us
        width = 64**power
        base = tick // width * width * self.tick_us if aligned else self.now_us
        return base + (digit * width + nudge_ticks) * self.tick_us + nudge_us

    def add(self, due_us: int, lane: int) -> None:
        insort(self.model, (due_us, self.next_id, lane))
        self.next_id += 1

    @rule(digit=digits, power=st.integers(0, 7), tick=nudges, us=nudges, aligned=st.booleans(), lane=lanes)
    def insert(self, digit: int, power: int, tick: int, us: int, aligned: bool, lane: int) -> None:
        due_us = self.instant(digit, power, tick, us, aligned=aligned)
        assume(due_us < 2**63)
        self.wheel.insert(due_us, self.next_id, lane)
        self.add(due_us, lane)

    @rule(ago_us=st.integers(0, 10**7), lane=lanes)
    def insert_past(self, ago_us: int, lane: int) -> None:
        self.wheel.insert(self.now_us - ago_us, self.next_id, lane)
        self.add(self.now_us - ago_us, lane)

    @rule(
        width=st.sampled_from([1, 10, 64, 64**2, 64**3, 64**5]),
        shares=st.lists(st.floats(-0.1, 1), max_size=40),
        ascending=st.booleans(),
        lane=lanes,
    )
    def extend(self, width: int, shares: list[float], ascending: bool, lane: int) -> None:
        dues = [self.now_us + int(share * width * self.tick_us) for share in shares]
        if ascending:
            dues.sort()
        ids = list(range(self.next_id, self.next_id + len(dues)))
        self.wheel.extend(dues, ids, lane)
        for due_us in dues:
            self.add(due_us, lane)

    @rule(limit=limits)
    def again(self, limit: int) -> None:
        self.advance(limit)

    @rule(digit=digits, power=st.integers(0, 7), tick=nudges, us=nudges, aligned=st.booleans(), limit=limits)
    def jump(self, digit: int, power: int, tick: int, us: int, aligned: bool, limit: int) -> None:
        target_us = self.instant(digit, power, tick, us, aligned=aligned)
        assume(target_us < 2**62)
        self.now_us = max(self.now_us, target_us)
        self.advance(limit)

    @precondition(lambda self: self.model)
    @rule(limit=limits, us=nudges)
    def to_next(self, limit: int, us: int) -> None:
        self.now_us = max(self.now_us, self.model[0][0] + us)
        self.advance(limit)

    @rule(limit=limits)
    def to_end(self, limit: int) -> None:
        if self.model:
            self.now_us = max(self.now_us, self.model[-1][0])
        expected = [entry for entry in self.model if entry[0] <= self.now_us]
        assert drain(self.wheel, self.now_us, limit) == expected
        del self.model[: len(expected)]

    @rule(back_us=st.integers(0, 10**6), limit=limits)
    def step_back(self, back_us: int, limit: int) -> None:
        now_us, self.now_us = self.now_us, max(0, self.now_us - back_us)
        self.advance(limit)
        self.now_us = now_us

    def advance(self, limit: int) -> None:
        before = len(self.model)
        fired = self.wheel.advance(self.now_us, limit)
        assert len(fired) <= limit
        assert fired == self.model[: len(fired)]
        assert all(due_us <= self.now_us for due_us, _, _ in fired), "early"
        del self.model[: len(fired)]
        due_now = bool(self.model) and self.model[0][0] <= self.now_us
        assert self.wheel.behind(self.now_us) or not due_now, "a due entry was left, and nobody was told"
        if self.wheel.behind(self.now_us):
            assert self.wheel.last_work > 0
        else:
            wake_us = self.wheel.next_due_us()
            assert wake_us is None or wake_us > self.now_us
            assert self.wheel._tick >= self.now_us // self.tick_us, "left behind: entries will be placed too high"
        near = 12 * self.portion + 2 * limit  # the most that `near` can hold: a portion a level
        assert self.wheel.last_work <= min(8 * before, max(limit, self.portion) + self.portion + 3 * limit + 3 * near)

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert len(self.wheel) == len(self.model)
        assert sorted(self.wheel.entries()) == self.model
        wake_us = self.wheel.next_due_us()
        assert (wake_us is None) == (not self.model)
        assert wake_us is None or wake_us <= self.model[0][0], "late"
        assert all(due_us // self.tick_us <= self.wheel._tick for due_us, _, _ in self.wheel._late), "late, and is not"
        for level in self.wheel._levels:
            for digit in filter(level.slots.__getitem__, range(64)):
                start = level.start(self.wheel._tick, digit)
                ticks = {due_us // self.tick_us for due_us in dues_of(level.slots[digit] or b"")}
                assert start > self.wheel._tick
                assert start <= min(ticks) <= max(ticks) < start + (1 << level.shift), "in a foreign slot"
            assert [bool(level.occupied >> digit & 1) for digit in range(64)] == [bool(slot) for slot in level.slots]


PATIENT = pytest.mark.timeout(300)  # these take seconds; any other that does not end in a few hangs (tests.mutation)
TestWheelMachine = PATIENT(WheelMachine.TestCase)
TestWheelMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@PATIENT
def test_a_million_operations_against_a_heap() -> None:
    rng = random.Random(47)
    now_us, job_id, operations = NOW_US, 0, 0
    wheel, heap = Wheel(now_us), list[Entry]()
    while operations < 1_000_000:
        span_us = rng.choice((500, 5_000, 70_000, 4_200_000, 300_000_000))
        dues = [now_us + rng.randrange(-span_us // 10, span_us) for _ in range(rng.randrange(400))]
        if rng.random() < 0.5:
            dues.sort()
        lane = rng.randrange(4)
        if rng.random() < 0.5:
            wheel.extend(dues, range(job_id, job_id + len(dues)), lane)
        else:
            for at, due_us in enumerate(dues):
                wheel.insert(due_us, job_id + at, lane)
        for due_us in dues:
            heapq.heappush(heap, (due_us, job_id, lane))
            job_id += 1
        now_us += rng.choice(
            (1, 999, 1_000, 64_000, rng.randrange(10**6), rng.randrange(10**8) if rng.random() < 0.1 else 0)
        )
        fired = drain(wheel, now_us, rng.choice((7, 1_000)))
        expected = []
        while heap and heap[0][0] <= now_us:
            expected.append(heapq.heappop(heap))
        assert fired == expected
        operations += len(dues) + len(fired)
    assert drain(wheel, YEAR_9999_US) == sorted(heap)
    assert len(wheel) == 0


# --- B47: boundaries -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("power", range(8))
@pytest.mark.parametrize("tick_us", [1, 1_000])
def test_every_level_boundary_fires_exactly(power: int, tick_us: int) -> None:
    """Delays k*N*T, k*N*T +- T and +- 1 us, from slots 0, 1 and 63 of level 0 and of the level of the delay."""
    width = 64**power
    for pointer in (0, 1, 63, width, 63 * width):
        start_us = (64**8 + pointer) * tick_us
        for multiple in (1, 2, 63, 64):
            for nudge_us in (-tick_us, -1, 0, 1, tick_us):
                due_us = min(start_us + multiple * width * tick_us + nudge_us, 2**63 - 1)
                wheel = Wheel(start_us, tick_us=tick_us)
                wheel.insert(due_us, 1, 0)
                assert drain(wheel, max(start_us, due_us - 1)) == ([(due_us, 1, 0)] if due_us <= start_us else [])
                assert drain(wheel, due_us) == ([(due_us, 1, 0)] if due_us > start_us else [])
                assert wheel.next_due_us() is None


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("power", range(8))
def test_whoever_sleeps_until_next_due_is_on_time_and_wakes_once_a_level_at_most(power: int) -> None:
    for digit in (1, 63):
        for nudge_us in (-1, 0, 1, 1_000):
            due_us = NOW_US + digit * 64**power * 1_000 + nudge_us
            wheel = Wheel(NOW_US)
            wheel.extend([due_us] * 40, range(40), 3)
            fired: list[Entry] = []
            wakes = 0
            while not fired:
                now_us = wheel.next_due_us()
                assert now_us is not None
                assert now_us <= due_us
                fired = drain(wheel, now_us)
                wakes += 1
                assert wakes <= 20, "it never fires"
            assert now_us == due_us
            assert len(fired) == 40
            assert wakes <= len(wheel._levels) + 1


def test_a_lone_entry_needs_one_wake_up() -> None:
    wheel = Wheel(NOW_US)
    for due_us in (NOW_US + 700, NOW_US + 3_600_000_000, NOW_US + 86_400_000_000):
        wheel.insert(due_us, 1, 0)
        assert wheel.next_due_us() == due_us
        assert wheel.advance(due_us, 10) == [(due_us, 1, 0)]


def test_next_due_looks_at_what_is_near_and_at_the_slots() -> None:
    wheel = Wheel(0)
    wheel.insert(70_500, 1, 0)
    assert wheel.advance(64_000, 10) == []
    wheel.insert(70_900, 2, 0)  # level 0: its slot starts before the near entry, its entry comes after it
    assert wheel.next_due_us() == 70_500
    wheel.insert(70_200, 3, 0)
    assert wheel.next_due_us() == 70_200


def test_slow_polls_of_a_coarse_wheel() -> None:
    """agrona: tick 2 s, timeout 11 s, polled every 1.8 s: fires at the poll at 12.6 s."""
    wheel = Wheel(0, tick_us=2_000_000)
    wheel.insert(11_000_000, 1, 0)
    polls = [(now_us, wheel.advance(now_us, 10)) for now_us in range(1_800_000, 20_000_000, 1_800_000)]
    assert [(now_us, len(fired)) for now_us, fired in polls if fired] == [(12_600_000, 1)]


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("due_us", [NOW_US + 5_000_000, NOW_US // 1_000 * 1_000 + 5_000_000], ids=["inside", "edge"])
def test_insertion_into_the_slot_being_drained(due_us: int) -> None:
    wheel = Wheel(NOW_US)
    wheel.extend([due_us] * 6, [4, 1, 6, 2, 5, 3], 0)
    fired: list[Entry] = []
    for _ in range(20):
        fired = fired or wheel.advance(due_us, 2)
    assert [job_id for _, job_id, _ in fired] == [1, 2]
    wheel.insert(due_us, 0, 0)
    wheel.insert(due_us, 9, 0)
    wheel.insert(due_us - 1, 8, 0)
    wheel.insert(due_us - 10**9, 7, 0)
    wheel.insert(due_us + 1, 10, 0)
    assert [job_id for _, job_id, _ in drain(wheel, due_us, 2)] == [7, 8, 0, 3, 4, 5, 6, 9]
    assert drain(wheel, due_us + 1) == [(due_us + 1, 10, 0)]


@pytest.mark.usefixtures("_sizes")
def test_insertion_while_a_slot_is_being_cascaded() -> None:
    """The slot holds a whole turn of level 0; entries are added all over it after every call."""
    wheel = Wheel(0)
    expected = [(64_000 + at * 500, at, 0) for at in range(128)]
    wheel.extend([due_us for due_us, _, _ in expected], range(128), 0)
    fired = wheel.advance(64_000, 3)
    for call in range(60):
        late = (64_000 + call * 1_100, 1_000 + call, 1)
        wheel.insert(*late)
        expected.append(late)
        fired += wheel.advance(64_000, 3)
    fired += drain(wheel, 200_000)
    assert sorted(fired) == sorted(expected)
    assert fired[2:] == sorted(fired[2:])


def test_extremes() -> None:
    wheel = Wheel(0)
    entries = [(-(2**60), 2**63 - 1, 0), (-1, 0, 1), (0, 5, 2**31 - 1), (YEAR_9999_US, 6, 0), (2**63 - 1, 7, 0)]
    for entry in reversed(entries):
        wheel.insert(*entry)
    wheel.extend([YEAR_9999_US, -5] * 20, range(40), 4)
    assert drain(wheel, 0) == sorted([*entries[:3], *((-5, job_id, 4) for job_id in range(1, 40, 2))])
    assert wheel.next_due_us() == YEAR_9999_US
    assert drain(wheel, YEAR_9999_US - 1) == []
    assert len(drain(wheel, YEAR_9999_US)) == 21
    assert drain(wheel, 2**63 - 1) == [entries[-1]]
    assert wheel.next_due_us() is None


def test_duplicates_are_kept() -> None:
    wheel = Wheel(0)
    for _ in range(3):
        wheel.insert(10, 1, 0)
        wheel.insert(10**9, 1, 0)
    assert wheel.advance(10, 2) == [(10, 1, 0)] * 2
    assert drain(wheel, 10**9) == [(10, 1, 0)] + [(10**9, 1, 0)] * 3


def test_mistakes_are_refused_and_leave_the_wheel_as_it_was() -> None:
    wheel = Wheel(0)
    for now_us, tick_us in ((-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="tick_us at least 1"):
            Wheel(now_us, tick_us=tick_us)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        wheel.advance(1, 0)
    with pytest.raises(ValueError, match="2 dues for 1 job_ids"):
        wheel.extend([1, 2], [1], 0)
    wheel.extend([], [], 0)
    assert len(wheel) == 0
    assert list(wheel.entries()) == []


# --- bounded work ----------------------------------------------------------------------------------------------------


@PATIENT
def test_a_call_never_works_longer_than_its_budget() -> None:
    """200,000 entries in one slot of level 3, and as many in one tick; then a jump over all of them."""
    rng = random.Random(7)
    wheel = Wheel(0)
    first_us = 64**3 * 1_000
    wheel.extend([first_us + rng.randrange(first_us) for _ in range(200_000)], range(200_000), 0)
    wheel.extend([first_us * 3] * 200_000, range(200_000), 1)
    now_us, fired, worst, calls = first_us * 4, 0, 0, 0
    while len(wheel):
        calls += 1
        assert calls < 2_000, "it never ends"
        got = wheel.advance(now_us, 500)
        fired += len(got)
        worst = max(worst, wheel.last_work)
        assert len(got) <= 500
        assert wheel.behind(now_us) == (len(wheel) > 0)
    assert fired == 400_000
    assert worst <= 2 * wheel_module.PORTION + 2 * 500


def test_a_jump_costs_what_the_entries_cost() -> None:
    """Not what the time costs: one entry a century away, and an empty wheel."""
    wheel = Wheel(0)
    wheel.insert(100 * 365 * 86_400_000_000, 1, 0)
    assert len(drain(wheel, YEAR_9999_US)) == 1
    assert wheel.last_work <= 2
    assert wheel.advance(2 * YEAR_9999_US, 10) == []
    assert wheel.last_work == 0


@PATIENT
def test_an_entry_is_moved_at_most_once_a_level() -> None:
    rng = random.Random(3)
    wheel = Wheel(0)
    count = 50_000
    wheel.extend([rng.randrange(300_000_000) for _ in range(count)], range(count), 0)
    work = 0
    for now_us in range(0, 300_010_000, 10_000):
        wheel.advance(now_us, 10_000)
        work += wheel.last_work
    assert len(wheel) == 0
    assert work <= 3 * count, "cascaded once, opened once, fired once"


@PATIENT
def test_bytes_an_entry() -> None:
    rng = random.Random(5)
    wheel = Wheel(0)
    for job_id in range(200_000):
        wheel.insert(rng.randrange(10**6, 300_000_000), job_id, 0)
    used = sum(sys.getsizeof(slot) for level in wheel._levels for slot in level.slots if slot)
    assert used / len(wheel) < 27.5
