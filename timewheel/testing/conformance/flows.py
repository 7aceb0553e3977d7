"""The flow control of jobs: kept whole, handed out with claims, and asked before an attempt begins."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from timewheel.flow import NO_FLOW, Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import ClockKind, JobState
from timewheel.store.changes import Candidate, Claimed, Governed, TakeOver
from timewheel.testing.builders import (
    START,
    claim,
    later,
    occurrence,
    reschedule,
    settle_lost,
    settle_ok,
    settle_released,
    settle_retry,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.claims import ids

if TYPE_CHECKING:
    from timewheel.store.changes import Change

T = START.wall_us
NOTHING = Claimed([], [], [])
WHOLE = Flow(
    rate_key="žluť",
    cost=7,
    heartbeat_timeout_us=30_000_000,
    expires_at=T + 5,
    deadline=1 << 52,
    idempotent=False,
    partition_key="a 'b' \"c\"",
    unique=Uniqueness("0f" * 32, ("SCHEDULED", "COMPLETED"), OnConflict.RESCHEDULE, 1 << 40),
    wait_for=Dependencies((1,), DependencyFails.RUN),
)
FLOWS = [
    NO_FLOW,
    Flow(rate_key=""),
    Flow(cost=1000, rate_key="k"),
    Flow(heartbeat_timeout_us=1),
    Flow(idempotent=False),
    Flow(partition_key="p"),
    Flow(unique=Uniqueness("d", ())),
    Flow(unique=Uniqueness("d", ("ACTIVE",), OnConflict.KEEP, 1)),
    Flow(wait_for=Dependencies(())),
    Flow(deadline=T + 1, expires_at=T + 1),
]


async def several(bench: Bench) -> None:
    """1 plain, 2 of task t, 3 with a rate key, 4 that has failed, 5 that was lost."""
    await bench.submit(1)
    await bench.submit(2, task="t", queue="q")
    await bench.submit(3, flow=Flow(rate_key="", cost=2), clock=ClockKind.STEADY)
    for job_id in (4, 5):
        await bench.active(job_id)
    await bench.write(settle_retry(4, START.steady_us - 1), settle_lost(5, due_at=START.steady_us))


@pytest.mark.asyncio
class Flows(BenchTests):
    """Flow control of jobs, but for what has a topic of its own."""

    async def test_a_flow_is_kept_whole(self, bench: Bench) -> None:
        await bench.ended(settle_ok(1))
        await bench.submit(2, flow=WHOLE)
        await bench.submit(3)
        await bench.crash()
        job, plain = await bench.job(2), await bench.job(3)
        assert job.flow == WHOLE
        assert type(job.flow) is Flow
        assert job.flow.unique is not None
        assert type(job.flow.unique.on_conflict) is OnConflict
        assert job.flow.wait_for is not None
        assert type(job.flow.wait_for.if_one_fails) is DependencyFails
        assert plain.flow is None
        assert (await bench.store.dump())["jobs"] == {1: await bench.job(1), 2: job, 3: plain}

    @pytest.mark.parametrize("flow", FLOWS)
    async def test_a_flow_goes_with_the_claim(self, bench: Bench, flow: Flow) -> None:
        await bench.submit(1, flow=flow)
        await bench.submit(2)
        claimed = await bench.claim(2, 1)
        assert [job.flow for job in claimed.jobs] == [None, flow]
        assert (await bench.job(1)).flow == flow

    async def test_an_attempt_changes_nothing_of_it(self, bench: Bench) -> None:
        flow = Flow(rate_key="k", cost=3, deadline=T + 10, expires_at=T + 10)
        await bench.active(1, flow=flow)
        await bench.write(settle_retry(1))
        await bench.write(reschedule(1, T))
        assert [job.flow for job in (await bench.claim(1)).jobs] == [flow]

    async def test_a_job_of_a_schedule_has_a_flow(self, bench: Bench) -> None:
        await bench.put_schedules()
        flow = Flow(rate_key="k", deadline=T + 9)
        await bench.plan(occurrence(1, flow=flow))
        [job] = (await bench.claim(1)).jobs
        assert job.flow == flow
        assert job.origin == (await bench.job(1)).origin

    # ---- deadline and expiry -----------------------------------------------------------------------------------------

    async def test_a_job_is_given_up_at_its_deadline(self, bench: Bench) -> None:
        lane = (await bench.submit(1, flow=Flow(deadline=T + 10))).lane
        await bench.submit(2, flow=Flow(deadline=T + 11))
        bench.now = later(10)
        claimed = await bench.claim(1, 2)
        assert (ids(claimed), claimed.given_up, claimed.skipped) == ([2], [1], [])
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at, job.attempt) == (JobState.DEAD, "deadline", T + 10, 0)
        assert await bench.due(lane) == []
        assert await bench.claim(1) == NOTHING

    async def test_a_retry_is_given_up_at_its_deadline(self, bench: Bench) -> None:
        await bench.active(1, flow=Flow(deadline=T + 10))
        await bench.write(settle_retry(1, START.steady_us, error="boom"))
        bench.now = later(10)
        assert (await bench.claim(1)).given_up == [1]
        job = await bench.job(1)
        assert (job.state, job.attempt, job.failures, job.error) == (JobState.DEAD, 1, 1, "boom")

    async def test_a_job_that_never_began_expires(self, bench: Bench) -> None:
        await bench.submit(1, flow=Flow(expires_at=T + 10))
        await bench.submit(2, flow=Flow(expires_at=T + 11))
        bench.now = later(10)
        claimed = await bench.claim(1, 2)
        assert (ids(claimed), claimed.given_up, claimed.skipped) == ([2], [], [1])
        job = await bench.job(1)
        assert (job.state, job.reason, job.finished_at) == (JobState.SKIPPED, "expired", T + 10)

    @pytest.mark.parametrize("began", [settle_retry(1, START.steady_us), settle_lost(1, due_at=START.steady_us)])
    async def test_a_job_that_began_does_not_expire(self, bench: Bench, began: Change) -> None:
        await bench.active(1, flow=Flow(expires_at=T + 10))
        await bench.write(began)
        bench.now = later(10)
        assert ids(await bench.claim(1)) == [1]

    async def test_a_job_that_was_given_back_expires(self, bench: Bench) -> None:
        await bench.active(1, flow=Flow(expires_at=T + 10))
        await bench.write(settle_released(1, due_at=None))
        bench.now = later(10)
        assert (await bench.claim(1)).skipped == [1]

    @pytest.mark.parametrize("flow", [Flow(deadline=T + 10), Flow(expires_at=T + 10)])
    async def test_both_are_measured_on_the_wall_clock(self, bench: Bench, flow: Flow) -> None:
        """Whatever clock the job is due on, and without the time that the claim looks ahead."""
        for job_id, clock in ((1, ClockKind.STEADY), (2, ClockKind.WALL)):
            await bench.submit(job_id, clock=clock, flow=flow)
        bench.now = bench.now._replace(steady_us=START.steady_us + (1 << 40))
        assert ids(await bench.claim(1, 2, ahead_us=20)) == [1, 2]

    async def test_a_job_that_is_not_due_is_not_given_up(self, bench: Bench) -> None:
        await bench.submit(1, scheduled_at=T + 9, flow=Flow(deadline=T, expires_at=T))
        assert await bench.claim(1) == NOTHING
        assert await bench.state(1) is JobState.SCHEDULED

    # ---- governed ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("governed", "asked"),
        [
            (None, []),
            (Governed(), []),
            (Governed(frozenset({"t", "u"})), [2]),
            (Governed(rate_keys=True), [3]),
            (Governed(retries=True), [4]),
            (Governed(frozenset({"t"}), rate_keys=True, retries=True), [2, 4, 3]),
            (Governed(frozenset({"app.task"})), [4, 1, 5, 3]),
        ],
    )
    async def test_who_is_asked_about(self, bench: Bench, governed: Governed | None, asked: list[int]) -> None:
        await several(bench)
        before = await bench.store.dump()
        claimed = await bench.claim(2, 4, 1, 5, 3, governed=governed)
        assert [one.job_id for one in claimed.asked] == asked
        assert ids(claimed) == [job_id for job_id in (2, 4, 1, 5, 3) if job_id not in asked]
        after = await bench.store.dump()
        assert all(after["jobs"][job_id] == before["jobs"][job_id] for job_id in asked)

    async def test_what_is_told_of_a_candidate(self, bench: Bench) -> None:
        await several(bench)
        claimed = await bench.claim(4, 3, 2, governed=Governed(frozenset({"t"}), rate_keys=True, retries=True))
        four, three, two = claimed.asked
        assert four._replace(lane=0) == Candidate(
            4, "app.task", 0, ClockKind.STEADY, START.steady_us - 1, attempt=1, failures=1
        )
        flow = Flow(rate_key="", cost=2)
        assert three._replace(lane=0) == Candidate(3, "app.task", 0, ClockKind.STEADY, START.steady_us, 0, 0, flow)
        assert two._replace(lane=0) == Candidate(2, "t", 0, ClockKind.WALL, T, 0, 0)
        assert await bench.lane_of(four.lane) == await bench.lane_of(three.lane) == ("default", 5, ClockKind.STEADY)
        assert await bench.lane_of(two.lane) == ("q", 5, ClockKind.WALL)

    async def test_the_order_of_the_tests(self, bench: Bench) -> None:
        """Misfire, deadline, expiry, governed, key, last chance."""
        late: dict[str, Any] = {"misfire_grace_us": 0, "concurrency_key": "k"}
        over = Flow(rate_key="k", deadline=T, expires_at=T)
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, **late, flow=over)
        await bench.submit(3, concurrency_key="k", flow=over)
        await bench.submit(4, concurrency_key="k", flow=over._replace(deadline=None))
        await bench.submit(5, concurrency_key="k", flow=Flow(rate_key="k"))
        await bench.submit(6, concurrency_key="k")
        await bench.active(7)
        await bench.write(settle_lost(7, 3, due_at=START.steady_us))
        hints = claim(7, 6, 5, 4, 3, 2, watching_since=later(1), governed=Governed(rate_keys=True), last_chances=0)
        claimed = await bench.one(hints, Claimed)
        assert (ids(claimed), claimed.skipped, claimed.given_up) == ([], [4, 2], [3])
        assert ([one.job_id for one in claimed.asked], claimed.waiting, claimed.held) == ([5], [6], [7])
        assert (await bench.job(2)).reason == "misfire"

    async def test_a_candidate_takes_no_key_and_no_chance(self, bench: Bench) -> None:
        for job_id in (1, 2):
            await bench.active(job_id, task="t" if job_id == 1 else "app.task", concurrency_key=f"k{job_id}")
            await bench.write(settle_lost(job_id, 3, due_at=START.steady_us))
        await bench.submit(3, concurrency_key="k1")
        claimed = await bench.claim(1, 2, 3, governed=Governed(frozenset({"t"})), last_chances=1)
        assert ([one.job_id for one in claimed.asked], ids(claimed)) == ([1], [2, 3])

    async def test_who_was_given_up_lets_others_go_on(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, flow=Flow(deadline=T)))
        await bench.plan(occurrence(2, T + 1), hold=True)
        _, unheld = await bench.write(claim(1), TakeOver())
        assert [place[2] for place in getattr(unheld, "places", ())] == [2]

    async def test_a_submit_of_the_same_batch_is_asked_about(self, bench: Bench) -> None:
        _, claimed = await bench.write(submit(1, flow=Flow(rate_key="k")), claim(1, governed=Governed(rate_keys=True)))
        assert isinstance(claimed, Claimed)
        assert [one.job_id for one in claimed.asked] == [1]
        assert ids(await bench.claim(1)) == [1]
