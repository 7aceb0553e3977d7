"""Concurrency keys that more than one job may hold: limits as tasks and queues declare them."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timewheel.model import ClockKind, JobState
from timewheel.store.changes import Change, Claimed, TakeOver, Unheld
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyHolder, KeyLimits
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    settle_dead,
    settle_lost,
    settle_ok,
    settle_overrun,
    submit,
)
from timewheel.testing.conformance.bench import Bench, BenchTests
from timewheel.testing.conformance.claims import ids

if TYPE_CHECKING:
    from collections.abc import Callable

T = START.wall_us
TWO = KeyLimits(tasks={"app.task": 2})
ONE = {1: KeyHolder("k", "app.task", "default")}


async def released(
    bench: Bench, *changes: Change, limits: KeyLimits = ONE_OF_A_KEY, everything: bool = True
) -> list[int]:
    """The jobs that a TakeOver with these limits releases in a batch of other changes."""
    *_, unheld = await bench.write(*changes, TakeOver(everything, limits))
    assert isinstance(unheld, Unheld), unheld
    for lane, due_at, job_id in unheld.places:
        assert await bench.state(job_id) is JobState.SCHEDULED
        assert (due_at, job_id) in await bench.due(lane)
    return [job_id for _, _, job_id in unheld.places]


async def some_wait(bench: Bench) -> None:
    """1 and 2 hold the key; 3 to 6 wait for it in one lane, 7 to 9 in another; later ones are due first."""
    await bench.write(*(submit(job_id, concurrency_key="k", scheduled_at=T - job_id) for job_id in range(1, 7)))
    await bench.write(*(submit(n, concurrency_key="k", scheduled_at=T - n, queue="q") for n in (7, 8, 9)))
    claimed = await bench.claim(*range(1, 10), key_limits=TWO)
    assert (ids(claimed), claimed.waiting) == ([1, 2], [3, 4, 5, 6, 7, 8, 9])


@pytest.mark.asyncio
class LimitsOfKeys(BenchTests):
    """KeyLimits of Claim and TakeOver."""

    @pytest.mark.parametrize(
        ("limits", "runs"),
        [
            (ONE_OF_A_KEY, 1),
            (KeyLimits(), 1),
            (KeyLimits(tasks={"app.task": 2}), 2),
            (KeyLimits(queues={"default": 3}), 3),
            (KeyLimits({"app.task": 2}, {"default": 3}), 2),
            (KeyLimits({"app.task": 4}, {"default": 3}), 3),
            (KeyLimits({"other": 4}, {"other": 3}), 1),
            (KeyLimits({"app.task": 100}), 5),
        ],
    )
    async def test_as_many_begin_as_are_declared(self, bench: Bench, limits: KeyLimits, runs: int) -> None:
        await bench.write(*(submit(job_id, concurrency_key="k") for job_id in range(1, 6)))
        claimed = await bench.claim(5, 1, 4, 2, 3, key_limits=limits)
        order = [5, 1, 4, 2, 3]
        assert (ids(claimed), claimed.waiting) == (order[:runs], order[runs:])

    async def test_those_that_run_count(self, bench: Bench) -> None:
        """A job that runs, one whose handler cannot be stopped, and those that this very batch claimed."""
        limits = KeyLimits(tasks={"app.task": 4})
        for job_id in (1, 2):
            await bench.submit(job_id, concurrency_key="k")
        await bench.claim(1, 2, key_limits=limits)
        await bench.write(settle_overrun(2))
        for job_id in (3, 4, 5):
            await bench.submit(job_id, concurrency_key="k")
        first, second = await bench.write(claim(3, key_limits=limits), claim(4, 5, key_limits=limits))
        assert isinstance(first, Claimed)
        assert isinstance(second, Claimed)
        assert (ids(first), ids(second), second.waiting) == ([3], [4], [5])

    async def test_the_limit_of_each_holder_holds_too(self, bench: Bench) -> None:
        limits = KeyLimits(tasks={"many": 3, "few": 2})
        for job_id, task in ((1, "few"), (2, "many"), (3, "many"), (4, "one")):
            await bench.submit(job_id, concurrency_key="k", task=task)
        claimed = await bench.claim(1, 2, 3, key_limits=limits)
        assert (ids(claimed), claimed.waiting) == ([1, 2], [3])
        await bench.write(settle_ok(1))
        assert ids(await bench.claim(4, key_limits=limits)) == []
        assert await released(bench, limits=limits) == [3, 4]
        claimed = await bench.claim(4, 3, key_limits=limits)
        assert (ids(claimed), claimed.waiting) == ([3], [4])

    async def test_nobody_begins_beside_a_holder_of_one(self, bench: Bench) -> None:
        limits = KeyLimits(queues={"wide": 9})
        await bench.active(1, concurrency_key="k", queue="narrow")
        await bench.submit(2, concurrency_key="k", queue="wide")
        assert (await bench.claim(2, key_limits=limits)).waiting == [2]

    async def test_a_limit_that_shrank(self, bench: Bench) -> None:
        """More run than may: nobody begins until there is room, and nobody is stopped."""
        for job_id in range(1, 5):
            await bench.submit(job_id, concurrency_key="k")
        assert ids(await bench.claim(1, 2, 3, key_limits=KeyLimits({"app.task": 3}))) == [1, 2, 3]
        assert (await bench.claim(4, key_limits=TWO)).waiting == [4]
        assert await released(bench, settle_ok(1), limits=TWO) == []
        assert await released(bench, settle_ok(2), limits=TWO) == [4]

    async def test_keys_of_others_do_not_count(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="l")
        await bench.active(2)
        await bench.write(*(submit(job_id, concurrency_key="k") for job_id in (3, 4, 5)))
        assert ids(await bench.claim(3, 4, 5, key_limits=TWO)) == [3, 4]

    async def test_who_is_held_back_takes_no_room(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.write(settle_lost(1, 3, due_at=START.steady_us))
        await bench.write(*(submit(job_id, concurrency_key="k") for job_id in (2, 3, 4)))
        claimed = await bench.claim(1, 2, 3, 4, key_limits=TWO, last_chances=0)
        assert (claimed.held, ids(claimed), claimed.waiting) == ([1], [2, 3], [4])

    # ---- handlers that cannot be stopped -----------------------------------------------------------------------------

    @pytest.mark.parametrize("end", [settle_dead, settle_overrun, settle_lost, None])
    async def test_who_overran_holds_its_key_once_whatever_became_of_its_job(
        self, bench: Bench, end: Callable[[int], Change] | None
    ) -> None:
        await bench.active(1, concurrency_key="k")
        if end is not None:
            await bench.write(end(1))
        await bench.write(*(submit(job_id, concurrency_key=key) for job_id, key in ((2, "k"), (3, "k"), (4, "l"))))
        claimed = await bench.claim(2, 3, 4, key_limits=TWO._replace(overran=ONE))
        assert (ids(claimed), claimed.waiting) == ([2, 4], [3])

    @pytest.mark.parametrize("end", [settle_dead, settle_overrun])
    async def test_a_waiting_job_that_is_cancelled_or_forgotten_holds_its_key_too(
        self, bench: Bench, end: Callable[[int], Change]
    ) -> None:
        await bench.active(1, concurrency_key="k")
        await bench.write(end(1))
        await bench.write(cancel(1), submit(2, concurrency_key="k"))
        limits = ONE_OF_A_KEY._replace(overran={**ONE, 99: KeyHolder("l", "app.task", "default")})
        await bench.submit(3, concurrency_key="l")
        assert (await bench.claim(2, 3, key_limits=limits)).waiting == [2, 3]

    async def test_its_limit_holds_as_any_holders(self, bench: Bench) -> None:
        """Of its task, and of its queue."""
        limits = KeyLimits({"app.task": 3, "few": 2}, {"narrow": 1})
        await bench.write(*(submit(job_id, concurrency_key="k") for job_id in (1, 2, 3)))
        for holder, most in ((KeyHolder("k", "few", "default"), 1), (KeyHolder("k", "app.task", "narrow"), 0)):
            assert await released(bench, limits=limits) == ([] if most else [2, 3])
            claimed = await bench.claim(1, 2, 3, key_limits=limits._replace(overran={9: holder}))
            assert ids(claimed) == [1][:most]
            assert claimed.waiting == [2, 3]

    async def test_nobody_goes_on_beside_it_until_it_ends(self, bench: Bench) -> None:
        """Its end is nothing that the journal sees: the TakeOver names the key."""
        await bench.active(1, concurrency_key="k")
        await bench.submit(2, concurrency_key="k")
        await bench.submit(3, concurrency_key="l")
        await bench.active(4, concurrency_key="l")
        assert (await bench.claim(2, 3)).waiting == [2, 3]
        held = ONE_OF_A_KEY._replace(overran=ONE)
        assert await released(bench, settle_dead(1), limits=held, everything=False) == []
        assert await released(bench, limits=held) == []
        *_, unheld = await bench.write(TakeOver(keys=frozenset({"l"})))
        assert unheld == Unheld([])
        *_, unheld = await bench.write(TakeOver(keys=frozenset({"k", "nobody's"})))
        assert isinstance(unheld, Unheld)
        assert [job_id for _, _, job_id in unheld.places] == [2]
        assert ids(await bench.claim(2)) == [2]

    async def test_a_claimed_job_says_its_key(self, bench: Bench) -> None:
        await bench.write(submit(1, concurrency_key="k"), submit(2))
        claimed = await bench.claim(1, 2)
        assert [job.concurrency_key for job in claimed.jobs] == ["k", None]

    # ---- taking over -------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("everything", [False, True])
    async def test_of_each_lane_as_many_go_on_as_there_is_room_for(self, bench: Bench, everything: bool) -> None:
        await some_wait(bench)
        limits = KeyLimits(tasks={"app.task": 3})
        assert await released(bench, settle_ok(1), limits=limits, everything=everything) == [5, 6, 8, 9]

    async def test_one_ended_and_one_goes_on_in_each_lane(self, bench: Bench) -> None:
        await some_wait(bench)
        assert await released(bench, limits=TWO) == []
        assert await released(bench, settle_ok(2), limits=TWO) == [6, 9]
        claimed = await bench.claim(6, 9, key_limits=TWO)
        assert (ids(claimed), claimed.waiting) == ([6], [9])

    async def test_the_first_waiter_asks(self, bench: Bench) -> None:
        """Its limit counts, and each holder's, not those of the ones behind it."""
        limits = KeyLimits(tasks={"wide": 3})
        for job_id, task in ((1, "wide"), (2, "app.task"), (3, "wide")):
            await bench.submit(job_id, concurrency_key="k", task=task, scheduled_at=T + job_id - 5)
        assert ids(await bench.claim(1, key_limits=limits)) == [1]
        assert (await bench.claim(2, 3)).waiting == [2, 3]
        assert await released(bench, limits=limits) == []
        await bench.submit(4, concurrency_key="k", task="wide", scheduled_at=T - 9)
        assert (await bench.claim(4)).waiting == [4]
        assert await released(bench, limits=limits) == [2, 4]

    async def test_without_declarations_one_goes_on_a_lane(self, bench: Bench) -> None:
        await some_wait(bench)
        assert await released(bench, settle_ok(1)) == []
        assert await released(bench, settle_ok(2)) == [6, 9]

    async def test_a_lane_by_the_clock_it_is_due_on(self, bench: Bench) -> None:
        await bench.active(1, concurrency_key="k")
        for job_id, clock in ((2, ClockKind.WALL), (3, ClockKind.STEADY), (4, ClockKind.WALL)):
            await bench.submit(job_id, concurrency_key="k", clock=clock)
        await bench.claim(2, 3, 4)
        assert await released(bench, settle_ok(1)) == [2, 3]
