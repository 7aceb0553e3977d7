"""Idempotency keys: one job a key and task, until 7 days after it is final."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import JobState, Now
from timewheel.store.changes import KEY_KEEPING_US, Done, KeyConflict, PruneKeys, Submit, Submitted
from timewheel.testing.builders import START, cancel, claim, later, settle_dead, settle_ok, submit
from timewheel.testing.conformance.bench import Bench, BenchTests

AGAIN = Submitted(1, -1, created=False)


def keyed(job_id: int, key: str = "k", digest: str = "d", task: str = "app.task") -> Submit:
    """A Submit with a key."""
    return submit(job_id, idempotency_key=key, digest=digest, task=task)


@pytest.mark.asyncio
class Keys(BenchTests):
    """Idempotency keys."""

    async def test_the_same_request_finds_its_job(self, bench: Bench) -> None:
        first = await bench.one(keyed(1), Submitted)
        assert first.created
        assert await bench.write(keyed(2)) == [AGAIN]
        assert await bench.store.job(2) is None
        assert (await bench.job(1)).idempotency_key == "k"

    async def test_another_request_is_refused(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        before = await bench.store.dump()
        assert await bench.write(keyed(2, digest="other")) == [KeyConflict(1)]
        assert await bench.store.dump() == before

    async def test_a_key_belongs_to_its_task(self, bench: Bench) -> None:
        outcomes = await bench.write(keyed(1), keyed(2, task="app.other"), keyed(3, key="K"))
        assert [outcome.created for outcome in outcomes if isinstance(outcome, Submitted)] == [True] * 3

    async def test_of_equal_keys_in_a_batch_the_first_makes_the_job(self, bench: Bench) -> None:
        outcomes = await bench.write(keyed(9), keyed(2), keyed(3, digest="other"), keyed(4, key="l"))
        assert outcomes[1:3] == [Submitted(9, -1, created=False), KeyConflict(9)]
        assert sorted(await bench.ids()) == [4, 9]

    async def test_a_key_is_held_in_every_state(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        for change in (claim(1), settle_dead(1)):
            assert await bench.write(keyed(2)) == [AGAIN]
            await bench.write(change)
        assert await bench.state(1) is JobState.DEAD
        assert await bench.write(keyed(2), keyed(3, digest="other")) == [AGAIN, KeyConflict(1)]

    async def test_a_key_is_free_seven_days_after_its_job_was_final(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        bench.now = later(1000)
        await bench.write(cancel(1))
        bench.now = later(1000 + KEY_KEEPING_US - 1)
        assert await bench.write(keyed(2), keyed(3, digest="other")) == [AGAIN, KeyConflict(1)]
        bench.now = later(1000 + KEY_KEEPING_US)
        again = await bench.one(keyed(4, digest="other"), Submitted)
        assert (again.job_id, again.created) == (4, True)
        assert await bench.write(keyed(5), keyed(6, digest="other")) == [KeyConflict(4), Submitted(4, -1, False)]
        assert (await bench.store.dump())["keys"] == {("app.task", "k"): (4, "other")}
        assert await bench.state(1) is JobState.CANCELLED

    async def test_freed_twice_in_one_batch(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        await bench.write(cancel(1))
        bench.now = later(KEY_KEEPING_US)
        first, second = await bench.write(keyed(2), keyed(3))
        assert isinstance(first, Submitted)
        assert first.created
        assert second == Submitted(2, -1, created=False)

    async def test_a_key_of_a_job_that_is_not_final_never_ends(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        bench.now = later(100 * KEY_KEEPING_US)
        assert await bench.write(keyed(2)) == [AGAIN]
        assert await bench.write(PruneKeys(10)) == [Done(0)]

    async def test_keeping_is_measured_on_the_wall_clock(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        await bench.write(cancel(1))
        bench.now = Now(START.wall_us, START.steady_us + 2 * KEY_KEEPING_US)
        assert await bench.write(PruneKeys(10), keyed(2)) == [Done(0), AGAIN]
        bench.now = Now(START.wall_us - KEY_KEEPING_US, START.steady_us)
        assert await bench.write(PruneKeys(10), keyed(2)) == [Done(0), AGAIN]

    async def test_pruning_forgets_old_keys_only(self, bench: Bench) -> None:
        await bench.write(keyed(1, "a"), keyed(2, "b"), keyed(3, "c"))
        await bench.write(claim(1), cancel(2))
        await bench.write(settle_ok(1))
        before = await bench.store.dump()
        bench.now = later(KEY_KEEPING_US)
        assert await bench.write(PruneKeys(10)) == [Done(0)]
        bench.now = later(KEY_KEEPING_US + 1)
        assert await bench.write(PruneKeys(10)) == [Done(2)]
        assert await bench.store.dump() == before | {"keys": {("app.task", "c"): (3, "d")}}
        assert await bench.write(PruneKeys(10)) == [Done(0)]
        assert [o.created for o in await bench.write(keyed(4, "a", "x")) if isinstance(o, Submitted)] == [True]

    async def test_pruning_is_bounded(self, bench: Bench) -> None:
        await bench.write(*(keyed(job_id, str(job_id)) for job_id in range(1, 8)))
        await bench.write(*(cancel(job_id) for job_id in range(1, 8)))
        bench.now = later(KEY_KEEPING_US + 1)
        rows = [(await bench.one(PruneKeys(limit), Done)).rows for limit in (0, -1, 3, 3, 3)]
        assert rows == [0, 0, 3, 3, 1]
        assert (await bench.store.dump())["keys"] == {}

    async def test_keys_survive_a_crash(self, bench: Bench) -> None:
        await bench.write(keyed(1))
        await bench.crash()
        await bench.own()
        assert await bench.write(keyed(2), keyed(3, digest="other")) == [AGAIN, KeyConflict(1)]
