"""What the verbs give back, beside Job: Attempt, Page, Query, Draft, Statistics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson

from timewheel.model import AttemptRecord, AttemptState, Now, SchedulerState
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.dispatch.breaker import BreakerState
    from timewheel.store.changes import Submit
    from timewheel.store.port import LaneDepth

R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)
DEFAULT_PAGE = 100


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job. Instants are aware datetimes in UTC; lags are seconds on the job's own clock.

    dispatch_lag_s = dispatched_at - scheduled_at, start_lag_s = started_at - scheduled_at, where scheduled_at is the
    due time that this attempt was claimed with. fault, of a failure: TRANSIENT, THROTTLED, PERMANENT or AMBIGUOUS.
    progress, of the one that runs now: what its handler told `current().progress(...)` last.
    """

    number: int
    state: AttemptState
    scheduled_at: datetime
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    dispatch_lag_s: float | None
    start_lag_s: float | None
    error: str | None
    error_kind: str | None
    reason: str | None
    policy: str | None
    fault: str | None
    progress: Any = None


def attempt_of(record: AttemptRecord, offset_us: int, progress: str | None = None) -> Attempt:
    """The public form of an attempt; `offset_us` is wall minus steady at present, `progress` JSON text."""
    scheduled = record.scheduled_at + (offset_us if record.clock else 0)
    return Attempt(
        record.number,
        record.state,
        utc_datetime(scheduled),
        _maybe(record.dispatched_at),
        _maybe(record.started_at),
        _maybe(record.finished_at),
        None if record.dispatch_lag_us is None else record.dispatch_lag_us / 1e6,
        None if record.start_lag_us is None else record.start_lag_us / 1e6,
        record.error,
        record.error_kind,
        record.reason,
        record.policy,
        None if record.fault is None else record.fault.upper(),
        None if progress is None else orjson.loads(progress),
    )


def _maybe(time_us: int | None) -> datetime | None:
    return None if time_us is None else utc_datetime(time_us)


class Draft(Generic[R_co]):
    """A job that was checked but not scheduled yet: what `new` makes and `at_many` takes. Use it once."""

    __slots__ = ("submit",)

    def __init__(self, submit: Submit) -> None:
        self.submit = submit


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """One page of a list. `next_page_token`: give it as `page_token` for the next one; None: this was the last."""

    items: tuple[T_co, ...]
    next_page_token: str | None

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Pages(Generic[T_co]):
    """A list that has not been read yet: `await` it for one Page, `async for` over it for everything."""

    def __init__(self, read: Callable[[str | None], Awaitable[Page[T_co]]], page_token: str | None) -> None:
        self._read = read
        self._page_token = page_token

    def __await__(self) -> Generator[Any, None, Page[T_co]]:
        return self._read(self._page_token).__await__()

    async def __aiter__(self) -> AsyncIterator[T_co]:
        token = self._page_token
        while True:
            page = await self._read(token)
            for item in page:
                yield item
            token = page.next_page_token
            if token is None:
                return

    def at(self, page_token: str | None) -> Pages[T_co]:
        """The same list, from this page on."""
        return Pages(self._read, page_token)


class Query(Pages[T_co]):
    """A list of what can be counted: `await` it for one Page, `async for` over it for everything."""

    def __init__(
        self,
        read: Callable[[str | None], Awaitable[Page[T_co]]],
        count: Callable[[], Awaitable[int]],
        page_token: str | None,
    ) -> None:
        super().__init__(read, page_token)
        self._count = count

    async def count(self) -> int:
        """How many there are; takes time in proportion to the journal."""
        return await self._count()


class BreakerNow(NamedTuple):
    """How the breaker of a dependency stands, and about how many jobs wait for it."""

    dependency: str
    state: BreakerState
    waiting: int


class BudgetNow(NamedTuple):
    """The retry budget of a dependency or of a queue (the other is ""): the starts and retries of its window, and about
    how many retries wait for it."""

    dependency: str
    queue: str
    starts: int
    retries: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers about a running scheduler, for metrics. Depths come from the journal, the rest from memory.

    `now` is when they were taken: what a due time is compared with to become an age.
    """

    now: Now
    depths: list[LaneDepth]
    due_next_minute: int
    fullest_second_next_hour: int
    wheel_entries: int
    ready_entries: int
    running: int
    concurrency: int
    state: SchedulerState
    dead_letters: int = 0
    operations: int = 0  # on dead letters, that run here
    breakers: tuple[BreakerNow, ...] = ()
    retry_budgets: tuple[BudgetNow, ...] = ()
