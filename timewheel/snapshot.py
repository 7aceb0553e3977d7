"""What is known of a job at one moment, in the words of callers: datetimes, texts and seconds. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from timewheel.codec import loads_call
from timewheel.model import JobRecord, JobRequest, JobState, job_text, new_job
from timewheel.times import utc_datetime
from timewheel.work.context import MissedSlots, missed_slots

R_co = TypeVar("R_co", covariant=True)


class Offset(Protocol):
    """What a snapshot asks of its scheduler."""

    def offset_us(self) -> int:
        """Wall minus steady at present: puts a steady time on the wall scale."""


class Snapshot(Generic[R_co]):
    """One durable unit of work, as it was when this snapshot was made.

    `created` is False when an idempotency key, or `unique`, led to a job that existed. `scheduled_at` is what was
    asked, `due_at` when it is next eligible; both are aware datetimes in UTC, where a delay is shown at the clocks'
    present offset.
    """

    __slots__ = ("created", "desk", "source")

    def __init__(self, desk: Offset, source: JobRecord | tuple[JobRequest, int], *, created: bool = False) -> None:
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
    def last_fault(self) -> str | None:
        """The class of the last failure: TRANSIENT, THROTTLED, PERMANENT or AMBIGUOUS; None before the first.

        A replay forgets it, as it forgets `error` and `first_failed_at`.
        """
        fault = self.record.fault
        return None if fault is None else fault.upper()

    @property
    def first_failed_at(self) -> datetime | None:
        """When an attempt failed for the first time."""
        failed_at = self.record.first_failed_at
        return None if failed_at is None else self._instant(failed_at, steady=True)

    @property
    def next_retry_at(self) -> datetime | None:
        """When it is tried again; None unless it has failed and is SCHEDULED."""
        record = self.record
        return self.due_at if record.failures and record.state is JobState.SCHEDULED else None

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
    def expires_at(self) -> datetime | None:
        """From when on it does not start any more, unless it has begun before."""
        flow = self.record.flow
        return None if flow is None or flow.expires_at is None else utc_datetime(flow.expires_at)

    @property
    def deadline(self) -> datetime | None:
        """When it is given up, whatever it has begun."""
        flow = self.record.flow
        return None if flow is None or flow.deadline is None else utc_datetime(flow.deadline)

    @property
    def wait_for(self) -> tuple[str, ...]:
        """The ids of the jobs that it waits for, or waited for."""
        flow = self.record.flow
        return () if flow is None or flow.wait_for is None else tuple(map(job_text, flow.wait_for.job_ids))

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return utc_datetime(self.record.created_at)

    @property
    def finished_at(self) -> datetime | None:
        """When it became final."""
        return None if self.record.finished_at is None else utc_datetime(self.record.finished_at)

    @property
    def discarded_at(self) -> datetime | None:
        """When it was discarded: it is no dead letter any more, though it is DEAD."""
        discarded_at = self.record.discarded_at
        return None if discarded_at is None else utc_datetime(discarded_at)

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
