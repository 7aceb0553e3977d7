"""The verbs that make jobs, with their types: at, after, now, new, at_many; of a Scheduler and of `options(...)`.

Each verb has three signatures, tried in this order: a function whose call gives an awaitable (its job's result is what
the awaitable gives), any other function, and the name of a registered task (whose types nobody knows).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from timewheel.handles import Draft
from timewheel.job import Job
from timewheel.model import ClockKind
from timewheel.options import Options
from timewheel.store.changes import Submit
from timewheel.times import delay_us, when_us

P = ParamSpec("P")
R = TypeVar("R")
When = datetime | int | float
Delay = timedelta | int | float


class Office(Protocol):
    """The scheduler, as these verbs see it."""

    def draft(
        self,
        asked: tuple[ClockKind, int],
        fn: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options | None,
    ) -> Submit:
        """Check a call and make its submission."""

    async def submit(self, submit: Submit) -> Job[Any]:
        """Make one job durable."""

    async def submit_many(self, drafts: Iterable[Draft[Any]]) -> list[Job[Any]]:
        """Make many jobs durable."""


class Scheduling:
    """See the module. `_office` makes the jobs, `_options` are the checked options they get."""

    _office: Office
    _options: Options | None = None

    @overload
    async def at(self, when: When, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def at(self, when: When, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def at(self, when: When, fn: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    async def at(self, when: When, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Run `fn(*args, **kwargs)` once at `when`: an aware datetime or Unix seconds, by the wall clock.

        Once this returns, the job survives a crash; it is run to an outcome even if the process dies in between. A
        `when` in the past is due at once. Raises InvalidTime, InvalidTask, NotSerializable; InvalidOption for an option
        that does not fit the time or the task; IdempotencyConflict, UniqueConflict, JobNotFound (of `wait_for`);
        NotStarted, NotOwner, WrongThread, SchedulerFailed; JournalFull, JournalUnknown.
        """
        asked = (ClockKind.WALL, when_us(when))
        return await self._office.submit(self._office.draft(asked, fn, args, kwargs, self._options))

    @overload
    async def after(
        self, delay: Delay, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    async def after(self, delay: Delay, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def after(self, delay: Delay, fn: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    async def after(self, delay: Delay, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Run `fn(*args, **kwargs)` once, `delay` (a timedelta or seconds) from now, by elapsed time.

        Elapsed time goes on while the process is down and does not care when the wall clock is set. Raises like `at`.
        """
        asked = (ClockKind.STEADY, delay_us(delay))
        return await self._office.submit(self._office.draft(asked, fn, args, kwargs, self._options))

    @overload
    async def now(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def now(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def now(self, fn: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    async def now(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Run `fn(*args, **kwargs)` once, as soon as its queue lets it. Raises like `at`."""
        asked = (ClockKind.STEADY, 0)
        return await self._office.submit(self._office.draft(asked, fn, args, kwargs, self._options))

    @overload
    def new(
        self, when: When | timedelta, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Draft[R]: ...
    @overload
    def new(self, when: When | timedelta, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Draft[R]: ...
    @overload
    def new(self, when: When | timedelta, fn: str, /, *args: Any, **kwargs: Any) -> Draft[Any]: ...
    def new(self, when: When | timedelta, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Draft[Any]:
        """Check a job for `at_many` without scheduling it. `when`: as for `at`, or a timedelta as for `after`.

        Raises InvalidTime, InvalidTask, NotSerializable, InvalidOption.
        """
        return Draft(self._office.draft(_asked(when), fn, args, kwargs, self._options))

    async def at_many(self, drafts: Iterable[Draft[R]]) -> list[Job[R]]:
        """Schedule what `new` made, many a commit; the jobs in the order of the drafts.

        All of them are durable once this returns. When some fail, PartlyScheduled lists those that are acknowledged.
        """
        return await self._office.submit_many(drafts)


def _asked(when: When | timedelta) -> tuple[ClockKind, int]:
    if isinstance(when, timedelta):
        return ClockKind.STEADY, delay_us(when)
    return ClockKind.WALL, when_us(when, "new(timedelta(seconds={}), ...)")
