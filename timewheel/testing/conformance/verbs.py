"""Cancel and Reschedule in every state."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timewheel.model import AttemptState, CancelAnswer, ClockKind, JobState, RescheduleAnswer
from timewheel.store.changes import Cancelled, Change, Missing, Rescheduled, Settle
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    reschedule,
    settle,
    settle_dead,
    settle_ok,
    settle_overrun,
    settle_retry,
    settle_unresolvable,
)
from timewheel.testing.conformance.bench import Bench, BenchTests

if TYPE_CHECKING:
    from collections.abc import Callable

ENTERED = pytest.mark.parametrize("entered", [False, True])
FINAL = pytest.mark.parametrize("ending", ["ok", "dead", "cancelled", "skipped"])


async def _final(bench: Bench, ending: str) -> None:
    """Job 1 in one of the final states."""
    await bench.active(1)
    endings: dict[str, Change] = {
        "ok": settle_ok(1, result="1"),
        "dead": settle_dead(1),
        "cancelled": cancel(1),
        "skipped": settle(1, AttemptState.RELEASED, JobState.SKIPPED, reason="expired"),
    }
    await bench.write(endings[ending])
    assert (await bench.state(1)).final


@pytest.mark.asyncio
class Verbs(BenchTests):
    """What callers do to a job."""

    async def test_no_such_job(self, bench: Bench) -> None:
        assert await bench.write(cancel(1), reschedule(2, 5)) == [Missing(1), Missing(2)]
        assert await bench.ids() == []

    # ---- cancel ------------------------------------------------------------------------------------------------------

    @ENTERED
    async def test_cancel_a_scheduled_job(self, bench: Bench, entered: bool) -> None:
        submitted = await bench.submit(1)
        bench.now = later(9)
        [outcome] = await bench.write(cancel(1, "because", entered=entered))
        assert outcome == Cancelled(1, CancelAnswer.CANCELLED, None, was_scheduled=True)
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "because", START.wall_us + 9)
        assert (job.version, job.cancel_requested) == (1, None)
        assert await bench.due(submitted.lane) == []
        assert (await bench.claim(1)).jobs == []

    @pytest.mark.parametrize("hold", [settle_overrun, settle_unresolvable])
    @ENTERED
    async def test_cancel_a_waiting_job(self, bench: Bench, hold: Callable[[int], Settle], entered: bool) -> None:
        await bench.ended(hold(1))
        before = await bench.store.attempts(1)
        [outcome] = await bench.write(cancel(1, "", entered=entered))
        assert outcome == Cancelled(1, CancelAnswer.CANCELLED, None, was_scheduled=False)
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "", START.wall_us)
        assert await bench.store.attempts(1) == before

    async def test_cancel_before_the_handler_is_entered(self, bench: Bench) -> None:
        await bench.active(1)
        bench.now = later(9)
        [outcome] = await bench.write(cancel(1, "because"))
        assert outcome == Cancelled(1, CancelAnswer.CANCELLED, 1, was_scheduled=False)
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "because", START.wall_us + 9)
        [attempt] = await bench.store.attempts(1)
        assert (attempt.state, attempt.finished_at) == (AttemptState.CANCELLED, START.wall_us + 9)
        assert (attempt.started_at, attempt.epoch) == (None, bench.epoch)

    async def test_cancel_after_the_handler_was_entered(self, bench: Bench) -> None:
        await bench.active(1)
        before = await bench.store.attempts(1)
        [outcome] = await bench.write(cancel(1, "", entered=True))
        assert outcome == Cancelled(1, CancelAnswer.REQUESTED)
        job = await bench.job(1)
        assert (job.state, job.cancel_requested, job.reason) == (JobState.ACTIVE, "", None)
        assert job.finished_at is None
        assert await bench.store.attempts(1) == before

    async def test_the_last_request_counts(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(cancel(1, "first", entered=True))
        await bench.write(cancel(1, "second", entered=True))
        assert (await bench.job(1)).cancel_requested == "second"

    @FINAL
    @ENTERED
    async def test_cancel_a_final_job(self, bench: Bench, ending: str, entered: bool) -> None:
        await _final(bench, ending)
        before = await bench.store.dump()
        assert await bench.write(cancel(1, entered=entered)) == [Cancelled(1, CancelAnswer.TOO_LATE)]
        assert await bench.store.dump() == before

    async def test_cancel_a_later_attempt(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1))
        await bench.claim(1)
        assert await bench.write(cancel(1)) == [Cancelled(1, CancelAnswer.CANCELLED, 2)]
        states = [attempt.state for attempt in await bench.store.attempts(1)]
        assert states == [AttemptState.FAILED_RETRYABLE, AttemptState.CANCELLED]

    # ---- reschedule --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("clock", list(ClockKind))
    @ENTERED
    async def test_reschedule_a_scheduled_job(self, bench: Bench, clock: ClockKind, entered: bool) -> None:
        submitted = await bench.submit(1, queue="mail", priority=1)
        [outcome] = await bench.write(reschedule(1, 123, clock, entered=entered))
        assert isinstance(outcome, Rescheduled)
        assert outcome == Rescheduled(1, RescheduleAnswer.MOVED, outcome.lane, 123, None, was_scheduled=True)
        assert await bench.lane_of(outcome.lane) == ("mail", 1, clock)
        assert await bench.due(outcome.lane) == [(123, 1)]
        if outcome.lane != submitted.lane:
            assert await bench.due(submitted.lane) == []
        job = await bench.job(1)
        assert (job.clock, job.scheduled_at, job.due_clock, job.due_at) == (clock, 123, clock, 123)
        assert (job.version, job.state) == (2, JobState.SCHEDULED)

    async def test_each_reschedule_is_a_version(self, bench: Bench) -> None:
        await bench.submit(1)
        for version in range(2, 6):
            await bench.write(reschedule(1, version))
            assert (await bench.job(1)).version == version

    async def test_a_retry_goes_back_to_the_clock_of_the_caller(self, bench: Bench) -> None:
        await bench.ended(settle_retry(1, failures=2))
        [outcome] = await bench.write(reschedule(1, START.wall_us + 1))
        assert isinstance(outcome, Rescheduled)
        assert outcome.was_scheduled
        assert await bench.lane_of(outcome.lane) == ("default", 5, ClockKind.WALL)
        job = await bench.job(1)
        assert (job.due_clock, job.due_at, job.failures) == (ClockKind.WALL, START.wall_us + 1, 2)

    @ENTERED
    async def test_reschedule_an_unresolvable_job(self, bench: Bench, entered: bool) -> None:
        await bench.ended(settle_unresolvable(1))
        [outcome] = await bench.write(reschedule(1, 5, entered=entered))
        assert isinstance(outcome, Rescheduled)
        assert outcome == Rescheduled(1, RescheduleAnswer.MOVED, outcome.lane, 5, None, was_scheduled=False)
        job = await bench.job(1)
        assert (job.state, job.reason, job.due_at, job.version) == (JobState.SCHEDULED, None, 5, 2)
        assert [claimed.job_id for claimed in (await bench.claim(1)).jobs] == [1]

    async def test_reschedule_before_the_handler_is_entered(self, bench: Bench) -> None:
        claimed = await bench.active(1)
        bench.now = later(9)
        [outcome] = await bench.write(reschedule(1, START.wall_us + 50))
        assert outcome == Rescheduled(1, RescheduleAnswer.MOVED, claimed.lane, START.wall_us + 50, 1)
        job = await bench.job(1)
        assert (job.state, job.due_at, job.attempt, job.version) == (JobState.SCHEDULED, START.wall_us + 50, 1, 2)
        [attempt] = await bench.store.attempts(1)
        assert (attempt.state, attempt.reason) == (AttemptState.RELEASED, "rescheduled")
        assert attempt.finished_at == START.wall_us + 9
        assert attempt.scheduled_at == START.wall_us
        assert await bench.due(claimed.lane) == [(START.wall_us + 50, 1)]
        bench.now = later(50)
        assert [again.attempt for again in (await bench.claim(1)).jobs] == [2]

    async def test_too_late_after_the_handler_was_entered(self, bench: Bench) -> None:
        await bench.active(1)
        await self._too_late(bench, entered=True)

    @ENTERED
    async def test_too_late_for_an_overrun(self, bench: Bench, entered: bool) -> None:
        await bench.ended(settle_overrun(1))
        await self._too_late(bench, entered=entered)

    @FINAL
    @ENTERED
    async def test_too_late_for_a_final_job(self, bench: Bench, ending: str, entered: bool) -> None:
        await _final(bench, ending)
        await self._too_late(bench, entered=entered)

    async def _too_late(self, bench: Bench, *, entered: bool) -> None:
        before = await bench.store.dump()
        assert await bench.write(reschedule(1, 5, entered=entered)) == [Rescheduled(1, RescheduleAnswer.TOO_LATE)]
        assert await bench.store.dump() == before

    async def test_a_moved_job_is_claimed_at_its_new_time_only(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.write(reschedule(1, START.wall_us + 10))
        assert (await bench.claim(1)).jobs == []
        bench.now = later(10)
        [again] = (await bench.claim(1)).jobs
        assert again.due_at == START.wall_us + 10

    async def test_verbs_survive_a_crash(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.submit(2)
        await bench.submit(3)
        await bench.write(cancel(1), cancel(2), reschedule(3, 5, ClockKind.STEADY))
        before = await bench.store.dump()
        await bench.crash()
        await bench.own()
        assert await bench.store.dump() == before
        assert [job.jobs for job in [await bench.claim(1, 2)]] == [[]]
        assert await bench.write(claim(3)) != []
