"""A machine that tells when its clocks were set: nobody looks every second, so that an idle year passes at once."""

import random
from datetime import timedelta

import pytest

from tests.simulation.helpers import STORES, Stage
from timewheel import Queue, Rate
from timewheel.events import SweepFound
from timewheel.model import ZERO_KEY, ClockKind, DueKey, Lane
from timewheel.store.frontier import FAR, NOTHING, Book
from timewheel.testing.virtual import VirtualMachine

DAY_S = 86_400


class CountingMachine(VirtualMachine):
    """Counts how often time had to move."""

    jumps = 0

    def jump(self, seconds):
        self.jumps += 1
        super().jump(seconds)


def test_a_year_of_daily_jobs_takes_a_handful_of_wakes_a_job():
    machine = CountingMachine(quiet=True)
    stage = Stage(machine)

    async def scene(scheduler):
        for day in range(1, 366):
            await scheduler.after(day * DAY_S, "note", day)
        await machine.sleep(366 * DAY_S)

    stage.play(scene)
    assert [start.elapsed_s for start in stage.diary] == [day * DAY_S for day in range(1, 366)]
    assert machine.jumps < 8 * 365


def test_an_idle_year_takes_no_more_wakes_than_days():
    machine = CountingMachine(quiet=True)
    Stage(machine).play(lambda _: machine.sleep(365 * DAY_S))
    assert machine.jumps <= 2 * 365  # the loop itself waits for a day at most, and the housekeeper looks once a day


def test_a_step_is_noticed_at_once():
    stage = Stage(VirtualMachine(quiet=True))

    async def scene(scheduler):
        await scheduler.at(stage.machine.now() + timedelta(days=1), "note", "wall")
        await scheduler.after(DAY_S, "note", "steady")
        await stage.machine.sleep(10)
        stage.machine.step(DAY_S - 10)
        await stage.machine.sleep(1)
        assert stage.tags() == ["wall"]
        await stage.machine.sleep(DAY_S)

    stage.play(scene)
    assert stage.when("wall") == pytest.approx(10, abs=0.1)
    assert stage.when("steady") == pytest.approx(DAY_S)


def test_a_suspend_is_noticed_at_once():
    stage = Stage(VirtualMachine(quiet=True))

    async def scene(scheduler):
        await scheduler.after(DAY_S, "note", "slept over")
        await stage.machine.sleep(10)
        stage.machine.suspend(2 * DAY_S)
        await stage.machine.sleep(1)

    stage.play(scene)
    assert stage.when("slept over") == pytest.approx(10 + 2 * DAY_S, abs=0.1)


@pytest.mark.parametrize("quiet", [False, True])
def test_i7_a_rate_has_refilled_while_the_machine_slept(quiet):
    """The next start waits for a timer that stood still meanwhile."""
    machine = VirtualMachine(quiet=quiet)
    stage = Stage(machine, queues={"hourly": Queue(rate=Rate(1, per_s=3600))})

    async def scene(scheduler):
        for tag in range(2):
            await scheduler.options(queue="hourly").now("note", tag)
        await machine.sleep(5)
        machine.suspend(3600)
        await machine.sleep(2)

    stage.play(scene)
    assert stage.when(1) <= 3605 + 1.1


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", range(8))
def test_every_job_starts_on_time_however_long_the_loader_slept(seed, store):
    chance = random.Random(seed)
    machine = VirtualMachine(seed=seed, shuffle=True, quiet=True)
    stage = Stage(machine, STORES[store]())
    due = {}

    async def scene(scheduler):
        for tag in range(60):
            delay = chance.choice([1, 200, 290, 310, 4_000, 3 * DAY_S]) * chance.random()
            job = await scheduler.options(priority=chance.choice([0, 5])).after(delay, "note", tag)
            due[tag] = stage.elapsed_s + delay
            if chance.random() < 0.2:
                await job.reschedule(timedelta(seconds=delay * 2))
                due[tag] = stage.elapsed_s + delay * 2
            await machine.sleep(chance.choice([0, 0, 1, 250, 5_000]) * chance.random())
        await machine.sleep(7 * DAY_S)

    stage.play(scene)
    for tag, due_s in due.items():
        assert 0 <= stage.when(tag) - due_s + 1e-6 < 0.01
    assert not stage.noticed(SweepFound)


class TestBook:
    """The law of the frontier, against a plain set of what is on disk."""

    @pytest.mark.parametrize("seed", range(50))
    def test_nothing_below_what_is_covered_is_only_on_disk(self, seed):
        chance = random.Random(seed)
        book = Book(Lane(1, "default", 5, ClockKind.STEADY))
        disk, memory = set(), set()

        def commit():
            key = DueKey(chance.randrange(100), chance.randrange(1_000))
            disk.add(key)
            if key <= book.frontier or book.hear(key, chance.randrange(100)):
                memory.add(key)

        def load(until, limit):
            before, until = book.frontier, max(until, book.frontier.due_at)
            book.beyond, book.frontier = None, DueKey(until, NOTHING.job_id)
            page = sorted(key for key in disk if before < key <= book.frontier)[:limit]
            for _ in range(chance.randrange(3)):
                commit()
            memory.update(page)
            if len(page) == limit:
                book.lower(page[-1])
            else:
                frontier, book.heard = book.frontier, NOTHING
                first = min((key for key in disk if key > frontier), default=NOTHING)
                for _ in range(chance.randrange(3)):
                    commit()
                if chance.random() < 0.2:
                    book.lower(DueKey(chance.randrange(100), 0))
                book.seen(frontier, first)

        def law():
            assert {key for key in disk if key <= book.covered()} <= memory

        for _ in range(200):
            chance.choice([commit, commit, lambda: load(chance.randrange(100), chance.choice([3, 1_000]))])()
            law()

    def test_a_new_book_covers_nothing(self):
        book = Book(Lane(1, "default", 5, ClockKind.STEADY))
        assert book.covered() == ZERO_KEY
        assert not book.hear(DueKey(5, 5), FAR)
