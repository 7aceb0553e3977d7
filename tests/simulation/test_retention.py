"""Retention forgets what it may, in small steps and also while busy; the journal's file levels off."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from helpers import STORES, MemorySqlite

from timewheel import InvalidOption, JobNotFound, Permanent, Retention, Scheduler
from timewheel.events import JobsForgotten
from timewheel.retention import BREATH_S, PAUSE_S, STEP
from timewheel.store.letters import Prune
from timewheel.testing.virtual import VirtualMachine

DAY_S = 86_400


class House:
    """A machine with a journal, and tasks that end in each of the ways."""

    def __init__(self, store: Any, **options: Any) -> None:
        self.machine = VirtualMachine(seed=5, quiet=True)
        self.store = store
        self.options = options

    def live(self, scene: Any) -> Any:
        async def life() -> Any:
            scheduler = Scheduler(self.store, system=self.machine.system, **self.options)

            @scheduler.task(name="work")
            async def work(number: int = 0) -> int:
                return number

            @scheduler.task(name="die")
            async def die() -> None:
                raise Permanent("no")

            async with scheduler:
                return await scene(scheduler)

        return self.machine.run(life())

    async def one_of_each(self, scheduler: Scheduler, queue: str = "default") -> dict[str, Any]:
        """A job for each way to end; the discarded one too."""
        verbs = scheduler.options(queue=queue)
        jobs = {
            "COMPLETED": await verbs.now("work"),
            "CANCELLED": await verbs.after(DAY_S * 100, "work"),
            "DEAD": await verbs.now("die"),
            "discarded": await verbs.now("die"),
        }
        await jobs["CANCELLED"].cancel()
        for job in jobs.values():
            await job.wait(60)
        await jobs["discarded"].discard(actor="me", reason="old")
        return jobs


async def left(jobs: dict[str, Any]) -> set[str]:
    kept = set()
    for name, job in jobs.items():
        try:
            await job.refresh()
        except JobNotFound:
            assert await job.desk._store.attempts(job.number) == []
        else:
            kept.add(name)
    return kept


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Any:
    return STORES[request.param]()


def test_nothing_is_forgotten_unasked(store: Any) -> None:
    house = House(store)

    async def scene(scheduler: Scheduler) -> None:
        jobs = await house.one_of_each(scheduler)
        await house.machine.sleep(DAY_S * 400)
        assert await left(jobs) == set(jobs)

    house.live(scene)


def test_each_way_to_end_has_its_own_time(store: Any) -> None:
    keep = Retention(completed_s=1000, cancelled_s=2000, discarded_s=3000, dead_s=4000)
    house = House(store, retention=keep)

    async def scene(scheduler: Scheduler) -> None:
        jobs = await house.one_of_each(scheduler)
        everything, now_s = set(jobs), 0.0
        for name, age_s in (("COMPLETED", 1000), ("CANCELLED", 2000), ("discarded", 3000), ("DEAD", 4000)):
            await house.machine.sleep(age_s - 5 - now_s)
            assert await left(jobs) == everything, "not too early"
            everything.remove(name)
            now_s = age_s + PAUSE_S + 10
            await house.machine.sleep(PAUSE_S + 15)
            assert await left(jobs) == everything, "and not much too late"

    house.live(scene)


def test_a_queue_follows_its_own(store: Any) -> None:
    keep = Retention(completed_s=100, queues={"reports": Retention(dead_s=100), "short": Retention(completed_s=10)})
    house = House(store, retention=keep)

    async def scene(scheduler: Scheduler) -> None:
        jobs = {queue: await house.one_of_each(scheduler, queue) for queue in ("default", "reports", "short")}
        await house.machine.sleep(300)
        assert await left(jobs["default"]) == {"CANCELLED", "DEAD", "discarded"}
        assert await left(jobs["reports"]) == {"COMPLETED", "CANCELLED"}
        assert await left(jobs["short"]) == {"CANCELLED", "DEAD", "discarded"}

    house.live(scene)


def test_what_is_still_needed_stays(store: Any) -> None:
    house = House(store, retention=Retention(completed_s=0))

    async def scene(scheduler: Scheduler) -> None:
        keyed = await scheduler.options(idempotency_key="k").now("work")
        first = await scheduler.now("work")
        later = await scheduler.after(DAY_S, "work")
        waiting = await scheduler.options(wait_for=[first, later]).now("work")
        await house.machine.sleep(600)
        assert await left({"keyed": keyed, "first": first}) == {"keyed", "first"}
        await house.machine.sleep(DAY_S)
        assert await left({"first": first, "waiting": waiting, "keyed": keyed}) == {"keyed"}
        await house.machine.sleep(8 * DAY_S)
        assert await left({"keyed": keyed}) == set(), "its key is forgotten after a week"

    house.live(scene)


def test_it_reaches_what_a_former_process_left(store: Any) -> None:
    house = House(store)
    house.live(lambda scheduler: house.one_of_each(scheduler))
    house.options = {"retention": Retention(completed_s=60, dead_s=60, cancelled_s=60)}

    async def scene(scheduler: Scheduler) -> None:
        await house.machine.sleep(300)
        assert not [job async for job in scheduler.jobs()]

    house.live(scene)


def test_it_takes_many_small_steps_while_jobs_go_on(store: Any) -> None:
    house = House(store, retention=Retention(completed_s=100))
    sizes: list[int] = []

    async def scene(scheduler: Scheduler) -> None:
        notices: list[Any] = []
        scheduler.notices.subscribe(notices.append)
        for start in range(0, 3000, 1000):
            jobs = await scheduler.at_many([scheduler.new(house.machine.now(), "work", n) for n in range(1000)])
            assert len(jobs) == 1000, start
            for job in jobs[-3:]:
                await job.wait(60)
        commit = scheduler._engine.store.commit

        async def watched(changes: Any, stamp: Any) -> Any:
            sizes.extend(change.limit for change in changes if isinstance(change, Prune))
            return await commit(changes, stamp)

        scheduler._engine.store.commit = watched
        await house.machine.sleep(100 + 2 * PAUSE_S)
        assert not await scheduler.jobs().count()
        forgotten = [notice.jobs for notice in notices if isinstance(notice, JobsForgotten)]
        assert sum(forgotten) == 3000
        assert max(forgotten) <= STEP
        del scheduler._engine.store.commit

    house.live(scene)
    assert set(sizes) == {STEP}
    assert len(sizes) >= 3000 // STEP
    assert BREATH_S > 0


def test_one_line_a_pass_that_forgot_something(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    house = House(store, retention=Retention(completed_s=100))

    async def scene(scheduler: Scheduler) -> None:
        for _ in range(3):
            await house.one_of_each(scheduler)
        await house.machine.sleep(DAY_S)

    with caplog.at_level(logging.INFO, "timewheel"):
        house.live(scene)
    lines = [record.message for record in caplog.records if "retention" in record.message]
    assert len(lines) == 1, lines
    assert lines[0].startswith("retention forgot 3 jobs")


def test_a_clock_set_ten_years_ahead_costs_nobody_his_jobs(store: Any) -> None:
    house = House(store, retention=Retention(completed_s=7 * DAY_S))

    async def scene(scheduler: Scheduler) -> None:
        jobs = await house.one_of_each(scheduler)
        house.machine.step(10 * 365 * DAY_S)
        await house.machine.sleep(DAY_S / 2)
        assert await left(jobs) == set(jobs)
        house.machine.step(-10 * 365 * DAY_S)
        await house.machine.sleep(6 * DAY_S)
        assert await left(jobs) == set(jobs)
        await house.machine.sleep(DAY_S)
        assert await left(jobs) == set(jobs) - {"COMPLETED"}

    house.live(scene)


def test_the_file_levels_off_under_constant_load() -> None:
    """B66: 20,000 short jobs in ten rounds, each kept for a while: from some round on the file grows no more."""
    store = MemorySqlite()
    house = House(store, retention=Retention(completed_s=120))
    pages: list[int] = []
    kept: list[int] = []

    async def scene(scheduler: Scheduler) -> None:
        for _ in range(10):
            jobs = await scheduler.at_many([scheduler.new(house.machine.now(), "work", n) for n in range(2_000)])
            await jobs[-1].wait(60)
            await house.machine.sleep(150)
            [(count,)] = store.connection.execute("PRAGMA page_count").fetchall()
            pages.append(count)
            kept.append(await scheduler.jobs().count())

    house.live(scene)
    assert max(kept) <= 4_000, kept
    assert max(pages[4:]) <= max(pages[:4]), f"it goes on growing: {pages}"


def test_a_retention_is_checked_where_it_is_given() -> None:
    with pytest.raises(InvalidOption, match=r"retention=.*Retention\("):
        Scheduler("memory://", retention={"completed_s": 5})  # type: ignore[arg-type]
