"""Owning a journal: one owner, rising epochs, stale epochs write nothing, the clocks survive."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.errors import JournalOwned, NotOwner
from timewheel.model import Anchor, AttemptState, Now
from timewheel.store.port import Leases
from timewheel.testing.builders import START, claim, later, owner, settle_ok, stamp, submit
from timewheel.testing.conformance.bench import ANY, Bench, BenchTests


@pytest.mark.asyncio
class Owning(BenchTests):
    """Who may write."""

    async def test_a_store_says_what_it_is(self, bench: Bench) -> None:
        assert bench.store.leases in Leases
        assert bench.store.path

    async def test_an_opened_journal_is_empty_and_can_be_read(self, unowned: Bench) -> None:
        store = unowned.store
        assert (await store.lanes(), await store.job(1), await store.attempts(1)) == ([], None, [])
        assert (await store.jobs(ANY), await store.count(ANY)) == (([], None), 0)
        assert (await store.limits(), await store.queues(), await store.importable()) == ({}, {}, [])
        assert (await store.entries(), await store.depths(START)) == ([], [])
        assert await store.open_attempts(below_epoch=99, after=0, limit=9) == []
        assert await store.fullest_second(START, 10**9) == (0, 0)

    async def test_the_first_owner_finds_no_clocks(self, unowned: Bench) -> None:
        ownership = await unowned.own()
        assert ownership.epoch >= 1
        assert ownership.anchor is None

    async def test_nobody_writes_before_owning(self, unowned: Bench) -> None:
        with pytest.raises(NotOwner):
            await unowned.write(submit(1), epoch=1)
        assert await unowned.ids() == []

    async def test_one_owner_at_a_time(self, bench: Bench) -> None:
        second = await bench.another()
        with pytest.raises(JournalOwned) as caught:
            await second.own(owner("boot-2"))
        assert caught.value.path == second.path
        assert str(caught.value)
        await bench.submit(1)
        assert await bench.ids() == [1]

    async def test_others_may_read(self, bench: Bench) -> None:
        second = await bench.another()
        await bench.submit(1)
        assert await second.job(1) == await bench.job(1)
        await bench.claim(1)
        assert [attempt.state for attempt in await second.attempts(1)] == [AttemptState.QUEUED]
        assert await second.count(ANY) == 1

    async def test_opening_changes_nothing(self, bench: Bench) -> None:
        await bench.active(1)
        before = await bench.store.dump()
        second = await bench.another()
        assert await second.dump() == before
        await second.close()
        assert await bench.store.dump() == before
        assert await bench.write(settle_ok(1)) != []

    async def test_the_next_owner_after_a_close(self, bench: Bench) -> None:
        await bench.submit(1)
        second = await bench.another()
        first = bench.epoch
        await bench.store.close()
        await bench.store.close()
        bench.store = second
        assert (await bench.own()).epoch > first
        assert await bench.ids() == [1]

    async def test_the_next_owner_after_a_crash(self, bench: Bench) -> None:
        await bench.active(1)
        before = await bench.store.dump()
        epochs = [bench.epoch]
        for _ in range(4):
            await bench.crash()
            epochs.append((await bench.own()).epoch)
            assert await bench.store.dump() == before
        assert epochs == sorted(set(epochs))

    async def test_an_epoch_is_spent_even_without_a_batch(self, unowned: Bench) -> None:
        first = await unowned.own()
        await unowned.crash()
        second = await unowned.own()
        assert second.epoch > first.epoch
        assert second.anchor is None

    @pytest.mark.parametrize("other", [-1, +1, +1000])
    async def test_another_epoch_writes_nothing(self, bench: Bench, other: int) -> None:
        await bench.active(1)
        await bench.crash()
        await bench.own()
        before = await bench.store.dump()
        with pytest.raises(NotOwner):
            await bench.write(submit(2), claim(2), settle_ok(1), epoch=bench.epoch + other, now=later(10**9))
        assert await bench.store.dump() == before
        await bench.crash()
        anchor = (await bench.own()).anchor
        assert anchor is not None
        assert anchor.wall_us == START.wall_us

    async def test_an_owner_that_lost_the_journal_writes_nothing(self, bench: Bench) -> None:
        second = await bench.another()
        await bench.submit(1)
        lost = bench.epoch
        await bench.crash()
        await bench.own()
        with pytest.raises(NotOwner):
            await second.commit([submit(2)], stamp(lost))
        assert await bench.ids() == [1]

    # ---- the clocks --------------------------------------------------------------------------------------------------

    async def test_the_next_owner_finds_the_clocks_of_the_last_commit(self, unowned: Bench) -> None:
        await unowned.own(owner("boot-x", 1, 2))
        await unowned.store.commit([submit(1)], stamp(unowned.epoch, Now(50, 60), boot_us=70))
        await unowned.store.commit([submit(2)], stamp(unowned.epoch, Now(500, 600), boot_us=700))
        await unowned.crash()
        assert (await unowned.own(owner("boot-y"))).anchor == Anchor("boot-x", 700, 500, 600)
        await unowned.crash()
        assert (await unowned.own(owner("boot-z"))).anchor == Anchor("boot-x", 700, 500, 600)

    async def test_every_commit_saves_the_clocks(self, unowned: Bench) -> None:
        await unowned.own(owner("boot-x"))
        await unowned.store.commit([submit(1)], stamp(unowned.epoch, Now(50, 60), boot_us=70))
        await unowned.store.commit([], stamp(unowned.epoch, Now(40, 61), boot_us=71))
        second = await unowned.another()
        await unowned.store.close()
        unowned.store = second
        assert (await unowned.own()).anchor == Anchor("boot-x", 71, 40, 61)

    async def test_commits_may_go_back_in_wall_time(self, bench: Bench) -> None:
        await bench.submit(1)
        bench.now = Now(START.wall_us - 10**12, START.steady_us + 1)
        await bench.submit(2)
        assert [(await bench.job(job_id)).created_at for job_id in (1, 2)] == [
            START.wall_us,
            START.wall_us - 10**12,
        ]

    # ---- care --------------------------------------------------------------------------------------------------------

    async def test_check_finds_a_sound_journal_sound(self, bench: Bench) -> None:
        await bench.submit(1)
        await bench.store.check()
        await bench.store.check()
        assert await bench.ids() == [1]

    async def test_after_reopen_the_owner_goes_on(self, bench: Bench) -> None:
        await bench.active(1)
        before = await bench.store.dump()
        await bench.store.reopen()
        assert await bench.store.dump() == before
        assert await bench.write(settle_ok(1)) != []
        second = await bench.another()
        with pytest.raises(JournalOwned):
            await second.own(owner())

    async def test_everything_survives_a_crash(self, bench: Bench) -> None:
        await bench.write(submit(1, idempotency_key="k", digest="d", importable=True), submit(2, queue="q"))
        await bench.claim(2)
        lanes = await bench.store.lanes()
        before = await bench.store.dump()
        await bench.crash()
        assert await bench.store.dump() == before
        assert await bench.store.lanes() == lanes
