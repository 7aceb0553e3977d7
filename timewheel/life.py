"""The life of a scheduler: start, stand by, run, drain, stop, fail; and who may use it when and from where."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.engine import Engine
from timewheel.errors import JournalOwned, NotOwner, NotStarted, SchedulerFailed
from timewheel.events import Notices
from timewheel.forks import Place
from timewheel.model import SchedulerState
from timewheel.settings import Manners, Settings
from timewheel.supervisor import Keeper
from timewheel.tasks import TaskRegistry
from timewheel.times import delay_us
from timewheel.work.context import runs_inside

if TYPE_CHECKING:
    from timewheel.store.port import Store
    from timewheel.system import System

STANDBY_LOOK_S = 0.5
INTERRUPT_GRACE_S = 10.0
_log = logging.getLogger("timewheel")


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
        self._place: Place | None = None
        self._cause: BaseException | None = None
        self._interrupted = False
        self._starting: asyncio.Future[None] | None = None
        self._standby: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._keeper: Keeper | None = None
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
        return None if self._place is None else self._place.loop

    async def start(self) -> None:
        """Open the journal, become its owner, recover and begin to dispatch.

        With `when_owned="wait"` it returns in STANDBY while another process owns the journal. Raises JournalOwned and
        the other journal errors (the file is then untouched), InvalidTask; WrongThread when it was started elsewhere.
        """
        self.check_process()
        if self._starting or self._state not in (SchedulerState.NEW, SchedulerState.STOPPED):
            state = "starting" if self._starting else self._state
            raise NotStarted(f"start() of a scheduler that is {state}: it starts once, until it is stopped")
        self._starting = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        finally:
            starting, self._starting = self._starting, None
            starting.set_result(None)

    async def _start(self) -> None:
        self._place = Place()
        self._changed = asyncio.Event()
        self._cause, self._stopping, self._interrupted = None, None, False
        for module in self._manners.imports:
            importlib.import_module(module)
        try:
            await self._store.open()
            await self._take_over()
        except JournalOwned:
            if not self._manners.waits_for_ownership:
                await self._store.close()
                raise
            self._state = SchedulerState.STANDBY
            standby = self._surely("standby", self._stand_by, lambda: self._stopping is not None)
            self._standby = self._place.loop.create_task(standby, name="timewheel standby")
        except BaseException:
            await self._store.close()
            raise
        self._keeper = Keeper(self._stop_with_the_loop)

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
            except asyncio.CancelledError:
                await self._store.close()  # half an owner is none
                await self._store.open()
                raise
            except Exception as cause:  # noqa: BLE001  nobody awaits the take-over: its failure is the scheduler's
                self.engine_failed(cause)
            return

    async def stop(self, grace_s: float = 10) -> None:
        """Start nothing new, let what runs finish for `grace_s` seconds, then stop it, write every outcome and close.

        Handlers that still run when the grace ends are cancelled; those that do not end then are named in the log and
        their attempts given back (they are not spent). Calling it again waits for the first call, and a shorter grace
        counts. From inside a handler it only begins the stop and returns at once. Harmless when not started; while
        `start` is under way it waits for that first.
        """
        grace = delay_us(grace_s) / 1_000_000
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        if self._state in (SchedulerState.NEW, SchedulerState.STOPPED):
            return
        assert self._place is not None, "a scheduler that was started has a place"
        self._place.check()
        if self._stopping is not None and self._engine is not None:
            self._engine.worker.hurry(grace)
        stopping = self._stop_soon(grace)
        if not runs_inside(self):
            await asyncio.shield(stopping)

    def _stop_soon(self, grace_s: float) -> asyncio.Task[None]:
        if self._stopping is None:
            stop = self._surely("stop", lambda: self._stop(grace_s), lambda: False)
            self._stopping = asyncio.get_running_loop().create_task(stop, name="timewheel stop")
        return self._stopping

    async def _surely(self, what: str, run: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], bool]) -> None:
        """Run to the end, though a stranger may cancel it; not after the loop's end, nor when it is `over`."""
        while True:
            try:
                return await run()
            except asyncio.CancelledError:
                if over() or (self._keeper is not None and self._keeper.loop_ended):
                    raise
                _log.warning("somebody cancelled the %s of timewheel; it goes on", what)

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
        if self._keeper is not None:
            self._keeper.over()

    async def _stop_with_the_loop(self) -> None:
        """Stop at once. The loop's end has also cancelled a stop that was under way."""
        if self._stopping is not None:
            await asyncio.wait([self._stopping])
        if self._state is not SchedulerState.STOPPED:
            await self._stop(0)

    # ---- what the engine tells ---------------------------------------------------------------------------------------

    async def engine_ready(self) -> None:
        """The journal is recovered, and nothing runs yet."""

    def engine_failed(self, cause: BaseException) -> None:
        """The engine cannot go on."""
        self._cause = cause
        self._state = SchedulerState.FAILED
        self._signal()
        if self._manners.on_failure is not None:
            try:
                self._manners.on_failure(cause)
            except (Exception, asyncio.CancelledError):  # noqa: BLE001  the user's hook cannot hurt the scheduler
                _log.exception("on_failure raised")

    def engine_interrupted(self) -> None:
        """A handler raised KeyboardInterrupt."""
        self._interrupted = True
        self._stop_soon(INTERRUPT_GRACE_S)

    def _signal(self) -> None:
        if self._changed is not None:
            self._changed.set()

    # ---- guards ------------------------------------------------------------------------------------------------------

    def check_process(self) -> None:
        """Raise ForkedScheduler in a child that was forked after the start."""
        if self._place is not None:
            self._place.check_process()

    def _guard(self, write: bool) -> None:
        state = self._state
        if state is SchedulerState.RUNNING and self._place is not None and self._place.is_here():
            return
        if state is SchedulerState.NEW or state is SchedulerState.STOPPED:
            raise NotStarted(f"the scheduler is {state}: use it inside `async with scheduler:` or after `start()`")
        assert self._place is not None, "a scheduler that was started has a place"
        self._place.check()
        self.raise_if_failed()
        if write and state is SchedulerState.STANDBY:
            raise NotOwner(
                f"another process owns {self._store.path}: this one stands by and can only read until it takes over"
            )

    def raise_if_failed(self) -> None:
        """Raise SchedulerFailed after a fault."""
        if self._cause is not None:
            what = f"{type(self._cause).__name__}: {self._cause}"
            raise SchedulerFailed(f"the scheduler stopped after a fault: {what}", cause=self._cause) from self._cause
