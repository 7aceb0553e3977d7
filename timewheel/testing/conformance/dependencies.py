"""Jobs that wait for others: when they are made, when those have ended, and what callers do to them meanwhile."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.flow import DependencyFails, Flow
from timewheel.model import CancelAnswer, ClockKind, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import Cancelled, Change, Claimed, Missing, Rescheduled, Submitted, TakeOver, Unheld
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    plan,
    reschedule,
    settle_dead,
    settle_ok,
    settle_overrun,
    settle_retry,
    submit,
    unhold,
)
from timewheel.testing.builders_flow import replay, waiting_for
from timewheel.testing.conformance.bench import Bench, BenchTests

T = START.wall_us
CANCEL, RUN, WAIT = DependencyFails.CANCEL, DependencyFails.RUN, DependencyFails.WAIT
S, W, C = JobState.SCHEDULED, JobState.WAITING, JobState.CANCELLED
FATES = [  # the policy; how the two it waits for ended; what becomes of it
    *((policy, (True, True), S) for policy in DependencyFails),
    *((policy, (True, None), W) for policy in DependencyFails),
    *((policy, (False, None), W) for policy in DependencyFails),
    (CANCEL, (True, False), C),
    (RUN, (True, False), S),
    (WAIT, (True, False), W),
    (RUN, (False, False), S),
]


async def end(bench: Bench, job_id: int, well: bool) -> None:
    """A job that was submitted ends."""
    if well:
        await bench.claim(job_id)
    await bench.write(settle_ok(job_id) if well else cancel(job_id))


async def taken(bench: Bench, *changes: Change, everything: bool = False) -> tuple[list[int], list[int]]:
    """Which jobs a TakeOver releases in a batch of other changes, and which it cancels."""
    *_, unheld = await bench.write(*changes, TakeOver(everything))
    assert isinstance(unheld, Unheld), unheld
    for lane, due_at, job_id in unheld.places:
        assert ((await bench.job(job_id)).state, (await bench.job(job_id)).reason) == (S, None)
        assert (due_at, job_id) in await bench.due(lane)
    for job_id in unheld.cancelled:
        job = await bench.job(job_id)
        assert (job.state, job.reason, job.finished_at) == (C, "dependency", bench.now.wall_us)
    return [job_id for _, _, job_id in unheld.places], unheld.cancelled


@pytest.mark.asyncio
class DependenciesOfJobs(BenchTests):
    """Submit and TakeOver with `flow.wait_for`."""

    # ---- when it is made ---------------------------------------------------------------------------------------------

    async def test_it_waits(self, bench: Bench) -> None:
        lane = (await bench.submit(1)).lane
        made = await bench.one(submit(2, flow=waiting_for(1)), Submitted)
        assert made == Submitted(2, -1, created=True)
        job = await bench.job(2)
        assert (job.state, job.reason, job.due_at) == (W, "dependency", T)
        assert (job.flow, job.attempt, job.finished_at) == (waiting_for(1), 0, None)
        assert await bench.due(lane) == [(T, 1)]
        assert await bench.claim(2) == Claimed([], [], [])
        await bench.crash()
        assert (await bench.job(2)).reason == "dependency"

    @pytest.mark.parametrize(("policy", "ends", "state"), FATES)
    async def test_made_when_they_stand_like_that(
        self, bench: Bench, policy: DependencyFails, ends: tuple[bool | None, ...], state: JobState
    ) -> None:
        for job_id, well in enumerate(ends, 1):
            await bench.submit(job_id)
            if well is not None:
                await end(bench, job_id, well)
        made = await bench.one(submit(9, flow=waiting_for(1, 2, if_one_fails=policy)), Submitted)
        assert made.created
        assert (made.lane > 0, made.ended) == (state is S, state is C)
        job = await bench.job(9)
        assert (job.state, job.reason) == (state, None if state is S else "dependency")
        assert job.finished_at == (T if state is C else None)
        if state is S:
            assert await bench.due(made.lane) == [*([(T, 2)] if ends[1] is None else []), (T, 9)]

    @pytest.mark.parametrize(("policy", "ends", "state"), FATES)
    @pytest.mark.parametrize("everything", [False, True])
    async def test_taken_over_when_they_have_ended_like_that(
        self, bench: Bench, everything: bool, policy: DependencyFails, ends: tuple[bool | None, ...], state: JobState
    ) -> None:
        await bench.write(submit(1), submit(2), submit(9, flow=waiting_for(1, 2, if_one_fails=policy)))
        for job_id, well in enumerate(ends, 1):
            if well is not None:
                await end(bench, job_id, well)
        assert await taken(bench) == ([], [])  # nobody is named
        took = await taken(bench, cancel(1), everything=everything)
        assert took == ([9] if state is S else [], [9] if state is C else [])
        assert await bench.state(9) is state

    async def test_without_any_it_does_not_wait(self, bench: Bench) -> None:
        assert (await bench.submit(1, flow=waiting_for())).lane > 0
        assert await bench.state(1) is S

    async def test_the_first_that_is_unknown_is_missing(self, bench: Bench) -> None:
        await bench.submit(1)
        before = await bench.store.dump()
        keyed = submit(5, importable=True, idempotency_key="k", digest="d", flow=waiting_for(1, 8, 7))
        assert await bench.write(keyed, submit(6, flow=waiting_for(6))) == [Missing(8), Missing(6)]
        assert await bench.store.dump() == before
        made = await bench.one(submit(7, idempotency_key="k", digest="other"), Submitted)
        assert made.created

    async def test_jobs_of_the_same_batch_count(self, bench: Bench) -> None:
        outcomes = await bench.write(submit(3, flow=waiting_for(1)), submit(1), submit(2, flow=waiting_for(1)))
        assert outcomes[0] == Missing(1)
        assert await bench.state(2) is W
        _, made = await bench.write(cancel(1), submit(4, flow=waiting_for(1)))
        assert made == Submitted(4, -1, created=True, ended=True)
        assert await bench.state(4) is C
        assert (await bench.one(submit(5, flow=waiting_for(4, if_one_fails=RUN)), Submitted)).created
        assert await bench.state(5) is S

    async def test_the_same_job_twice(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2, flow=waiting_for(1, 1)))
        assert (await bench.job(2)).flow == waiting_for(1, 1)
        await bench.claim(1)
        assert await taken(bench, settle_ok(1)) == ([2], [])

    async def test_a_key_of_one_that_waits_is_held(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.submit(2, idempotency_key="k", digest="d", flow=waiting_for(1))
        assert await bench.write(submit(3, idempotency_key="k", digest="d")) == [Submitted(2, -1, created=False)]

    # ---- taking over -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("change", [settle_retry(1), settle_overrun(1), cancel(1, entered=True)])
    @pytest.mark.parametrize("everything", [False, True])
    async def test_an_attempt_is_not_the_end_of_what_is_waited_for(
        self, bench: Bench, change: Change, everything: bool
    ) -> None:
        await bench.active(1)
        await bench.submit(2, flow=waiting_for(1))
        assert await taken(bench, change, everything=everything) == ([], [])
        assert await bench.state(2) is W

    async def test_only_those_that_wait_for_a_named_job(self, bench: Bench) -> None:
        for job_id in (1, 2):
            await bench.submit(job_id)
            await bench.submit(10 + job_id, flow=waiting_for(job_id))
        await bench.write(cancel(1))
        assert await taken(bench, cancel(2)) == ([], [12])
        assert await bench.state(11) is W
        assert await taken(bench, claim(11), reschedule(11, T)) == ([], [])
        assert await taken(bench, everything=True) == ([], [11])

    async def test_to_the_end_of_a_chain(self, bench: Bench) -> None:
        await bench.submit(1)
        for job_id in range(2, 8):
            await bench.submit(job_id, flow=waiting_for(job_id - 1))
        await bench.submit(8, flow=waiting_for(7, if_one_fails=RUN))
        await bench.submit(9, flow=waiting_for(3, if_one_fails=WAIT))
        await bench.submit(10, flow=waiting_for(8))
        bench.now = later(4)
        assert await taken(bench, cancel(1)) == ([8], [2, 3, 4, 5, 6, 7])
        assert [await bench.state(job_id) for job_id in (9, 10)] == [W, W]

    async def test_a_diamond(self, bench: Bench) -> None:
        await bench.submit(1)
        for job_id in (2, 3):
            await bench.submit(job_id, flow=waiting_for(1))
        await bench.submit(4, flow=waiting_for(2, 3))
        assert await taken(bench, cancel(1)) == ([], [2, 3, 4])

    async def test_the_due_time_stays(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.submit(2, clock=ClockKind.STEADY, scheduled_at=START.steady_us + 9, flow=waiting_for(1))
        await bench.claim(1)
        _, unheld = await bench.write(settle_ok(1), TakeOver())
        assert isinstance(unheld, Unheld)
        [(lane, due_at, job_id)] = unheld.places
        assert (due_at, job_id) == (START.steady_us + 9, 2)
        assert await bench.lane_of(lane) == ("default", 5, ClockKind.STEADY)

    async def test_who_was_given_up_or_superseded_has_ended(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.submit(1, flow=Flow(deadline=T))
        await bench.plan(occurrence(3, T - 2), occurrence(4, T - 1), hold=True)
        await bench.write(submit(2, flow=waiting_for(1)), submit(5, flow=waiting_for(4)))
        assert await taken(bench, claim(1)) == ([], [2])
        assert await taken(bench, plan(occurrence(6), supersede=True, hold=True)) == ([], [5])

    async def test_one_that_waits_is_waited_for_until_it_is_replayed(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.submit(2, flow=waiting_for(1, if_one_fails=WAIT))
        assert await taken(bench, cancel(1)) == ([], [])
        assert await taken(bench, replay(1), everything=True) == ([], [])
        await bench.claim(1)
        assert await taken(bench, settle_ok(1)) == ([2], [])

    async def test_one_that_was_cancelled_for_it_runs_when_it_is_replayed(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2, flow=waiting_for(1)))
        await taken(bench, cancel(1))
        await bench.write(replay(2))
        assert await bench.state(2) is S
        assert await taken(bench, claim(2), everything=True) == ([], [])
        assert await bench.state(2) is JobState.ACTIVE

    # ---- meanwhile ---------------------------------------------------------------------------------------------------

    async def test_one_that_waits_for_jobs_is_cancelled(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2, flow=waiting_for(1)), submit(3, flow=waiting_for(2)))
        outcomes = await bench.write(cancel(2, "no"), TakeOver())
        assert outcomes == [Cancelled(2, CancelAnswer.CANCELLED), Unheld([], [3])]
        assert (await bench.job(2)).reason == "no"
        await bench.claim(1)
        assert await taken(bench, settle_ok(1)) == ([], [])

    @pytest.mark.parametrize("entered", [False, True])
    async def test_one_that_waits_for_jobs_is_moved_and_waits(self, bench: Bench, entered: bool) -> None:
        await bench.write(submit(1), submit(2, flow=waiting_for(1)))
        moved = reschedule(2, START.steady_us - 9, ClockKind.STEADY, entered=entered)
        assert await bench.write(moved) == [Rescheduled(2, RescheduleAnswer.MOVED)]
        job = await bench.job(2)
        assert (job.clock, job.scheduled_at) == (job.due_clock, job.due_at) == (ClockKind.STEADY, START.steady_us - 9)
        assert (job.state, job.reason, job.version) == (W, "dependency", 2)
        await bench.claim(1)
        assert await taken(bench, settle_ok(1)) == ([2], [])

    async def test_one_that_waits_for_jobs_may_be_unheld(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2, flow=waiting_for(1)), submit(3, flow=waiting_for(2)))
        unheld = await bench.one(unhold(WaitingReason.DEPENDENCY, 1), Unheld)
        assert [place[1:] for place in unheld.places] == [(T, 2)]
        assert await taken(bench, cancel(1)) == ([], [])
        assert await bench.state(2) is S
        await bench.claim(2)
        assert await taken(bench, settle_dead(2)) == ([], [3])
