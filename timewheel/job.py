"""Job: what scheduling gives back. A frozen snapshot with the verbs of the job; `refresh()` makes a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from timewheel.codec import loads_result
from timewheel.errors import JobCancelled, JobDead, JobSkipped, ResultOmitted
from timewheel.model import CancelAnswer, DiscardAnswer, JobState, ReplayAnswer, RescheduleAnswer
from timewheel.snapshot import Snapshot

if TYPE_CHECKING:
    from timewheel.handles import Attempt

R_co = TypeVar("R_co", covariant=True)


class Desk(Protocol):
    """What a handle asks of its scheduler."""

    def offset_us(self) -> int:
        """Wall minus steady at present: puts a steady time on the wall scale."""

    async def fetch(self, job_id: int) -> Job[Any]:
        """A new snapshot; JobNotFound when it is gone."""

    async def cancel(self, job_id: int, reason: str) -> CancelAnswer:
        """See Job.cancel."""

    async def reschedule(self, job_id: int, when: datetime | float | timedelta) -> RescheduleAnswer:
        """See Job.reschedule."""

    async def replay(
        self,
        job_id: int,
        said: tuple[str, str, str | bool],
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
    ) -> ReplayAnswer:
        """See Job.replay; `said` is (actor, reason, cause_fixed)."""

    async def discard(self, job_id: int, actor: str, reason: str) -> DiscardAnswer:
        """See Job.discard."""

    async def wait(self, job: Job[Any], timeout_s: float | None) -> Job[Any]:
        """See Job.wait."""

    async def attempts(self, job_id: int) -> list[Attempt]:
        """See Job.attempts."""


class Job(Snapshot[R_co]):
    """One durable unit of work, as it was when this snapshot was made, and what can be done with it.

    The verbs are coroutines of the scheduler's own event loop; other threads use the jobs of `scheduler.blocking`.
    """

    __slots__ = ()
    desk: Desk

    async def refresh(self) -> Job[R_co]:
        """A new snapshot. Raises JobNotFound when the job is gone."""
        return await self.desk.fetch(self.number)

    async def cancel(self, reason: str = "") -> CancelAnswer:
        """Cancel it. CANCELLED: it will never start. REQUESTED: it runs, and was asked to stop. TOO_LATE: it is final.

        The answer is false only when it was too late. Once this returns, the cancel survives a crash: a running job
        whose attempt does not succeed ends CANCELLED. An async handler gets CancelledError; a sync one sees
        `current().cancel_requested`. Raises JobNotFound, JournalFull, JournalUnknown.
        """
        return await self.desk.cancel(self.number, reason)

    async def reschedule(self, when: datetime | float | timedelta) -> RescheduleAnswer:
        """Move it to an instant (aware datetime, Unix seconds) or to a delay from now (timedelta).

        MOVED, or TOO_LATE (false) when its handler has been entered or it is final. Raises InvalidTime, JobNotFound.
        """
        return await self.desk.reschedule(self.number, when)

    async def replay(
        self,
        *,
        actor: str,
        reason: str,
        cause_fixed: str | bool,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> ReplayAnswer:
        """Run it again, now, though it is DEAD, SKIPPED or CANCELLED: a new attempt of the same job, history kept.

        Its retries begin anew; a deadline and an expiry that it had are gone. One of a schedule does not wait for the
        schedule's others, as with `trigger(force=True)`; its concurrency key holds. `args` and `kwargs` replace the
        arguments (None: they stay) and are checked as at submission. Who (`actor`), why (`reason`) and what was done
        about the cause (`cause_fixed`: a text, or True) go into the audit, with arguments that were replaced. Two at
        once: one of them is REPLAYED, the other TOO_LATE (false). Raises InvalidOption, InvalidTask, NotSerializable,
        JobNotFound, JournalFull, JournalUnknown.
        """
        return await self.desk.replay(self.number, (actor, reason, cause_fixed), args, kwargs)

    async def discard(self, *, actor: str, reason: str) -> DiscardAnswer:
        """Take a dead letter out of the list: it stays DEAD, with its history, until retention forgets it.

        DISCARDED, or TOO_LATE (false) when it is none. Who and why go into the audit. Raises InvalidOption,
        JobNotFound, JournalFull, JournalUnknown.
        """
        return await self.desk.discard(self.number, actor, reason)

    async def wait(self, timeout_s: float | None = None) -> Job[R_co]:
        """Wait until it is final and return that snapshot; None waits for ever. Raises WaitTimeout."""
        return await self.desk.wait(self, timeout_s)

    async def result(self, timeout_s: float | None = None) -> R_co:
        """Wait until it is final and return what the handler returned.

        Raises WaitTimeout, JobDead, JobCancelled, JobSkipped; ResultOmitted when it is not JSON, or over 64 KiB.
        """
        return result_of(await self.wait(timeout_s))

    async def attempts(self) -> list[Attempt]:
        """Every attempt, in order; the one that runs now is shown as RUNNING."""
        return await self.desk.attempts(self.number)


def result_of(job: Snapshot[R_co]) -> R_co:
    """The result of a final job, or the error that says why there is none."""
    record = job.record
    if record.state is JobState.COMPLETED:
        if record.result is None:
            raise ResultOmitted(f"{job.id} succeeded, its result was not kept: {record.result_omitted}", job=job)
        value: R_co = loads_result(record.result)
        return value
    why = f" ({record.reason})" if record.reason else ""
    if record.state is JobState.DEAD:
        error = (record.error or "no error text").partition("\n")[0]  # the frames and causes are in job.error
        raise JobDead(f"{job.id} of {record.task} failed for good{why}: {error}", job=job)
    if record.state is JobState.CANCELLED:
        raise JobCancelled(f"{job.id} of {record.task} was cancelled{why}", job=job)
    raise JobSkipped(f"{job.id} of {record.task} was skipped{why}", job=job)
