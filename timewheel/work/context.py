"""Which job am I? `current()` tells a handler, in its task, its own tasks and the thread it was sent to.

The context lives in a context variable, which asyncio copies into every task a handler starts and the runner into the
thread of a sync handler (`contextvars.copy_context().run`). One is made for each attempt, so making one only stores
what it is given: text id, datetime and logger are made when they are asked for.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple

from timewheel.errors import NotInJob
from timewheel.model import ClockKind, job_text
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from datetime import datetime

    from timewheel.model import Origin

_LOGGER = logging.getLogger("timewheel.task")


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """The logger `timewheel.task`, whose records carry `job_id` and `attempt` beside the caller's own `extra`.

    The message is left as it was written: a job's id in it would make every record a new kind to those who group them.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """The message as it is, and `extra` with the job's fields."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


class MissedSlots(NamedTuple):
    """Slots of a schedule that were missed: the first and the last of them (in UTC), and how many they are."""

    first: datetime
    last: datetime
    count: int  # type: ignore[assignment]  # hides a method of tuples that nobody asks of this one


class JobContext:
    """What a running handler may know of its job.

    Made with the job's number, the attempt's number (from 1), the attempt's scheduled_at on the wall scale
    (microseconds), the scheduler that runs it, and the occurrence it stands for, if a schedule made it, with the
    distance of its clock from the wall's. Reading is safe from any thread.
    """

    __slots__ = (
        "_cancel_requested",
        "_log",
        "_number",
        "_offset_us",
        "_origin",
        "_scheduled_us",
        "_text",
        "attempt",
        "scheduler",
    )

    def __init__(
        self,
        number: int,
        attempt: int,
        scheduled_wall_us: int,
        scheduler: Any = None,
        origin: Origin | None = None,
        offset_us: int = 0,
    ) -> None:
        self._number = number
        self._scheduled_us = scheduled_wall_us
        self._origin = origin
        self._offset_us = offset_us if origin is not None and origin.clock is ClockKind.STEADY else 0
        self._cancel_requested = False
        self._text: str | None = None
        self._log: JobLog | None = None
        self.attempt = attempt
        self.scheduler = scheduler

    def __repr__(self) -> str:
        return f"<JobContext {self.job_id} attempt {self.attempt}>"

    @property
    def job_id(self) -> str:
        """The job's public id."""
        if self._text is None:
            self._text = job_text(self._number)
        return self._text

    @property
    def idempotency_key(self) -> str:
        """A text that is the same for every attempt of this job and for no other job: give it to whom you call."""
        return self.job_id

    @property
    def scheduled_at(self) -> datetime:
        """When this attempt was due, as an aware datetime in UTC."""
        return utc_datetime(self._scheduled_us)

    @property
    def schedule_id(self) -> str | None:
        """The id of the schedule that made this job; None for any other job."""
        return None if self._origin is None else self._origin.schedule

    @property
    def nominal_at(self) -> datetime | None:
        """The slot of the schedule that this job stands for, before jitter, in UTC; None when no schedule made it."""
        return None if self._origin is None else utc_datetime(self._origin.nominal_at + self._offset_us)

    @property
    def missed(self) -> MissedSlots | None:
        """The slots that were missed and that this job makes up for; None when there were none."""
        return missed_slots(self._origin, self._offset_us)

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for this job to be cancelled; a sync handler looks here from time to time."""
        return self._cancel_requested

    @property
    def log(self) -> JobLog:
        """A logger whose records carry this job's id and attempt."""
        if self._log is None:
            self._log = JobLog(_LOGGER, {"job_id": self.job_id, "attempt": self.attempt})
        return self._log


def missed_slots(origin: Origin | None, offset_us: int) -> MissedSlots | None:
    """The slots that were missed before an occurrence; `offset_us` puts its clock on the wall scale."""
    missed = None if origin is None else origin.missed
    if missed is None:
        return None
    return MissedSlots(utc_datetime(missed.first + offset_us), utc_datetime(missed.last + offset_us), missed.slots)


CURRENT: ContextVar[JobContext] = ContextVar("timewheel.current")


def current() -> JobContext:
    """The context of the job that this code runs in; NotInJob outside one."""
    context = CURRENT.get(None)
    if context is None:
        raise NotInJob("current() works only inside a running job; your own thread needs contextvars.copy_context()")
    return context


def runs_inside(scheduler: object) -> bool:
    """Whether this code runs in a handler of that scheduler."""
    context = CURRENT.get(None)
    return context is not None and context.scheduler is scheduler


def enter(context: JobContext) -> Token[JobContext]:
    """Make a context the current one until `leave(token)`, or until its task or copied context ends."""
    return CURRENT.set(context)


def leave(token: Token[JobContext]) -> None:
    """Undo an `enter`, in the same task or thread."""
    CURRENT.reset(token)


def request_cancel(context: JobContext) -> None:
    """Let a running handler see that its cancel was requested; for the runner, from any thread."""
    context._cancel_requested = True
