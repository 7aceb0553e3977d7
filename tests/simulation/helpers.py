"""What the simulations share: a stage with a machine, a journal and a diary; journals that are slow or break.

Nothing here sleeps on the real clock or starts a thread: `Stage.play` runs on a virtual loop.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from tests.databases import in_memory
from timewheel import Scheduler, current
from timewheel.model import SECOND_US, Now
from timewheel.system import System
from timewheel.testing.simulation.stores import SynchronousSqlite
from timewheel.testing.virtual import T0, VirtualClock, VirtualMachine
from timewheel_storage.memory import MemoryStore

T0_S = round(T0.timestamp())


def t0(seconds: float = 0):
    """An instant so long after the machine's first wall time."""
    return T0 + timedelta(seconds=seconds)


# ---- journals ------------------------------------------------------------------------------------------------------


class MemorySqlite(SynchronousSqlite):
    """A journal in SQLite on one synchronous connection, which is closed when the test ends."""

    def __init__(self, connection=None):
        super().__init__(connection or in_memory())

    def reborn(self):
        """What a next process finds."""
        return MemorySqlite(self.connection)


def crash(store):
    """The owner's process died: the store that the next one opens; it holds what was committed, and nobody owns it."""
    if isinstance(store, SlowStore):
        store.inner = crash(store.inner)
    elif isinstance(store, MemorySqlite):
        return store.reborn()
    else:
        store.abandon()
    return store


STORES = {"memory": MemoryStore, "sqlite": MemorySqlite}


class SlowStore:
    """Another store behind commits and reads that take virtual time; what was written is seen before its writer hears.

    `commit_s` and `read_s` are the longest times; `faults` maps the number of a commit (from 1) to (exception, whether
    it was written all the same). `kill(number, written)` lets the machine die in a commit: it never returns, and `died`
    is set.
    """

    def __init__(self, inner, seed=0, *, commit_s=0.0, read_s=0.0, faults=None):
        self.inner = inner
        self.commit_s = commit_s
        self.read_s = read_s
        self.faults = faults or {}
        self.commits = 0
        self.busy = False  # whether a commit is under way
        self.died = asyncio.Event()
        self._fatal = {}
        self._random = random.Random(f"{seed} store")

    def __getattr__(self, name):
        return getattr(self.inner, name)

    async def _pass(self, most_s):
        if most_s:
            await asyncio.sleep(self._random.uniform(0, most_s))  # virtual

    def kill(self, number, written):
        """Die in that commit."""
        self.died = asyncio.Event()
        self._fatal = {number: written}

    async def commit(self, changes, stamp):
        self.commits += 1
        self.busy = True
        try:
            return await self._commit(changes, stamp)
        finally:
            self.busy = False

    async def _commit(self, changes, stamp):
        fatal = self._fatal.pop(self.commits, None)
        error, written = self.faults.get(self.commits, (None, fatal is not False))
        await self._pass(self.commit_s / 2)
        outcomes = await self.inner.commit(changes, stamp) if written else None
        if fatal is not None:
            self.died.set()
            await asyncio.Event().wait()
        await self._pass(self.commit_s / 2)
        if error is not None:
            raise error
        return outcomes

    async def due(self, *where):
        await self._pass(self.read_s / 2)
        page = await self.inner.due(*where)
        await self._pass(self.read_s / 2)
        return page

    async def job(self, job_id):
        await self._pass(self.read_s / 2)
        job = await self.inner.job(job_id)
        await self._pass(self.read_s / 2)
        return job


# ---- a clock that goes on while code runs --------------------------------------------------------------------------


class _BusyClock(VirtualClock):
    def boot_us(self):
        machine = self._machine
        machine.awake_us += machine.read_us
        return super().boot_us()


class BusyMachine(VirtualMachine):
    """A machine on which every look at the clock takes `read_us`: time passes between two lines of code."""

    def __init__(self, *, read_us, **options):
        super().__init__(**options)
        self.read_us = read_us
        self.clock = _BusyClock(self)
        self.system = System(self.clock, self.random.random, self.system.threads, self.system.watchdog)


# ---- the stage -----------------------------------------------------------------------------------------------------


class Start(NamedTuple):
    """A handler was entered: by whom, and when, in seconds since the machine was new and on both clocks."""

    tag: object
    elapsed_s: float
    wall_s: float
    now: Now
    job_id: str
    attempt: int


class Stage:
    """A machine, a journal, and what the handlers on it wrote into `diary`. `options` are the scheduler's.

    Tasks: `note(tag)`, `busy(tag, seconds)` (async), `sync(tag)`, `block(tag, seconds)` (holds the loop up),
    `fail(tag, times)` (raises in its first `times` attempts).
    """

    def __init__(self, machine=None, store=None, **options):
        self.machine = machine or VirtualMachine()
        self.store = MemoryStore() if store is None else store
        self.options = options
        self.diary = []
        self.running = Counter()  # by queue
        self.most_running = Counter()
        self.most_running_at_all = 0
        self.entered = []  # (queue, steady seconds)
        self.notices = []

    # -- what a test looks at --

    @property
    def elapsed_s(self):
        return self.machine.clock.boot_us() / SECOND_US

    @property
    def wall_s(self):
        return self.machine.clock.wall_us() / SECOND_US - T0_S

    far = timedelta(days=1)
    soon = timedelta(seconds=1)

    def tags(self):
        return [start.tag for start in self.diary]

    def when(self, tag):
        """Elapsed seconds at which `tag` started; it must have started once."""
        [start] = [start for start in self.diary if start.tag == tag]
        return start.elapsed_s

    def noticed(self, kind):
        return [notice for notice in self.notices if isinstance(notice, kind)]

    # -- handlers --

    def _enter(self, tag):
        context = current()
        now = context.scheduler._engine.now()
        self.diary.append(Start(tag, self.elapsed_s, self.wall_s, now, context.job_id, context.attempt))

    async def note(self, tag):
        self._enter(tag)

    async def busy(self, tag, seconds, queue="default"):
        self._enter(tag)
        self.running[queue] += 1
        self.most_running[queue] = max(self.running[queue], self.most_running[queue])
        self.most_running_at_all = max(self.running.total(), self.most_running_at_all)
        try:
            await asyncio.sleep(seconds)  # virtual
        finally:
            self.running[queue] -= 1

    def sync(self, tag):
        self._enter(tag)

    async def block(self, tag, seconds):
        self._enter(tag)
        self.machine.block(seconds)

    async def fail(self, tag, times):
        self._enter(tag)
        if current().attempt <= times:
            raise ValueError(f"attempt {current().attempt} of {tag}")

    def scheduler(self):
        scheduler = Scheduler(self.store, system=self.machine.system, **self.options)
        for fn in (self.note, self.busy, self.sync, self.block, self.fail):
            scheduler.task(name=fn.__name__)(fn)
        scheduler.notices.subscribe(self.notices.append)
        return scheduler

    # -- lives --

    def play(self, scene, *, crash_after=False):
        """One life: `await scene(scheduler)` inside a started scheduler, then stop, or crash. What the scene returns.

        After the scene no due job may be missing in memory (the loader's law).
        """

        async def life():
            scheduler = self.scheduler()
            result = await self._begin(scheduler, scene)
            assert await scheduler._engine.loader.sweep() == 0, "a due job is nowhere in memory"
            if not crash_after:
                await scheduler.stop()
            return result

        result = self.machine.run(life(), leave=crash_after)
        if crash_after:
            self._crashed()
        return result

    def play_until_death(self, scene, store):
        """One life that ends in a crash: when the scene ends, or when the machine dies in a commit of this store."""

        async def life():
            scheduler = self.scheduler()
            death = asyncio.ensure_future(store.died.wait())
            living = asyncio.ensure_future(self._begin(scheduler, scene))
            await asyncio.wait([death, living], return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()

        self.machine.run(life(), leave=True)
        self._crashed()

    async def _begin(self, scheduler, scene):
        await scheduler.start()
        self._watch(scheduler._engine.dispatcher.limits)
        return await scene(scheduler)

    def _watch(self, limits):
        """Note the moments at which tokens are taken; the handler's first line may run later, when the loop is busy."""
        enter = limits.enter

        def noted(queue, now_us):
            entered = enter(queue, now_us)
            if entered:
                self.entered.append((queue, now_us / SECOND_US - T0_S))
            return entered

        limits.enter = noted

    def _crashed(self):
        self.store = crash(self.store)
        self.running.clear()

    def dump(self):
        """Everything in the journal."""
        return self.machine.run(self.store.dump())
