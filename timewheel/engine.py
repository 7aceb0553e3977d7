"""The engine: wires the doers of one ownership of a journal together, keeps them running, and ends them.

An engine lives from the moment the journal is owned until `stop` or a fault. The doers do not know one another: each
gets the few methods it needs, most of them here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.aftermath import Consequences
from timewheel.clockwatch import ClockWatch
from timewheel.dispatch.claiming import AHEAD_US
from timewheel.dispatch.dispatcher import Dispatcher
from timewheel.dispatch.limits import Limits
from timewheel.dispatch.ready import Ready
from timewheel.errors import JournalUnavailable, NotStarted
from timewheel.events import Notices
from timewheel.guard_keeper import GuardKeeper
from timewheel.housekeeper import Housekeeper
from timewheel.known import Known
from timewheel.ledger import Ledger
from timewheel.model import Now, WaitingReason
from timewheel.planning.planner import Planner
from timewheel.pulse import Pulse
from timewheel.queue_keeper import QueueKeeper
from timewheel.replacing import Replacing
from timewheel.settings import Host, Settings
from timewheel.store.changes import Change, Outcome
from timewheel.store.committer import Committer
from timewheel.store.loader import Loader
from timewheel.store.port import Owner, Ownership, Stamp
from timewheel.store.recovery import Recovery
from timewheel.supervisor import Supervisor
from timewheel.timeline import Timeline
from timewheel.verbs import Verbs
from timewheel.waiters import Waiters
from timewheel.wheel.ticker import Ticker
from timewheel.work.worker import Worker

if TYPE_CHECKING:
    from timewheel.store.port import Store
    from timewheel.system import System
    from timewheel.tasks import TaskRegistry

_log = logging.getLogger("timewheel")
FLUSH_PATIENCE_S = 5.0  # what a stop waits for a journal that takes nothing


class Engine:
    """See the module. `host` is the scheduler that handlers see, and hears of faults and interrupts."""

    def __init__(
        self,
        store: Store,
        system: System,
        settings: Settings,
        registry: TaskRegistry,
        notices: Notices,
        host: Host,
    ) -> None:
        self.store = store
        self.notices = notices
        self.waiters = Waiters()
        self.cause: BaseException | None = None
        self._system = system
        self._clock = system.clock
        self._settings = settings
        self._registry = registry
        self._host = host
        self._supervisor = Supervisor(system.clock, notices, self.failed)
        self.spawn = self._supervisor.spawn
        self._counter = 0
        self._pulse: Pulse | None = None
        self._unwatch: Callable[[], None] | None = None

    def stamp(self) -> Stamp:
        """When and by whom a batch is written."""
        boot_us = self._clock.boot_us()
        return Stamp(self.timeline.now(self._clock.wall_us(), boot_us), boot_us, self.epoch)

    def new_id(self) -> int:
        """The next job id: unique over restarts, for the epoch is."""
        self._counter += 1
        return self.epoch << 40 | self._counter

    def owner(self) -> Owner:
        """Who asks for the journal."""
        return Owner(self._clock.boot_id, self._clock.boot_us(), self._clock.wall_us())

    async def start(self, ownership: Ownership) -> None:
        """Wire everything, recover, and begin to dispatch. Raises what the journal raises; then nothing runs."""
        self.epoch = ownership.epoch
        self.timeline = Timeline(ownership.anchor, self._clock.boot_id, self._clock.read())
        self.now: Callable[[], Now] = self.timeline.reader(self._clock.wall_us, self._clock.boot_us)
        await self._wire()
        self.spawn("committer", self.committer.run)
        self.committer.starting = True
        self.dispatcher.declared.declare(*self._known.tasks())
        await self._learn_who_waits()
        recovered = await self.recovery.recover(tuple(self._known.names()), self.dispatcher.declared.key_limits)
        await self.queues.forget_overtaken()
        await self.planner.load()
        await self._host.engine_ready()
        if self.cause is not None:
            raise self.cause
        self.committer.starting = False
        self.dispatcher.kick()
        self.notices.emit(recovered)
        for doer in (self.ticker, self.loader, self.housekeeper, self.planner):
            self.spawn(type(doer).__name__.lower(), doer.run)
        self._unwatch = self._clock.watch(self._clock_changed)
        if self._pulse is not None:
            self._pulse.start()
        if recovered.lost:
            _log.warning("%d attempts of a former process were lost", recovered.lost)

    async def _wire(self) -> None:
        store, clock, now = self.store, self._clock, self.now
        self._known = Known(self._registry, await store.importable())
        settings = self._settings
        saved = await store.limits()
        wide, steady_us = settings.concurrency, now().steady_us
        limits = Limits(wide, settings.rate, settings.queues, saved, steady_us, settings.dependencies)
        self.dispatcher = Dispatcher(Ready(), limits, now, clock, self)
        self.ticker = Ticker(clock, now, self.dispatcher.fire, lambda: self._clocks.look(), AHEAD_US)
        self.loader = Loader(store, self.ticker, self.dispatcher.queued, now, clock, self.notices, self._in_trouble)
        ended: Callable[[int, str], None] = lambda *job: self.planner.finished(*job)  # noqa: E731  it is made below
        self.consequences = Consequences(self.loader, self.waiters, self.notices, ended)
        self.committer = Committer(store, self.stamp, self, clock, self.notices)
        replacing = Replacing(self.new_id, self._known.knows, self.consequences, self.spawn, clock)
        self.planner = Planner(store, self.committer, replacing, now, clock)
        looks = (self.dispatcher, self.loader, self.planner)
        self._clocks = ClockWatch(self.timeline, clock, looks, self.committer.note, self.notices)
        interrupted = self._host.engine_interrupted
        self.ledger = Ledger(self.epoch, self.committer, self.dispatcher, self.consequences, self.notices, interrupted)
        self.recovery = Recovery(store, self.committer, now, self.epoch, self.ledger.recovers)
        threads = self._system.threads(settings.threads)
        self.worker = Worker(threads, now, clock, self._system.random, self._known.find, self.ledger, self._host)
        self.dispatcher.wire(self.committer, self.worker)
        self.housekeeper = Housekeeper(store, self.committer, self.worker.release_unborn, now, clock)
        self.verbs = replacing.verbs = Verbs(self.dispatcher, self.worker, self.committer)
        if (watchdog := self._system.watchdog()) is not None:
            self._pulse = Pulse(clock, watchdog, self.notices)
        self.guards = GuardKeeper(self.dispatcher, self.committer, self.notices, now)
        self.queues = QueueKeeper(self.dispatcher, self.committer, settings.queues, now)
        self.queues.restore(await store.queues())

    async def _learn_who_waits(self) -> None:
        """Whoever waits for another to end is to be let go on in time."""
        self.committer.heirs.may_wait = waits = await self.recovery.any_waits()
        if waits:
            self.dispatcher.declared.waiters_unknown()

    def task_registered(self, name: str) -> None:
        """A task became known while the engine runs: its unresolvable jobs may go on, and its parked schedules."""
        if (task := self._registry.find(name)) is not None:
            self.dispatcher.declared.declare(task)
            self.dispatcher.kick()
        self.planner.task_registered(name)
        self.spawn("release of waiting jobs", lambda: self.recovery.unhold(WaitingReason.UNRESOLVABLE, (name,)))

    def _clock_changed(self) -> None:
        for doer in (self.ticker, self.loader, self.worker):
            doer.look()

    # ---- what the doers tell -----------------------------------------------------------------------------------------

    def committed(self, changes: list[Change], outcomes: list[Outcome]) -> None:
        """A batch is durable."""
        self._clocks.look()  # before anything fires by a clock that was set
        self.ticker.turn()
        self.consequences.draw(changes, outcomes)

    def all_told(self) -> None:
        """What a batch set free is claimed in the very next one."""
        self.dispatcher.pump()

    def _in_trouble(self) -> bool:
        return self.committer.trouble is not None

    async def journal_unknown(self, claimed: list[int]) -> None:
        """The journal was opened again: what memory holds of it is read afresh."""
        ours = self.committer.settling() | self.dispatcher.gate.waiting
        await self._learn_who_waits()
        await self.recovery.release([each for each in claimed if each not in ours and not self.worker.has(each)])
        self.loader.reset()
        self.waiters.wake_all()
        self.planner.journal_unknown()

    def journal_failed(self, cause: BaseException) -> None:
        """The committer has ended."""
        self.failed(cause)

    def failed(self, cause: BaseException) -> None:
        """The engine cannot go on: nothing new starts; what runs can no longer be recorded."""
        if self.cause is not None:
            return
        self.cause = cause
        self.dispatcher.draining = True
        self.planner.end()
        self.ledger.closed = True
        _log.critical("timewheel stopped dispatching: %s: %s", type(cause).__name__, cause, exc_info=cause)
        self.waiters.wake_all()
        if not self.committer.starting:  # else `start` raises it
            self._host.engine_failed(cause)

    def drained(self) -> None:
        """Jobs were taken from ready."""
        self.loader.drained()

    # ---- stop --------------------------------------------------------------------------------------------------------

    async def stop(self, grace_s: float) -> list[str]:
        """Start nothing new, let what runs finish for `grace_s`, stop the rest, write every outcome, end the doers; the
        names of the handlers that would not end."""
        self.planner.end()
        self.dispatcher.draining = True
        self.dispatcher.give_back("drain")
        left = await self.worker.finish(grace_s)
        await self._write_everything()
        await self.abandon()
        self.ledger.closed = True
        self.cause = self.cause or NotStarted("the scheduler has stopped")
        self.committer.end(self.cause)
        await self.planner.abandon()
        threads_run_on = self.worker.close(self.store.disown)
        await self.store.close(keep_ownership=threads_run_on)
        self.waiters.wake_all()
        return left

    async def _write_everything(self) -> None:
        """Until nothing is claimed any more that did not start, and every outcome is durable."""
        while self.cause is None and (self.dispatcher.holds_claims or not self.committer.idle):
            if not await self.committer.flush(FLUSH_PATIENCE_S):
                message = f"{self.store.path} took nothing for {FLUSH_PATIENCE_S:g} s: outcomes were not written"
                self.failed(JournalUnavailable(message, path=self.store.path))
            await asyncio.sleep(0)  # what a verb held back is given back in the next turn

    async def abandon(self) -> None:
        """End the doers; what they left undone stays so. The journal is the caller's to close."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._pulse is not None:
            self._pulse.stop()
        await self._supervisor.end()
