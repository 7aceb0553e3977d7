"""Defer: candidates are moved to a later time, or wait until a job of their task has ended."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import CancelAnswer, ClockKind, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import Cancelled, Change, Claimed, Rescheduled, TakeOver, Unheld
from timewheel.testing.builders import START, cancel, claim, later, reschedule, settle_retry, submit, unhold
from timewheel.testing.builders_flow import defer
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.claims import ids

T, STEADY = START.wall_us, START.steady_us


async def taken(bench: Bench, tasks: dict[str, int], *changes: Change, everything: bool = False) -> list[int]:
    """The jobs that a TakeOver of these tasks releases in a batch of other changes."""
    *_, unheld = await bench.write(*changes, TakeOver(everything, tasks=tasks))
    assert isinstance(unheld, Unheld), unheld
    for lane, due_at, job_id in unheld.places:
        job = await bench.job(job_id)
        assert (job.state, job.reason, job.due_at) == (JobState.SCHEDULED, None, due_at)
        assert (due_at, job_id) in await bench.due(lane)
    return [job_id for _, _, job_id in unheld.places]


async def some_wait(bench: Bench) -> None:
    """1 to 4 wait in one lane, 5 and 6 in another, 7 is of another task; later ones are due first."""
    for job_id in range(1, 8):
        queue, task = "q" if job_id in (5, 6) else "default", "other" if job_id == 7 else "t"
        await bench.submit(job_id, queue=queue, task=task, scheduled_at=T - job_id)
    await bench.write(defer(*((job_id, T - job_id, None) for job_id in range(1, 8))))


@pytest.mark.asyncio
class Deferrals(BenchTests):
    """Defer, and WAITING (task)."""

    async def test_moved_to_a_later_time(self, bench: Bench) -> None:
        lane = (await bench.submit(1, queue="q", priority=3)).lane
        before = await bench.job(1)
        unheld = await bench.one(defer((1, T, STEADY + 50)), Unheld)
        [(moved_to, due_at, job_id)] = unheld.places
        assert (due_at, job_id) == (STEADY + 50, 1)
        assert await bench.lane_of(moved_to) == ("q", 3, ClockKind.STEADY)
        assert await bench.due(lane) == []
        assert await bench.due(moved_to) == [(STEADY + 50, 1)]
        job = await bench.job(1)
        assert (job.due_clock, job.due_at) == (ClockKind.STEADY, STEADY + 50)
        job.due_clock, job.due_at = before.due_clock, before.due_at
        assert job == before
        assert ids(await bench.claim(1)) == []
        bench.now = later(50)
        assert ids(await bench.claim(1)) == [1]

    async def test_until_a_job_of_its_task_has_ended(self, bench: Bench) -> None:
        lane = (await bench.submit(1)).lane
        before = await bench.job(1)
        assert await bench.one(defer((1, T, None)), Unheld) == Unheld([])
        job = await bench.job(1)
        assert (job.state, job.reason) == (JobState.WAITING, "task")
        job.state, job.reason = before.state, before.reason
        assert job == before
        assert await bench.due(lane) == []
        assert await bench.claim(1) == Claimed([], [], [])
        await bench.crash()
        assert (await bench.job(1)).reason == "task"

    async def test_only_as_it_was_seen(self, bench: Bench) -> None:
        for job_id in range(1, 5):
            await bench.submit(job_id)
        await bench.claim(2)
        await bench.write(cancel(3), reschedule(4, T + 1))
        before = await bench.store.dump()
        assert await bench.write(defer((2, T, STEADY), (3, T, None), (4, T, STEADY), (77, T, None))) == [Unheld([])]
        assert await bench.store.dump() == before
        assert await bench.write(defer((1, T - 1, None))) == [Unheld([])]
        assert await bench.state(1) is JobState.SCHEDULED

    async def test_the_places_are_in_the_order_of_the_rows(self, bench: Bench) -> None:
        for job_id in range(1, 6):
            await bench.submit(job_id)
        rows = [(4, T, STEADY + 1), (1, T, None), (5, T + 9, STEADY), (2, T, STEADY + 9), (3, T, STEADY + 5)]
        unheld = await bench.one(defer(*rows), Unheld)
        assert [place[1:] for place in unheld.places] == [(STEADY + 1, 4), (STEADY + 9, 2), (STEADY + 5, 3)]
        assert await bench.one(defer(), Unheld) == Unheld([])

    async def test_a_retry_is_deferred(self, bench: Bench) -> None:
        await bench.active(1)
        await bench.write(settle_retry(1, STEADY))
        unheld = await bench.one(defer((1, STEADY, STEADY + 1)), Unheld)
        assert [place[1:] for place in unheld.places] == [(STEADY + 1, 1)]
        job = await bench.job(1)
        assert (job.attempt, job.failures, job.version) == (1, 1, 1)

    async def test_deferred_and_deferred_again(self, bench: Bench) -> None:
        await bench.submit(1)
        first, second = await bench.write(defer((1, T, STEADY + 5)), defer((1, STEADY + 5, STEADY + 6)))
        assert [outcome.places[0][1:] for outcome in (first, second) if isinstance(outcome, Unheld)] == [
            (STEADY + 5, 1),
            (STEADY + 6, 1),
        ]

    async def test_a_claim_comes_first(self, bench: Bench) -> None:
        await bench.submit(1)
        unheld, claimed = await bench.write(defer((1, T, None)), claim(1))
        assert isinstance(claimed, Claimed)
        assert (unheld, ids(claimed)) == (Unheld([]), [1])

    # ---- waiting for a job of the task -------------------------------------------------------------------------------

    @pytest.mark.parametrize("everything", [False, True])
    async def test_the_first_of_each_lane_go_on(self, bench: Bench, everything: bool) -> None:
        await some_wait(bench)
        assert await taken(bench, {}, everything=everything) == []
        assert await taken(bench, {"t": 0, "nobody": 5, "T": 1}, everything=everything) == []
        assert await taken(bench, {"t": 1}, everything=everything) == [4, 6]
        assert await taken(bench, {"t": 2, "other": 1}, everything=everything) == [2, 3, 5, 7]
        assert await taken(bench, {"t": 9}, everything=everything) == [1]
        job = await bench.job(1)
        assert (job.due_clock, job.due_at, job.scheduled_at, job.version) == (ClockKind.WALL, T - 1, T - 1, 1)

    async def test_one_that_waits_in_this_batch_goes_on(self, bench: Bench) -> None:
        await bench.submit(1)
        assert await taken(bench, {"app.task": 1}, defer((1, T, None))) == [1]

    async def test_those_that_wait_for_something_else_stay(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key="k")
        await bench.claim(2)
        assert await taken(bench, {"app.task": 9}) == []

    async def test_one_that_waits_for_its_task_is_moved_and_waits(self, bench: Bench) -> None:
        await some_wait(bench)
        assert await bench.write(reschedule(4, T + 5)) == [Rescheduled(4, RescheduleAnswer.MOVED)]
        job = await bench.job(4)
        assert (job.state, job.reason, job.due_at, job.version) == (JobState.WAITING, "task", T + 5, 2)
        assert await taken(bench, {"t": 1}) == [3, 6]

    async def test_one_that_waits_for_its_task_is_cancelled(self, bench: Bench) -> None:
        await some_wait(bench)
        assert await bench.write(cancel(4)) == [Cancelled(4, CancelAnswer.CANCELLED)]
        assert await taken(bench, {"t": 1}) == [3, 6]

    async def test_one_that_waits_for_its_task_may_be_unheld(self, bench: Bench) -> None:
        await some_wait(bench)
        unheld = await bench.one(unhold(WaitingReason.TASK, 2), Unheld)
        assert [place[2] for place in unheld.places] == [1, 2]

    async def test_many_are_moved_at_once(self, bench: Bench) -> None:
        await bench.write(*(submit(job_id) for job_id in range(1, 301)))
        unheld = await bench.one(defer(*((n, T, STEADY + n) for n in range(1, 301))), Unheld)
        assert [place[1:] for place in unheld.places] == [(STEADY + n, n) for n in range(1, 301)]
        assert await bench.due(unheld.places[0][0]) == [(STEADY + n, n) for n in range(1, 301)]
