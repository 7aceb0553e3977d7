"""Reads of the due index, of attempts, and of what is to come."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import MAX_TIME_US, SECOND_US, ZERO_KEY, AttemptState, ClockKind, DueKey, JobState, Now
from timewheel.store.port import LaneDepth
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    reschedule,
    settle_lost,
    settle_ok,
    settle_overrun,
    settle_retry,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests


@pytest.mark.asyncio
class Reads(BenchTests):
    """Reading by key."""

    async def test_nothing_is_read_of_an_unknown_job(self, bench: Bench) -> None:
        await bench.submit(1)
        assert await bench.store.job(2) is None
        assert await bench.store.attempts(2) == []

    # ---- the due index -----------------------------------------------------------------------------------------------

    async def test_due_is_ordered_by_time_then_id(self, bench: Bench) -> None:
        for job_id, due_at in ((7, 30), (3, 10), (9, 20), (1, 20), (5, 20), (2, 10)):
            submitted = await bench.submit(job_id, scheduled_at=due_at)
        assert await bench.due(submitted.lane) == [(10, 2), (10, 3), (20, 1), (20, 5), (20, 9), (30, 7)]

    async def test_due_is_bounded_on_both_sides(self, bench: Bench) -> None:
        for job_id in range(1, 10):
            lane = (await bench.submit(job_id, scheduled_at=10 * ((job_id + 2) // 3))).lane  # three at 10, 20 and 30
        due = bench.store.due
        assert await due(lane, DueKey(10, 3), 30, 99) == [(20, 4), (20, 5), (20, 6)]
        assert await due(lane, DueKey(10, 2), 20, 99) == [(10, 3)]
        assert await due(lane, DueKey(20, 5), 31, 99) == [(20, 6), (30, 7), (30, 8), (30, 9)]
        assert await due(lane, DueKey(20, 0), 20, 99) == []
        assert await due(lane, DueKey(30, 9), 99, 99) == []
        assert await due(lane, ZERO_KEY, 10, 99) == []
        assert await due(lane, ZERO_KEY, 11, 99) == [(10, 1), (10, 2), (10, 3)]
        assert await due(lane, DueKey(15, 99), 21, 2) == [(20, 4), (20, 5)]

    async def test_due_at_the_ends_of_time(self, bench: Bench) -> None:
        lane = (await bench.submit(1, scheduled_at=0)).lane
        await bench.submit((1 << 63) - 1, scheduled_at=MAX_TIME_US)
        assert await bench.store.due(lane, ZERO_KEY, MAX_TIME_US + 1, 9) == [(0, 1), (MAX_TIME_US, (1 << 63) - 1)]
        assert await bench.store.due(lane, ZERO_KEY, MAX_TIME_US, 9) == [(0, 1)]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
    async def test_due_pages_lead_to_the_end_over_ties(self, bench: Bench, limit: int) -> None:
        changes = [submit(job_id, scheduled_at=START.wall_us + job_id % 4 // 3) for job_id in range(1, 30)]
        await bench.write(*changes)
        [lane] = await bench.store.lanes()
        found: list[tuple[int, int]] = []
        after = ZERO_KEY
        while page := await bench.store.due(lane.number, after, MAX_TIME_US, limit):
            assert len(page) <= limit
            found += page
            after = DueKey(*page[-1])
        assert found == sorted((change.request.scheduled_at, change.request.job_id) for change in changes)

    async def test_due_with_a_limit_below_one_gives_nothing(self, bench: Bench) -> None:
        lane = (await bench.submit(1)).lane
        assert await bench.store.due(lane, ZERO_KEY, MAX_TIME_US, 0) == []
        assert await bench.store.due(lane, ZERO_KEY, MAX_TIME_US, -1) == []

    async def test_an_unknown_lane_is_empty(self, bench: Bench) -> None:
        lane = (await bench.submit(1)).lane
        assert await bench.due(lane + 1) == []

    async def test_only_scheduled_jobs_are_due(self, bench: Bench) -> None:
        for job_id in range(1, 7):
            lane = (await bench.submit(job_id, clock=ClockKind.STEADY)).lane
        await bench.claim(1, 2, 3, 4)
        await bench.write(settle_ok(2), settle_overrun(3), settle_retry(4, START.steady_us + 9), cancel(5))
        assert await bench.due(lane) == [(START.steady_us, 6), (START.steady_us + 9, 4)]
        await bench.write(reschedule(6, START.steady_us + 10, ClockKind.STEADY))
        assert await bench.due(lane) == [(START.steady_us + 9, 4), (START.steady_us + 10, 6)]

    async def test_a_job_that_comes_back_is_due_once(self, bench: Bench) -> None:
        lane = (await bench.submit(1)).lane
        for number in range(1, 5):
            assert await bench.due(lane) == [(START.wall_us, 1)]
            await bench.claim(1)
            assert await bench.due(lane) == []
            await bench.write(settle_lost(1, 0, attempt=number))
        for due_at in (5, 6, 5, 5):
            await bench.write(reschedule(1, due_at))
            assert await bench.due(lane) == [(due_at, 1)]

    # ---- attempts ----------------------------------------------------------------------------------------------------

    async def test_attempts_show_the_open_one_too(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1))
        await bench.claim(1)
        attempts = await bench.store.attempts(1)
        assert [(attempt.number, attempt.state) for attempt in attempts] == [
            (1, AttemptState.FAILED_RETRYABLE),
            (2, AttemptState.QUEUED),
        ]

    async def test_attempts_in_the_order_of_their_numbers(self, bench: Bench) -> None:
        await bench.submit(1)
        for number in range(1, 12):
            await bench.claim(1)
            await bench.write(settle_retry(1, attempt=number))
        assert [attempt.number for attempt in await bench.store.attempts(1)] == list(range(1, 12))

    async def test_open_attempts_of_older_epochs(self, bench: Bench) -> None:
        await bench.write(*(submit(job_id) for job_id in range(1, 10)))
        await bench.claim(5, 3, 1, 7)
        first = bench.epoch
        await bench.write(settle_ok(3))
        await bench.crash()
        await bench.own()
        await bench.claim(2)
        second = bench.epoch
        await bench.crash()
        await bench.own()
        await bench.claim(4)

        async def open_(below: int, after: int = 0, limit: int = 99) -> list[tuple[int, int]]:
            found = await bench.store.open_attempts(below_epoch=below, after=after, limit=limit)
            for job, attempt in found:
                assert job == await bench.job(job.job_id)
                assert (job.state, attempt.state) == (JobState.ACTIVE, AttemptState.QUEUED)
                assert [attempt] == await bench.store.attempts(job.job_id)
            return [(job.job_id, attempt.epoch) for job, attempt in found]

        everything = [(1, first), (2, second), (5, first), (7, first)]
        assert await open_(bench.epoch) == everything
        assert await open_(bench.epoch, after=1) == everything[1:]
        assert await open_(bench.epoch, after=1, limit=2) == everything[1:3]
        assert await open_(bench.epoch, after=7) == []
        assert await open_(second) == [(1, first), (5, first), (7, first)]
        assert await open_(first) == []
        assert await open_(bench.epoch, limit=0) == []
        assert await open_(bench.epoch, limit=-1) == []

    async def test_open_attempts_of_a_job_with_a_history(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1))
        await bench.claim(1)
        await bench.crash()
        await bench.own()
        [(job, attempt)] = await bench.store.open_attempts(below_epoch=bench.epoch, after=0, limit=9)
        assert (job.job_id, job.attempt, attempt.number) == (1, 2, 2)

    # ---- depths ------------------------------------------------------------------------------------------------------

    async def test_depths_of_lanes(self, bench: Bench) -> None:
        wall, steady = START
        for job_id, due_at in ((1, wall - 9), (2, wall), (3, wall + 1), (4, wall - 9)):
            await bench.submit(job_id, scheduled_at=due_at)
        await bench.submit(5, clock=ClockKind.STEADY, scheduled_at=steady + 1)
        await bench.submit(6, queue="gone")
        await bench.write(claim(6, 4))
        depths = {depth.lane: depth for depth in await bench.store.depths(START)}
        lanes = {(lane.queue, lane.clock): lane for lane in await bench.store.lanes()}
        first, second = lanes["default", ClockKind.WALL], lanes["default", ClockKind.STEADY]
        assert depths == {
            first: LaneDepth(first, 3, 2, wall - 9),
            second: LaneDepth(second, 1, 0, None),
        }
        depths = {depth.lane: depth for depth in await bench.store.depths(later(1))}
        assert depths[second] == LaneDepth(second, 1, 1, steady + 1)

    async def test_no_depths(self, bench: Bench) -> None:
        assert await bench.store.depths(START) == []
        await bench.active(1)
        assert await bench.store.depths(START) == []

    async def test_the_fullest_second(self, bench: Bench) -> None:
        second = SECOND_US
        offsets = [-5, -1, 3 * second + 1, 3 * second + 999_999, 4 * second + 1, 70 * second]
        for job_id, offset in enumerate(offsets, start=1):
            await bench.submit(job_id, scheduled_at=START.wall_us + offset)
        assert await bench.store.fullest_second(START, 60 * second) == (3, 2)
        assert await bench.store.fullest_second(START, 80 * second) == (4, 2)
        assert await bench.store.fullest_second(START, 2 * second) == (0, 0)

    async def test_the_fullest_second_over_lanes_and_clocks(self, bench: Bench) -> None:
        at = 5 * SECOND_US + 500_000
        await bench.submit(1, scheduled_at=START.wall_us + at)
        await bench.submit(2, scheduled_at=START.wall_us + at, queue="b")
        await bench.submit(3, scheduled_at=START.steady_us + at, clock=ClockKind.STEADY)
        await bench.submit(4, scheduled_at=START.steady_us + 2 * at, clock=ClockKind.STEADY)
        await bench.submit(5, scheduled_at=START.wall_us + at, queue="b")
        await bench.write(cancel(5))
        assert await bench.store.fullest_second(START, 60 * SECOND_US) == (4, 3)

    async def test_the_fullest_second_after_a_step(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=START.wall_us + 1)
        await bench.submit(2, scheduled_at=START.steady_us + 1, clock=ClockKind.STEADY)
        now = Now(START.wall_us + 10 * SECOND_US, START.steady_us)
        assert await bench.store.fullest_second(now, 60 * SECOND_US) == (1, 1)
