"""Prune: jobs that ended long ago are forgotten, as rules say."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import Any

import pytest

from timewheel.model import JobState
from timewheel.schedule_records import Fate
from timewheel.store.changes import KEY_KEEPING_US, Change, PruneKeys, TakeOver, Unheld
from timewheel.store.letters import Pruned, PruneRule
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    later,
    occurrence,
    settle_dead,
    settle_ok,
    settle_retry,
    submit,
)
from timewheel.testing.builders_flow import discard, prune, replay, rule, unique, waiting_for
from timewheel.testing.conformance.bench import Bench, BenchTests, refused

T = START.wall_us
COMPLETED, CANCELLED, DEAD, SKIPPED = JobState.COMPLETED, JobState.CANCELLED, JobState.DEAD, JobState.SKIPPED
EVERYTHING = [rule(state, letters=True) for state in (COMPLETED, CANCELLED, DEAD, SKIPPED)]


async def several(bench: Bench) -> None:
    """1 completed at 10, 2 (queue q) at 20, 3 cancelled at 30, 4 died at 40, 5 at 50 and was discarded at 60.

    6 was skipped at 60; 7 is scheduled, 8 runs, 9 waits.
    """
    for job_id in range(1, 10):
        queue = "q" if job_id == 2 else "default"
        await bench.submit(job_id, queue=queue, misfire_grace_us=0, concurrency_key="k" if job_id > 7 else None)
    await bench.claim(1, 2, 4, 5, 8)
    await bench.claim(9)
    ends: list[Change] = [settle_ok(1), settle_ok(2), cancel(3), settle_dead(4), settle_dead(5)]
    for at, change in enumerate(ends, 1):
        bench.now = later(at * 10)
        await bench.write(change)
    bench.now = later(60)
    await bench.write(discard(5), claim(6, watching_since=later(1)))


async def left_of(bench: Bench, *rules: PruneRule, **changes: Any) -> list[int]:
    """The jobs that are left, the newest first, after one Prune of everything; how many are gone must fit."""
    before = await bench.ids()
    pruned = await bench.one(prune(*rules, **changes), Pruned)
    left = await bench.ids()
    assert pruned.rows == len(before) - len(left)
    return left


@pytest.mark.asyncio
class Pruning(BenchTests):
    """Prune."""

    async def test_without_rules_nothing_is_forgotten(self, bench: Bench) -> None:
        await several(bench)
        before = await bench.store.dump()
        assert await bench.one(prune(), Pruned) == Pruned(0, None)
        assert await bench.store.dump() == before

    @pytest.mark.parametrize(
        ("rules", "gone"),
        [
            ([rule(COMPLETED)], {1, 2}),
            ([rule(CANCELLED)], {3}),
            ([rule(SKIPPED)], {6}),
            ([rule(DEAD)], {5}),
            ([rule(DEAD, letters=True)], {4, 5}),
            ([rule(COMPLETED, T + 20)], {1}),
            ([rule(COMPLETED, T + 21)], {1, 2}),
            ([rule(COMPLETED, T + 10)], set()),
            ([rule(COMPLETED, queue="q")], {2}),
            ([rule(COMPLETED, T + 20, "q")], set()),
            ([rule(COMPLETED, queue="Q")], set()),
            ([rule(DEAD, T + 60)], set()),
            ([rule(DEAD, T + 61)], {5}),
            ([rule(DEAD, T + 50, letters=True)], {4}),
            ([rule(COMPLETED, T + 11), rule(COMPLETED, queue="q"), rule(SKIPPED)], {1, 2, 6}),
            ([rule(state) for state in (JobState.SCHEDULED, JobState.ACTIVE, JobState.WAITING)], set()),
            (EVERYTHING, {1, 2, 3, 4, 5, 6}),
        ],
    )
    async def test_what_the_rules_name(self, bench: Bench, rules: list[PruneRule], gone: set[int]) -> None:
        await several(bench)
        assert await left_of(bench, *rules) == [job_id for job_id in range(9, 0, -1) if job_id not in gone]

    async def test_a_forgotten_job_is_gone(self, bench: Bench) -> None:
        await bench.active(1, tags=("x",), flow=unique("d", ("COMPLETED",)))
        await bench.write(settle_retry(1, START.steady_us))
        await bench.claim(1)
        await bench.write(settle_ok(1, attempt=2))
        await bench.write(prune(*EVERYTHING))
        assert await bench.store.job(1) is None
        assert await bench.store.attempts(1) == []
        dump = await bench.store.dump()
        assert (dump["jobs"], dump["attempts"]) == ({}, {})
        [made] = await bench.write(submit(1, flow=unique("d", ("COMPLETED",))))
        assert getattr(made, "created", None) is True
        assert await bench.store.attempts(1) == []
        await bench.crash()
        assert await bench.ids() == [1]

    async def test_page_by_page(self, bench: Bench) -> None:
        await several(bench)
        assert await bench.one(prune(*EVERYTHING, limit=2), Pruned) == Pruned(2, 2)
        assert await bench.one(prune(*EVERYTHING, after=2, limit=4), Pruned) == Pruned(4, 6)
        assert await bench.one(prune(*EVERYTHING, after=6, limit=2), Pruned) == Pruned(0, 8)
        assert await bench.one(prune(*EVERYTHING, after=8, limit=2), Pruned) == Pruned(0, None)
        assert await bench.one(prune(*EVERYTHING, after=99, limit=2), Pruned) == Pruned(0, None)

    async def test_a_page_that_is_just_full_is_not_the_end(self, bench: Bench) -> None:
        await bench.write(submit(4), submit(7))
        assert await bench.one(prune(limit=2), Pruned) == Pruned(0, 7)
        assert await bench.one(prune(after=7, limit=2), Pruned) == Pruned(0, None)
        assert await bench.one(prune(after=4, limit=2), Pruned) == Pruned(0, None)

    async def test_two_of_a_batch(self, bench: Bench) -> None:
        await several(bench)
        assert await bench.write(prune(rule(COMPLETED), limit=2), prune(*EVERYTHING, limit=2)) == [
            Pruned(2, 2),
            Pruned(2, 4),
        ]

    async def test_who_holds_an_idempotency_key_stays(self, bench: Bench) -> None:
        for job_id in (1, 2):
            await bench.submit(job_id, idempotency_key=f"k{job_id}", digest="d")
            bench.now = later(job_id)
            await bench.write(cancel(job_id))
        bench.now = later(KEY_KEEPING_US + 2)
        assert await left_of(bench, *EVERYTHING) == [2, 1]
        await bench.write(PruneKeys(9))
        assert await left_of(bench, *EVERYTHING) == [2]
        bench.now = later(KEY_KEEPING_US + 3)
        assert await bench.write(PruneKeys(9), prune(*EVERYTHING)) != []
        assert await bench.ids() == []

    async def test_whose_key_another_took_goes(self, bench: Bench) -> None:
        await bench.submit(1, idempotency_key="k", digest="d")
        await bench.write(cancel(1))
        bench.now = later(KEY_KEEPING_US)
        await bench.submit(2, idempotency_key="k", digest="d")
        assert await left_of(bench, *EVERYTHING) == [2]
        assert (await bench.store.dump())["keys"] == {("app.task", "k"): (2, "d")}

    async def test_who_is_waited_for_stays(self, bench: Bench) -> None:
        await bench.write(submit(1), submit(2), submit(3, flow=waiting_for(1, 2)))
        await bench.write(claim(1, 2))
        await bench.write(settle_ok(1), settle_ok(2))
        assert await left_of(bench, *EVERYTHING) == [3, 2, 1]
        assert await bench.write(TakeOver(everything=True)) != [Unheld([])]
        assert await left_of(bench, *EVERYTHING) == [3]

    async def test_who_was_waited_for_goes(self, bench: Bench) -> None:
        """Once nobody waits any more: that one was cancelled."""
        await bench.write(submit(1), submit(3, flow=waiting_for(1)))
        await bench.write(cancel(1))
        assert await left_of(bench, *EVERYTHING) == [3, 1]
        await bench.write(cancel(3))
        assert await left_of(bench, *EVERYTHING) == []

    async def test_the_ledger_keeps_its_rows(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1))
        await bench.write(cancel(1))
        rows = (await bench.store.dump())["ledger"]
        await bench.write(prune(*EVERYTHING))
        assert (await bench.store.dump())["ledger"] == rows
        [entry] = (await bench.store.ledger("s")).entries
        assert (entry.occurrence.fate, entry.occurrence.job_id, entry.job_state) == (Fate.JOB, 1, None)

    async def test_what_is_replayed_in_the_same_batch_stays(self, bench: Bench) -> None:
        await several(bench)
        await bench.write(prune(*EVERYTHING), replay(4), replay(3))
        assert await bench.ids() == [9, 8, 7, 4, 3]

    async def test_a_batch_that_fails_forgets_nothing(self, bench: Bench) -> None:
        await several(bench)
        await refused(bench, prune(*EVERYTHING), submit(7))
