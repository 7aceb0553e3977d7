"""Lists of jobs, newest first, and of schedules, by id: a page at a time, by tokens that stay good meanwhile."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeVar

from timewheel.errors import InvalidOption
from timewheel.handles import Page, Query
from timewheel.job import Desk, Job
from timewheel.model import CancelAnswer, JobRecord, JobState
from timewheel.schedule import Schedule, StandingDesk
from timewheel.schedule_records import ScheduleState
from timewheel.store.port import JobFilter, JobPage, ScheduleFilter, Store

MOST_PAGE_ITEMS = 1_000
CANCEL_CHUNK = 500
StateName = Literal["SCHEDULED", "WAITING", "ACTIVE", "COMPLETED", "CANCELLED", "DEAD", "SKIPPED"]
StateLike = JobState | StateName
ScheduleStateLike = ScheduleState | Literal["ACTIVE", "PAUSED", "PARKED", "ENDED"]
State = TypeVar("State", bound=StrEnum)


def states_of(state: object, kind: type[State]) -> tuple[State, ...]:
    """The states that a list was asked for: one or several, members or names. Raises InvalidOption."""
    if state is None:
        return ()
    given = [state] if isinstance(state, str) else state
    try:
        return tuple(kind(each) for each in given)  # type: ignore[attr-defined]  # what cannot be iterated: below
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"state={state!r}: one or several of {', '.join(kind)}") from error


@dataclass(frozen=True, slots=True)
class BulkCancel:
    """What a cancel of many jobs came to: how many matched, and how many of those got which answer.

    After a dry run all that could be cancelled are counted as `matched`, and nothing was changed.
    """

    matched: int
    cancelled: int = 0
    requested: int = 0
    too_late: int = 0


class JobQuery(Query[Job[Any]]):
    """A list of jobs that has not been read yet; it can also be cancelled as a whole."""

    async def cancel(self, *, reason: str = "", dry_run: bool = False) -> BulkCancel:
        """Cancel every job of the list that is not final, some at a time. `dry_run` only counts them.

        Jobs scheduled meanwhile are not touched. When it raises half way (JournalFull, JournalUnknown), the jobs
        before that are cancelled; calling it again goes on.
        """
        answers: Counter[CancelAnswer] = Counter()
        matched = 0
        chunk: list[Job[Any]] = []
        async for job in self:
            if job.state.final:
                continue
            matched += 1
            if not dry_run:
                chunk.append(job)
            if len(chunk) >= CANCEL_CHUNK:
                answers.update(await _cancel_all(chunk, reason))
                chunk = []
        answers.update(await _cancel_all(chunk, reason))
        return BulkCancel(matched, *(answers[answer] for answer in CancelAnswer))


async def _cancel_all(jobs: list[Job[Any]], reason: str) -> list[CancelAnswer]:
    return list(await asyncio.gather(*(job.cancel(reason) for job in jobs)))


def job_query(
    desk: Desk, store: Store, guard: Callable[[], None], which: JobFilter, page: tuple[int, str | None]
) -> JobQuery:
    """The jobs that match; `page` is (size, token). Raises InvalidOption at once for a page that cannot be."""
    page_size, page_token = page
    check_page_size(page_size)
    if page_token is not None:
        read_number_token(page_token)

    async def find(before: int | None, limit: int) -> JobPage:
        return await store.jobs(which, before=before, limit=limit)

    async def count() -> int:
        guard()
        return await store.count(which)

    return JobQuery(reader(desk, guard, find, page_size), count, page_token)


def reader(
    desk: Desk, guard: Callable[[], None], find: Callable[[int | None, int], Awaitable[JobPage]], page_size: int
) -> Callable[[str | None], Awaitable[Page[Job[Any]]]]:
    """What reads the page behind a token, by as many calls of `find(before, limit)` as it takes to fill it."""

    async def read(token: str | None) -> Page[Job[Any]]:
        guard()
        before = None if token is None else read_number_token(token)
        records: list[JobRecord] = []
        while len(records) < page_size:
            found = await find(before, page_size - len(records))
            records += found.jobs
            before = found.next_before
            if before is None:
                break
        return Page(tuple(Job(desk, record) for record in records), None if before is None else number_token(before))

    return read


def schedule_query(
    desk: StandingDesk, store: Store, guard: Callable[[], None], which: ScheduleFilter, page: tuple[int, str | None]
) -> Query[Schedule[Any]]:
    """The schedules that match; `page` is (size, token). Raises InvalidOption at once for a page that cannot be."""
    page_size, page_token = page
    check_page_size(page_size)
    if page_token is not None:
        _read_text_token(page_token)

    async def read(token: str | None) -> Page[Schedule[Any]]:
        guard()
        await desk.calendars()  # which their rules may need
        after = None if token is None else _read_text_token(token)
        records = await store.schedules(which, after=after, limit=page_size)
        more = len(records) == page_size
        schedules = tuple(Schedule[Any](desk, record) for record in records)
        return Page(schedules, _text_token(records[-1].schedule) if more else None)

    async def count() -> int:
        guard()
        return await store.count_schedules(which)

    return Query(read, count, page_token)


def check_page_size(page_size: Any) -> None:
    """Raise InvalidOption for a page that is too small or too large."""
    if isinstance(page_size, bool) or not isinstance(page_size, int) or not 1 <= page_size <= MOST_PAGE_ITEMS:
        raise InvalidOption(f"page_size={page_size!r}: it must be a whole number from 1 to {MOST_PAGE_ITEMS}")


def number_token(before: int) -> str:
    """The token of a page that ends above this number."""
    return _text_token(str(before))


def read_number_token(token: str) -> int:
    """The number behind a token. Raises InvalidOption."""
    text = _read_text_token(token)
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) < 1 << 63):
        raise _bad_token(token)
    return int(text)


def _text_token(after: str) -> str:
    return base64.urlsafe_b64encode(after.encode()).decode().rstrip("=")


def _read_text_token(token: str) -> str:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, TypeError, AttributeError) as error:
        raise _bad_token(token) from error


def _bad_token(token: object) -> InvalidOption:
    return InvalidOption(f"page_token={token!r}: give back the next_page_token of a page, unchanged")
