"""Queues share by their weights, partitions of a queue alike: against slow references, and the bounds that follow."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.dispatch.ready import Entry, Ready
from timewheel.dispatch.shares import Shares
from timewheel.model import ClockKind, Lane, Now

NOW = Now(1_000, 1_000)
WALL, STEADY = ClockKind.WALL, ClockKind.STEADY
AGING = 2

# ---- partitions ------------------------------------------------------------------------------------------------------

LANES = [
    Lane(number, queue, priority, clock, partition)
    for number, (queue, partition, priority, clock) in enumerate(
        (queue, partition, priority, clock)
        for queue in ("q", "other")
        for partition in ("", "a", "b", "c")
        for priority, clock in ((5, WALL), (5, STEADY), (0, WALL))
    )
]


class Turns:
    """One list of entries; the partitions of a queue in the order in which they were last served or came."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.turns: dict[str, list[str]] = {"q": [], "other": []}

    def push(self, entry: Entry) -> None:
        self.entries.append(entry)
        lane = LANES[entry[2]]
        if lane.partition not in self.turns[lane.queue]:
            self.turns[lane.queue].append(lane.partition)

    def mine(self, queue: str, partition: str) -> list[Entry]:
        lanes = {lane.number for lane in LANES if (lane.queue, lane.partition) == (queue, partition)}
        mine = [entry for entry in self.entries if entry[2] in lanes]
        return sorted(mine, key=lambda e: (e[0] + LANES[e[2]].priority * AGING, LANES[e[2]].priority, e[1], e[2]))

    def forget_empty(self, queue: str) -> None:
        self.turns[queue] = [each for each in self.turns[queue] if self.mine(queue, each)]

    def take(self, queue: str, limit: int) -> list[Entry]:
        taken: list[Entry] = []
        while len(taken) < limit and self.turns[queue]:
            partition = self.turns[queue].pop(0)
            first = self.mine(queue, partition)[0]
            self.entries.remove(first)
            taken.append(first)
            self.turns[queue].append(partition)
            self.forget_empty(queue)
        return taken

    def clear(self, number: int) -> None:
        self.entries = [entry for entry in self.entries if entry[2] != number]
        self.forget_empty(LANES[number].queue)


NUMBERS = st.integers(0, len(LANES) - 1)
PUSH = st.tuples(st.just("push"), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6), NUMBERS), max_size=30))
TAKE = st.tuples(st.just("take"), st.sampled_from(["q", "other"]), st.integers(0, 12))
CLEAR = st.tuples(st.just("clear"), NUMBERS)


@given(st.lists(st.one_of(PUSH, TAKE, TAKE, CLEAR), min_size=2, max_size=30))
def test_partitions_take_turns_as_the_reference_says(steps: list[tuple[object, ...]]) -> None:
    ready, model = Ready(AGING), Turns()
    for lane in LANES:
        ready.add_lane(lane)
    for step in steps:
        match step:
            case ("push", list(entries)):
                for entry in entries:
                    ready.push(*entry)
                    model.push(entry)
            case ("take", str(queue), int(limit)):
                assert ready.take(queue, limit, NOW) == model.take(queue, limit)
            case ("clear", int(number)):
                ready.clear(number)
                model.clear(number)
        assert len(ready) == len(model.entries)
        assert sorted(ready.queues()) == sorted(queue for queue, turns in model.turns.items() if turns)
        for queue in ("q", "other"):
            size = sum(LANES[entry[2]].queue == queue for entry in model.entries)
            assert ready.queue_size(queue) == size
            assert [ready.queue_size(queue, most) for most in (0, 2, 40)] == [min(size, most) for most in (0, 2, 40)]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.integers(0, 100),
)
def test_a_job_of_a_new_partition_waits_for_one_of_each_other_at_most(
    sizes: list[int], takes: list[int], before: int
) -> None:
    """However many the others have, and however far they are with their turns when it comes."""
    ready = Ready()
    for number in range(len(sizes) + 1):
        ready.add_lane(Lane(number, "q", 5, WALL, f"tenant {number}"))
    for number, size in enumerate(sizes):
        for job_id in range(size):
            ready.push(job_id, job_id, number)
    ready.take("q", before, NOW)
    busy = sum(ready.size(number) > 0 for number in range(len(sizes)))
    late = 10**9  # due after all others: only the turns help it
    ready.push(late, 7, len(sizes))
    order: list[int] = []
    while len(sizes) not in order:
        for limit in takes:
            order += [entry[2] for entry in ready.take("q", limit, NOW)]
    assert order.index(len(sizes)) <= busy


def test_one_tenant_with_100_000_jobs_delays_another_by_one() -> None:
    ready = Ready()
    for number, tenant in enumerate(["big", "small"]):
        ready.add_lane(Lane(number, "q", 5, WALL, tenant))
    for job_id in range(100_000):
        ready.push(job_id, job_id, 0)
    ready.take("q", 10, NOW)
    ready.push(200_000, 200_000, 1)
    assert [entry[2] for entry in ready.take("q", 2, NOW)] == [0, 1]


# ---- weights ---------------------------------------------------------------------------------------------------------


class Slow:
    """Start-time fair queueing by the book, in fractions, one start at a time; nothing is forgotten."""

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        self.tags = dict.fromkeys(weights, Fraction(0))
        self.asking: set[str] = set()
        self.clock = Fraction(0)

    def divide(self, room: int, wants: dict[str, int], others: list[str]) -> dict[str, int]:
        if not others and sum(wants.values()) <= room:
            self.tags = dict.fromkeys(self.tags, Fraction(0))  # all are equal again; the clock means nothing
            self.clock, self.asking = Fraction(0), set()
            return wants
        asking = {*wants, *others}
        newcomers = asking - self.asking
        begin = max(self.clock, min((self.tags[queue] for queue in asking - newcomers), default=self.clock))
        for queue in newcomers:
            self.tags[queue] = max(self.tags[queue], begin)
        self.asking = asking
        given: Counter[str] = Counter()
        for _ in range(room):
            if not (able := [queue for queue in wants if given[queue] < wants[queue]]):
                break
            queue = min(able, key=lambda queue: (self.tags[queue], queue in newcomers))  # of equal ones the first
            self.clock = max(self.clock, self.tags[queue])
            self.tags[queue] += Fraction(1, self.weights[queue])
            given[queue] += 1
        return dict(given)


NAMES = ["a", "b", "c", "d"]
POWERS = st.fixed_dictionaries({name: st.sampled_from([1, 2, 4, 8, 64]) for name in NAMES})  # no rounding: equal tags
WANTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 20), min_size=1)
DIVIDE = st.tuples(st.integers(1, 25), WANTS, st.sets(st.sampled_from(NAMES), max_size=2), st.booleans())


@given(POWERS, st.lists(DIVIDE, min_size=1, max_size=40))
def test_shares_are_as_the_reference_says(
    weights: dict[str, int], steps: list[tuple[int, dict[str, int], set[str], bool]]
) -> None:
    shares, slow = Shares(), Slow(weights)
    for name, weight in weights.items():
        shares.weigh(name, weight)
    for room, wants, claiming, returns in steps:
        others = sorted(claiming - set(wants))
        given = shares.divide(room, wants, others)
        assert given == slow.divide(room, wants, others)
        if returns and not (sum(wants.values()) <= room and not others):
            for name, starts in given.items():
                shares.give_back(name, starts // 2)
                slow.tags[name] -= Fraction(starts // 2, weights[name])


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 1_000), min_size=2),
    st.lists(st.tuples(st.integers(1, 7), st.sets(st.sampled_from(["x", "y"]))), min_size=1, max_size=120),
)
def test_queues_that_always_want_more_never_differ_by_more_than_the_bound(
    weights: dict[str, int], rooms: list[tuple[int, set[str]]]
) -> None:
    """Whatever others do meanwhile. At every moment, and between any two."""
    shares = Shares()
    for name, weight in weights.items():
        shares.weigh(name, weight)
    starts: Counter[str] = Counter()
    history = [starts.copy()]
    for room, passing in rooms:
        wants = dict.fromkeys(weights, 1_000) | dict.fromkeys(passing, 3)
        given = shares.divide(room, wants)
        assert sum(given.values()) == room, "no room is wasted"
        starts.update({name: given.get(name, 0) for name in weights})
        history.append(starts.copy())
    for one in weights:
        for other in weights:
            apart = [Fraction(h[one], weights[one]) - Fraction(h[other], weights[other]) for h in history]
            bound = Fraction(1, weights[one]) + Fraction(1, weights[other])
            assert max(apart) - min(apart) <= bound * (1 + Fraction(1, 10**6))


def test_weights_divide_what_there_is() -> None:
    shares = Shares()
    shares.weigh("mail", 3)
    total: Counter[str] = Counter()
    for _ in range(400):
        total.update(shares.divide(1, {"mail": 100, "reports": 100}))
    assert total == {"mail": 300, "reports": 100}
    shares.weigh("mail", 1)
    total.clear()
    for _ in range(400):
        total.update(shares.divide(1, {"mail": 100, "reports": 100}))
    assert total["mail"] in (199, 200, 201)


def test_nobody_saves_up_turns_while_idle() -> None:
    shares = Shares()
    for _ in range(1_000):
        shares.divide(1, {"busy": 10})
    given = Counter[str]()
    for _ in range(10):
        given.update(shares.divide(1, {"busy": 10, "late": 10}))
    assert abs(given["busy"] - given["late"]) <= 1


def test_nobody_gains_by_coming_and_going() -> None:
    """One that asks for one job at a time gets its share, no more: its tag stays when it goes."""
    shares = Shares()
    shares.weigh("busy", 9)
    given = Counter[str]()
    away = False
    for _ in range(1_000):
        turn = shares.divide(1, {"busy": 10} if away else {"busy": 10, "coming": 1})
        away = "coming" in turn  # it is served, and is back in the turn after the next
        given.update(turn)
    assert given["coming"] == pytest.approx(100, abs=10)


def test_a_stream_of_new_queues_starves_nobody_and_is_not_remembered() -> None:
    shares = Shares()
    busy = 0
    for number in range(10_000):
        busy += shares.divide(2, {f"queue {number}": 2, "busy": 10}).get("busy", 0)
    assert busy >= 10_000
    assert len(shares._tags) < 10
