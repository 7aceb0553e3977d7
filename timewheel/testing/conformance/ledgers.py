"""What is read of schedules: their ledgers page by page, and their jobs."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.model import ClockKind, JobState, OriginKind
from timewheel.schedule_records import Fate, OccurrenceRecord, UnfinishedJob
from timewheel.store.port import JobFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    drop_schedule,
    occurrence,
    plan,
    row,
    row_of,
    settle_ok,
    settle_overrun,
    settle_retry,
)
from timewheel.testing.conformance.bench import MAX_PAGES, Bench, BenchTests

T = START.wall_us


async def read(bench: Bench, schedule: str = "s", limit: int = 100, **between: Any) -> list[OccurrenceRecord]:
    """A ledger, page by page, the newest row first. Numbers must fall without end."""
    found: list[OccurrenceRecord] = []
    numbers: list[int] = []
    before = None
    for _ in range(MAX_PAGES):
        page = await bench.store.ledger(schedule, before=before, limit=limit, **between)
        assert len(page.entries) <= limit
        found += [entry.occurrence for entry in page.entries]
        numbers += [entry.number for entry in page.entries]
        assert numbers == sorted(set(numbers), reverse=True)
        if page.next_before is None:
            return found
        assert before is None or page.next_before < before, "pages must go on"
        before = page.next_before
    raise AssertionError("the pages have no end")


@pytest.mark.asyncio
class Ledgers(BenchTests):
    """The account of every occurrence."""

    async def test_the_newest_rows_come_first(self, bench: Bench) -> None:
        """In the order of writing: whatever instants, turns and kinds they have."""
        await bench.put_schedules("s", "t")
        made = occurrence(1, T + 5)
        first = plan(made, rows=[row(T, T + 4, 3), row(T + 9)])
        other = plan(rows=[row(T, schedule="t")])
        second = plan(
            rows=[row(T - 9), row(T, clock=ClockKind.STEADY), row(T, turn=1), row(T, kind=OriginKind.BACKFILL)]
        )
        await bench.write(first, other, second)
        assert await read(bench) == [*reversed(second.rows), *reversed(first.rows)]
        assert await read(bench, "t") == other.rows
        assert await read(bench, "unknown") == []
        await bench.crash()
        await bench.own()
        await bench.plan(rows=[row(T + 1)])
        assert (await read(bench))[:2] == [row(T + 1), second.rows[-1]]

    @pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
    async def test_pages_of_a_ledger(self, bench: Bench, limit: int) -> None:
        await bench.put_schedules("s", "t")
        for at in range(6):
            await bench.write(plan(rows=[row(T + at)]), plan(rows=[row(T + at, schedule="t")]))
        assert await read(bench, limit=limit) == [row(T + at) for at in range(5, -1, -1)]

    async def test_a_limit_of_a_ledger_below_one(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(rows=[row(T)])
        for limit in (0, -1):
            assert (await bench.store.ledger("s", limit=limit)).entries == []

    async def test_before_a_number(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(rows=[row(T), row(T + 1), row(T + 2)])
        numbers = [entry.number for entry in (await bench.store.ledger("s")).entries]
        page = await bench.store.ledger("s", before=numbers[0])
        assert [entry.number for entry in page.entries] == numbers[1:]
        page = await bench.store.ledger("s", before=numbers[-1])
        assert page.entries == []

    @pytest.mark.parametrize("limit", [1, 100])
    async def test_rows_that_touch_a_span(self, bench: Bench, limit: int) -> None:
        await bench.put_schedules()
        rows = [row(10, 20, 2), row(30), row(15, 16), row(40, 50, 11), row(5, 60, 3)]
        await bench.plan(rows=rows)
        cases: tuple[tuple[int | None, int | None, list[int]], ...] = (
            (20, 30, [4, 1, 0]),
            (21, 29, [4]),
            (20, 20, [4, 0]),
            (None, 9, [4]),
            (None, 10, [4, 0]),
            (50, None, [4, 3]),
            (51, None, [4]),
            (61, None, []),
            (None, 4, []),
            (0, 1 << 60, [4, 3, 2, 1, 0]),
        )
        for since, until, found in cases:
            assert await read(bench, limit=limit, since=since, until=until) == [rows[place] for place in found]

    async def test_a_row_tells_the_state_of_its_job(self, bench: Bench) -> None:
        await bench.put_schedules()
        coalesced = row(T + 9, fate=Fate.COALESCED, job_id=2)
        await bench.plan(
            *(occurrence(job_id, T + job_id - 9) for job_id in (1, 2, 3, 4)), rows=[coalesced, row(T + 10)]
        )
        await bench.write(claim(1, 2, 3), cancel(4))
        await bench.write(settle_ok(1), settle_overrun(3))
        entries = (await bench.store.ledger("s")).entries
        assert [entry.job_state for entry in entries] == [
            None,
            JobState.ACTIVE,
            JobState.CANCELLED,
            JobState.WAITING,
            JobState.ACTIVE,
            JobState.COMPLETED,
        ]

    # ---- jobs of schedules -------------------------------------------------------------------------------------------

    async def test_unfinished_jobs_by_schedule(self, bench: Bench) -> None:
        await bench.put_schedules("s", "t", "u")
        await bench.submit(1)
        await bench.plan(*(occurrence(job_id, T - job_id) for job_id in (9, 2, 5, 4, 6)))
        await bench.plan(occurrence(3, 7, clock=ClockKind.STEADY, kind=OriginKind.MANUAL), hold=True)
        await bench.plan(occurrence(7, name="t", kind=OriginKind.BACKFILL))
        await bench.plan(occurrence(8, name="u"))
        await bench.write(claim(1, 2, 5, 9, 4, 8))
        await bench.write(settle_ok(5), settle_overrun(2), settle_ok(8), cancel(6), cancel(4, "", entered=True))
        expected = {
            "s": [
                UnfinishedJob(2, JobState.WAITING, "overrun", T - 2, OriginKind.RULE, cancel_requested=False),
                UnfinishedJob(3, JobState.WAITING, "overlap", 7, OriginKind.MANUAL, cancel_requested=False),
                UnfinishedJob(4, JobState.ACTIVE, None, T - 4, OriginKind.RULE, cancel_requested=True),
                UnfinishedJob(9, JobState.ACTIVE, None, T - 9, OriginKind.RULE, cancel_requested=False),
            ],
            "t": [UnfinishedJob(7, JobState.SCHEDULED, None, T, OriginKind.BACKFILL, cancel_requested=False)],
        }
        assert await bench.store.unfinished(["t", "s", "u", "unknown"]) == expected
        assert await bench.store.unfinished(["s", "t"], limit=2) == {"s": expected["s"][:2], "t": expected["t"]}
        assert await bench.store.unfinished(["t"]) == {"t": expected["t"]}
        assert await bench.store.unfinished([]) == {}
        assert await bench.store.unfinished(["u"]) == {}
        await bench.write(drop_schedule("t"), settle_retry(9, T))
        assert await bench.store.unfinished(["t"]) == {"t": expected["t"]}
        assert (await bench.store.unfinished(["s"]))["s"][-1].state is JobState.SCHEDULED
        await bench.crash()
        assert await bench.store.unfinished(["t"]) == {"t": expected["t"]}

    async def test_unfinished_jobs_of_many_schedules(self, bench: Bench) -> None:
        names = [f"s{n}" for n in range(1_200)]
        await bench.put_schedules(*names)
        await bench.write(*(plan(occurrence(n + 1, name=name)) for n, name in enumerate(names)))
        found = await bench.store.unfinished(names)
        assert {name: [job.job_id for job in jobs] for name, jobs in found.items()} == {
            name: [n + 1] for n, name in enumerate(names)
        }

    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_jobs_by_schedule(self, bench: Bench, limit: int) -> None:
        await bench.put_schedules("s", "S")
        await bench.plan(*(occurrence(job_id, job_id) for job_id in (2, 4, 6, 8)))
        await bench.plan(occurrence(3, name="S"))
        await bench.submit(5)
        await bench.write(cancel(4))
        await bench.claim(6)
        await bench.write(settle_ok(6), drop_schedule())
        cases: tuple[tuple[JobFilter, list[int]], ...] = (
            (JobFilter(schedule="s"), [8, 6, 4, 2]),
            (JobFilter(schedule="S"), [3]),
            (JobFilter(schedule="unknown"), []),
            (JobFilter(schedule="s", states=(JobState.CANCELLED, JobState.SCHEDULED)), [8, 4, 2]),
            (JobFilter(schedule="s", task="other"), []),
            (JobFilter(), [8, 6, 5, 4, 3, 2]),
        )
        for which, found in cases:
            assert await bench.ids(which, limit=limit) == found, which
            assert await bench.store.count(which) == len(found), which

    async def test_a_job_of_a_schedule_keeps_its_origin_to_the_end(self, bench: Bench) -> None:
        await bench.put_schedules()
        made = occurrence(1, T - 1, turn=3, concurrency_key="k")
        await bench.plan(made)
        await bench.claim(1)
        await bench.write(settle_retry(1, START.steady_us))
        assert ((await bench.job(1)).origin, (await bench.job(1)).concurrency_key) == (made.origin, "k")
        [claimed] = (await bench.claim(1)).jobs
        assert claimed.origin == made.origin
        await bench.write(settle_ok(1, attempt=2))
        job = await bench.job(1)
        assert (job.state, job.origin, job.concurrency_key) == (JobState.COMPLETED, made.origin, "k")
        page = await bench.store.jobs(JobFilter(schedule="s"))
        assert page.jobs == [job]
        assert (await bench.store.dump())["jobs"][1] == job
        assert await read(bench) == [row_of(made)]
