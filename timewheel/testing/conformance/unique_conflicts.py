"""A unique job that stands in the way: replaced by the new one, moved to its time, or kept."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.flow import OnConflict
from timewheel.model import ClockKind, JobState, WaitingReason
from timewheel.store.changes import Missing, Submitted, TakeOver, Unheld, UniqueMet
from timewheel.testing.builders import START, claim, later, settle_ok, settle_overrun, settle_retry, submit
from timewheel.testing.builders_flow import UNFINISHED, unique, waiting_for
from timewheel.testing.conformance.bench import Bench, BenchTests, refused
from timewheel.testing.conformance.uniques import one

T = START.wall_us
REPLACE, MOVE = OnConflict.REPLACE, OnConflict.RESCHEDULE


@pytest.mark.asyncio
class UniqueConflicts(BenchTests):
    """OnConflict.REPLACE and RESCHEDULE."""

    async def test_replaced_while_it_is_scheduled(self, bench: Bench) -> None:
        lane = (await bench.one(one(1, scheduled_at=T + 5), Submitted)).lane
        bench.now = later(3)
        assert await bench.write(one(2, REPLACE)) == [Submitted(2, lane, True, 1, replaced_was_scheduled=True)]
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at) == (JobState.CANCELLED, "replaced", T + 3)
        assert await bench.due(lane) == [(T, 2)]
        assert await bench.store.attempts(1) == []

    async def test_replaced_while_it_waits(self, bench: Bench) -> None:
        await bench.active(9, concurrency_key="k")
        await bench.write(one(1, concurrency_key="k"), claim(1))
        made = await bench.one(one(2, REPLACE), Submitted)
        assert (made.replaced, made.replaced_was_scheduled) == (1, False)
        assert (await bench.job(1)).reason == "replaced"

    @pytest.mark.parametrize("on_conflict", [REPLACE, MOVE])
    @pytest.mark.parametrize("ended", [False, True])
    async def test_one_that_has_begun_is_kept(self, bench: Bench, on_conflict: OnConflict, ended: bool) -> None:
        states = (*UNFINISHED, "COMPLETED")
        await bench.write(one(1, states=states), claim(1))
        if ended:
            await bench.write(settle_ok(1))
        before = await bench.store.dump()
        outcome = await bench.write(one(2, on_conflict, states=states, scheduled_at=T + 9))
        assert outcome == [UniqueMet(1, conflict=False)]
        assert await bench.store.dump() == before

    async def test_a_retry_is_replaced(self, bench: Bench) -> None:
        await bench.write(one(1), claim(1))
        await bench.write(settle_retry(1))
        made = await bench.one(one(2, REPLACE), Submitted)
        assert (made.replaced, made.replaced_was_scheduled) == (1, True)
        assert (await bench.job(1)).attempt == 1

    async def test_one_after_the_other_in_a_batch(self, bench: Bench) -> None:
        outcomes = await bench.write(*(one(job_id, REPLACE) for job_id in (1, 2, 3)))
        assert [getattr(outcome, "replaced", 0) for outcome in outcomes] == [None, 1, 2]
        assert [await bench.state(job_id) for job_id in (1, 2, 3)] == [
            JobState.CANCELLED,
            JobState.CANCELLED,
            JobState.SCHEDULED,
        ]

    async def test_who_waited_for_the_replaced_one_is_told(self, bench: Bench) -> None:
        await bench.write(one(1), submit(2, flow=waiting_for(1)))
        _, unheld = await bench.write(one(3, REPLACE), TakeOver())
        assert unheld == Unheld([], [2])
        assert await bench.state(2) is JobState.CANCELLED

    async def test_nothing_is_replaced_for_one_that_is_refused(self, bench: Bench) -> None:
        await bench.write(one(1))
        flow = unique("d", on_conflict=REPLACE)._replace(wait_for=waiting_for(77).wait_for)
        assert await bench.write(submit(2, flow=flow)) == [Missing(77)]
        assert await bench.state(1) is JobState.SCHEDULED

    async def test_one_that_waits_for_what_it_replaces(self, bench: Bench) -> None:
        """It looks at a job that is CANCELLED by then."""
        await bench.write(one(1))
        flow = unique("d", on_conflict=REPLACE)._replace(wait_for=waiting_for(1).wait_for)
        made = await bench.one(submit(2, flow=flow), Submitted)
        assert (made.lane, made.replaced) == (-1, 1)
        assert await bench.state(2) is JobState.CANCELLED

    # ---- moving ------------------------------------------------------------------------------------------------------

    async def test_moved_while_it_is_scheduled(self, bench: Bench) -> None:
        await bench.write(one(1))
        at = START.steady_us + 7
        met = await bench.one(one(2, MOVE, clock=ClockKind.STEADY, scheduled_at=at), UniqueMet)
        assert (met.job_id, met.conflict, met.was_scheduled) == (1, False, True)
        assert met.place is not None
        assert await bench.lane_of(met.place[0]) == ("default", 5, ClockKind.STEADY)
        assert await bench.due(met.place[0]) == [(at, 1)]
        job = await bench.job(1)
        assert (job.clock, job.scheduled_at, job.due_clock, job.due_at) == (ClockKind.STEADY, at) * 2
        assert job.version == 2
        assert await bench.store.job(2) is None

    async def test_moved_while_it_waits(self, bench: Bench) -> None:
        await bench.active(9, concurrency_key="k")
        await bench.write(one(1, concurrency_key="k"), claim(1))
        assert await bench.write(one(2, MOVE, scheduled_at=T + 7)) == [UniqueMet(1, conflict=False)]
        job = await bench.job(1)
        assert (job.state, job.reason, job.due_at) == (JobState.WAITING, WaitingReason.KEY, T + 7)

    async def test_an_overrun_is_not_moved(self, bench: Bench) -> None:
        await bench.write(one(1), claim(1))
        await bench.write(settle_overrun(1))
        before = await bench.store.dump()
        assert await bench.write(one(2, MOVE, scheduled_at=T + 7)) == [UniqueMet(1, conflict=False)]
        assert await bench.store.dump() == before

    async def test_moved_twice_in_a_batch(self, bench: Bench) -> None:
        await bench.write(one(1))
        first, second = await bench.write(one(2, MOVE, scheduled_at=T + 5), one(3, MOVE, scheduled_at=T + 4))
        assert isinstance(first, UniqueMet)
        assert isinstance(second, UniqueMet)
        assert second.place is not None
        assert (second.place[1], second.was_scheduled) == (T + 4, True)
        assert ((await bench.job(1)).due_at, (await bench.job(1)).version) == (T + 4, 3)

    async def test_a_job_of_this_batch_is_moved_before_it_is_claimed(self, bench: Bench) -> None:
        _, _, claimed = await bench.write(one(1, scheduled_at=T + 5), one(2, MOVE), claim(1))
        assert [job.due_at for job in getattr(claimed, "jobs", ())] == [T]

    async def test_a_batch_that_is_refused_leaves_nothing(self, bench: Bench) -> None:
        await bench.write(one(1))
        await refused(bench, one(2, REPLACE), one(3, MOVE), submit(1))
