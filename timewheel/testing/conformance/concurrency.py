"""Concurrency keys: at most one job with a key has an attempt; the others wait."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timewheel.model import ClockKind, JobState
from timewheel.store.changes import Claimed
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    reschedule,
    settle_dead,
    settle_lost,
    settle_ok,
    settle_overrun,
    settle_retry,
    settle_unresolvable,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.claims import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.store.changes import Change

GIVES_UP: list[Callable[[int], Change]] = [
    settle_ok,
    settle_retry,
    settle_dead,
    settle_lost,
    settle_unresolvable,
    cancel,
    lambda job_id: reschedule(job_id, START.wall_us),
]
KEEPS: list[Callable[[int], Change]] = [
    settle_overrun,
    lambda job_id: cancel(job_id, entered=True),
    lambda job_id: reschedule(job_id, START.wall_us, entered=True),
]


@pytest.mark.asyncio
class Concurrency(BenchTests):
    """What Claim makes of jobs with a concurrency key."""

    async def test_a_job_whose_key_is_held_waits(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        lane = (await bench.submit(2, concurrency_key="k", scheduled_at=START.wall_us - 4)).lane
        before = await bench.job(2)
        assert await bench.claim(2) == Claimed([], [], [], [2])
        job = await bench.job(2)
        assert (job.state, job.reason) == (JobState.WAITING, "key")
        job.state, job.reason = before.state, before.reason
        assert job == before
        assert await bench.store.attempts(2) == []
        assert await bench.due(lane) == []
        assert await bench.claim(2) == Claimed([], [], [], [])
        await bench.crash()
        assert (await bench.job(2)).reason == "key"

    async def test_one_of_a_batch_is_claimed(self, bench: Bench) -> None:
        keys = {1: "k", 2: "k", 3: None, 4: "l", 5: "k", 6: "l"}
        for job_id, key in keys.items():
            await bench.submit(job_id, concurrency_key=key)
        claimed = await bench.claim(5, 3, 1, 4, 2, 6, 1)
        assert (ids(claimed), claimed.waiting) == ([5, 3, 4], [1, 2, 6])
        assert [await bench.state(job_id) for job_id in keys] == [
            JobState.WAITING,
            JobState.WAITING,
            JobState.ACTIVE,
            JobState.ACTIVE,
            JobState.ACTIVE,
            JobState.WAITING,
        ]

    async def test_two_claims_of_a_batch_claim_one(self, bench: Bench) -> None:
        for job_id in (1, 2):
            await bench.submit(job_id, concurrency_key="k")
        first, second = await bench.write(claim(2), claim(1))
        assert isinstance(first, Claimed)
        assert isinstance(second, Claimed)
        assert (ids(first), first.waiting, ids(second), second.waiting) == ([2], [], [], [1])

    async def test_a_job_of_the_same_batch(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        _, claimed = await bench.write(submit(2, concurrency_key="k"), claim(2))
        assert claimed == Claimed([], [], [], [2])

    async def test_without_a_key_nothing_waits(self, bench: Bench) -> None:
        for job_id in (1, 2, 3):
            await bench.submit(job_id)
        assert ids(await bench.claim(1, 2)) == [1, 2]
        assert ids(await bench.claim(3)) == [3]

    @pytest.mark.parametrize("other", ["K", "", "k ", "ḱ", "k%"])
    async def test_keys_are_compared_whole(self, bench: Bench, other: str) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key=other)
        await bench.submit(3, concurrency_key=other)
        claimed = await bench.claim(2, 3)
        assert (ids(claimed), claimed.waiting) == ([2], [3])

    async def test_a_key_is_shared_by_whatever_has_it(self, bench: Bench) -> None:
        """Schedules, one-shot jobs, tasks, queues and clocks."""
        await bench.put_schedules("s", "t")
        await bench.plan(occurrence(1, concurrency_key="k"))
        await bench.plan(occurrence(2, name="t", concurrency_key="k", task="other", queue="mail"))
        await bench.submit(3, concurrency_key="k", clock=ClockKind.STEADY)
        claimed = await bench.claim(1, 2, 3)
        assert (ids(claimed), claimed.waiting) == ([1], [2, 3])

    @pytest.mark.parametrize("gives_up", GIVES_UP)
    async def test_an_attempt_that_ended_holds_nothing(self, bench: Bench, gives_up: Callable[[int], Change]) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key="k")
        _, claimed = await bench.write(gives_up(1), claim(2))
        assert isinstance(claimed, Claimed)
        assert (ids(claimed), claimed.waiting) == ([2], [])

    @pytest.mark.parametrize("keeps", KEEPS)
    async def test_a_handler_that_goes_on_holds_its_key(self, bench: Bench, keeps: Callable[[int], Change]) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key="k")
        _, claimed = await bench.write(keeps(1), claim(2))
        assert claimed == Claimed([], [], [], [2])

    async def test_a_retry_waits_for_who_took_its_key(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.write(settle_retry(1, START.steady_us))
        await bench.active(2, concurrency_key="k")
        assert (await bench.claim(1)).waiting == [1]
        job = await bench.job(1)
        assert (job.state, job.reason, job.due_clock, job.attempt, job.failures) == (
            JobState.WAITING,
            "key",
            ClockKind.STEADY,
            1,
            1,
        )

    # ---- the order of the tests --------------------------------------------------------------------------------------

    async def test_what_is_not_due_does_not_wait(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key="k", scheduled_at=START.wall_us + 1)
        assert await bench.claim(2) == Claimed([], [], [], [])
        assert await bench.state(2) is JobState.SCHEDULED

    async def test_a_misfire_comes_before_the_key(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        for job_id in (2, 3):
            await bench.submit(job_id, concurrency_key="k", misfire_grace_us=0)
        claimed = await bench.claim(2, watching_since=later(1))
        assert (claimed.skipped, claimed.waiting) == ([2], [])
        assert (await bench.claim(3)).waiting == [3]

    async def test_the_key_comes_before_the_last_chance(self, bench: Bench) -> None:
        for job_id in (1, 2, 3):
            await bench.active(job_id)
            await bench.write(settle_lost(job_id, 3))
        await bench.active(8, concurrency_key="k")
        for job_id in (4, 5):
            await bench.active(job_id, concurrency_key=f"k{job_id}")
            await bench.write(settle_lost(job_id, 3))
        await bench.active(9, concurrency_key="k4")
        claimed = await bench.claim(4, 5, 1)
        assert (ids(claimed), claimed.held, claimed.waiting) == ([5], [1], [4])

    async def test_a_job_that_is_held_back_holds_no_key(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.write(settle_lost(1, 3))
        await bench.submit(2, concurrency_key="k")
        claimed = await bench.claim(1, 2, last_chances=0)
        assert (ids(claimed), claimed.held, claimed.waiting) == ([2], [1], [])

    async def test_a_job_that_is_skipped_holds_no_key(self, bench: Bench) -> None:
        await bench.submit(1, concurrency_key="k", misfire_grace_us=0)
        await bench.submit(2, concurrency_key="k")
        claimed = await bench.claim(1, 2, watching_since=later(1))
        assert (claimed.skipped, ids(claimed)) == ([1], [2])

    async def test_many_jobs_of_one_key(self, bench: Bench) -> None:
        await bench.write(*(submit(job_id, concurrency_key="k") for job_id in range(1, 201)))
        claimed = await bench.claim(*range(200, 0, -1))
        assert (ids(claimed), claimed.waiting) == ([200], list(range(199, 0, -1)))
