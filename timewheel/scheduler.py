"""Scheduler: the facade. It opens the journal, becomes its owner, and runs an engine on it until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack, overload

from timewheel import guidance
from timewheel.blocking import Blocking
from timewheel.connect import Durability, connect
from timewheel.dependencies import DependencyHandle
from timewheel.desk import Desk
from timewheel.desk import number_of as _number_of
from timewheel.errors import InvalidOption
from timewheel.handles import Draft, Statistics
from timewheel.job import Job
from timewheel.lists import JobQuery, StateLike, states_of
from timewheel.mending import Mending
from timewheel.misfits import told
from timewheel.model import ClockKind, JobState, Now, SchedulerState
from timewheel.options import OneShotOptions, Options, TaskOptions, one_shot_options
from timewheel.policies import Queue, Rate
from timewheel.queues import QueueHandle
from timewheel.requests import make_submit
from timewheel.retention_rules import Retention, as_retention
from timewheel.safeguards import Dependency
from timewheel.scheduling import Scheduling
from timewheel.settings import Manners, Settings
from timewheel.store.changes import Submit
from timewheel.store.port import JobFilter, Store
from timewheel.system import System

F = TypeVar("F", bound=Callable[..., Any])


class Scheduler(Mending, Scheduling):
    """An embedded, durable job scheduler: one process, one file.

    `url_or_store`: "sqlite:///jobs.db", "memory://" or a Store. `when_owned`: what `start` does while another process
    owns the journal: "raise" JournalOwned, or "wait" in STANDBY, where reads work, and take over when the owner ends.
    `durability`: "power" (acknowledged jobs survive power loss) or "process" (they survive SIGKILL). `rate`,
    `concurrency` and `queues` limit how many jobs start and run; `threads` is how many sync handlers run at once.
    `dependencies`: what protects those that tasks name (a Dependency each; one that is not named here: Dependency()).
    `tz` is the zone of recurring rules that name none. `imports`: modules to import at start, so that their tasks are
    known. `prune`: the start ends schedules that code once declared (`periodic`) and now does not. `retention`: how
    long jobs that have ended are kept (a Retention; without one for ever). `on_failure(cause)` is called when the
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
        dependencies: Mapping[str, Dependency] | None = None,
        tz: str = "UTC",
        imports: Collection[str] = (),
        prune: bool = False,
        retention: Retention | None = None,
        on_failure: Callable[[BaseException], Any] | None = None,
    ) -> None:
        guidance.check_choices(when_owned=when_owned, imports=imports, on_failure=on_failure)
        settings = Settings(
            guidance.rate(rate),
            guidance.whole("concurrency", concurrency, 100_000),
            guidance.whole("threads", threads, 1_000),
            guidance.queues(queues),
            guidance.dependencies(dependencies),
        )
        store = connect(url_or_store, durability) if isinstance(url_or_store, str) else url_or_store
        super().__init__(store, system or System(), settings, Manners(when_owned == "wait", tuple(imports), on_failure))
        desk = Desk(store, self._system.clock, self._guard, lambda: self._engine)
        self._open_bureau(desk, tz, prune=prune)
        self._open_repairs(desk, as_retention(retention))
        self._office = self
        self.submit = self._desk.submit  # type: ignore[method-assign]  # once a job: no detour
        self.blocking = Blocking(self)

    def __repr__(self) -> str:
        return f"<Scheduler {self._store.path} {self._state}>"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(guidance.unknown_attribute(name))

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
            self._task_known(task.name)
            return fn

        return register if fn is None else register(fn)

    def task_names(self) -> list[str]:
        """The names of the registered tasks, sorted."""
        return self._registry.names()

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

    @told("jobs()", InvalidOption, elsewhere={"id": "one by its id is get_job(id)"})
    def jobs(
        self,
        *,
        state: StateLike | Iterable[StateLike] | None = None,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        idempotency_key: str | None = None,
        schedule: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> JobQuery:
        """The jobs that match, newest first: `await` for one Page, `async for` for all. Raises InvalidOption."""
        which = JobFilter(states_of(state, JobState), queue, task, tag, idempotency_key, schedule)
        return self._desk.query(which, page_size, page_token)

    def dependency(self, name: str) -> DependencyHandle:
        """A dependency that tasks name: how its breaker and its retry budget stand, and a person's override."""
        return DependencyHandle(self._desk, name)

    def dependencies(self) -> list[DependencyHandle]:
        """Every dependency that is declared, that a task names, or whose breaker is not closed, by name.

        Raises NotStarted, NotOwner.
        """
        return [DependencyHandle(self._desk, name) for name in self._desk.running().guards.guards.in_use()]

    def queue(self, name: str) -> QueueHandle:
        """A queue, to pause, resume and resize it."""
        return QueueHandle(self._desk, name)

    @property
    def trouble(self) -> Exception | None:
        """Why a running scheduler neither takes nor starts jobs at present (JournalFull, JournalBusy); None: it does.

        It goes on by itself once there is space, or once the other program's transaction has ended.
        """
        engine = self._engine
        return None if engine is None or self._state is not SchedulerState.RUNNING else engine.committer.trouble

    async def statistics(self) -> Statistics:
        """Numbers for metrics; takes time in proportion to the journal, in another thread."""
        engine = self._engine
        wall = self._system.clock.wall_us()
        now = Now(wall, wall) if engine is None else engine.now()
        numbers = await self._desk.statistics(self._state, self._settings.concurrency, now)
        return replace(numbers, operations=self.operations_running)


class Optioned(Scheduling):
    """The verbs that make jobs, with options: what `scheduler.options(...)` gives."""

    def __init__(self, office: Scheduler, options: Options) -> None:
        self._office = office
        self._options = options

    def __getattr__(self, name: str) -> Any:
        whose = "scheduler.options(...), which has at, after, now, new and at_many,"
        raise AttributeError(guidance.unknown_attribute(name, whose))
