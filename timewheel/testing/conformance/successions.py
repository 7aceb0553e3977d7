"""TakeOver: who waited for what has ended goes on."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import ClockKind, JobState, WaitingReason
from timewheel.store.changes import Change, Claimed, TakeOver, Unheld
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    drop_schedule,
    occurrence,
    plan,
    reschedule,
    settle_lost,
    settle_ok,
    settle_overrun,
    settle_released,
    settle_retry,
    settle_unresolvable,
    submit,
    unhold,
)
from timewheel.testing.conformance.bench import Bench, BenchTests

T = START.wall_us
ENDS: dict[str, Change] = {
    "settled": settle_ok(1),
    "cancelled": cancel(1),
    "a requested cancel": settle_retry(1),
}


async def line(bench: Bench, *waiting: int, name: str = "s") -> None:
    """Job 1 of a schedule is ACTIVE, these wait for it, each due before the one of the smaller id."""
    await bench.put_schedules(name)
    await bench.plan(occurrence(1, T, name))
    await bench.claim(1)
    planned = await bench.plan(*(occurrence(job_id, T - job_id, name) for job_id in waiting), hold=True)
    assert planned.waiting == list(waiting)


async def keyed(bench: Bench, *waiting: int, key: str = "k", first: int = 1) -> None:
    """The first job has the key, these wait for it, each due before the one of the smaller id."""
    await bench.active(first, concurrency_key=key)
    await bench.write(*(submit(job_id, concurrency_key=key, scheduled_at=T - job_id) for job_id in waiting))
    assert (await bench.claim(*waiting)).waiting == list(waiting)


@pytest.mark.asyncio
class Successions(BenchTests):
    """Taking over."""

    # ---- from a job of the schedule ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("end", sorted(ENDS))
    @pytest.mark.parametrize("everything", [False, True])
    async def test_the_first_goes_on_when_the_last_has_ended(self, bench: Bench, end: str, everything: bool) -> None:
        await line(bench, 2, 4, 3)
        if end == "a requested cancel":
            await bench.write(cancel(1, entered=True))
        assert await bench.taken_over(ENDS[end], everything=everything) == [4]
        assert [await bench.state(job_id) for job_id in (2, 3)] == [JobState.WAITING] * 2
        job = await bench.job(4)
        assert (job.due_clock, job.due_at, job.scheduled_at, job.version) == (ClockKind.WALL, T - 4, T - 4, 1)
        assert await bench.taken_over(claim(4)) == []
        assert await bench.taken_over(settle_ok(4)) == [3]
        assert await bench.taken_over(cancel(3)) == [2]
        assert await bench.taken_over(cancel(2)) == []

    async def test_the_older_id_goes_first_of_two_due_at_once(self, bench: Bench) -> None:
        await bench.put_schedules()
        made = [occurrence(job_id, T + job_id, scheduled_at=T) for job_id in (1, 8, 3, 4)]
        await bench.plan(*made, hold=True)
        assert await bench.taken_over(cancel(1)) == [3]

    @pytest.mark.parametrize("change", [settle_retry(1), settle_lost(1), settle_overrun(1), settle_unresolvable(1)])
    @pytest.mark.parametrize("everything", [False, True])
    async def test_an_attempt_is_not_the_end_of_its_job(self, bench: Bench, change: Change, everything: bool) -> None:
        await line(bench, 2)
        assert await bench.taken_over(change, everything=everything) == []
        assert await bench.state(2) is JobState.WAITING

    async def test_all_that_are_not_final_must_have_ended(self, bench: Bench) -> None:
        await line(bench, 5)
        await bench.plan(occurrence(2, T + 1), occurrence(3, T + 2))
        assert await bench.taken_over(settle_ok(1)) == []
        assert await bench.taken_over(cancel(2)) == []
        assert await bench.taken_over(cancel(3)) == [5]

    async def test_a_job_of_another_schedule_does_not_count(self, bench: Bench) -> None:
        await line(bench, 2)
        await bench.put_schedules("t")
        await bench.plan(occurrence(7, name="t"), occurrence(8, T + 1, "t"), hold=True)
        assert await bench.taken_over(settle_ok(1)) == [2]
        assert await bench.taken_over(cancel(7)) == [8]

    async def test_by_a_skip_of_the_same_batch(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, T - 1, misfire_grace_us=0), occurrence(2), hold=True)
        claimed, unheld = await bench.write(claim(1), TakeOver())
        assert isinstance(claimed, Claimed)
        assert isinstance(unheld, Unheld)
        assert (claimed.skipped, [place[2] for place in unheld.places]) == ([1], [2])

    async def test_after_everything_else_of_its_batch(self, bench: Bench) -> None:
        """Wherever it stands, and a waiter that this batch cancels or supersedes is not taken."""
        await line(bench, 2, 3, 4)
        unheld, *_ = await bench.write(TakeOver(), settle_ok(1), cancel(4), claim(1))
        assert isinstance(unheld, Unheld)
        assert [place[2] for place in unheld.places] == [3]
        _, unheld, _ = await bench.write(plan(occurrence(9, T + 9), hold=True, supersede=True), TakeOver(), cancel(3))
        assert isinstance(unheld, Unheld)
        assert unheld.places == []
        assert [await bench.state(job_id) for job_id in (2, 9)] == [JobState.SKIPPED, JobState.SCHEDULED]

    async def test_a_waiter_made_in_the_batch_that_ends_the_last(self, bench: Bench) -> None:
        await line(bench, 2)
        _, _, unheld = await bench.write(settle_ok(1), plan(occurrence(3, T - 9), hold=True), TakeOver())
        assert isinstance(unheld, Unheld)
        assert [place[2] for place in unheld.places] == [3]

    async def test_of_a_dropped_schedule_too(self, bench: Bench) -> None:
        await line(bench, 2)
        await bench.write(drop_schedule())
        assert await bench.taken_over(settle_ok(1)) == [2]

    # ---- a key -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "change",
        [
            settle_ok(1),
            settle_retry(1),
            settle_released(1),
            settle_unresolvable(1),
            cancel(1),
            reschedule(1, T + 5),
        ],
    )
    @pytest.mark.parametrize("everything", [False, True])
    async def test_the_first_goes_on_when_its_key_is_free(self, bench: Bench, change: Change, everything: bool) -> None:
        await keyed(bench, 2, 4, 3)
        assert await bench.taken_over(change, everything=everything) == [4]
        assert [await bench.state(job_id) for job_id in (2, 3)] == [JobState.WAITING] * 2
        assert await bench.taken_over(claim(4)) == []
        assert await bench.taken_over(settle_ok(4)) == [3]

    @pytest.mark.parametrize("change", [settle_overrun(1), cancel(1, entered=True), reschedule(1, T, entered=True)])
    @pytest.mark.parametrize("everything", [False, True])
    async def test_a_key_that_is_held_is_not_passed_on(self, bench: Bench, change: Change, everything: bool) -> None:
        await keyed(bench, 2)
        assert await bench.taken_over(change, everything=everything) == []

    async def test_an_overrun_that_ends_gives_up_its_key(self, bench: Bench) -> None:
        await keyed(bench, 2, 3)
        await bench.write(settle_overrun(1))
        assert await bench.taken_over(unhold(WaitingReason.OVERRUN)) == [3]

    async def test_who_takes_the_key_in_the_batch_has_it(self, bench: Bench) -> None:
        await keyed(bench, 2)
        await bench.submit(5, concurrency_key="k")
        assert await bench.taken_over(settle_ok(1), claim(5)) == []
        assert await bench.taken_over(settle_ok(5)) == [2]

    async def test_a_key_is_passed_on_by_a_claim_that_skips(self, bench: Bench) -> None:
        """Its holder ended unseen; whoever names a job of the key sees to it."""
        await keyed(bench, 2)
        await bench.write(settle_ok(1))
        await bench.submit(5, concurrency_key="k", scheduled_at=T + 99)
        assert await bench.taken_over(claim(5)) == [2]

    # ---- which -------------------------------------------------------------------------------------------------------

    async def _several(self, bench: Bench) -> None:
        """Two schedules and two keys whose waiters nobody holds up any more."""
        await bench.put_schedules("s", "t")
        for first, name in ((41, "s"), (11, "t")):
            await bench.plan(*(occurrence(first + more, T - more, name) for more in range(3)), hold=True)
        await keyed(bench, 22, key="k", first=21)
        await keyed(bench, 32, key="l", first=31)
        await bench.write(cancel(41), cancel(11), settle_ok(21), settle_ok(31))

    async def test_everything(self, bench: Bench) -> None:
        await self._several(bench)
        assert await bench.taken_over(everything=True) == [13, 22, 32, 43]
        assert await bench.taken_over(everything=True) == []

    async def test_everything_after_a_crash(self, bench: Bench) -> None:
        await self._several(bench)
        await bench.crash()
        await bench.own()
        assert await bench.taken_over(everything=True) == [13, 22, 32, 43]

    async def test_only_where_something_can_have_ended(self, bench: Bench) -> None:
        await self._several(bench)
        assert await bench.taken_over() == []
        assert await bench.taken_over(submit(90), plan(occurrence(91, T + 9, "t"), hold=True)) == []
        assert await bench.taken_over(cancel(41), claim(99), cancel(98)) == [43]
        assert await bench.taken_over(claim(32)) == [32]
        assert await bench.taken_over(settle_ok(21, attempt=9)) == [22]
        assert await bench.taken_over(reschedule(11, T)) == [13]

    async def test_twice_in_a_batch(self, bench: Bench) -> None:
        await line(bench, 2, 3)
        _, first, second = await bench.write(settle_ok(1), TakeOver(), TakeOver())
        assert isinstance(first, Unheld)
        assert ([place[2] for place in first.places], second) == ([3], Unheld([]))

    async def test_a_job_that_waits_for_both(self, bench: Bench) -> None:
        """It waits for its schedule's job, and then for its key."""
        await bench.put_schedules()
        await bench.plan(occurrence(1), occurrence(2, T - 1, concurrency_key="k"), hold=True)
        await bench.active(7, concurrency_key="k")
        assert await bench.taken_over(cancel(1)) == [2]
        assert (await bench.claim(2)).waiting == [2]
        assert (await bench.plan(occurrence(3, T + 1), hold=True)).waiting == [3]
        assert await bench.taken_over(settle_ok(7)) == [2]
