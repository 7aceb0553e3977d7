"""What a failure leaves with its job: its class, and a fingerprint of where it happened."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import JobState
from timewheel.testing.builders import START, cancel, settle_dead, settle_lost, settle_ok, settle_retry
from timewheel.testing.conformance.bench import Bench, BenchTests

STEADY = START.steady_us


@pytest.mark.asyncio
class Faults(BenchTests):
    """`fault` and `fingerprint` of Settle."""

    async def test_a_failure_leaves_its_class_and_fingerprint(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, STEADY, fault="throttled", fingerprint="f1"))
        job = await bench.job(1)
        assert (job.fault, job.fingerprint) == ("throttled", "f1")
        [attempt] = await bench.store.attempts(1)
        assert attempt.fault == "throttled"
        await bench.crash()
        assert await bench.store.attempts(1) == [attempt]
        assert await bench.job(1) == job

    async def test_the_last_failure_counts(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, STEADY, fault="transient", fingerprint="f1"))
        await bench.claim(1)
        await bench.write(settle_retry(1, STEADY, attempt=2, fault="ambiguous", fingerprint=None))
        job = await bench.job(1)
        assert (job.fault, job.fingerprint) == ("ambiguous", None)
        await bench.claim(1)
        await bench.write(settle_dead(1, attempt=3, fault="permanent", fingerprint="f3"))
        job = await bench.job(1)
        assert (job.fault, job.fingerprint) == ("permanent", "f3")
        assert [attempt.fault for attempt in await bench.store.attempts(1)] == ["transient", "ambiguous", "permanent"]

    async def test_what_is_no_failure_leaves_that_of_the_last_one(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, STEADY, fault="transient", fingerprint="f1"))
        await bench.claim(1)
        assert (await bench.store.attempts(1))[1].fault is None
        await bench.write(settle_retry(1, STEADY, attempt=2))
        await bench.claim(1)
        await bench.write(settle_ok(1, attempt=3))
        job = await bench.job(1)
        assert (job.state, job.fault, job.fingerprint) == (JobState.COMPLETED, "transient", "f1")
        assert [attempt.fault for attempt in await bench.store.attempts(1)] == ["transient", None, None]

    async def test_a_loss_and_a_requested_cancel_have_them_too(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(cancel(1, entered=True))
        await bench.write(settle_lost(1, fault="ambiguous", fingerprint="f"))
        job = await bench.job(1)
        assert (job.state, job.fault, job.fingerprint) == (JobState.CANCELLED, "ambiguous", "f")
