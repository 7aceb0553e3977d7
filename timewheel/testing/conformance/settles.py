"""Settle: its precondition, and what becomes of the attempt and of the job."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import (
    AttemptRecord,
    AttemptState,
    ClockKind,
    JobState,
    RetryPolicy,
)
from timewheel.store.changes import Settle, Settled, Stale
from timewheel.testing.builders import (
    SETTLES,
    START,
    cancel,
    claim,
    later,
    reschedule,
    settle,
    settle_dead,
    settle_lost,
    settle_ok,
    settle_overrun,
    settle_released,
    settle_retry,
    settle_unresolvable,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests


@pytest.mark.asyncio
class Settles(BenchTests):
    """Ending attempts."""

    async def _stale(self, bench: Bench, change: Settle) -> None:
        before = await bench.store.dump()
        assert await bench.write(change) == [Stale(change.job_id)]
        assert await bench.store.dump() == before

    async def test_stale_unless_the_job_is_active(self, bench: Bench) -> None:
        await self._stale(bench, settle_ok(1))
        await bench.submit(1)
        await self._stale(bench, settle_ok(1))
        await self._stale(bench, settle_ok(1, attempt=0))
        await bench.claim(1)
        await bench.write(settle_ok(1))
        await self._stale(bench, settle_ok(1))
        await bench.active(2)
        await bench.write(settle_overrun(2))
        await self._stale(bench, settle_ok(2))
        await bench.active(3)
        await bench.write(settle_retry(3))
        await self._stale(bench, settle_ok(3))

    async def test_stale_unless_it_is_the_newest_attempt(self, bench: Bench) -> None:
        await bench.active(1)
        await self._stale(bench, settle_ok(1, attempt=2))
        await bench.write(settle_retry(1))
        await bench.claim(1)
        await self._stale(bench, settle_ok(1, attempt=1))
        assert await bench.write(settle_ok(1, attempt=2)) == [Settled(1, JobState.COMPLETED)]

    async def test_stale_unless_it_was_claimed_under_that_epoch(self, bench: Bench) -> None:
        await bench.active(1)
        first = bench.epoch
        await bench.crash()
        await bench.own()
        await self._stale(bench, settle_ok(1, claim_epoch=bench.epoch))
        assert await bench.write(settle_ok(1, claim_epoch=first)) == [Settled(1, JobState.COMPLETED)]

    async def test_stale_after_the_attempt_was_withdrawn(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.active(2)
        await bench.write(cancel(1), reschedule(2, START.wall_us))
        await self._stale(bench, settle_ok(1))
        await self._stale(bench, settle_ok(2))
        await bench.claim(2)
        await self._stale(bench, settle_ok(2))

    # ---- the attempt -------------------------------------------------------------------------------------------------

    async def test_the_attempt_keeps_what_the_settle_says(self, bench: Bench) -> None:
        retry = RetryPolicy(kind="constant", version=3)
        await bench.active(1, retry=retry)
        change = settle(
            1,
            AttemptState.TIMED_OUT,
            JobState.DEAD,
            reason="ambiguous",
            dispatched_at=1,
            started_at=2,
            finished_at=3,
            dispatch_lag_us=-4,
            start_lag_us=5,
            error="Traceback: příliš 🕰\n" * 1000,
            error_kind="TimeoutError",
        )
        await bench.write(change)
        assert await bench.store.attempts(1) == [
            AttemptRecord(
                job_id=1,
                number=1,
                state=AttemptState.TIMED_OUT,
                epoch=bench.epoch,
                clock=ClockKind.WALL,
                scheduled_at=START.wall_us,
                dispatched_at=1,
                started_at=2,
                finished_at=3,
                dispatch_lag_us=-4,
                start_lag_us=5,
                error=change.error,
                error_kind="TimeoutError",
                reason="ambiguous",
                policy="constant/3",
            )
        ]

    async def test_instants_that_never_came_stay_empty(self, bench: Bench) -> None:
        await bench.ended(settle_lost(1))
        [attempt] = await bench.store.attempts(1)
        assert (attempt.dispatched_at, attempt.started_at, attempt.finished_at) == (None, None, None)
        assert (attempt.dispatch_lag_us, attempt.start_lag_us, attempt.error) == (None, None, None)
        assert attempt.policy == "exponential/2"

    @pytest.mark.parametrize("name", sorted(SETTLES))
    async def test_every_ending(self, bench: Bench, name: str) -> None:
        change = SETTLES[name](1)
        job = await bench.ended(change)
        assert job.state is change.job_state
        [attempt] = await bench.store.attempts(1)
        assert attempt.state is change.attempt_state
        assert (job.failures, job.losses, job.first_failed_at) == (
            change.failures,
            change.losses,
            change.first_failed_at,
        )
        assert job.error == change.error
        assert (job.finished_at is not None) == job.state.final
        lanes = [lane.number for lane in await bench.store.lanes()]
        places = [place for lane in lanes for place in await bench.due(lane)]
        assert places == ([(job.due_at, 1)] if job.state is JobState.SCHEDULED else [])

    # ---- the job -----------------------------------------------------------------------------------------------------

    async def test_a_job_ends_at_the_time_of_the_batch(self, bench: Bench) -> None:
        await bench.active(1)
        bench.now = later(77)
        assert await bench.write(settle_ok(1, finished_at=5)) == [Settled(1, JobState.COMPLETED)]
        job = await bench.job(1)
        assert (job.finished_at, job.reason, job.version) == (START.wall_us + 77, None, 1)
        assert [attempt.finished_at for attempt in await bench.store.attempts(1)] == [5]

    @pytest.mark.parametrize(("result", "omitted"), [('[1,"🕰"]', None), (None, "object: not JSON"), (None, None)])
    async def test_a_result_is_kept_exactly(self, bench: Bench, result: str | None, omitted: str | None) -> None:
        job = await bench.ended(settle_ok(1, result=result, result_omitted=omitted))
        assert (job.state, job.result, job.result_omitted) == (JobState.COMPLETED, result, omitted)

    async def test_a_dead_letter_keeps_everything(self, bench: Bench) -> None:
        arguments = '[["' + "x" * (1 << 16) + '"],{}]'
        job = await bench.ended(settle_dead(1, error="boom"), arguments=arguments, tags=("a", "b"))
        assert (job.state, job.reason, job.error) == (JobState.DEAD, "permanent", "boom")
        assert (job.arguments, job.tags, job.attempt) == (arguments, ("a", "b"), 1)
        assert job.due_at == START.wall_us

    async def test_skipped_by_a_settle(self, bench: Bench) -> None:
        job = await bench.ended(settle(1, AttemptState.RELEASED, JobState.SKIPPED, reason="expired"))
        assert (job.state, job.reason) == (JobState.SKIPPED, "expired")

    @pytest.mark.parametrize("due_at", [START.steady_us + 5, 0])
    async def test_a_retry_moves_to_the_steady_clock(self, bench: Bench, due_at: int) -> None:
        claimed = await bench.active(1, queue="mail", priority=2)
        [settled] = await bench.write(settle_retry(1, due_at))
        assert isinstance(settled, Settled)
        assert (settled.job_state, settled.due_at) == (JobState.SCHEDULED, due_at)
        assert await bench.lane_of(settled.lane) == ("mail", 2, ClockKind.STEADY)
        assert await bench.due(settled.lane) == [(due_at, 1)]
        assert await bench.due(claimed.lane) == []
        job = await bench.job(1)
        assert (job.due_clock, job.due_at, job.queue, job.priority) == (
            ClockKind.STEADY,
            due_at,
            "mail",
            2,
        )
        assert (job.clock, job.scheduled_at, job.version) == (ClockKind.WALL, START.wall_us, 1)
        assert (job.failures, job.error, job.reason) == (1, "boom", None)

    @pytest.mark.parametrize("clock", list(ClockKind))
    async def test_without_a_due_time_the_claimed_one_is_kept(self, bench: Bench, clock: ClockKind) -> None:
        claimed = await bench.active(1, clock=clock, scheduled_at=123)
        [settled] = await bench.write(settle_released(1))
        assert settled == Settled(1, JobState.SCHEDULED, claimed.lane, 123)
        job = await bench.job(1)
        assert (job.due_clock, job.due_at, job.reason) == (clock, 123, None)
        assert [attempt.reason for attempt in await bench.store.attempts(1)] == ["shutdown"]

    async def test_waiting_lies_in_no_lane(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.active(2)
        outcomes = await bench.write(settle_overrun(1, START.steady_us + 5), settle_unresolvable(2))
        assert outcomes == [Settled(1, JobState.WAITING), Settled(2, JobState.WAITING)]
        overrun, unresolvable = await bench.job(1), await bench.job(2)
        assert (overrun.state, overrun.reason) == (JobState.WAITING, "overrun")
        assert (overrun.due_clock, overrun.due_at) == (ClockKind.STEADY, START.steady_us + 5)
        assert (unresolvable.state, unresolvable.reason) == (JobState.WAITING, "unresolvable")
        assert (unresolvable.due_clock, unresolvable.due_at) == (ClockKind.WALL, START.wall_us)
        for lane in await bench.store.lanes():
            assert await bench.due(lane.number) == []

    async def test_budgets_are_the_new_totals(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, failures=4, losses=2, first_failed_at=9))
        await bench.claim(1)
        await bench.write(settle_ok(1, attempt=2))
        job = await bench.job(1)
        assert (job.failures, job.losses, job.first_failed_at) == (0, 0, None)

    async def test_the_last_error_stays(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, error="first"))
        await bench.claim(1)
        await bench.write(settle_retry(1, attempt=2, error="second"))
        await bench.claim(1)
        await bench.write(settle_ok(1, attempt=3))
        assert (await bench.job(1)).error == "second"
        assert [attempt.error for attempt in await bench.store.attempts(1)] == ["first", "second", None]

    async def test_many_kinds_in_one_batch(self, bench: Bench) -> None:
        names = sorted(SETTLES)
        await bench.write(*(submit(job_id) for job_id in range(1, 50)))
        await bench.write(claim(*range(1, 50)))
        await bench.write(*(cancel(job_id, entered=True) for job_id in range(1, 50, 5)))
        changes = [SETTLES[names[job_id % len(names)]](job_id) for job_id in range(1, 50)]
        for change, outcome in zip(changes, await bench.write(*changes), strict=True):
            assert isinstance(outcome, Settled)
            asked = change.job_id % 5 == 1 and change.job_state is not JobState.COMPLETED
            assert outcome.job_id == change.job_id
            assert outcome.job_state is (JobState.CANCELLED if asked else change.job_state)
            assert await bench.state(change.job_id) is outcome.job_state
