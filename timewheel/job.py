"""Job: what scheduling gives back. A frozen snapshot with the verbs of the job; `refresh()` makes a new one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from timewheel.codec import loads_call, loads_result
from timewheel.errors import JobCancelled, JobDead, JobSkipped, ResultOmitted
from timewheel.model import CancelAnswer, JobRecord, JobRequest, JobState, RescheduleAnswer, job_text, new_job
from timewheel.times import utc_datetime
from timewheel.work.context import MissedSlots, missed_slots

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

    async def wait(self, job: Job[Any], timeout_s: float | None) -> Job[Any]:
        """See Job.wait."""

    async def attempts(self, job_id: int) -> list[Attempt]:
        """See Job.attempts."""


class Snapshot(Generic[R_co]):
    """One durable unit of work, as it was when this snapshot was made.

    `created` is False when an idempotency key led to a job that existed. `scheduled_at` is what was asked, `due_at`
    when it is next eligible; both are aware datetimes in UTC, where a delay is shown at the clocks' present offset.
    """

    __slots__ = ("created", "desk", "source")

    def __init__(self, desk: Desk, source: JobRecord | tuple[JobRequest, int], *, created: bool = False) -> None:
        """`source`: a record, or a request and the wall time at which it was submitted (microseconds)."""
        self.desk = desk
        self.source = source
        self.created = created

    @property
    def record(self) -> JobRecord:
        """Everything the journal holds of the job (times in microseconds)."""
        source = self.source
        if isinstance(source, tuple):
            source = self.source = new_job(*source)
        return source

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.task} {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record.job_id)

    @property
    def id(self) -> str:
        """The public id: text, safe in JSON and URLs."""
        return job_text(self.number)

    @property
    def number(self) -> int:
        """The id inside timewheel."""
        source = self.source
        return source[0].job_id if isinstance(source, tuple) else source.job_id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.record.task

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self.record.state

    @property
    def reason(self) -> str | None:
        """Why it waits, is dead, was skipped or cancelled."""
        return self.record.reason

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments, as they were given."""
        return tuple(loads_call(self.record.arguments)[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments, as they were given."""
        return loads_call(self.record.arguments)[1]

    @property
    def queue(self) -> str:
        """The queue."""
        return self.record.queue

    @property
    def priority(self) -> int:
        """0 (first) to 9."""
        return self.record.priority

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags."""
        return self.record.tags

    @property
    def idempotency_key(self) -> str | None:
        """The key it was scheduled with."""
        return self.record.idempotency_key

    @property
    def version(self) -> int:
        """Grows with every edit."""
        return self.record.version

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 before the first."""
        return self.record.attempt

    @property
    def error(self) -> str | None:
        """The text of the last error."""
        return self.record.error

    @property
    def cancel_requested(self) -> bool:
        """Whether it runs and was asked to stop."""
        return self.record.cancel_requested is not None

    @property
    def scheduled_at(self) -> datetime:
        """What was asked."""
        return self._instant(self.record.scheduled_at, steady=bool(self.record.clock))

    @property
    def due_at(self) -> datetime:
        """When it is next eligible."""
        return self._instant(self.record.due_at, steady=bool(self.record.due_clock))

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return utc_datetime(self.record.created_at)

    @property
    def finished_at(self) -> datetime | None:
        """When it became final."""
        return None if self.record.finished_at is None else utc_datetime(self.record.finished_at)

    @property
    def schedule_id(self) -> str | None:
        """The id of the schedule that made it; None for any other job."""
        return None if self.record.origin is None else self.record.origin.schedule

    @property
    def nominal_at(self) -> datetime | None:
        """The slot of its schedule that it stands for, before jitter; None when no schedule made it."""
        origin = self.record.origin
        return None if origin is None else self._instant(origin.nominal_at, steady=bool(origin.clock))

    @property
    def missed(self) -> MissedSlots | None:
        """The slots that were missed and that it makes up for, as current().missed; None when there were none."""
        origin = self.record.origin
        return missed_slots(origin, self.desk.offset_us() if origin is not None and origin.clock else 0)

    def _instant(self, time_us: int, *, steady: bool) -> datetime:
        return utc_datetime(time_us + (self.desk.offset_us() if steady else 0))


class Job(Snapshot[R_co]):
    """One durable unit of work, as it was when this snapshot was made, and what can be done with it.

    The verbs are coroutines of the scheduler's own event loop; other threads use the jobs of `scheduler.blocking`.
    """

    __slots__ = ()

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
