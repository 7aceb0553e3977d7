"""What the synchronous verbs give back: jobs and lists whose verbs are synchronous."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from timewheel.handles import Attempt, Page, Pages
from timewheel.job import Job, result_of
from timewheel.lists import BulkCancel, JobQuery
from timewheel.model import CancelAnswer, DiscardAnswer, ReplayAnswer, RescheduleAnswer
from timewheel.snapshot import Snapshot

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Call = Callable[[Coroutine[Any, Any, Any]], Any]  # hands a coroutine to the scheduler's loop and waits for it


class BlockingJob(Snapshot[R_co], Generic[R_co]):
    """A job with synchronous verbs; each does what the verb of the same name does on Job."""

    __slots__ = ("_call", "_job")

    def __init__(self, job: Job[R_co], call: Call) -> None:
        super().__init__(job.desk, job.source, created=job.created)
        self._job = job
        self._call = call

    def refresh(self) -> BlockingJob[R_co]:
        """A new snapshot."""
        return BlockingJob(self._call(self._job.refresh()), self._call)

    def cancel(self, reason: str = "") -> CancelAnswer:
        """Cancel it."""
        answer: CancelAnswer = self._call(self._job.cancel(reason))
        return answer

    def reschedule(self, when: datetime | float | timedelta) -> RescheduleAnswer:
        """Move it."""
        answer: RescheduleAnswer = self._call(self._job.reschedule(when))
        return answer

    def replay(
        self,
        *,
        actor: str,
        reason: str,
        cause_fixed: str | bool,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> ReplayAnswer:
        """Run it again."""
        verb = self._job.replay
        answer: ReplayAnswer = self._call(
            verb(actor=actor, reason=reason, cause_fixed=cause_fixed, args=args, kwargs=kwargs)
        )
        return answer

    def discard(self, *, actor: str, reason: str) -> DiscardAnswer:
        """Take a dead letter out of the list."""
        answer: DiscardAnswer = self._call(self._job.discard(actor=actor, reason=reason))
        return answer

    def wait(self, timeout_s: float | None = None) -> BlockingJob[R_co]:
        """Wait until it is final."""
        return BlockingJob(self._call(self._job.wait(timeout_s)), self._call)

    def result(self, timeout_s: float | None = None) -> R_co:
        """Wait until it is final and return what the handler returned."""
        return result_of(self.wait(timeout_s))

    def attempts(self) -> list[Attempt]:
        """Every attempt, in order."""
        attempts: list[Attempt] = self._call(self._job.attempts())
        return attempts


class BlockingQuery:
    """A list of jobs that has not been read yet: `page()` reads one Page, iterating reads everything."""

    def __init__(self, query: JobQuery, call: Call) -> None:
        self._query = query
        self._call = call

    def page(self) -> Page[BlockingJob[Any]]:
        """One page."""
        page: Page[Job[Any]] = self._call(awaited(self._query))
        return Page(tuple(BlockingJob(job, self._call) for job in page), page.next_page_token)

    def __iter__(self) -> Iterator[BlockingJob[Any]]:
        query: Pages[Job[Any]] = self._query
        while True:
            page: Page[Job[Any]] = self._call(awaited(query))
            for job in page:
                yield BlockingJob(job, self._call)
            if page.next_page_token is None:
                return
            query = query.at(page.next_page_token)

    def cancel(self, *, reason: str = "", dry_run: bool = False) -> BulkCancel:
        """Cancel every job of the list (see JobQuery.cancel)."""
        done: BulkCancel = self._call(self._query.cancel(reason=reason, dry_run=dry_run))
        return done

    def count(self) -> int:
        """How many there are."""
        number: int = self._call(self._query.count())
        return number


async def awaited(work: Awaitable[T]) -> T:
    """A coroutine of anything that can be awaited."""
    return await work
