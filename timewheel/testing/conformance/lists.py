"""Lists of jobs: filters, pages while jobs move, counts."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import JobState
from timewheel.store.changes import KEY_KEEPING_US
from timewheel.store.port import JobFilter
from timewheel.testing.builders import cancel, claim, later, settle_dead, settle_ok, settle_overrun, submit
from timewheel.testing.conformance.bench import ANY, Bench, BenchTests

TAGS = ("a", "A", "ab", "", "a,b", 'a"b', "a%", "a_", "é", "[a]", "a\\")


async def _mixed(bench: Bench) -> None:
    """Two jobs a state: 1-2 SCHEDULED, 3-4 WAITING, 5-6 ACTIVE, 7-8 COMPLETED, 9-10 DEAD, then CANCELLED."""
    await bench.write(
        *(submit(job_id, queue=("a", "b")[job_id % 2], task=f"task{job_id % 3}") for job_id in range(1, 13))
    )
    await bench.write(claim(*range(3, 11)))
    await bench.write(settle_overrun(3), settle_overrun(4), settle_ok(7), settle_ok(8), settle_dead(9), settle_dead(10))
    await bench.write(cancel(11), cancel(12))


@pytest.mark.asyncio
class Lists(BenchTests):
    """Looking for jobs."""

    async def test_the_newest_come_first(self, bench: Bench) -> None:
        for job_id in (5, 1, 9, 3):
            await bench.submit(job_id)
        page = await bench.store.jobs(ANY)
        assert [job.job_id for job in page.jobs] == [9, 5, 3, 1]
        assert page.jobs == [await bench.job(job_id) for job_id in (9, 5, 3, 1)]

    async def test_before_is_exclusive(self, bench: Bench) -> None:
        for job_id in (1, 3, 5):
            await bench.submit(job_id)
        for before, found in ((1, []), (2, [1]), (3, [1]), (4, [3, 1]), (5, [3, 1]), (6, [5, 3, 1])):
            page = await bench.store.jobs(ANY, before=before)
            assert [job.job_id for job in page.jobs] == found

    @pytest.mark.parametrize("limit", [1, 2, 5, 12, 13])
    async def test_pages_lead_to_the_end(self, bench: Bench, limit: int) -> None:
        await _mixed(bench)
        assert await bench.ids(limit=limit) == list(range(12, 0, -1))
        assert await bench.ids(JobFilter(queue="b"), limit=limit) == [11, 9, 7, 5, 3, 1]

    async def test_a_limit_below_one_gives_nothing(self, bench: Bench) -> None:
        await _mixed(bench)
        for limit in (0, -1):
            assert (await bench.store.jobs(ANY, limit=limit)).jobs == []

    @pytest.mark.parametrize(
        ("states", "found"),
        [
            ((JobState.SCHEDULED,), [2, 1]),
            ((JobState.WAITING,), [4, 3]),
            ((JobState.ACTIVE,), [6, 5]),
            ((JobState.COMPLETED,), [8, 7]),
            ((JobState.DEAD,), [10, 9]),
            ((JobState.CANCELLED,), [12, 11]),
            ((JobState.SKIPPED,), []),
            ((JobState.DEAD, JobState.SCHEDULED), [10, 9, 2, 1]),
            ((JobState.ACTIVE, JobState.WAITING, JobState.COMPLETED), [8, 7, 6, 5, 4, 3]),
            (tuple(JobState), list(range(12, 0, -1))),
        ],
    )
    async def test_by_state(self, bench: Bench, states: tuple[JobState, ...], found: list[int]) -> None:
        await _mixed(bench)
        assert await bench.ids(JobFilter(states=states)) == found
        assert await bench.ids(JobFilter(states=states), limit=1) == found
        assert await bench.store.count(JobFilter(states=states)) == len(found)

    async def test_by_queue_and_task(self, bench: Bench) -> None:
        await _mixed(bench)
        cases: tuple[tuple[JobFilter, list[int]], ...] = (
            (JobFilter(queue="a"), [12, 10, 8, 6, 4, 2]),
            (JobFilter(task="task0"), [12, 9, 6, 3]),
            (JobFilter(queue="a", task="task0"), [12, 6]),
            (JobFilter(queue="a", task="task0", states=(JobState.ACTIVE,)), [6]),
            (JobFilter(queue="A"), []),
            (JobFilter(queue=""), []),
            (JobFilter(task="task"), []),
        )
        for which, found in cases:
            assert await bench.ids(which) == found, which
            assert await bench.store.count(which) == len(found)

    @pytest.mark.parametrize("tag", TAGS)
    async def test_by_tag(self, bench: Bench, tag: str) -> None:
        for job_id, mine in enumerate(TAGS, start=1):
            await bench.submit(job_id, tags=("first", mine, "last"))
        await bench.submit(99)
        for job_id in (1, 2):
            await bench.write(cancel(job_id))
        assert await bench.ids(JobFilter(tag=tag)) == [TAGS.index(tag) + 1]
        assert await bench.store.count(JobFilter(tag=tag)) == 1
        assert len(await bench.ids(JobFilter(tag="last"))) == len(TAGS)

    async def test_a_tag_given_twice_finds_its_job_once(self, bench: Bench) -> None:
        await bench.submit(1, tags=("a", "a"))
        assert await bench.ids(JobFilter(tag="a")) == [1]
        assert await bench.store.count(JobFilter(tag="a")) == 1

    async def test_by_idempotency_key(self, bench: Bench) -> None:
        await bench.submit(1, idempotency_key="k", digest="d")
        await bench.submit(2, idempotency_key="k", digest="d", task="app.other")
        await bench.submit(3, idempotency_key="K", digest="d")
        await bench.submit(4)
        assert await bench.ids(JobFilter(idempotency_key="k")) == [2, 1]
        assert await bench.ids(JobFilter(idempotency_key="k", task="app.task")) == [1]
        assert await bench.store.count(JobFilter(idempotency_key="k")) == 2

    async def test_by_a_key_that_was_used_again(self, bench: Bench) -> None:
        await bench.submit(1, idempotency_key="k", digest="d")
        await bench.write(cancel(1))
        bench.now = later(KEY_KEEPING_US)
        await bench.submit(2, idempotency_key="k", digest="e")
        assert await bench.ids(JobFilter(idempotency_key="k")) == [2, 1]

    @pytest.mark.parametrize("limit", [1, 3, 7])
    async def test_pages_while_jobs_move(self, bench: Bench, limit: int) -> None:
        """A job that matches throughout is shown exactly once, whatever state it moves to between the pages."""
        count = 24
        await bench.write(*(submit(job_id) for job_id in range(1, count + 1)))
        shown: list[int] = []
        before = None
        step = 0
        while True:
            page = await bench.store.jobs(ANY, before=before, limit=limit)
            shown += [job.job_id for job in page.jobs]
            if page.next_before is None:
                break
            before = page.next_before
            step += 1
            await self._move(bench, step, count)
        assert shown == list(range(count, 0, -1))

    async def _move(self, bench: Bench, step: int, count: int) -> None:
        """Claim some, end some, and add a newer one that no page will show."""
        low, high = step, count + 1 - step
        active = [job for job in (low, high) if await bench.state(job) is JobState.ACTIVE]
        await bench.write(*(settle_ok(job_id) for job_id in active))
        await bench.write(claim(low, low + 1, high, high - 1), submit(1000 + step))
        if step % 3 == 0 and not (await bench.state(low + 2)).final:
            await bench.write(cancel(low + 2))

    async def test_pages_of_a_filter_while_jobs_leave_it(self, bench: Bench) -> None:
        await bench.write(*(submit(job_id) for job_id in range(1, 21)))
        which = JobFilter(states=(JobState.SCHEDULED,))
        first = await bench.store.jobs(which, limit=5)
        assert [job.job_id for job in first.jobs] == [20, 19, 18, 17, 16]
        await bench.write(claim(16, 14, 13))
        await bench.write(settle_ok(14))
        second = await bench.store.jobs(which, before=first.next_before, limit=100)
        assert [job.job_id for job in second.jobs] == [15, *range(12, 0, -1)]

    async def test_count_of_everything(self, bench: Bench) -> None:
        assert await bench.store.count(ANY) == 0
        await _mixed(bench)
        assert await bench.store.count(ANY) == 12
