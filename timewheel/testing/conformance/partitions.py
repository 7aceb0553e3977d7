"""Lanes of partitions: jobs with different partition keys lie in lanes of their own."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.flow import MOST_PARTITIONS, Flow, lane_partition
from timewheel.model import ClockKind, Lane
from timewheel.store.changes import Change, TakeOver, Unheld
from timewheel.testing.builders import (
    START,
    reschedule,
    settle_dead,
    settle_retry,
    settle_unresolvable,
    submit,
    unhold,
)
from timewheel.testing.builders_flow import defer, replay
from timewheel.testing.conformance.bench import Bench, BenchTests

OURS = Flow(partition_key="ours")
T = START.wall_us


async def lane_named(bench: Bench, number: int) -> Lane:
    """A lane by its number."""
    [lane] = [lane for lane in await bench.store.lanes() if lane.number == number]
    return lane


@pytest.mark.asyncio
class Partitions(BenchTests):
    """Partitions of lanes."""

    async def test_a_partition_has_lanes_of_its_own(self, bench: Bench) -> None:
        lanes = [
            (await bench.submit(1)).lane,
            (await bench.submit(2, flow=OURS)).lane,
            (await bench.submit(3, flow=Flow(partition_key="theirs"))).lane,
            (await bench.submit(4, flow=OURS, task="another")).lane,
            (await bench.submit(5, flow=Flow(rate_key="ours"))).lane,
        ]
        assert lanes[1] == lanes[3]
        assert lanes[0] == lanes[4]
        assert len(set(lanes)) == 3
        told = [(await lane_named(bench, lane))[1:] for lane in lanes[:3]]
        assert told == [("default", 5, ClockKind.WALL, name) for name in ("", "ours", "theirs")]
        assert await bench.due(lanes[1]) == [(T, 2), (T, 4)]
        await bench.crash()
        assert (await lane_named(bench, lanes[1])).partition == "ours"

    async def test_by_queue_priority_and_clock(self, bench: Bench) -> None:
        lanes = {
            (await bench.submit(1, flow=OURS)).lane,
            (await bench.submit(2, flow=OURS, queue="q")).lane,
            (await bench.submit(3, flow=OURS, priority=1)).lane,
            (await bench.submit(4, flow=OURS, clock=ClockKind.STEADY)).lane,
        }
        assert len(lanes) == 4
        assert {(await lane_named(bench, lane)).partition for lane in lanes} == {"ours"}

    @pytest.mark.parametrize("key", ["", " ours", "Ours", "ourś", "%", "~07"])
    async def test_partition_keys_are_compared_whole(self, bench: Bench, key: str) -> None:
        ours = (await bench.submit(1, flow=OURS)).lane
        other = (await bench.submit(2, flow=Flow(partition_key=key))).lane
        assert ours != other
        assert (await lane_named(bench, other)).partition == key

    async def test_a_job_stays_in_its_partition(self, bench: Bench) -> None:
        """Whatever moves it: a retry, a deferral, a reschedule, a release, a replay."""
        claimed = await bench.active(1, flow=OURS)
        assert (await lane_named(bench, claimed.lane)).partition == "ours"
        at = START.steady_us
        moves: list[Change] = [
            settle_retry(1, at),
            defer((1, at, at + 1)),
            reschedule(1, T),
            reschedule(1, at, ClockKind.STEADY),
        ]
        for move in moves:
            [outcome] = await bench.write(move)
            lane = outcome.places[0][0] if isinstance(outcome, Unheld) else getattr(outcome, "lane", -1)
            assert (await lane_named(bench, lane)).partition == "ours"
            assert [job_id for _, job_id in await bench.due(lane)] == [1]
        [again] = (await bench.claim(1)).jobs
        assert again.lane == lane
        await bench.write(settle_unresolvable(1, attempt=2))
        unheld = await bench.one(unhold(), Unheld)
        assert [place[0] for place in unheld.places] == [lane]
        await bench.claim(1)
        await bench.write(settle_dead(1, attempt=3))
        [replayed] = await bench.write(replay(1))
        assert getattr(replayed, "lane", -1) == lane

    async def test_a_waiting_job_goes_on_in_its_partition(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        lane = (await bench.submit(2, concurrency_key="k", flow=OURS)).lane
        await bench.claim(2)
        [_, unheld] = await bench.write(settle_retry(1), TakeOver())
        assert unheld == Unheld([(lane, T, 2)])

    async def test_the_depths_of_partitions(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2, flow=OURS), submit(3, flow=OURS, scheduled_at=T + 1))
        depths = sorted((depth.lane.partition, *depth[1:]) for depth in await bench.store.depths(bench.now))
        assert depths == [("", 1, 1, T), ("ours", 2, 1, T)]

    async def test_further_partitions_share_lanes(self, bench: Bench) -> None:
        """A queue's first ones have lanes of their own; those without a key do not count; another queue does not."""
        await bench.write(submit(1), *(submit(2 + n, flow=Flow(partition_key=f"p{n}")) for n in range(MOST_PARTITIONS)))
        known = [f"p{n}" for n in range(MOST_PARTITIONS)]
        assert {lane.partition for lane in await bench.store.lanes()} == {"", *known}
        one_more = (await bench.submit(9_001, flow=Flow(partition_key="one more"))).lane
        shared = lane_partition("one more", known)
        assert shared.startswith("~")
        assert (await lane_named(bench, one_more)).partition == shared
        assert (await lane_named(bench, (await bench.submit(9_002, flow=Flow(partition_key="p7"))).lane))[4] == "p7"
        again = (await bench.submit(9_003, flow=Flow(partition_key="one more"))).lane
        assert again == one_more
        elsewhere = (await bench.submit(9_004, queue="q", flow=Flow(partition_key="one more"))).lane
        assert (await lane_named(bench, elsewhere)).partition == "one more"
        [claimed] = (await bench.claim(9_001)).jobs
        assert claimed.lane == one_more
        await bench.write(settle_retry(9_001, START.steady_us))
        [retried] = (await bench.claim(9_001)).jobs
        assert (await lane_named(bench, retried.lane))[1:] == ("default", 5, ClockKind.STEADY, shared)
