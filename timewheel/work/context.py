"""Which job am I? `current()` tells a handler, in its task, its own tasks and the thread it was sent to.

The context lives in a context variable, which asyncio copies into every task a handler starts and the runner into the
thread of a sync handler (`contextvars.copy_context().run`). One is made for each attempt, so making one only stores
what it is given: text id, datetime and logger are made when they are asked for.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from timewheel.checks import shown
from timewheel.errors import NotInJob, NotSerializable
from timewheel.model import ClockKind, job_text
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from datetime import datetime

    from timewheel.model import Origin

MAX_PROGRESS_BYTES = 4 * 1024
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
    (microseconds), the scheduler that runs it, the occurrence it stands for, if a schedule made it, with the distance
    of its clock from the wall's, and its deadline on the wall scale. Everything here is safe from any thread.
    """

    __slots__ = (
        "_awake_us",
        "_beat_us",
        "_cancel_requested",
        "_deadline_us",
        "_log",
        "_number",
        "_offset_us",
        "_origin",
        "_progress",
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
        deadline_us: int | None = None,
    ) -> None:
        self._number = number
        self._scheduled_us = scheduled_wall_us
        self._origin = origin
        self._offset_us = offset_us if origin is not None and origin.clock is ClockKind.STEADY else 0
        self._deadline_us = deadline_us
        self._cancel_requested = False
        self._awake_us: Callable[[], int] | None = None
        self._beat_us = 0
        self._progress: str | None = None
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
    def deadline(self) -> datetime | None:
        """When the job is given up, whatever runs then: an aware datetime in UTC, or None for never."""
        return None if self._deadline_us is None else utc_datetime(self._deadline_us)

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked for this job to stop: a cancel, its timeout, or the end of the scheduler's grace.

        A sync handler looks here from time to time; so does an async one of a task with `cancel_grace_s`.
        """
        return self._cancel_requested

    def heartbeat(self) -> None:
        """Say that the handler is alive: one that is silent for `heartbeat_timeout_s` is ended as timed out.

        Costs a look at the clock; without `heartbeat_timeout_s` it does nothing.
        """
        if self._awake_us is not None:
            self._beat_us = self._awake_us()

    def progress(self, value: Any) -> None:
        """Show how far the handler is, until its attempt ends: a small JSON value, which replaces the last one.

        It is a heartbeat, too. Kept in memory only. Raises NotSerializable for a value that is no JSON, or takes more
        than 4 KiB of JSON text.
        """
        try:
            data = orjson.dumps(value)
        except TypeError as error:
            raise NotSerializable(f"progress({shown(value)}): {error}; give a JSON value") from None
        if len(data) > MAX_PROGRESS_BYTES:
            raise NotSerializable(f"progress(...): {len(data):,} bytes of JSON text; at most {MAX_PROGRESS_BYTES:,}")
        self._progress = data.decode()
        self.heartbeat()

    @property
    def last_progress(self) -> str | None:
        """What `progress` was told last, as JSON text; None before that."""
        return self._progress

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


def listen(context: JobContext, awake_us: Callable[[], int]) -> None:
    """Take heartbeats from now on, by a clock that counts awake microseconds; for the watch, from the loop."""
    context._beat_us = awake_us()
    context._awake_us = awake_us


def last_heartbeat_us(context: JobContext) -> int:
    """When the handler was heard last, by the clock that `listen` was given."""
    return context._beat_us


def request_cancel(context: JobContext) -> None:
    """Let a running handler see that its cancel was requested; for the runner, from any thread."""
    context._cancel_requested = True
