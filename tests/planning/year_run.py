"""A year of schedules, through the real scheduler on a virtual machine and a journal in memory; and what is left."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.planning.year_script import BEGIN_US
from timewheel import Overlap, Scheduler, current
from timewheel.desk import number_of
from timewheel.model import SECOND_US
from timewheel.store.port import JobFilter
from timewheel.testing.simulation.running import _bury as bury
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(us):
    return None if us is None else EPOCH + timedelta(microseconds=us)


def options_of(definition):
    """What `recurring(...)` is given."""
    overlap = definition.overlap
    if overlap == "SERIALIZE":
        overlap = Overlap.SERIALIZE(definition.key)
    elif definition.limit is not None:
        overlap = getattr(Overlap, overlap)(limit=definition.limit)
    return {
        "misfire": definition.misfire,
        "misfire_grace_s": definition.grace_us / SECOND_US,
        "catch_up_max": definition.catch_up_max,
        "catch_up_per_s": definition.catch_up_per_s,
        "overlap": overlap,
        "jitter_s": definition.jitter_us / SECOND_US,
        "start": instant(definition.start_us),
        "end": instant(definition.end_us),
        "max_runs": definition.max_runs,
        "retry": None,
    }


@dataclass(slots=True)
class Run:
    """What a handler was told when it was entered, and when that was (elapsed); `end`: when it came to its end."""

    schedule: str
    nominal: datetime
    missed: object
    begin: int
    end: int | None = None


class Year:
    """One year. `runs`: by the number of the job."""

    def __init__(self, script, seed=0):
        self.script = script
        self.machine = VirtualMachine(seed=seed, quiet=True)
        self.store = MemoryStore()
        self.runs: dict[int, list[Run]] = {}
        ops = [(op.at, schedule, op.what, op.value) for schedule, ops in script.ops.items() for op in ops]
        books = [(at, None, "book", book) for at, book in script.books]
        self.waiting = sorted([*ops, *books], key=lambda one: one[:2] if one[1] else (one[0], ""))

    @property
    def elapsed(self):
        return self.machine.clock.boot_us()

    # ---- handlers ----------------------------------------------------------------------------------------------------

    async def work(self, run_us, fails):
        """What every schedule runs: it takes its time, and may fail."""
        this = current()
        run = Run(this.schedule_id, this.nominal_at, this.missed, self.elapsed)
        self.runs.setdefault(number_of(this.job_id), []).append(run)
        await asyncio.sleep(run_us / SECOND_US)  # virtual
        run.end = self.elapsed
        if fails:
            raise ValueError("as it was told")

    # ---- lives of the process ----------------------------------------------------------------------------------------

    def play(self):
        """The whole year: from one end of the process to the next."""
        steps = []
        for event in [*self.script.events, None]:
            if event is None or event.what in ("crash", "stop", "reboot"):
                self._life(steps, event)
                steps = []
            else:
                steps.append(event)
        bury()

    def _life(self, steps, end):
        at = self.script.length if end is None else end.at
        crashes = end is not None and end.what != "stop"
        self.machine.run(self._living(steps, at, stops=not crashes), leave=crashes)
        if end is None:
            return
        if crashes:
            self.machine.clock._watchers.clear()  # they are dead
            self.store.abandon()
        assert self.elapsed < end.at + SECOND_US, "the stop took its time"
        self.machine.wall_offset_us += end.step
        if end.what == "reboot":
            self.machine.reboot()
        self.machine.awake_us += end.at + end.length - self.elapsed

    async def _living(self, steps, until, *, stops):
        scheduler = Scheduler(self.store, system=self.machine.system, concurrency=100_000)
        scheduler.task(name="work")(self.work)
        await scheduler.start()
        for event in [*steps, None]:
            await self._people(scheduler, until if event is None else event.at)
            if event is None:
                break
            if event.what == "suspend":
                self.machine.suspend(event.length / SECOND_US)
            else:
                self.machine.step(event.step / SECOND_US)
        if stops:
            await scheduler.stop(grace_s=0)

    async def _people(self, scheduler, until):
        """What they do until then."""
        while self.waiting and self.waiting[0][0] < until:
            at, schedule, what, value = self.waiting.pop(0)
            await self._sleep_until(at)
            await self._do(scheduler, schedule, what, value)
        await self._sleep_until(until)

    async def _sleep_until(self, at):
        assert at >= self.elapsed, "the past"
        while self.elapsed < at:
            await asyncio.sleep((at - self.elapsed) / SECOND_US)  # virtual

    async def _do(self, scheduler, schedule, what, value):
        if what in ("declare", "again", "edit"):
            await self._declare(scheduler, schedule, value)
        elif what == "book":
            await scheduler._engine.planner.put_calendar(value.given())
        else:
            handle = await scheduler.get_schedule(schedule)
            if what == "pause":
                await handle.pause("for a while", None if value is None else instant(value + self._wall()))
            elif what == "trigger":
                await handle.trigger(force=value)
            else:
                await {"resume": handle.resume, "drop": handle.delete}[what]()

    def _wall(self):
        return self.machine.clock.wall_us()

    async def _declare(self, scheduler, schedule, definition):
        definition = self.script.current(definition, self.elapsed)
        verbs = scheduler.recurring(id=schedule, **options_of(definition))
        await verbs.schedule(definition.rule.given(), "work", definition.run_us, definition.fails)

    # ---- what is left ------------------------------------------------------------------------------------------------

    def ledgers(self):
        """({schedule: its rows}, {id: job})"""

        async def read():
            found = {schedule: await self._ledger(schedule) for schedule in self.script.ops}
            jobs, before = {}, None
            while True:
                page = await self.store.jobs(JobFilter(), before=before, limit=1_000)
                jobs |= {job.job_id: job for job in page.jobs}
                before = page.next_before
                if before is None:
                    return found, jobs

        return self.machine.run(read())

    async def _ledger(self, schedule):
        rows, before = [], None
        while True:
            page = await self.store.ledger(schedule, before=before, limit=1_000)
            rows += [entry.occurrence for entry in page.entries]
            before = page.next_before
            if before is None:
                return rows[::-1]


assert VirtualMachine().clock.wall_us() == BEGIN_US
