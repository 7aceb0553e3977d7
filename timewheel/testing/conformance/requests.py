"""A stored cancel request: any end but success makes the job CANCELLED."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import JobState
from timewheel.store.changes import Settled
from timewheel.testing.builders import SETTLES, START, cancel, settle_lost, settle_ok
from timewheel.testing.conformance.bench import Bench, BenchTests


@pytest.mark.asyncio
class CancelRequests(BenchTests):
    """How attempts end once their cancel was requested."""

    @pytest.mark.parametrize("name", sorted(set(SETTLES) - {"ok"}))
    @pytest.mark.parametrize("reason", ["enough", ""])
    async def test_any_end_but_success_is_cancelled(self, bench: Bench, name: str, reason: str) -> None:
        await bench.active(1)
        await bench.write(cancel(1, reason, entered=True))
        change = SETTLES[name](1)
        assert await bench.write(change) == [Settled(1, JobState.CANCELLED)]
        job = await bench.job(1)
        assert (job.state, job.reason, job.cancel_requested) == (JobState.CANCELLED, reason, reason)
        assert job.finished_at == START.wall_us
        assert (job.failures, job.losses) == (change.failures, change.losses)
        [attempt] = await bench.store.attempts(1)
        assert attempt.state is change.attempt_state
        for lane in await bench.store.lanes():
            assert await bench.due(lane.number) == []

    async def test_success_counts_in_spite_of_a_request(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(cancel(1, "enough", entered=True))
        assert await bench.write(settle_ok(1, result="1")) == [Settled(1, JobState.COMPLETED)]
        job = await bench.job(1)
        assert (job.state, job.result, job.cancel_requested, job.reason) == (
            JobState.COMPLETED,
            "1",
            "enough",
            None,
        )

    async def test_a_request_survives_a_crash(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(cancel(1, "enough", entered=True))
        await bench.crash()
        await bench.own()
        assert await bench.write(settle_lost(1)) == [Settled(1, JobState.CANCELLED)]
