"""The life of a scheduler: start, stand by, run, drain, stop, fail; and who may use it when and from where."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timewheel import forks
from timewheel.alarm import Alarm
from timewheel.engine import Engine
from timewheel.errors import ForkedScheduler, JournalOwned, NotOwner, NotStarted, SchedulerFailed, WrongThread
from timewheel.events import Notices
from timewheel.model import SchedulerState
from timewheel.settings import Settings
from timewheel.tasks import TaskRegistry
from timewheel.times import delay_us
from timewheel.work.context import CURRENT

if TYPE_CHECKING:
    from timewheel.store.port import Store
    from timewheel.system import System

STANDBY_LOOK_S = 0.5
INTERRUPT_GRACE_S = 10.0
_log = logging.getLogger("timewheel")


@dataclass(frozen=True, slots=True)
class Manners:
    """How a scheduler behaves at start and at failure."""

    waits_for_ownership: bool
    imports: tuple[str, ...]
    on_failure: Callable[[BaseException], Any] | None


class Life:
    """The part of a Scheduler that starts and ends it. Hears of faults and interrupts from its engine."""

    def __init__(self, store: Store, system: System, settings: Settings, manners: Manners) -> None:
        self._store = store
        self._system = system
        self._settings = settings
        self._manners = manners
        self._registry = TaskRegistry()
        self._state = SchedulerState.NEW
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._generation = 0
        self._cause: BaseException | None = None
        self._interrupted = False
        self._standby: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._changed: asyncio.Event | None = None
        self.notices = Notices()

    @property
    def state(self) -> SchedulerState:
        """NEW, STANDBY, RUNNING, DRAINING, STOPPED or FAILED."""
        return self._state

    @property
    def path(self) -> str:
        """Where the journal is."""
        return self._store.path

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop it was started on; None before that."""
        return self._loop

    # ---- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the journal, become its owner, recover and begin to dispatch.

        With `when_owned="wait"` it returns in STANDBY while another process owns the journal. Raises JournalOwned and
        the other journal errors (the file is then untouched), InvalidTask; WrongThread when it was started elsewhere.
        """
        if self._state not in (SchedulerState.NEW, SchedulerState.STOPPED):
            raise NotStarted(f"start() of a scheduler that is {self._state}: it starts once, until it is stopped")
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._generation = forks.generation()
        self._changed = asyncio.Event()
        self._cause, self._stopping, self._interrupted = None, None, False
        for module in self._manners.imports:
            importlib.import_module(module)
        await self._store.open()
        try:
            await self._take_over()
        except JournalOwned:
            if not self._manners.waits_for_ownership:
                await self._store.close()
                raise
            self._state = SchedulerState.STANDBY
            self._standby = self._loop.create_task(self._stand_by(), name="timewheel standby")
        except BaseException:
            await self._store.close()
            raise

    async def _take_over(self) -> None:
        engine = Engine(self._store, self._system, self._settings, self._registry, self.notices, self)
        ownership = await self._store.own(engine.owner())
        self._engine = engine
        try:
            await engine.start(ownership)
        except BaseException:
            self._engine = None
            await engine.abandon()
            raise
        self._state = SchedulerState.RUNNING

    async def _stand_by(self) -> None:
        alarm = Alarm(self._system.clock)
        while True:
            await alarm.wait(STANDBY_LOOK_S)
            try:
                await self._take_over()
            except JournalOwned:
                continue  # the owner lives: look again
            except Exception as cause:  # noqa: BLE001  nobody awaits the take-over: its failure is the scheduler's
                self.engine_failed(cause)
            return

    async def stop(self, grace_s: float = 10) -> None:
        """Start nothing new, let what runs finish for `grace_s` seconds, then stop it, write every outcome and close.

        Handlers that still run when the grace ends are cancelled; those that do not end then are named in the log and
        their attempts given back (they are not spent). Calling it again waits for the first call, and a shorter grace
        counts. From inside a handler it only begins the stop and returns at once. Harmless when not started.
        """
        grace = delay_us(grace_s) / 1_000_000
        if self._state in (SchedulerState.NEW, SchedulerState.STOPPED):
            return
        self._check_place()
        assert self._loop is not None, "a scheduler that was started has a loop"
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(grace), name="timewheel stop")
        elif grace <= 0 and self._engine is not None:
            self._engine.worker.hurry()
        context = CURRENT.get(None)
        if context is None or context.scheduler is not self:
            await asyncio.shield(self._stopping)

    async def _stop(self, grace_s: float) -> None:
        if self._standby is not None:
            self._standby.cancel()
            await asyncio.gather(self._standby, return_exceptions=True)
            self._standby = None
        if self._state is SchedulerState.RUNNING:
            self._state = SchedulerState.DRAINING
        engine = self._engine
        if engine is None:
            await self._store.close()
        else:
            left = await engine.stop(grace_s)
            if left:
                _log.error("these handlers would not end and were given back: %s", ", ".join(left))
        if self._state is not SchedulerState.FAILED:
            self._state = SchedulerState.STOPPED
        self._engine = None
        self._signal()

    # ---- what the engine tells ---------------------------------------------------------------------------------------

    def engine_failed(self, cause: BaseException) -> None:
        """The engine cannot go on."""
        self._cause = cause
        self._state = SchedulerState.FAILED
        self._signal()
        if self._manners.on_failure is not None:
            try:
                self._manners.on_failure(cause)
            except Exception:  # noqa: BLE001  the user's hook cannot hurt the scheduler
                _log.exception("on_failure raised")

    def engine_interrupted(self) -> None:
        """A handler raised KeyboardInterrupt."""
        self._interrupted = True
        if self._stopping is None and self._loop is not None:
            self._stopping = self._loop.create_task(self._stop(INTERRUPT_GRACE_S), name="timewheel stop")

    def _signal(self) -> None:
        if self._changed is not None:
            self._changed.set()

    # ---- guards ------------------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        """Whether the caller runs in the process and on the loop that this was started in."""
        try:
            return asyncio.get_running_loop() is self._loop and forks.generation() == self._generation
        except RuntimeError:
            return False

    def _check_place(self) -> None:
        if forks.generation() != self._generation:
            raise ForkedScheduler(
                f"this scheduler was started in process {self._pid} and is used in its forked child {os.getpid()}: "
                f"make and start one in the child"
            )
        if not self._is_here():
            raise WrongThread(
                "this scheduler runs on another event loop: from a thread or another loop use scheduler.blocking, "
                "for instance scheduler.blocking.after(5, fn)"
            )

    def _guard(self, write: bool) -> None:
        state = self._state
        if state is SchedulerState.RUNNING and self._is_here():
            return
        if state is SchedulerState.NEW or state is SchedulerState.STOPPED:
            raise NotStarted(f"the scheduler is {state}: use it inside `async with scheduler:` or after `start()`")
        self._check_place()
        self._raise_if_failed()
        if write and state is SchedulerState.STANDBY:
            raise NotOwner(
                f"another process owns {self._store.path}: this one stands by and can only read until it takes over"
            )

    def _raise_if_failed(self) -> None:
        if self._cause is not None:
            message = f"the scheduler stopped after a fault: {type(self._cause).__name__}: {self._cause}"
            raise SchedulerFailed(message, cause=self._cause) from self._cause
