"""A batch: the order of kinds, the order of outcomes, and all or nothing."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import CancelAnswer, DueKey, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import (
    AddEntry,
    Cancelled,
    Claimed,
    Done,
    Missing,
    PutQueue,
    Rescheduled,
    SaveLimits,
    Settled,
    Stale,
    Submitted,
    Unheld,
)
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    reschedule,
    settle_ok,
    settle_retry,
    settle_unresolvable,
    submit,
    unhold,
)
from timewheel.testing.conformance.bench import Bench, BenchTests, refused


@pytest.mark.asyncio
class Batches(BenchTests):
    """What holds for a batch as a whole."""

    async def test_an_empty_batch_has_no_outcomes(self, bench: Bench) -> None:
        assert await bench.write() == []

    async def test_outcomes_come_in_the_order_of_the_changes(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.active(2)
        await bench.submit(3)
        kinds = [
            type(outcome)
            for outcome in await bench.write(
                AddEntry("note"),
                claim(3),
                submit(4),
                cancel(2),
                settle_ok(1),
                submit(5),
                reschedule(99, START.wall_us),
                settle_ok(98),
                unhold(),
                cancel(97),
                SaveLimits({"a": 1}),
            )
        ]
        assert kinds == [
            Done,
            Claimed,
            Submitted,
            Cancelled,
            Settled,
            Submitted,
            Missing,
            Stale,
            Unheld,
            Missing,
            Done,
        ]

    async def test_a_settle_is_applied_before_a_claim(self, bench: Bench) -> None:
        await bench.active(1)
        claimed, settled = await bench.write(claim(1), settle_retry(1))
        assert isinstance(settled, Settled)
        assert isinstance(claimed, Claimed)
        assert [(job.job_id, job.attempt) for job in claimed.jobs] == [(1, 2)]

    async def test_a_claim_cannot_be_settled_in_its_own_batch(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.write(claim(1), settle_ok(1))
        assert await bench.state(1) is JobState.ACTIVE

    async def test_a_cancel_is_applied_before_a_claim(self, bench: Bench) -> None:
        await bench.submit(1)
        claimed, cancelled = await bench.write(claim(1), cancel(1))
        assert cancelled == Cancelled(1, CancelAnswer.CANCELLED, None, was_scheduled=True)
        assert claimed == Claimed([], [], [])
        assert await bench.store.attempts(1) == []

    async def test_a_reschedule_is_applied_before_a_claim(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=START.wall_us + 1)
        await bench.submit(2)
        claimed, early, late = await bench.write(
            claim(1, 2), reschedule(1, START.wall_us), reschedule(2, START.wall_us + 1)
        )
        assert isinstance(early, Rescheduled)
        assert early.answer is RescheduleAnswer.MOVED
        assert isinstance(late, Rescheduled)
        assert isinstance(claimed, Claimed)
        assert [job.job_id for job in claimed.jobs] == [1]

    async def test_cancels_and_reschedules_are_applied_before_submissions(self, bench: Bench) -> None:
        outcomes = await bench.write(submit(1), submit(2), cancel(1), reschedule(2, 5))
        assert outcomes[2:] == [Missing(1), Missing(2)]
        assert await bench.state(1) is JobState.SCHEDULED
        assert (await bench.job(2)).due_at == START.wall_us

    async def test_a_submission_is_applied_before_a_claim(self, bench: Bench) -> None:
        claimed, submitted = await bench.write(claim(1), submit(1))
        assert isinstance(claimed, Claimed)
        assert isinstance(submitted, Submitted)
        assert [(job.job_id, job.lane) for job in claimed.jobs] == [(1, submitted.lane)]
        assert await bench.state(1) is JobState.ACTIVE
        assert await bench.due(submitted.lane) == []

    async def test_a_claim_is_applied_before_an_unhold(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_unresolvable(1))
        unheld, claimed = await bench.write(unhold(), claim(1))
        assert isinstance(unheld, Unheld)
        assert [job_id for _, _, job_id in unheld.places] == [1]
        assert claimed == Claimed([], [], [])
        assert await bench.state(1) is JobState.SCHEDULED

    async def test_a_settle_is_applied_before_an_unhold(self, bench: Bench) -> None:
        await bench.active(1)
        unheld, settled = await bench.write(unhold(WaitingReason.UNRESOLVABLE), settle_unresolvable(1))
        assert settled == Settled(1, JobState.WAITING)
        assert isinstance(unheld, Unheld)
        assert [job_id for _, _, job_id in unheld.places] == [1]

    async def test_inside_a_kind_the_order_of_the_batch_counts(self, bench: Bench) -> None:
        await bench.write(
            PutQueue("mail", '{"a":1}'),
            SaveLimits({"x": 1, "y": 2}),
            AddEntry("first"),
            PutQueue("mail", '{"a":2}'),
            SaveLimits({"x": 3}),
            AddEntry("second"),
        )
        assert await bench.store.queues() == {"mail": '{"a":2}'}
        assert await bench.store.limits() == {"x": 3, "y": 2}
        assert [kind for _, _, kind, _ in await bench.store.entries()] == ["first", "second"]

    async def test_two_claims_of_a_batch_share_no_job(self, bench: Bench) -> None:
        for job_id in (1, 2, 3):
            await bench.submit(job_id)
        first, second = await bench.write(claim(2, 1), claim(1, 3, 2))
        assert isinstance(first, Claimed)
        assert isinstance(second, Claimed)
        assert [job.job_id for job in first.jobs] == [2, 1]
        assert [job.job_id for job in second.jobs] == [3]

    async def test_a_refused_change_harms_no_other(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.active(2)
        outcomes = await bench.write(settle_ok(7), cancel(8), settle_ok(1, attempt=9), cancel(2), submit(3))
        assert outcomes[:3] == [Stale(7), Missing(8), Stale(1)]
        assert [await bench.state(job_id) for job_id in (1, 2, 3)] == [
            JobState.ACTIVE,
            JobState.CANCELLED,
            JobState.SCHEDULED,
        ]

    async def test_of_a_batch_that_raises_nothing_remains(self, bench: Bench) -> None:
        for job_id in range(1, 5):
            await bench.active(job_id)
        await bench.write(settle_unresolvable(4))
        first = await bench.submit(5, task="app.other")
        await refused(
            bench,
            settle_retry(1),
            settle_ok(2),
            cancel(3),
            unhold(),
            SaveLimits({"x": 1}),
            PutQueue("q", "{}"),
            AddEntry("note"),
            claim(1, 5),
            submit(6, queue="new", idempotency_key="k", digest="d", importable=True),
            submit(5),  # that id is taken
        )
        assert await bench.due(first.lane) == [(START.wall_us, 5)]
        assert [job.job_id for job in (await bench.claim(5)).jobs] == [5]

    async def test_a_large_batch(self, bench: Bench) -> None:
        many = range(1, 2001)
        outcomes = await bench.write(*(submit(job_id, scheduled_at=START.wall_us - job_id) for job_id in many))
        [lane] = {outcome.lane for outcome in outcomes if isinstance(outcome, Submitted)}
        page = await bench.store.due(lane, DueKey(-1, -1), START.wall_us, 5000)
        assert [job_id for _, job_id in page] == list(reversed(many))
        claimed = await bench.claim(*many)
        assert [job.job_id for job in claimed.jobs] == list(many)
        await bench.write(*(settle_ok(job_id) for job_id in many))
        assert await bench.ids(limit=500) == list(reversed(many))
