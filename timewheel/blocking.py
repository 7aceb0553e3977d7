"""The verbs for other threads: `scheduler.blocking`. Each hands its work to the scheduler's loop and waits for it.

Sync handlers run in threads, so this is how they schedule. Applications without a loop start the scheduler here:
`with scheduler.blocking:` runs it on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from timewheel.blocking_flow import BlockingFlow
from timewheel.blocking_handles import BlockingJob, BlockingQuery, Call
from timewheel.blocking_recurring import (
    BlockingCalendars,
    BlockingRecurrent,
    BlockingRecurring,
    BlockingSchedule,
    BlockingScheduleQuery,
)
from timewheel.blocking_repairs import BlockingRepairs
from timewheel.errors import NotStarted, WrongThread
from timewheel.handles import Draft
from timewheel.job import Job
from timewheel.lists import JobQuery, ScheduleStateLike, StateLike
from timewheel.options import OneShotOptions, ScheduleOptions
from timewheel.work.context import runs_inside

if TYPE_CHECKING:
    from typing import Self

    from timewheel.handles import Query
    from timewheel.recurring import Recurring
    from timewheel.schedule import Schedule
    from timewheel.scheduling import Delay, Scheduling, When

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Home(Protocol):
    """The scheduler, as seen from another thread."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop it was started on."""

    def check_process(self) -> None:
        """Raise ForkedScheduler in a forked child, whose copy of the loop does not run."""

    def raise_if_failed(self) -> None:
        """Raise SchedulerFailed after a fault."""

    async def start(self) -> None:
        """See Scheduler.start."""

    async def stop(self, grace_s: float = 10) -> None:
        """See Scheduler.stop."""

    def options(self, **options: Unpack[OneShotOptions]) -> Scheduling:
        """See Scheduler.options."""

    def recurring(self, **options: Unpack[ScheduleOptions]) -> Recurring:
        """See Scheduler.recurring."""

    async def get_job(self, job_id: str) -> Job[Any]:
        """See Scheduler.get_job."""

    async def get_schedule(self, schedule_id: str) -> Schedule[Any]:
        """See Scheduler.get_schedule."""

    def schedules(self, **which: Any) -> Query[Schedule[Any]]:
        """See Scheduler.schedules."""

    def jobs(self, **which: Any) -> JobQuery:
        """See Scheduler.jobs."""


class BlockingScheduling:
    """at, after, now, new and at_many, synchronous. They do and raise what the verbs of the same name do."""

    _verbs: Scheduling
    _call: Call

    @overload
    def at(self, when: When, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]: ...
    @overload
    def at(self, when: When, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]: ...
    @overload
    def at(self, when: When, fn: str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]: ...
    def at(self, when: When, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]:
        """Run `fn` once at `when`."""
        return BlockingJob(self._call(self._verbs.at(when, fn, *args, **kwargs)), self._call)

    @overload
    def after(
        self, delay: Delay, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingJob[R]: ...
    @overload
    def after(self, delay: Delay, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]: ...
    @overload
    def after(self, delay: Delay, fn: str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]: ...
    def after(self, delay: Delay, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]:
        """Run `fn` once, `delay` from now."""
        return BlockingJob(self._call(self._verbs.after(delay, fn, *args, **kwargs)), self._call)

    @overload
    def now(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]: ...
    @overload
    def now(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob[R]: ...
    @overload
    def now(self, fn: str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]: ...
    def now(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> BlockingJob[Any]:
        """Run `fn` once, as soon as it may."""
        return BlockingJob(self._call(self._verbs.now(fn, *args, **kwargs)), self._call)

    @overload
    def new(
        self, when: When | timedelta, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Draft[R]: ...
    @overload
    def new(self, when: When | timedelta, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Draft[R]: ...
    @overload
    def new(self, when: When | timedelta, fn: str, /, *args: Any, **kwargs: Any) -> Draft[Any]: ...
    def new(self, when: When | timedelta, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Draft[Any]:
        """Check a job for `at_many` without scheduling it."""
        draft: Draft[Any] = self._verbs.new(when, fn, *args, **kwargs)
        return draft

    def at_many(self, drafts: Iterable[Draft[R]]) -> list[BlockingJob[R]]:
        """Schedule what `new` made."""
        return [BlockingJob(job, self._call) for job in self._call(self._verbs.at_many(list(drafts)))]


class BlockingOptioned(BlockingScheduling):
    """The synchronous verbs with options."""

    def __init__(self, verbs: Scheduling, call: Call) -> None:
        self._verbs = verbs
        self._call = call


class Blocking(BlockingScheduling, BlockingRecurring, BlockingCalendars, BlockingFlow, BlockingRepairs):
    """See the module. `scheduler.blocking` is one; its verbs raise WrongThread on the scheduler's own loop."""

    def __init__(self, home: Any) -> None:
        self._home: Home = home
        self._verbs = self._recurring = home
        self._call = self._wait_for
        self._thread: threading.Thread | None = None

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._home.loop
        try:
            if loop is None or loop.is_closed():
                raise NotStarted("the scheduler is not started: `async with scheduler:`, or `with scheduler.blocking:`")
            self._home.check_process()
            if _running_loop() is loop:
                here = "scheduler.blocking was used on the scheduler's own event loop, where it would wait for itself"
                raise WrongThread(f"{here}: write `await scheduler.after(...)` there")
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def options(self, **options: Unpack[OneShotOptions]) -> BlockingOptioned:
        """The verbs with these options."""
        return BlockingOptioned(self._home.options(**options), self._call)

    def recurring(self, **options: Unpack[ScheduleOptions]) -> BlockingRecurrent:
        """The verbs cron, every and schedule with these options."""
        return BlockingRecurrent(self._home.recurring(**options), self._call)

    def get_schedule(self, schedule_id: str) -> BlockingSchedule[Any]:
        """The schedule of this id. Raises ScheduleNotFound."""
        return BlockingSchedule(self._wait_for(self._home.get_schedule(schedule_id)), self._call)

    def schedules(
        self, *, state: ScheduleStateLike | Iterable[ScheduleStateLike] | None = None, **which: Any
    ) -> BlockingScheduleQuery:
        """The schedules that match; takes what Scheduler.schedules takes."""
        return BlockingScheduleQuery(self._home.schedules(state=state, **which), self._call)

    def get_job(self, job_id: str) -> BlockingJob[Any]:
        """The job of a public id. Raises JobNotFound."""
        return BlockingJob(self._wait_for(self._home.get_job(job_id)), self._call)

    def jobs(self, *, state: StateLike | Iterable[StateLike] | None = None, **which: Any) -> BlockingQuery:
        """The jobs that match; takes what Scheduler.jobs takes."""
        return BlockingQuery(self._home.jobs(state=state, **which), self._call)

    # ---- for applications without a loop -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the scheduler on an event loop in a thread of its own. Raises what Scheduler.start raises."""
        if self._thread is not None:
            raise NotStarted("scheduler.blocking is started already")
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run_loop, args=(loop,), name="timewheel-loop", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._home.start(), loop).result()
        except BaseException:
            self._end_loop(loop)
            raise

    def stop(self, grace_s: float = 10) -> None:
        """Stop the scheduler (see Scheduler.stop), and the loop if `start` of this object made it."""
        loop = self._home.loop
        self._wait_for(self._home.stop(grace_s))
        if self._thread is not None and loop is not None and not runs_inside(self._home):
            self._end_loop(loop)

    def _end_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        thread, self._thread = self._thread, None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._home.raise_if_failed()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
