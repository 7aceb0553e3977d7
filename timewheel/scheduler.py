"""Scheduler: the facade. It opens the journal, becomes its owner, and runs an engine on it until it is stopped."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from timewheel import forks, guidance
from timewheel.alarm import Alarm
from timewheel.blocking import Blocking
from timewheel.connect import Durability, connect
from timewheel.desk import Desk
from timewheel.desk import number_of as _number_of
from timewheel.engine import Engine, Settings
from timewheel.errors import (
    ForkedScheduler,
    JournalOwned,
    NotOwner,
    NotStarted,
    SchedulerFailed,
    WrongThread,
)
from timewheel.events import Notices
from timewheel.handles import Draft, Query, Statistics
from timewheel.job import Job
from timewheel.lists import states_of
from timewheel.model import ClockKind, JobState, Now, SchedulerState
from timewheel.options import OneShotOptions, Options, TaskOptions, one_shot_options
from timewheel.policies import Queue, Rate
from timewheel.queues import QueueHandle
from timewheel.requests import make_submit
from timewheel.scheduling import Scheduling
from timewheel.store.changes import Submit
from timewheel.store.port import JobFilter, Store
from timewheel.system import System
from timewheel.tasks import TaskRegistry
from timewheel.times import delay_us
from timewheel.work.context import CURRENT

if TYPE_CHECKING:
    from typing import Self

F = TypeVar("F", bound=Callable[..., Any])
STANDBY_LOOK_S = 0.5
_log = logging.getLogger("timewheel")


class Scheduler(Scheduling):
    """An embedded, durable job scheduler: one process, one file.

    `url_or_store`: "sqlite:///jobs.db", "memory://" or a Store. `when_owned`: what `start` does while another process
    owns the journal: "raise" JournalOwned, or "wait" in STANDBY, where reads work, and take over when the owner ends.
    `durability`: "power" (acknowledged jobs survive power loss) or "process" (they survive SIGKILL). `rate`,
    `concurrency` and `queues` limit how many jobs start and run; `threads` is how many sync handlers run at once.
    `imports`: modules to import at start, so that their tasks are known. `on_failure(cause)` is called when the
    scheduler enters FAILED.

    Making one, and decorating functions with it, does no I/O. Raises InvalidOption.
    """

    def __init__(
        self,
        url_or_store: str | Store = "sqlite:///timewheel.db",
        *,
        system: System | None = None,
        when_owned: Literal["raise", "wait"] = "raise",
        durability: Durability = "power",
        rate: Rate | None = None,
        concurrency: int = 100,
        threads: int = 8,
        queues: Mapping[str, Queue] | None = None,
        imports: Collection[str] = (),
        on_failure: Callable[[BaseException], Any] | None = None,
    ) -> None:
        guidance.check_choices(when_owned=when_owned, imports=imports, on_failure=on_failure)
        self._settings = Settings(
            guidance.rate(rate),
            guidance.whole("concurrency", concurrency, 100_000),
            guidance.whole("threads", threads, 1_000),
            guidance.queues(queues),
        )
        self._store = connect(url_or_store, durability) if isinstance(url_or_store, str) else url_or_store
        self._system = system or System()
        self._when_owned = when_owned
        self._imports = tuple(imports)
        self._on_failure = on_failure
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
        self._desk = Desk(self._store, self._guard, lambda: self._engine)
        self._office = self
        self.submit = self._desk.submit  # type: ignore[method-assign]  # once a job: no detour
        self.notices = Notices()
        self.blocking = Blocking(self)

    def __repr__(self) -> str:
        return f"<Scheduler {self._store.path} {self._state}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(guidance.unknown_attribute(name))

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

    # ---- tasks -------------------------------------------------------------------------------------------------------

    @overload
    def task(self, fn: F, /) -> F: ...
    @overload
    def task(self, *, name: str | None = None, **options: Unpack[TaskOptions]) -> Callable[[F], F]: ...
    def task(self, fn: Any = None, /, *, name: str | None = None, **options: Any) -> Any:  # type: ignore[misc]  # mypy cannot match an Unpack
        """Register a function as a task, under `name` or its `module:qualname`. Returns the function unchanged.

        The name is what the journal stores: it must stay when the function moves. A function may be given several
        names. Raises InvalidTask, InvalidOption.
        """

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            task = self._registry.register(fn, name=name, **options)
            if self._engine is not None and self._state is SchedulerState.RUNNING:
                self._engine.task_registered(task.name)
            return fn

        return register if fn is None else register(fn)

    def task_names(self) -> list[str]:
        """The names of the registered tasks, sorted."""
        return self._registry.names()

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
        for module in self._imports:
            importlib.import_module(module)
        await self._store.open()
        try:
            await self._take_over()
        except JournalOwned:
            if self._when_owned == "raise":
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
                continue
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

    async def run_forever(self) -> None:
        """Start if need be, run until somebody stops the scheduler, and stop it when this call is cancelled.

        Raises SchedulerFailed after a fault, and KeyboardInterrupt when a handler raised that. Installs no signal
        handlers: those are the application's.
        """
        if self._state in (SchedulerState.NEW, SchedulerState.STOPPED):
            await self.start()
        assert self._changed is not None, "a scheduler that was started has an event"
        try:
            while self._state in (SchedulerState.STANDBY, SchedulerState.RUNNING, SchedulerState.DRAINING):
                await self._changed.wait()
                self._changed.clear()
        finally:
            await self.stop()
        self._raise_if_failed()
        if self._interrupted:
            raise KeyboardInterrupt

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:  # noqa: ARG002  the signature that frameworks call
        """For FastAPI(lifespan=scheduler.lifespan) and Starlette: runs with the application."""
        async with self:
            yield

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None:
            self._raise_if_failed()

    async def wait_failed(self) -> BaseException:
        """Wait until the scheduler fails; returns the cause."""
        while self._cause is None:
            if self._changed is None:
                raise NotStarted("wait_failed() before start()")
            await self._changed.wait()
            self._changed.clear()
        return self._cause

    # ---- what the engine tells ---------------------------------------------------------------------------------------

    def engine_failed(self, cause: BaseException) -> None:
        """The engine cannot go on."""
        self._cause = cause
        self._state = SchedulerState.FAILED
        self._signal()
        if self._on_failure is not None:
            try:
                self._on_failure(cause)
            except Exception:  # noqa: BLE001  the user's hook cannot hurt the scheduler
                _log.exception("on_failure raised")

    def engine_interrupted(self) -> None:
        """A handler raised KeyboardInterrupt."""
        self._interrupted = True
        if self._stopping is None and self._loop is not None:
            self._stopping = self._loop.create_task(self._stop(10.0), name="timewheel stop")

    def _signal(self) -> None:
        if self._changed is not None:
            self._changed.set()

    # ---- guards ------------------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        if forks.generation() != self._generation:
            raise ForkedScheduler(
                f"this scheduler was started in process {self._pid} and is used in its forked child {os.getpid()}: "
                f"make and start one in the child"
            )
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self._loop:
            raise WrongThread(
                "this scheduler runs on another event loop: from a thread or another loop use scheduler.blocking, "
                "for instance scheduler.blocking.after(5, fn)"
            )

    def _guard(self, write: bool) -> None:
        state = self._state
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

    # ---- jobs --------------------------------------------------------------------------------------------------------

    def draft(
        self,
        asked: tuple[ClockKind, int],
        fn: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options | None,
    ) -> Submit:
        """Check a call and make its submission."""
        return make_submit(self._registry, asked, fn, args, kwargs, options)

    async def submit(self, submit: Submit) -> Job[Any]:
        """Make one job durable."""
        return await self._desk.submit(submit)

    async def submit_many(self, drafts: Iterable[Draft[Any]]) -> list[Job[Any]]:
        """Make many jobs durable."""
        return await self._desk.submit_many(drafts)

    async def submit_each(self, submits: Iterable[Submit]) -> list[Job[Any] | BaseException]:
        """Make many jobs durable; a job or an exception for each, in order."""
        return await self._desk.submit_each(submits)

    def check_room(self, jobs: int = 1) -> None:
        """Raise Overloaded when so many submissions would have to wait: for servers, which answer 429 instead."""
        self._desk.check_room(jobs)

    def options(self, **options: Unpack[OneShotOptions]) -> Optioned:
        """The verbs at, after, now, new and at_many with these options. Raises InvalidOption."""
        return Optioned(self, one_shot_options(options))

    async def get_job(self, job_id: str) -> Job[Any]:
        """The job of a public id. Raises JobNotFound."""
        return await self._desk.fetch(_number_of(job_id))

    def jobs(
        self,
        *,
        state: JobState | str | Iterable[JobState | str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        idempotency_key: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Query[Job[Any]]:
        """The jobs that match, newest first: `await` for one Page, `async for` for all. Raises InvalidOption."""
        which = JobFilter(states_of(state), queue, task, tag, idempotency_key)
        return self._desk.query(which, page_size, page_token)

    def queue(self, name: str) -> QueueHandle:
        """A queue, to pause, resume and resize it."""
        return QueueHandle(self._desk, name)

    async def statistics(self) -> Statistics:
        """Numbers for metrics; takes time in proportion to the journal, in another thread."""
        engine = self._engine
        wall = self._system.clock.wall_us()
        now = Now(wall, wall) if engine is None else engine.now()
        return await self._desk.statistics(self._state, self._settings.concurrency, now)


class Optioned(Scheduling):
    """The verbs that make jobs, with options: what `scheduler.options(...)` gives."""

    def __init__(self, office: Scheduler, options: Options) -> None:
        self._office = office
        self._options = options

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(guidance.unknown_attribute(name))
