"""Claim: which hints become attempts, and what the others become."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.model import AttemptRecord, AttemptState, ClockKind, DueKey, JobState, Now, RetryPolicy
from timewheel.store.changes import Claimed, ClaimedJob, Settled
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
)
from timewheel.testing.conformance.bench import Bench, BenchTests

NOTHING = Claimed([], [], [])
BOTH = pytest.mark.parametrize("clock", list(ClockKind))


def ids(claimed: Claimed) -> list[int]:
    """The claimed ids in their order."""
    return [job.job_id for job in claimed.jobs]


@pytest.mark.asyncio
class Claims(BenchTests):
    """Opening attempts."""

    async def test_a_claim_opens_an_attempt(self, bench: Bench) -> None:
        retry = RetryPolicy(max_attempts=3, factor=1.5)
        changes: dict[str, Any] = {"queue": "mail", "priority": 2, "retry": retry, "timeout_us": 9}
        submitted = await bench.submit(1, scheduled_at=START.wall_us - 5, **changes)
        assert await bench.claim(1) == Claimed(
            [
                ClaimedJob(
                    job_id=1,
                    attempt=1,
                    task="app.task",
                    arguments="[[],{}]",
                    lane=submitted.lane,
                    clock=ClockKind.WALL,
                    due_at=START.wall_us - 5,
                    retry=retry,
                    timeout_us=9,
                    failures=0,
                    losses=0,
                    first_failed_at=None,
                )
            ],
            [],
            [],
        )
        job = await bench.job(1)
        assert (job.state, job.attempt, job.version) == (JobState.ACTIVE, 1, 1)
        assert await bench.store.attempts(1) == [
            AttemptRecord(1, 1, AttemptState.QUEUED, bench.epoch, ClockKind.WALL, START.wall_us - 5)
        ]
        assert await bench.due(submitted.lane) == []

    @BOTH
    async def test_a_job_is_claimed_when_it_is_due_on_its_own_clock(self, bench: Bench, clock: ClockKind) -> None:
        now = START.on(clock)
        for job_id, due_at in ((1, now + 1), (2, now), (3, now - 1), (4, 0)):
            await bench.submit(job_id, clock=clock, scheduled_at=due_at)
        assert ids(await bench.claim(1, 2, 3, 4)) == [2, 3, 4]
        assert await bench.state(1) is JobState.SCHEDULED
        bench.now = later(1)
        assert ids(await bench.claim(1)) == [1]

    @BOTH
    async def test_claim_ahead(self, bench: Bench, clock: ClockKind) -> None:
        now = START.on(clock)
        await bench.submit(1, clock=clock, scheduled_at=now + 20_000)
        await bench.submit(2, clock=clock, scheduled_at=now + 20_001)
        assert ids(await bench.claim(1, 2, ahead_us=20_000)) == [1]

    async def test_a_retry_is_claimed_on_the_steady_clock(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, START.steady_us + 10, failures=2, first_failed_at=4))
        bench.now = Now(START.wall_us + 1000, START.steady_us + 9)
        assert await bench.claim(1) == NOTHING
        bench.now = Now(0, START.steady_us + 10)
        [claimed] = (await bench.claim(1)).jobs
        assert (claimed.attempt, claimed.clock, claimed.due_at) == (2, ClockKind.STEADY, START.steady_us + 10)
        assert (claimed.failures, claimed.losses, claimed.first_failed_at) == (2, 0, 4)
        assert await bench.lane_of(claimed.lane) == ("default", 5, ClockKind.STEADY)
        _, second = await bench.store.attempts(1)
        assert (second.number, second.clock, second.scheduled_at) == (2, ClockKind.STEADY, START.steady_us + 10)

    async def test_claimed_in_the_order_of_the_hints(self, bench: Bench) -> None:
        for job_id in range(1, 7):
            queue, due_at = ("a", "b")[job_id % 2], START.wall_us - job_id * 100
            await bench.submit(job_id, queue=queue, priority=job_id, scheduled_at=due_at)
        order = [4, 1, 6, 3, 2, 5]
        assert ids(await bench.claim(*order)) == order

    async def test_stale_hints_are_ignored(self, bench: Bench) -> None:
        for job_id in range(1, 7):
            await bench.submit(job_id)
        await bench.write(cancel(1), reschedule(2, START.wall_us + 1))
        await bench.claim(3, 4, 5)
        await bench.write(settle_ok(4), settle_overrun(5))
        before = await bench.store.dump()
        assert await bench.claim(1, 2, 3, 4, 5, 99, -1) == NOTHING
        assert await bench.store.dump() == before
        assert ids(await bench.claim(1, 6, 2, 6, 99, 6)) == [6]

    async def test_a_claim_without_hints(self, bench: Bench) -> None:
        await bench.submit(1)
        assert await bench.claim() == NOTHING

    async def test_attempts_are_numbered_without_gaps(self, bench: Bench) -> None:
        await bench.submit(1)
        for number in range(1, 6):
            [claimed] = (await bench.claim(1)).jobs
            assert claimed.attempt == number
            await bench.write(settle_retry(1, attempt=number, failures=number))
        attempts = await bench.store.attempts(1)
        assert [attempt.number for attempt in attempts] == [1, 2, 3, 4, 5]
        assert {attempt.state for attempt in attempts} == {AttemptState.FAILED_RETRYABLE}

    async def test_an_attempt_carries_the_epoch_of_its_claim(self, bench: Bench) -> None:
        await bench.active(1)
        first = bench.epoch
        await bench.crash()
        await bench.own()
        await bench.write(settle_lost(1))
        await bench.claim(1)
        assert [attempt.epoch for attempt in await bench.store.attempts(1)] == [first, bench.epoch]

    # ---- misfire -----------------------------------------------------------------------------------------------------

    @BOTH
    async def test_missed_before_the_owner_watched_is_skipped(self, bench: Bench, clock: ClockKind) -> None:
        watching = START.on(clock)
        bench.now = later(10**9)
        for job_id, due_at in ((1, watching - 101), (2, watching - 100), (3, watching + 5)):
            await bench.submit(job_id, clock=clock, scheduled_at=due_at, misfire_grace_us=100)
        claimed = await bench.claim(2, 1, 3, 1)
        assert (ids(claimed), claimed.skipped, claimed.held) == ([2, 3], [1], [])
        job = await bench.job(1)
        assert (job.state, job.reason, job.attempt) == (JobState.SKIPPED, "misfire", 0)
        assert job.finished_at == bench.now.wall_us
        assert await bench.store.attempts(1) == []
        for lane in await bench.store.lanes():
            assert await bench.due(lane.number) == []

    async def test_a_grace_of_zero(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=START.wall_us - 1, misfire_grace_us=0)
        await bench.submit(2, scheduled_at=START.wall_us, misfire_grace_us=0)
        claimed = await bench.claim(1, 2)
        assert (claimed.skipped, ids(claimed)) == ([1], [2])

    async def test_without_a_grace_a_job_runs_late(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=0)
        assert ids(await bench.claim(1)) == [1]

    async def test_a_misfire_is_decided_at_the_first_claim_only(self, bench: Bench) -> None:
        await bench.active(1, misfire_grace_us=0)
        await bench.write(settle_retry(1, due_at=0))
        claimed = await bench.claim(1, watching_since=later(1000))
        assert (ids(claimed), claimed.skipped) == ([1], [])

    async def test_what_is_not_due_is_not_skipped(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=START.wall_us + 1, misfire_grace_us=0)
        assert await bench.claim(1, watching_since=later(1000)) == NOTHING
        assert await bench.state(1) is JobState.SCHEDULED

    # ---- last chances ------------------------------------------------------------------------------------------------

    async def _lose(self, bench: Bench, losses: int, *job_ids: int) -> None:
        for job_id in job_ids:
            await bench.active(job_id)
            assert [type(o) for o in await bench.write(settle_lost(job_id, losses))] == [Settled]

    async def test_one_job_on_its_last_chance_at_a_time(self, bench: Bench) -> None:
        await self._lose(bench, 3, 1, 2, 3)
        await bench.submit(4)
        before = {job_id: await bench.job(job_id) for job_id in (1, 3)}
        claimed = await bench.claim(2, 3, 4, 1, 3)
        assert (ids(claimed), claimed.held) == ([2, 4], [3, 1])
        assert {job_id: await bench.job(job_id) for job_id in (1, 3)} == before
        assert (await bench.job(2)).losses == 3
        [lane] = await bench.store.lanes()
        assert await bench.store.due(lane.number, DueKey(-1, -1), START.wall_us + 1, 9) == [
            (START.wall_us, 1),
            (START.wall_us, 3),
        ]

    async def test_no_last_chance_left(self, bench: Bench) -> None:
        await self._lose(bench, 3, 1)
        await self._lose(bench, 4, 2)
        await self._lose(bench, 2, 3)
        claimed = await bench.claim(1, 2, 3, last_chances=0)
        assert (ids(claimed), claimed.held) == ([3], [1, 2])
        claimed = await bench.claim(2, 1)
        assert (ids(claimed), claimed.held) == ([2], [1])

    async def test_a_held_job_must_be_due(self, bench: Bench) -> None:
        await self._lose(bench, 3, 1, 2)
        await bench.write(reschedule(1, START.wall_us + 1), cancel(2))
        assert await bench.claim(1, 2, last_chances=0) == NOTHING

    async def test_claims_survive_a_crash(self, bench: Bench) -> None:
        await bench.active(1)
        before = await bench.store.dump()
        await bench.crash()
        assert await bench.store.dump() == before
        await bench.own()
        assert await bench.write(claim(1)) == [NOTHING]
