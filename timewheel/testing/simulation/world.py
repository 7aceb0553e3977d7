"""The world of one seed: the machine, the journal, the users and handlers, and what happened.

`play` leads the scheduler of a plan through its lives, then through a last one in peace, and has the checkers look at
what happened. Everything runs on one thread in virtual time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from timewheel import Scheduler, zones
from timewheel.model import SECOND_US, Now
from timewheel.testing.invariants import Dump, Violated
from timewheel.testing.simulation.book import Book
from timewheel.testing.simulation.facts import Began, Ended, Fact, LifeRecord, Note, Shaped, Told
from timewheel.testing.simulation.handlers import TASKS, Handlers
from timewheel.testing.simulation.journals import FaultyJournal
from timewheel.testing.simulation.limits import LimitsBook, note_breakers, note_starts
from timewheel.testing.simulation.operators import Operators
from timewheel.testing.simulation.plan import Life, Move, Plan
from timewheel.testing.simulation.standing import StandingUsers
from timewheel.testing.simulation.stores import STORES
from timewheel.testing.simulation.users import Users
from timewheel.testing.virtual import T0, VirtualMachine

TABLES = ("jobs", "attempts", "keys", "limits", "queues", "schedules", "ledger", "calendars", "operations")
EMPTY: Dump = {name: {} for name in TABLES} | {"importable": []}
MAY_FAIL = {"gone", "reopen", "read", "full", "busy"}  # faults that may make a scheduler give up
UNKNOWN_LIMIT = 3
STOP = "stop is called"


class World:
    """See the module. `teller` hears every fact as it happens, for people who look."""

    def __init__(self, plan: Plan, teller: Callable[[str], None] | None = None) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.log: list[Fact] = []
        self.lives: list[LifeRecord] = []
        self.first_violation: Violated | None = None
        self._teller = teller
        wall = T0 if plan.began is None else datetime.fromisoformat(plan.began)
        self.machine = VirtualMachine(seed=plan.seed, wall=wall, shuffle=True)
        book = Book(self.machine.clock.boot_us, self.add)
        self.journal = FaultyJournal(STORES[plan.store](), self.machine, plan.seed, self.counts, book)
        self.journal.happened = self.happened
        self.limits = LimitsBook(plan.limits, lambda *what: self.add(Shaped(self.elapsed_us, *what)))
        self.handlers = Handlers(self)
        self.users = Users(self)
        self.standing = StandingUsers(self)
        self.operators = Operators(self)
        self.latest_wall_us = self.machine.clock.wall_us()
        self.drift = 0.0  # parts that the wall clock is too fast
        self.alive = False
        self.loop: asyncio.AbstractEventLoop | None = None  # of the life that is led
        self._armed: dict[tuple[str, str], list[Move]] = defaultdict(list)
        self._moving: dict[asyncio.Task[None], None] = {}  # in the order of their beginning
        self._play_move: Callable[[World, Move], Any] | None = None

    # ---- what happens ------------------------------------------------------------------------------------------------

    @property
    def elapsed_us(self) -> int:
        """Since the machine was made, suspends included."""
        return self.machine.clock.boot_us()

    @property
    def record(self) -> LifeRecord:
        """The life that is being led."""
        return self.lives[-1]

    @property
    def life(self) -> Life:
        """What is planned for it."""
        return self.record.life

    def add(self, fact: Fact) -> None:
        """Something happened."""
        self.log.append(fact)
        if self._teller is not None:
            self._teller(f"{fact.elapsed_us / SECOND_US:12.6f}  {type(fact).__name__:8} {tuple(fact)[1:]}")

    def note(self, what: str, *facts: Any) -> None:
        """Something else happened."""
        self.add(Note(self.elapsed_us, what, facts))
        if what in ("clock set", "suspended") and self.alive:
            self.record.watched.append(self.now())

    def violate(self, violated: Violated) -> None:
        """An invariant does not hold; the first one counts."""
        self.first_violation = self.first_violation or violated

    def happened(self, event: str, tag: str) -> None:
        """Something happened to a job: moves that waited for it are made."""
        armed = self._armed.pop((event, tag), None)
        if armed is not None and self.alive:
            for move in armed:
                self.counts[f"moved when it was {event}"] += 1
                self.start(move)

    def now(self) -> Now:
        """Both clocks, as the scheduler of this life counts them."""
        return Now(self.machine.clock.wall_us(), self.elapsed_us + self.record.offset_us)

    def entered(self, tag: str, queue: str, context: Any) -> None:
        """A handler begins."""
        now = self.now()
        running = self.handlers.running
        most, in_all = self.limits.most(queue), running.total()
        facts = (queue, context.job_id, context.attempt, now, running[queue], in_all, most, self.limits.most("*"))
        self.add(Began(self.elapsed_us, tag, *facts))
        if context.schedule_id is not None:
            nominal_us = round(context.nominal_at.timestamp() * SECOND_US)
            missed = None if context.missed is None else context.missed.count
            told = (context.job_id, context.schedule_id, nominal_us, missed, now.wall_us - now.steady_us)
            self.add(Told(self.elapsed_us, *told))

    def left(self, tag: str, context: Any, how: str) -> None:
        """A handler ended."""
        if self.alive:
            self.counts[f"handler ended: {how}"] += 1
            steady_us = self.now().steady_us
            self.add(Ended(self.elapsed_us, tag, context.job_id, context.attempt, how, steady_us))

    # ---- what is done ------------------------------------------------------------------------------------------------

    def may_fail(self) -> bool:
        """Whether the faults of this life explain that its scheduler gives up."""
        kinds = [fault.kind for fault in self.life.faults]
        return self.journal.faulted and (bool(MAY_FAIL & {*kinds}) or kinds.count("unknown") >= UNKNOWN_LIMIT)

    def arm(self, moves: list[Move], play_move: Callable[[World, Move], Any]) -> None:
        """Have these moves made: each at its time, or when its event happens."""
        self._play_move = play_move
        self._armed.clear()
        for move in moves:
            if move.on is None:
                self.start(move)
            else:
                self._armed[move.on[0], move.on[1]].append(move)

    def start(self, move: Move) -> None:
        """Make a move in its time, in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._move(move), name=f"simulated {move.kind}")
        self._moving[task] = None
        task.add_done_callback(lambda task: self._moving.pop(task, None))

    async def _move(self, move: Move) -> None:
        assert self._play_move is not None
        try:
            if move.at_s or move.on is None:
                await asyncio.sleep(move.at_s)
            self.counts[f"move: {move.kind}"] += 1
            await self._play_move(self, move)
        except Violated as violated:
            self.violate(violated)
        except Exception as error:  # noqa: BLE001  whatever a verb raises that no fault explains is a finding
            self.violate(Violated("I25", f"{move.kind} raised {error!r}", move))

    def forget_moves(self) -> None:
        """The moves of a life that is over died with it."""
        self._armed.clear()
        self._moving = {}

    async def rest(self) -> None:
        """Cancel every move that is still being made."""
        self._armed.clear()
        moving = [task for task in self._moving if not task.done()]
        for task in moving:
            task.cancel()
        await asyncio.gather(*moving, return_exceptions=True)

    def step(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.machine.step(seconds)
        self.latest_wall_us = max(self.latest_wall_us, self.machine.clock.wall_us())
        self.record.stepped_us.append(round(seconds * SECOND_US))
        self.record.last_step_us = self.machine.awake_us
        self.note("clock set", seconds)

    def scheduler(self, journal: FaultyJournal, notices: list[Any], **options: Any) -> Scheduler:
        """A scheduler of this life, with its tasks; what it notices goes into a list."""
        scheduler = Scheduler(journal, system=self.machine.system, **self.limits.options(), **options)
        for name in (*TASKS, *self.limits.tasks):
            if name not in self.life.without:
                self.register(scheduler, name)
        scheduler.notices.subscribe(notices.append)
        note_breakers(scheduler.notices, self.machine.clock.boot_us, self.add)
        return scheduler

    def register(self, scheduler: Scheduler, name: str) -> None:
        """Make a task known."""
        scheduler.task(name=name, **self.limits.task(name))(getattr(self.handlers, name))

    def watch(self, scheduler: Scheduler) -> None:
        """Note the moments at which tokens are taken; a handler's first line may run later, when the loop is busy."""
        engine = scheduler._engine
        assert engine is not None
        self.record.epoch = engine.epoch
        self.record.boots = self.machine.boots
        self.record.offset_us = engine.now().steady_us - self.elapsed_us
        self.record.watched.append(engine.dispatcher.watching_since)
        note_starts(engine.dispatcher, self.machine.clock.boot_us, self.add, flow=bool(self.limits.tasks))

    def trace(self) -> str:
        """Everything that happened, as one short text: equal for equal runs."""
        final = (self.lives and self.lives[-1].after) or EMPTY
        jobs = sorted(final["jobs"].items())
        attempts = sorted(final["attempts"].items())
        return hashlib.sha256(repr((self.log, jobs, attempts)).encode()).hexdigest()


class Silence:
    """While this is entered, timewheel logs nothing: simulated faults would fill every log."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("timewheel")
        self._was = self._logger.disabled
        self._logger.disabled = True

    def __exit__(self, *_: object) -> None:
        self._logger.disabled = self._was


@contextmanager
def zones_called(name: str | None) -> Iterator[None]:
    """While this is entered, the time zone database has another name, if one is given: a program with newer zones."""
    found = zones.version
    if name is not None:
        zones.version = lambda: name
    try:
        yield
    finally:
        zones.version = found
