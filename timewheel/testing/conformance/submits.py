"""Submit: what is kept of a request, and where the job lies."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import MAX_TIME_US, ClockKind, JobRecord, JobState, RetryPolicy
from timewheel.testing.builders import START, later, request, submit
from timewheel.testing.conformance.bench import Bench, BenchTests

STRANGE = "žluť'\"; -- 東京 🕰 \\ %_ \n\t[]{},"
FULL = request(
    (1 << 63) - 1,
    task=f"app.{STRANGE}",
    arguments='[["\\u0000",1e300,' + str((1 << 53) - 1) + '],{"k":"' + "é" * 10 + '"}]',
    queue=f"queue {STRANGE}",
    priority=9,
    clock=ClockKind.STEADY,
    scheduled_at=MAX_TIME_US,
    retry=RetryPolicy(7, 1, 1.1, 3_000_000, 0.25, 10**15, "constant", 12),
    timeout_us=1_500_000,
    misfire_grace_us=0,
    tags=(STRANGE, "", "a", "b"),
    idempotency_key=STRANGE,
    digest="0" * 64,
)


@pytest.mark.asyncio
class Submits(BenchTests):
    """Making jobs."""

    async def test_a_job_is_scheduled_as_it_was_asked(self, bench: Bench) -> None:
        submitted = await bench.submit(7)
        assert (submitted.job_id, submitted.created) == (7, True)
        assert await bench.job(7) == JobRecord(
            job_id=7,
            task="app.task",
            arguments="[[],{}]",
            queue="default",
            priority=5,
            clock=ClockKind.WALL,
            scheduled_at=START.wall_us,
            due_clock=ClockKind.WALL,
            due_at=START.wall_us,
            state=JobState.SCHEDULED,
            created_at=START.wall_us,
            retry=RetryPolicy(),
        )
        assert await bench.store.attempts(7) == []

    async def test_every_field_comes_back_exactly(self, bench: Bench) -> None:
        await bench.write(submit(1))
        await bench.write(submit(FULL.job_id, **{name: getattr(FULL, name) for name in FULL.__slots__[1:]}))
        job = await bench.job(FULL.job_id)
        same = set(FULL.__slots__) - {"digest"}
        assert {name: getattr(job, name) for name in same} == {name: getattr(FULL, name) for name in same}
        assert (job.due_clock, job.due_at) == (ClockKind.STEADY, MAX_TIME_US)
        assert isinstance(job.retry, RetryPolicy)
        assert isinstance(job.tags, tuple)
        assert isinstance(job.clock, ClockKind)
        assert isinstance(job.state, JobState)
        [claimed] = (await bench.claim(FULL.job_id, ahead_us=MAX_TIME_US)).jobs
        assert (claimed.arguments, claimed.task, claimed.retry) == (FULL.arguments, FULL.task, FULL.retry)

    async def test_large_arguments_come_back_exactly(self, bench: Bench) -> None:
        arguments = '[["' + "ab🕰é\\\\" * (1 << 17) + '"],{}]'
        assert len(arguments.encode()) > 1 << 20
        await bench.submit(1, arguments=arguments)
        assert (await bench.job(1)).arguments == arguments
        [claimed] = (await bench.claim(1)).jobs
        assert claimed.arguments == arguments

    async def test_what_is_returned_is_not_what_is_kept(self, bench: Bench) -> None:
        await bench.active(1)
        job = await bench.job(1)
        job.task = "changed"
        [attempt] = await bench.store.attempts(1)
        attempt.number = 7
        assert (await bench.job(1)).task == "app.task"
        assert [attempt.number for attempt in await bench.store.attempts(1)] == [1]

    async def test_a_request_may_change_after_it_was_submitted(self, bench: Bench) -> None:
        change = submit(1)
        await bench.write(change)
        change.request.task = "changed"
        assert (await bench.job(1)).task == "app.task"

    async def test_created_at_is_the_wall_time_of_the_batch(self, bench: Bench) -> None:
        bench.now = later(17)
        await bench.submit(1, clock=ClockKind.STEADY)
        assert (await bench.job(1)).created_at == START.wall_us + 17

    async def test_lanes_are_numbered_by_queue_priority_and_clock(self, bench: Bench) -> None:
        names = [
            ("a", 5, ClockKind.WALL),
            ("b", 5, ClockKind.WALL),
            ("a", 0, ClockKind.WALL),
            ("a", 5, ClockKind.STEADY),
        ]
        numbers = []
        for job_id, (queue, priority, clock) in enumerate(names * 2, start=1):
            submitted = await bench.submit(job_id, queue=queue, priority=priority, clock=clock)
            numbers.append(submitted.lane)
            assert await bench.lane_of(submitted.lane) == (queue, priority, clock)
        assert numbers[:4] == numbers[4:]
        assert len(set(numbers)) == 4
        assert all(number >= 0 for number in numbers)

    async def test_lanes_of_one_batch(self, bench: Bench) -> None:
        await bench.write(submit(1, queue="a"), submit(2, queue="b"), submit(3, queue="a"))
        lanes = await bench.store.lanes()
        assert sorted(lane.queue for lane in lanes) == ["a", "b"]
        assert len({lane.number for lane in lanes}) == 2

    async def test_a_job_lies_in_its_lane(self, bench: Bench) -> None:
        first = await bench.submit(1, scheduled_at=5)
        await bench.submit(2, scheduled_at=3)
        other = await bench.submit(3, scheduled_at=4, priority=0)
        assert await bench.due(first.lane) == [(3, 2), (5, 1)]
        assert await bench.due(other.lane) == [(4, 3)]

    async def test_importable_names_are_kept(self, bench: Bench) -> None:
        await bench.write(submit(1, task="b", importable=True), submit(2, task="http"), submit(3, task="a"))
        await bench.write(submit(4, task="a", importable=True), submit(5, task="b", importable=True))
        assert await bench.store.importable() == ["a", "b"]
        await bench.write(submit(6, task="a"))
        assert sorted(await bench.store.importable()) == ["a", "b"]
