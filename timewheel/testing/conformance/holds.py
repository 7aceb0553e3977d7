"""PlanOccurrences with `hold` and `supersede`: jobs of a schedule that wait for one another."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timewheel.model import JobState, OriginKind, WaitingReason
from timewheel.store.changes import Planned
from timewheel.testing.builders import (
    cancel,
    later,
    occurrence,
    plan,
    row,
    settle_ok,
    settle_overrun,
    settle_retry,
    settle_unresolvable,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.plans import NOTHING, T, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.store.changes import Settle

UNENDED: list[Callable[[int], Settle]] = [settle_retry, settle_overrun, settle_unresolvable]


@pytest.mark.asyncio
class Holds(BenchTests):
    """Jobs that wait for the one before, and make way for the one after."""

    # ---- hold --------------------------------------------------------------------------------------------------------

    async def _holds(self, bench: Bench, job_id: int) -> bool:
        request = occurrence(job_id, T + job_id)
        planned = await bench.plan(request, hold=True)
        waits = planned == Planned([], [job_id], [])
        state, reason = (JobState.WAITING, WaitingReason.OVERLAP.value) if waits else (JobState.SCHEDULED, None)
        assert await bench.job(job_id) == recorded(request, state, reason)
        assert len(planned.places) == (0 if waits else 1)
        return waits

    async def test_a_held_job_waits_for_one_that_is_scheduled(self, bench: Bench) -> None:
        await bench.put_schedules()
        assert not await self._holds(bench, 1)
        assert await self._holds(bench, 2)
        assert await self._holds(bench, 3)
        await bench.write(cancel(1), cancel(3))
        assert await self._holds(bench, 4)
        await bench.write(cancel(2), cancel(4))
        assert not await self._holds(bench, 5)

    async def test_a_held_job_waits_for_one_that_runs(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, T - 1))
        await bench.claim(1)
        assert await self._holds(bench, 2)
        await bench.write(settle_ok(1), cancel(2))
        assert not await self._holds(bench, 3)

    @pytest.mark.parametrize("ending", UNENDED)
    async def test_a_held_job_waits_for_one_that_has_not_ended(
        self, bench: Bench, ending: Callable[[int], Settle]
    ) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, T - 1))
        await bench.claim(1)
        await bench.write(ending(1))
        assert await self._holds(bench, 2)

    @pytest.mark.parametrize("kind", list(OriginKind))
    async def test_a_held_job_waits_for_those_of_every_kind(self, bench: Bench, kind: OriginKind) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, kind=kind))
        assert await self._holds(bench, 2)

    async def test_a_held_job_waits_for_no_others(self, bench: Bench) -> None:
        await bench.put_schedules("s", "t")
        await bench.submit(1)
        await bench.plan(occurrence(2, name="t"))
        assert not await self._holds(bench, 3)

    async def test_only_the_first_of_several_goes_on(self, bench: Bench) -> None:
        await bench.put_schedules()
        planned = await bench.plan(*(occurrence(job_id, T - job_id) for job_id in (5, 4, 6)), hold=True)
        assert ([place[2] for place in planned.places], planned.waiting) == ([5], [4, 6])

    async def test_what_ends_in_the_batch_holds_nothing(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1))
        await bench.claim(1)
        planned, _, _ = await bench.write(plan(occurrence(2, T + 1), hold=True), settle_ok(1), submit(3))
        assert isinstance(planned, Planned)
        assert [place[2] for place in planned.places] == [2]

    async def test_without_hold_nothing_waits(self, bench: Bench) -> None:
        await bench.put_schedules()
        planned = await bench.plan(occurrence(1), occurrence(2, T + 1))
        assert [place[2] for place in planned.places] == [1, 2]
        assert [place[2] for place in (await bench.plan(occurrence(3, T + 2))).places] == [3]

    # ---- supersede ---------------------------------------------------------------------------------------------------

    async def test_a_newer_job_supersedes_those_that_wait(self, bench: Bench) -> None:
        await bench.put_schedules("s", "t")
        await bench.plan(*(occurrence(job_id, T - job_id) for job_id in (1, 4, 3)), hold=True)
        await bench.plan(*(occurrence(job_id, T - job_id, name="t") for job_id in (7, 8)), hold=True)
        bench.now = later(9)
        planned = await bench.plan(occurrence(5), hold=True, supersede=True)
        assert planned == Planned([], [5], [3, 4])
        for job_id in (3, 4):
            job = await bench.job(job_id)
            assert (job.state, job.reason, job.finished_at) == (JobState.SKIPPED, "superseded", T + 9)
            assert (job.version, job.attempt) == (1, 0)
        assert [await bench.state(job_id) for job_id in (1, 7, 8)] == [
            JobState.SCHEDULED,
            JobState.SCHEDULED,
            JobState.WAITING,
        ]

    async def test_what_waits_for_something_else_is_not_superseded(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(*(occurrence(job_id, T - job_id, concurrency_key="k") for job_id in (1, 2, 3, 4)))
        await bench.claim(1)
        await bench.write(settle_unresolvable(1))
        await bench.claim(2)
        await bench.write(settle_overrun(2))
        assert (await bench.claim(3)).waiting == [3]
        planned = await bench.plan(occurrence(5), supersede=True)
        assert (planned.superseded, [place[2] for place in planned.places]) == ([], [5])
        assert [(await bench.job(job_id)).reason for job_id in (1, 2, 3)] == ["unresolvable", "overrun", "key"]

    async def test_superseding_leaves_room(self, bench: Bench) -> None:
        """The job before ended in this batch, and who waited for it makes way: the new one is not held."""
        await bench.put_schedules()
        await bench.plan(occurrence(1), occurrence(2, T + 1), hold=True)
        planned, _ = await bench.write(plan(occurrence(3, T + 2), hold=True, supersede=True), cancel(1))
        assert isinstance(planned, Planned)
        assert (planned.superseded, planned.waiting, [place[2] for place in planned.places]) == ([2], [], [3])

    async def test_a_plan_that_makes_nothing_supersedes_nothing(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1), occurrence(2, T + 1), hold=True)
        assert await bench.plan(rows=[row(T + 2)], supersede=True) == NOTHING
        assert await bench.plan(occurrence(9), hold=True, supersede=True) == NOTHING
        assert await bench.state(2) is JobState.WAITING
