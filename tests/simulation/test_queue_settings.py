"""Queues at run time: paused, resized, re-rated, weighed; kept over crashes until the code says otherwise."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.helpers import STORES, SlowStore, Stage
from tests.simulation.test_limits import check_rate
from timewheel import InvalidOption, JournalFull, JournalUnknown, Queue, Rate
from timewheel.queue_settings import QueueSettings
from timewheel.safeguards import RetryBudget
from timewheel.store.changes import PutQueue
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

# ---- as they are written ---------------------------------------------------------------------------------------------

RATES = st.none() | st.builds(Rate, st.integers(1, 9), st.sampled_from([1, 0.5, 60]), st.integers(1, 9))
COUNTS = st.none() | st.integers(1, 100)
BUDGETS = st.none() | st.builds(RetryBudget, share=st.sampled_from([0, 0.2, 1]), at_least=st.integers(1, 5))
LIMITS = st.builds(
    Queue,
    rate=RATES,
    concurrency=COUNTS,
    weight=st.integers(1, 1_000),
    key_rate=RATES,
    key_concurrency=COUNTS,
    retry_budget=BUDGETS,
)


@given(st.booleans(), LIMITS, st.none() | LIMITS)
def test_settings_come_back_as_they_were_written(paused, update, over):
    settings = QueueSettings(paused, update, over)
    assert QueueSettings.read(settings.text()) == settings


@pytest.mark.parametrize(("text", "paused"), [('{"paused": true}', True), ('{"paused": false}', False), ("{}", False)])
def test_settings_of_former_versions_are_read(text, paused):
    assert QueueSettings.read(text) == QueueSettings(paused)


def test_limits_that_lack_a_later_field_have_its_default():
    text = json.dumps({"paused": False, "update": {"concurrency": 3}, "over": None})
    assert QueueSettings.read(text).update == Queue(concurrency=3)


# ---- as they hold ----------------------------------------------------------------------------------------------------


def most_at_once(stage):
    """How many handlers ran at once, by the diary of `busy` jobs of one second each."""
    starts = [start.elapsed_s for start in stage.diary]
    return max(sum(start <= other < start + 1 for other in starts) for start in starts)


async def ten(scheduler, stage):
    stage.diary.clear()
    await scheduler.options(queue="q").at_many(
        scheduler.options(queue="q").new(timedelta(0), "busy", n, 1) for n in range(10)
    )
    await stage.machine.sleep(12)


UPDATES = [
    ({"concurrency": 3}, {"q": Queue(concurrency=5)}, {"q": Queue(concurrency=5)}, 3),
    ({"concurrency": 3}, {}, {}, 3),
    ({"concurrency": 3}, {"q": Queue(concurrency=5)}, {"q": Queue(concurrency=2)}, 2),
    ({"concurrency": 3}, {}, {"q": Queue(concurrency=2)}, 2),
    ({"concurrency": 3}, {"q": Queue(concurrency=5)}, {}, 10),
    ({}, {"q": Queue(concurrency=5)}, {"q": Queue(concurrency=5)}, 10),
]


@pytest.mark.parametrize(("update", "first", "then", "most"), UPDATES)
def test_an_update_holds_over_restarts_until_the_code_says_otherwise(update, first, then, most, caplog):
    stage = Stage(queues=first)

    async def set_it(scheduler):
        await scheduler.queue("q").update(**update)
        await ten(scheduler, stage)
        assert most_at_once(stage) == update.get("concurrency", 10)

    stage.play(set_it, crash_after=True)
    stage.options["queues"] = then
    with caplog.at_level(logging.WARNING, "timewheel"):
        for _ in range(2):
            stage.play(lambda scheduler: ten(scheduler, stage), crash_after=True)
            assert most_at_once(stage) == most
    said = [record for record in caplog.records if "those set at run time end" in record.message]
    assert len(said) == (first != then), "once, at the first start with another declaration"
    stage.options["queues"] = first
    stage.play(lambda scheduler: ten(scheduler, stage))
    declared = first["q"].concurrency if first else 10
    expected = update.get("concurrency", 10) if first == then else declared
    assert most_at_once(stage) == expected, "and what the code overtook never comes back"


def test_a_pause_and_an_update_keep_each_other():
    stage = Stage()

    async def set_both(scheduler):
        await scheduler.queue("q").update(concurrency=2)
        await scheduler.queue("q").pause()
        await scheduler.queue("other").pause()
        await ten(scheduler, stage)
        assert not stage.diary

    async def see(scheduler):
        await stage.machine.sleep(5)
        assert not stage.diary
        await scheduler.queue("q").resume()
        await stage.machine.sleep(10)

    stage.play(set_both, crash_after=True)
    stage.play(see)
    assert len(stage.diary) == 10
    assert most_at_once(stage) == 2


def test_i17_a_rate_that_was_set_at_run_time_holds_over_crashes():
    rate = Rate(3, burst=2)
    for seed in range(3):
        stage = Stage(VirtualMachine(seed=seed, shuffle=True), SlowStore(MemoryStore(), seed, commit_s=0.01))

        async def fill(scheduler):
            await scheduler.queue("q").update(rate=rate)
            maker = scheduler.options(queue="q")
            await maker.at_many(maker.new(timedelta(0), "note", n) for n in range(40))

        stage.play(fill, crash_after=True)
        for _ in range(5):
            stage.play(lambda _, stage=stage: stage.machine.sleep(3 * stage.machine.random.random()), crash_after=True)
        stage.play(lambda _, stage=stage: stage.machine.sleep(30))
        check_rate([start.elapsed_s for start in stage.diary], rate)
        assert set(stage.tags()) == set(range(40))


def test_the_audit_tells_of_changes_by_whom_and_why_over_crashes():
    stage = Stage(queues={"q": Queue(concurrency=5, rate=Rate(9))})

    async def change(scheduler):
        queue = scheduler.queue("q")
        await queue.update(concurrency=3, rate=Rate(9), actor="ada", reason="it is slow")
        await queue.pause(reason="it is broken")

    async def change_again(scheduler):
        await scheduler.queue("q").resume(actor="bob")
        await scheduler.queue("q").update(retry_budget=RetryBudget(at_least=1), concurrency=3)

    told = []

    async def look(scheduler):
        told.extend((one.action, one.queue, one.actor, one.reason, one.details) for one in await scheduler.audit())

    stage.play(change, crash_after=True)
    stage.play(change_again, crash_after=True)
    stage.play(look)
    rate, budget = {"count": 9, "per_s": 1, "burst": 1}, {"share": 0.2, "window_s": 60, "at_least": 1}
    last = {"before": {"rate": rate, "retry_budget": None}, "after": {"rate": None, "retry_budget": budget}}
    assert told == [
        ("update", "q", None, None, last),
        ("resume", "q", "bob", None, {}),
        ("pause", "q", None, "it is broken", {}),
        ("update", "q", "ada", "it is slow", {"before": {"concurrency": 5}, "after": {"concurrency": 3}}),
    ]


@pytest.mark.parametrize("written", [False, True])
def test_a_change_whose_commit_is_unknown_is_repeated_with_what_the_audit_tells(written):
    """Where the first commit had happened after all the audit tells of it twice: rather so than not at all."""
    stage = Stage(store=SlowStore(MemoryStore()))

    async def scene(scheduler):
        stage.store.faults[stage.store.commits + 1] = (JournalUnknown("unknown", path="memory"), written)
        await scheduler.queue("q").pause(actor="ada")
        assert json.loads((await stage.store.queues())["q"])["paused"]
        assert [one.actor for one in await scheduler.audit()] == ["ada"] * (1 + written)

    stage.play(scene)


class FullStore(MemoryStore):
    """Refuses what is set of queues while `full`."""

    full = False

    async def commit(self, changes, stamp):
        if self.full and any(isinstance(change, PutQueue) for change in changes):
            raise JournalFull("no space", path=self.path)
        return await super().commit(changes, stamp)


def test_in_a_full_journal_nothing_changes():
    stage = Stage(store=FullStore(), queues={"q": Queue(concurrency=2)})

    async def scene(scheduler):
        queue = scheduler.queue("q")
        stage.store.full = True
        for verb in (queue.pause, lambda: queue.update(concurrency=7)):
            with pytest.raises(JournalFull):
                await verb()
        stage.store.full = False
        await stage.machine.sleep(3)
        await ten(scheduler, stage)
        assert (len(stage.diary), most_at_once(stage)) == (10, 2)
        assert await stage.store.queues() == {}
        assert (await scheduler.audit()).items == (), "what did not happen is not told"
        await queue.pause()
        stage.store.full = True
        with pytest.raises(JournalFull):
            await queue.resume()
        stage.store.full = False
        await stage.machine.sleep(3)
        await ten(scheduler, stage)
        assert not stage.diary

    stage.play(scene)


def test_a_caller_that_is_cancelled_takes_nothing_back():
    stage = Stage(VirtualMachine(), SlowStore(MemoryStore(), commit_s=1))

    async def scene(scheduler):
        update = asyncio.ensure_future(scheduler.queue("q").update(concurrency=2))
        await stage.machine.sleep(0.001)
        update.cancel()
        await asyncio.gather(update, return_exceptions=True)
        await stage.machine.sleep(3)
        await ten(scheduler, stage)

    stage.play(scene)
    assert most_at_once(stage) <= 2
    assert json.loads(asyncio.run(stage.store.queues())["q"])["update"]["concurrency"] == 2
    assert len(asyncio.run(stage.store.entries_of("audit"))) == 1


def test_settings_that_make_no_limits_are_left_out(caplog):
    stage = Stage()

    async def spoil(scheduler):
        text = json.dumps({"paused": True, "update": {"concurrency": 0}, "over": None})
        await scheduler._engine.committer.housekeep(PutQueue("q", text))

    stage.play(spoil)
    with caplog.at_level(logging.WARNING, "timewheel"):
        stage.play(lambda scheduler: ten(scheduler, stage))
    assert "cannot be read" in caplog.text
    assert len(stage.diary) == 10


def test_what_is_no_limit_is_refused_by_name():
    stage = Stage()

    async def scene(scheduler):
        for options in ({"weight": 0}, {"concurrency": 0}, {"retry_budget": 0.2}, {"rate": 5}):
            with pytest.raises(InvalidOption, match=next(iter(options))):
                await scheduler.queue("q").update(**options)
        for said in ({"actor": ""}, {"actor": 5}, {"reason": "a\nb"}):
            for verb in (scheduler.queue("q").pause, scheduler.queue("q").update):
                with pytest.raises(InvalidOption, match=next(iter(said))):
                    await verb(**said)
        assert await stage.store.queues() == {}

    stage.play(scene)


# ---- weights and partitions ------------------------------------------------------------------------------------------


def test_queues_share_one_scheduler_by_their_weights():
    stage = Stage(concurrency=4, queues={"gold": Queue(weight=3)})
    counts = []

    async def scene(scheduler):
        for queue in ("gold", "iron"):
            maker = scheduler.options(queue=queue)
            await maker.at_many(maker.new(timedelta(0), "busy", queue, 0.1) for _ in range(600))
        for weight in (3, 1):
            await scheduler.queue("gold").update(weight=weight)
            await stage.machine.sleep(1)
            stage.diary.clear()
            await stage.machine.sleep(8)
            counts.append(Counter(stage.tags()))

    stage.play(scene, crash_after=True)
    assert counts[0]["gold"] == pytest.approx(3 * counts[0]["iron"], rel=0.1)
    assert counts[1]["gold"] == pytest.approx(counts[1]["iron"], rel=0.1)


@pytest.mark.parametrize("store", STORES)
def test_a_tenant_with_many_queued_jobs_does_not_delay_another_ones_job(store):
    """At most two starts for the claims under way, and one of the big tenant's turn."""
    stage = Stage(store=STORES[store](), concurrency=1)

    async def scene(scheduler):
        big, small = (scheduler.options(partition_key=tenant) for tenant in ("big", "small"))
        await big.at_many(big.new(timedelta(0), "busy", n, 0.01) for n in range(3_000))
        await stage.machine.sleep(3)
        before = len(stage.diary)
        assert before >= 250
        await small.now("note", "the one")
        await stage.machine.sleep(0.2)
        assert stage.tags().index("the one") - before <= 4

    stage.play(scene, crash_after=True)


def test_among_100_tenants_each_has_its_turn():
    """The last of 100 tenants that each have 20 jobs waits for about one start of each other, not for their backlog."""
    stage = Stage(concurrency=2)

    async def scene(scheduler):
        for tenant in range(100):
            maker = scheduler.options(partition_key=f"tenant {tenant}")
            await maker.at_many(maker.new(timedelta(0), "busy", tenant, 0.01) for _ in range(20))
        await stage.machine.sleep(1)
        before = len(stage.diary)
        await scheduler.options(partition_key="new").now("note", "new")
        await stage.machine.sleep(3)
        assert stage.tags().index("new") - before <= 100 + 6
        turns = Counter(stage.tags()[before : before + 500])
        assert max(turns.values()) - min(turns[tenant] for tenant in range(100)) <= 1

    stage.play(scene, crash_after=True)
