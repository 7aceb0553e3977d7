"""The ready queues against a sorted list, and B51: what waits is served within the aging bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.dispatch.ready import Entry, Ready
from timewheel.model import ClockKind, Lane, Now

SECOND = 1_000_000
WALL, STEADY = ClockKind.WALL, ClockKind.STEADY
LANES = [
    Lane(1, "mail", 5, WALL),
    Lane(2, "mail", 5, STEADY),
    Lane(3, "mail", 0, WALL),
    Lane(4, "mail", 9, STEADY),
    Lane(5, "other", 5, WALL),
]
AGING = 2


class Model:
    """All entries in one list; every question sorts it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def key(self, entry: Entry, offset: int) -> int:
        lane = LANES[entry[2] - 1]
        return entry[0] + lane.priority * AGING + (offset if lane.clock is STEADY else 0)

    def ordered(self, queue: str, offset: int) -> list[Entry]:
        mine = [entry for entry in self.entries if LANES[entry[2] - 1].queue == queue]
        return sorted(mine, key=lambda e: (self.key(e, offset), LANES[e[2] - 1].priority, e[1], e[2]))

    def take(self, queue: str, limit: int, offset: int) -> list[Entry]:
        taken = self.ordered(queue, offset)[:limit]
        for entry in taken:
            self.entries.remove(entry)
        return taken


QUEUES = st.sampled_from(["mail", "other", "none"])
NUMBERS = st.integers(1, len(LANES))
ENTRIES = st.tuples(st.integers(0, 20), st.integers(0, 6), NUMBERS)
PUSH = st.tuples(st.just("push"), st.lists(ENTRIES, min_size=1, max_size=25))
TAKE = st.tuples(st.just("take"), QUEUES, st.integers(0, 12), st.integers(-40, 40))
CLEAR = st.tuples(st.just("clear"), NUMBERS)


def look(ready: Ready, model: Model, offset: int) -> None:
    now = Now(1000 + offset, 1000)
    assert len(ready) == len(model.entries)
    assert sorted(ready.queues()) == sorted({LANES[e[2] - 1].queue for e in model.entries})
    for queue in ("mail", "other", "none"):
        mine = model.ordered(queue, offset)
        assert ready.queue_size(queue) == len(mine)
        assert ready.head_key(queue, now) == (model.key(mine[0], offset) if mine else None)
        waits = [model.key(e, offset) - LANES[e[2] - 1].priority * AGING for e in mine]
        assert ready.oldest(queue, now) == min(waits, default=None)
    for lane in LANES:
        mine = [e for e in model.entries if e[2] == lane.number]
        assert ready.size(lane.number) == len(mine)
        assert sorted(ready.ids(lane.number)) == sorted(e[1] for e in mine)


@given(st.lists(st.one_of(PUSH, TAKE, TAKE, CLEAR), min_size=2, max_size=30))
def test_agrees_with_a_sorted_list(steps: list[tuple[object, ...]]) -> None:
    ready, model, offset = Ready(AGING), Model(), 0
    for lane in LANES:
        ready.add_lane(lane)
    for step in steps:
        match step:
            case ("push", list(entries)):
                for entry in entries:
                    ready.push(*entry)
                model.entries += entries
            case ("take", str(queue), int(limit), int(offset)):
                assert ready.take(queue, limit, Now(1000 + offset, 1000)) == model.take(queue, limit, offset)
            case ("clear", int(number)):
                ready.clear(number)
                model.entries = [entry for entry in model.entries if entry[2] != number]
        look(ready, model, offset)


def one_lane(aging: int = AGING) -> Ready:
    ready = Ready(aging)
    ready.add_lane(LANES[0])
    return ready


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=60), st.integers(1, 9))
def test_a_lane_comes_out_sorted(pairs: list[tuple[int, int]], limit: int) -> None:
    ready = one_lane()
    for due, job_id in pairs:
        ready.push(due, job_id, 1)
    out: list[Entry] = []
    while ready.queues():
        out += ready.take("mail", limit, Now(0, 0))
    assert out == [(due, job_id, 1) for due, job_id in sorted(pairs)]


def test_equal_keys_go_by_priority_and_then_by_id() -> None:
    ready = Ready(AGING)
    for lane in LANES:
        ready.add_lane(lane)
    ready.push(0, 2, 1)
    ready.push(0, 1, 2)
    ready.push(5 * AGING, 9, 3)  # due later, of a better priority
    assert [entry[1] for entry in ready.take("mail", 3, Now(7, 7))] == [9, 1, 2]


def test_the_steady_head_is_compared_at_the_present_offset() -> None:
    ready = Ready(AGING)
    for lane in LANES:
        ready.add_lane(lane)
    ready.push(100, 1, 1)
    ready.push(90, 2, 2)
    assert ready.head_key("mail", Now(1000, 1000)) == 90 + 5 * AGING
    assert ready.head_key("mail", Now(1011, 1000)) == 100 + 5 * AGING  # the wall clock stepped 11 forward
    assert [e[1] for e in ready.take("mail", 2, Now(1011, 1000))] == [1, 2]


def test_a_lane_keeps_its_meaning() -> None:
    ready = one_lane()
    ready.push(1, 1, 1)
    ready.add_lane(LANES[0])
    assert ready.size(1) == 1
    with pytest.raises(ValueError, match="cannot become"):
        ready.add_lane(Lane(1, "mail", 4, WALL))
    with pytest.raises(KeyError):
        ready.push(1, 1, 99)
    with pytest.raises(ValueError, match="negative"):
        Ready(-1)


def serve(aging_us: int, load: int, low_due: int, until: int) -> tuple[int | None, list[Entry]]:
    """B51's timeline: one worker, runs of 100 ms; `load` urgent jobs every 100 ms; one low job. When does it start?"""
    ready = Ready(aging_us)
    ready.add_lane(Lane(1, "q", 0, WALL))
    ready.add_lane(Lane(2, "q", 9, WALL))
    started, order = None, []
    for tick in range(0, until, 100_000):
        for n in range(load):
            ready.push(tick, tick + n, 1)
        if tick == low_due:
            ready.push(tick, tick, 2)
        for entry in ready.take("q", 1, Now(tick, tick)):
            order.append(entry)
            started = tick if entry[2] == 2 else started
    return started, order


@pytest.mark.parametrize("aging_us", [100_000, SECOND, 60 * SECOND])
def test_b51_the_low_job_starts_within_the_aging_bound(aging_us: int) -> None:
    bound = 9 * aging_us
    started, order = serve(aging_us, load=1, low_due=SECOND, until=SECOND + bound + SECOND)
    assert started is not None
    assert SECOND + bound <= started <= SECOND + bound + 100_000
    high = [entry for entry in order if entry[2] == 1]
    assert high == sorted(high), "among equals the earlier slot goes first"


def test_b51_it_starts_as_soon_as_the_urgent_ones_leave_a_gap() -> None:
    ready = Ready()
    ready.add_lane(Lane(1, "q", 0, WALL))
    ready.add_lane(Lane(2, "q", 9, WALL))
    ready.push(0, 1, 2)
    assert ready.take("q", 5, Now(1, 1)) == [(0, 1, 2)]


def test_b51_under_overload_only_jobs_due_within_the_bound_go_before() -> None:
    started, order = serve(SECOND, load=2, low_due=SECOND, until=60 * SECOND)
    assert started is not None
    before = order[: order.index((SECOND, SECOND, 2))]
    assert max(entry[0] for entry in before) <= SECOND + 9 * SECOND


def test_b51_a_retry_does_not_overtake_first_tries_for_ever() -> None:
    ready = Ready()
    ready.add_lane(LANES[0])
    ready.add_lane(LANES[1])
    ready.push(10, 1, 1)
    for due in range(11, 100):
        ready.push(due, 2, 2)  # the same job, retried again and again
    assert ready.take("mail", 1, Now(100, 100)) == [(10, 1, 1)]
