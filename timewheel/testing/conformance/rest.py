"""The rest: Unhold, limits, queues, journal entries."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.model import ClockKind, JobState, WaitingReason
from timewheel.store.changes import AddEntry, Done, PutQueue, SaveLimits, Unheld
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    settle_overrun,
    settle_unresolvable,
    submit,
    unhold,
)
from timewheel.testing.conformance.bench import Bench, BenchTests

OVERRUN, UNRESOLVABLE = WaitingReason.OVERRUN, WaitingReason.UNRESOLVABLE


async def _held(bench: Bench) -> None:
    """Jobs 1-8 WAITING: the odd ones unresolvable (tasks t1 and t0), the even ones overrun; 9 SCHEDULED, 10 ACTIVE."""
    await bench.write(*(submit(job_id, task=f"t{job_id // 2 % 2}") for job_id in range(10, 0, -1)))
    await bench.write(claim(*range(1, 9), 10))
    await bench.write(*(settle_unresolvable(job_id) for job_id in (7, 5, 1, 3)))
    await bench.write(*(settle_overrun(job_id, START.steady_us + job_id) for job_id in (2, 4, 6, 8)))


@pytest.mark.asyncio
class Rest(BenchTests):
    """Everything else that is written."""

    async def _unheld(self, bench: Bench, reason: WaitingReason, limit: int, **changes: Any) -> list[int]:
        unheld = await bench.one(unhold(reason, limit, **changes), Unheld)
        for lane, due_at, job_id in unheld.places:
            job = await bench.job(job_id)
            assert (job.state, job.reason, job.due_at) == (JobState.SCHEDULED, None, due_at)
            assert await bench.lane_of(lane) == (job.queue, job.priority, job.due_clock)
            assert (due_at, job_id) in await bench.due(lane)
        return [job_id for _, _, job_id in unheld.places]

    async def test_unhold_one_reason_oldest_first(self, bench: Bench) -> None:
        await _held(bench)
        assert await self._unheld(bench, UNRESOLVABLE, 2) == [1, 3]
        assert await self._unheld(bench, UNRESOLVABLE, 2) == [5, 7]
        assert await self._unheld(bench, UNRESOLVABLE, 2) == []
        assert await bench.state(2) is JobState.WAITING
        assert await self._unheld(bench, OVERRUN, 99) == [2, 4, 6, 8]

    async def test_unhold_keeps_the_due_time(self, bench: Bench) -> None:
        await _held(bench)
        await bench.write(unhold(UNRESOLVABLE), unhold(OVERRUN))
        assert [(job.due_clock, job.due_at) for job in [await bench.job(1), await bench.job(2)]] == [
            (ClockKind.WALL, START.wall_us),
            (ClockKind.STEADY, START.steady_us + 2),
        ]
        job = await bench.job(2)
        assert (job.version, job.failures, job.attempt) == (1, 1, 1)

    async def test_unhold_by_tasks(self, bench: Bench) -> None:
        await _held(bench)
        assert await self._unheld(bench, UNRESOLVABLE, 99, tasks=()) == []
        assert await self._unheld(bench, UNRESOLVABLE, 99, tasks=("other",)) == []
        assert await self._unheld(bench, UNRESOLVABLE, 99, tasks=("t1", "other")) == [3, 7]
        assert await self._unheld(bench, UNRESOLVABLE, 99, tasks=("t1", "t0")) == [1, 5]

    async def test_unhold_by_ids(self, bench: Bench) -> None:
        await _held(bench)
        assert await self._unheld(bench, OVERRUN, 99, job_ids=()) == []
        assert await self._unheld(bench, OVERRUN, 99, job_ids=(1, 3, 9, 10, 99)) == []
        assert await self._unheld(bench, OVERRUN, 99, job_ids=(6, 1, 2, 6)) == [2, 6]

    async def test_unhold_by_both(self, bench: Bench) -> None:
        await _held(bench)
        assert await self._unheld(bench, UNRESOLVABLE, 1, tasks=("t0",), job_ids=(3, 5, 7)) == [5]

    async def test_the_limit_counts_what_matches(self, bench: Bench) -> None:
        await _held(bench)
        assert await self._unheld(bench, UNRESOLVABLE, 1, tasks=("t1",)) == [3]

    async def test_unhold_with_a_limit_below_one(self, bench: Bench) -> None:
        await _held(bench)
        before = await bench.store.dump()
        assert await bench.write(unhold(limit=0), unhold(limit=-1)) == [Unheld([]), Unheld([])]
        assert await bench.store.dump() == before

    async def test_two_unholds_in_a_batch(self, bench: Bench) -> None:
        await _held(bench)
        first, second = await bench.write(unhold(UNRESOLVABLE, 3), unhold(UNRESOLVABLE, 3))
        assert isinstance(first, Unheld)
        assert isinstance(second, Unheld)
        assert [[job_id for _, _, job_id in unheld.places] for unheld in (first, second)] == [[1, 3, 5], [7]]

    async def test_a_cancelled_waiter_is_not_unheld(self, bench: Bench) -> None:
        await _held(bench)
        unheld, _ = await bench.write(unhold(UNRESOLVABLE), cancel(3))
        assert isinstance(unheld, Unheld)
        assert [job_id for _, _, job_id in unheld.places] == [1, 5, 7]

    async def test_an_unheld_job_is_claimed_under_the_next_number(self, bench: Bench) -> None:
        await _held(bench)
        await bench.write(unhold(UNRESOLVABLE))
        assert [job.attempt for job in (await bench.claim(1)).jobs] == [2]

    # ---- limits, queues, entries -------------------------------------------------------------------------------------

    async def test_limits_are_stored_by_name(self, bench: Bench) -> None:
        await bench.one(SaveLimits({"queue:a": 5, "žluť": (1 << 62), "none": 0, "minus": -7}), Done)
        await bench.one(SaveLimits({"queue:a": 6}), Done)
        await bench.one(SaveLimits({}), Done)
        expected = {"queue:a": 6, "žluť": 1 << 62, "none": 0, "minus": -7}
        assert await bench.store.limits() == expected
        await bench.crash()
        assert await bench.store.limits() == expected

    async def test_settings_of_a_queue_are_replaced(self, bench: Bench) -> None:
        await bench.one(PutQueue("mail", '{"a":1}'), Done)
        await bench.one(PutQueue("žluť", "{}"), Done)
        await bench.one(PutQueue("mail", '{"b": "é"}'), Done)
        await bench.crash()
        assert await bench.store.queues() == {"mail": '{"b": "é"}', "žluť": "{}"}
        assert await bench.store.entries() == []

    async def test_what_is_said_of_a_queues_settings_is_written_with_them(self, bench: Bench) -> None:
        await bench.one(PutQueue("mail", "{}", audit='{"é": 1}'), Done)
        await bench.write(AddEntry("a"), PutQueue("mail", '{"b":1}', audit='{"n":2}'), PutQueue("mail", "{}"))
        await bench.crash()
        assert await bench.store.queues() == {"mail": "{}"}
        told = [entry[2:] for entry in await bench.store.entries()]
        assert told == [("audit", '{"é": 1}'), ("a", "{}"), ("audit", '{"n":2}')]

    async def test_entries_come_in_their_order(self, bench: Bench) -> None:
        for step, kind in enumerate("abcde"):
            bench.now = later(-step)
            await bench.one(AddEntry(kind, f'{{"é": {step}}}'), Done)
        entries = await bench.store.entries()
        numbers = [number for number, _, _, _ in entries]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        assert [tuple(entry[1:]) for entry in entries] == [
            (START.wall_us - step, kind, f'{{"é": {step}}}') for step, kind in enumerate("abcde")
        ]
        assert await bench.store.entries(after=numbers[1]) == entries[2:]
        assert await bench.store.entries(after=numbers[1], limit=2) == entries[2:4]
        assert await bench.store.entries(after=numbers[-1]) == []
        assert await bench.store.entries(limit=0) == []
        assert await bench.store.entries(limit=-1) == []
        await bench.crash()
        assert await bench.store.entries() == entries

    async def test_numbers_of_entries_go_on_after_a_crash(self, bench: Bench) -> None:
        await bench.write(AddEntry("a"), AddEntry("b"))
        last = (await bench.store.entries())[-1][0]
        await bench.crash()
        await bench.own()
        await bench.write(AddEntry("c"))
        assert [(entry[2], entry[3]) for entry in await bench.store.entries(after=last)] == [("c", "{}")]
