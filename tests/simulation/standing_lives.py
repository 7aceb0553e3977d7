"""Lives with schedules: what ran when, what the ledger says, and that memory and journal agree at rest (I15)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from helpers import STORES, crash
from lives import Lives

from timewheel import current
from timewheel.model import SECOND_US, ClockKind
from timewheel.schedule_records import Fate
from timewheel.store.port import ScheduleFilter
from timewheel.testing.invariants import check_dump
from timewheel.testing.invariants_schedules import nobody_waits_in_vain
from timewheel.testing.virtual import T0, VirtualMachine

MINUTE, HOUR, DAY = 60, 3600, 86_400
T0_US = round(T0.timestamp()) * SECOND_US


def t0(seconds=0.0):
    """An instant so long after the machine was new."""
    return T0 + timedelta(seconds=seconds)


def seconds(at_us):
    """An instant of the ledger, as seconds after the machine was new (both clocks began equal)."""
    return (at_us - T0_US) / SECOND_US


def rows(entries):
    """Rows of a ledger in short, oldest first: (first, last, count, fate, reason), in seconds."""
    return [
        (seconds(row.first_at), seconds(row.last_at), row.count, row.fate.value, row.reason)
        for row in (entry.occurrence for entry in entries)
    ]


class Standing(Lives):
    """Tasks `note(tag)`, `busy(tag, seconds)`, `fail(tag)`: each writes into `diary` what it was told of its slot."""

    longest_s = 20 * DAY  # of virtual time: a scene that hangs fails

    def __init__(self, store="memory", *, quiet=True, seed=0, shuffle=False):
        super().__init__(store=STORES[store]() if isinstance(store, str) else store)
        self.machine = VirtualMachine(quiet=quiet, seed=seed, shuffle=shuffle)
        self.diary = []
        self.tasks = {"note": self.note, "busy": self.busy, "fail": self.fail}

    def _enter(self, tag):
        this = current()
        slot = None if this.nominal_at is None else (this.nominal_at - T0).total_seconds()
        missed = None if this.missed is None else this.missed.count
        self.diary.append((tag, self.elapsed_s, slot, missed))

    @property
    def elapsed_s(self):
        return self.machine.clock.boot_us() / SECOND_US

    async def note(self, tag=""):
        self._enter(tag)

    async def busy(self, tag, seconds):
        self._enter(tag)
        await asyncio.sleep(seconds)  # virtual

    async def fail(self, tag=""):
        self._enter(tag)
        raise ValueError(tag)

    def live(self, scene, tasks=None, **options):
        async def life():
            async with asyncio.timeout(self.longest_s), self.scheduler(self._known(tasks), **options) as scheduler:
                result = await scene(scheduler)
                await self.rest(scheduler)
                return result

        return self.machine.run(life())

    def die(self, scene, tasks=None, **options):
        async def life():
            scheduler = self.scheduler(self._known(tasks), **options)
            async with asyncio.timeout(self.longest_s):
                await scheduler.start()
                return await scene(scheduler)

        result = self.machine.run(life(), leave=True)
        self.store = crash(self.store)
        return result

    def _known(self, tasks):
        return self.tasks if tasks is None else tasks

    async def rest(self, scheduler):
        """Once everything is written, the planner's records are the journal's, and the laws of the journal hold."""
        await scheduler._engine.committer.flush()
        kept = {each.record.schedule: each.record for each in scheduler._engine.planner._roster if each.record}
        assert kept == {
            record.schedule: record for record in await self.store.schedules(ScheduleFilter(), limit=20_000)
        }
        dump = await self.store.dump()
        check_dump(dump)
        nobody_waits_in_vain(dump)

    def slots(self, tag=None):
        """The nominal instants of what ran, in seconds."""
        return [slot for name, _, slot, _ in self.diary if tag in (None, name)]

    def times(self, tag=None):
        """When it ran, in elapsed seconds."""
        return [at for name, at, _, _ in self.diary if tag in (None, name)]

    async def entries(self, schedule):
        """The ledger, oldest first."""
        found, before = [], None
        while True:
            page = await self.store.ledger(schedule, before=before)
            found += page.entries
            before = page.next_before
            if before is None:
                return found[::-1]

    async def rows(self, schedule):
        return rows(await self.entries(schedule))

    async def accounted(self, schedule, fate=None, reason=None):
        """How many slots have this fate and reason."""
        return sum(
            entry.occurrence.count
            for entry in await self.entries(schedule)
            if (fate is None or entry.occurrence.fate == fate) and (reason is None or entry.occurrence.reason == reason)
        )


JOB, SKIPPED, COALESCED = Fate.JOB, Fate.SKIPPED, Fate.COALESCED
WALL, STEADY = ClockKind
