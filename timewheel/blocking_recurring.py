"""The recurring verbs for other threads, and the schedules that they give back: synchronous forms of the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from timewheel.blocking_handles import BlockingJob, Call, awaited
from timewheel.handles import Page, Pages, Query
from timewheel.occurrences import Backfill, Occurrence, Upcoming
from timewheel.options import ScheduleOptions
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.rule import Rule
from timewheel.schedule import Schedule, ScheduleSnapshot

if TYPE_CHECKING:
    from timewheel.recurring import Recurring
    from timewheel.scheduling import Delay

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class BlockingSchedule(ScheduleSnapshot[R_co], Generic[R_co]):
    """A schedule with synchronous verbs; each does what the verb of the same name does on Schedule."""

    __slots__ = ("_call", "_schedule")

    def __init__(self, schedule: Schedule[R_co], call: Call) -> None:
        super().__init__(schedule.desk, schedule.record)
        self._schedule = schedule
        self._call = call

    def refresh(self) -> BlockingSchedule[R_co]:
        """A new snapshot."""
        return BlockingSchedule(self._call(self._schedule.refresh()), self._call)

    def update(
        self, rule: str | Rule | None = None, *, if_version: int | None = None, **options: Unpack[ScheduleOptions]
    ) -> BlockingSchedule[R_co]:
        """Change the rule, the options that are named, or both."""
        return BlockingSchedule(self._call(self._schedule.update(rule, if_version=if_version, **options)), self._call)

    def trigger(self, *, force: bool = False) -> BlockingJob[R_co] | None:
        """Run it once now."""
        job = self._call(self._schedule.trigger(force=force))
        return None if job is None else BlockingJob(job, self._call)

    def backfill(
        self,
        start: datetime | float,
        end: datetime | float,
        /,
        *,
        dry_run: bool = True,
        at_once: int = 1,
        most: int = 1_000,
    ) -> Backfill[BlockingJob[R_co]]:
        """Run the slots of a range that did not run."""
        done = self._call(self._schedule.backfill(start, end, dry_run=dry_run, at_once=at_once, most=most))
        jobs = tuple(BlockingJob[R_co](job, self._call) for job in done.jobs)
        return Backfill(done.slots, done.already_ran, done.made, done.left_out, jobs, done.dry_run)

    def pause(
        self, note: str | None = None, until: datetime | float | None = None, *, if_version: int | None = None
    ) -> BlockingSchedule[R_co]:
        """Make no jobs until it is resumed."""
        return BlockingSchedule(self._call(self._schedule.pause(note, until, if_version=if_version)), self._call)

    def resume(self, *, if_version: int | None = None) -> BlockingSchedule[R_co]:
        """End a pause."""
        return BlockingSchedule(self._call(self._schedule.resume(if_version=if_version)), self._call)

    def delete(self, *, if_version: int | None = None) -> None:
        """Forget it."""
        self._call(self._schedule.delete(if_version=if_version))

    def preview(self, n: int = 10, after: datetime | float | None = None) -> list[Upcoming]:
        """Its next occurrences."""
        lines: list[Upcoming] = self._call(self._schedule.preview(n, after))
        return lines

    def occurrences(self, *, page_size: int = 100) -> Iterator[Occurrence]:
        """What became of its occurrences, the newest first."""
        pages: Pages[Occurrence] | None = self._schedule.occurrences(page_size=page_size)
        while pages is not None:
            page: Page[Occurrence] = self._call(awaited(pages))
            yield from page
            pages = None if page.next_page_token is None else pages.at(page.next_page_token)


class BlockingScheduleQuery:
    """A list of schedules that has not been read yet: `page()` reads one Page, iterating reads everything."""

    def __init__(self, query: Query[Schedule[Any]], call: Call) -> None:
        self._query = query
        self._call = call

    def page(self) -> Page[BlockingSchedule[Any]]:
        """One page."""
        return self._wrapped(self._call(awaited(self._query)))

    def __iter__(self) -> Iterator[BlockingSchedule[Any]]:
        pages: Pages[Schedule[Any]] | None = self._query
        while pages is not None:
            page = self._wrapped(self._call(awaited(pages)))
            yield from page
            pages = None if page.next_page_token is None else pages.at(page.next_page_token)

    def count(self) -> int:
        """How many there are."""
        number: int = self._call(self._query.count())
        return number

    def _wrapped(self, page: Page[Schedule[Any]]) -> Page[BlockingSchedule[Any]]:
        return Page(tuple(BlockingSchedule(schedule, self._call) for schedule in page), page.next_page_token)


class BlockingRecurring:
    """cron, every and schedule, synchronous. They do and raise what the verbs of the same name do."""

    _recurring: Recurring
    _call: Call

    @overload
    def cron(
        self, rule: str | Cron, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingSchedule[R]: ...
    @overload
    def cron(
        self, rule: str | Cron, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingSchedule[R]: ...
    @overload
    def cron(self, rule: str | Cron, fn: str, /, *args: Any, **kwargs: Any) -> BlockingSchedule[Any]: ...
    def cron(
        self, rule: str | Cron, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> BlockingSchedule[Any]:
        """Run `fn` by a cron rule."""
        return BlockingSchedule(self._call(self._recurring.cron(rule, fn, *args, **kwargs)), self._call)

    @overload
    def every(
        self, delay: Delay, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingSchedule[R]: ...
    @overload
    def every(self, delay: Delay, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> BlockingSchedule[R]: ...
    @overload
    def every(self, delay: Delay, fn: str, /, *args: Any, **kwargs: Any) -> BlockingSchedule[Any]: ...
    def every(self, delay: Delay, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> BlockingSchedule[Any]:
        """Run `fn` every `delay` of elapsed time."""
        return BlockingSchedule(self._call(self._recurring.every(delay, fn, *args, **kwargs)), self._call)

    @overload
    def schedule(
        self, rule: str | Rule, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingSchedule[R]: ...
    @overload
    def schedule(
        self, rule: str | Rule, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> BlockingSchedule[R]: ...
    @overload
    def schedule(self, rule: str | Rule, fn: str, /, *args: Any, **kwargs: Any) -> BlockingSchedule[Any]: ...
    def schedule(
        self, rule: str | Rule, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> BlockingSchedule[Any]:
        """Run `fn` by any rule."""
        return BlockingSchedule(self._call(self._recurring.schedule(rule, fn, *args, **kwargs)), self._call)


class BlockingCalendars:
    """Calendars, synchronous."""

    _home: Any
    _call: Call

    def save_calendar(self, calendar: Calendar) -> None:
        """Save a calendar under its name, in the place of the one there is."""
        self._call(self._home.save_calendar(calendar))


class BlockingRecurrent(BlockingRecurring):
    """The synchronous recurring verbs with options."""

    def __init__(self, recurring: Recurring, call: Call) -> None:
        self._recurring = recurring
        self._call = call
