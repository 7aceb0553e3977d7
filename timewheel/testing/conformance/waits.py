"""What callers do to jobs that wait for another's end."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import CancelAnswer, ClockKind, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import Cancelled, Claimed, Rescheduled, Unheld
from timewheel.testing.builders import START, cancel, later, reschedule, settle_ok, unhold
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.successions import T, keyed, line


@pytest.mark.asyncio
class Waits(BenchTests):
    """Cancel, Reschedule, Claim and Unhold of jobs that are WAITING (overlap or key)."""

    async def _waits(self, bench: Bench, reason: WaitingReason) -> None:
        """Job 2 waits for job 1, and so does 3, which is due before it."""
        await (line if reason is WaitingReason.OVERLAP else keyed)(bench, 2, 3)

    @pytest.mark.parametrize("entered", [False, True])
    @pytest.mark.parametrize("reason", [WaitingReason.OVERLAP, WaitingReason.KEY])
    async def test_a_job_that_waits_is_moved_and_waits(
        self, bench: Bench, reason: WaitingReason, entered: bool
    ) -> None:
        await self._waits(bench, reason)
        before = await bench.job(2)
        moved = reschedule(2, START.steady_us - 9, ClockKind.STEADY, entered=entered)
        assert await bench.write(moved) == [Rescheduled(2, RescheduleAnswer.MOVED)]
        job = await bench.job(2)
        at = (ClockKind.STEADY, START.steady_us - 9)
        assert (job.clock, job.scheduled_at, job.due_clock, job.due_at) == at + at
        assert (job.state, job.reason, job.version) == (JobState.WAITING, reason.value, 2)
        assert (job.origin, job.concurrency_key) == (before.origin, before.concurrency_key)
        assert await bench.taken_over(settle_ok(1)) == ([2] if reason is WaitingReason.OVERLAP else [2, 3])  # by lane
        bench.now = later(1)
        assert [claimed.job_id for claimed in (await bench.claim(2)).jobs] == [2]

    @pytest.mark.parametrize("reason", [WaitingReason.OVERLAP, WaitingReason.KEY])
    async def test_a_job_that_waits_is_cancelled(self, bench: Bench, reason: WaitingReason) -> None:
        await self._waits(bench, reason)
        bench.now = later(5)
        assert await bench.write(cancel(3, "no")) == [Cancelled(3, CancelAnswer.CANCELLED)]
        job = await bench.job(3)
        assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "no", T + 5)
        assert await bench.taken_over(settle_ok(1)) == [2]

    @pytest.mark.parametrize("reason", [WaitingReason.OVERLAP, WaitingReason.KEY])
    async def test_a_job_that_waits_is_not_claimed(self, bench: Bench, reason: WaitingReason) -> None:
        await self._waits(bench, reason)
        await bench.write(cancel(1))
        assert await bench.claim(2, 3) == Claimed([], [], [], [])

    @pytest.mark.parametrize("reason", [WaitingReason.OVERLAP, WaitingReason.KEY])
    async def test_a_job_that_waits_may_be_unheld(self, bench: Bench, reason: WaitingReason) -> None:
        await self._waits(bench, reason)
        unheld = await bench.one(unhold(reason, 1), Unheld)
        assert [place[1:] for place in unheld.places] == [(T - 2, 2)]
        assert await bench.state(2) is JobState.SCHEDULED
