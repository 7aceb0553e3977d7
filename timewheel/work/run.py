"""One attempt on its way through a handler: what the runner, the watch and the worker know of it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from timewheel.model import Now
    from timewheel.ports import Timer
    from timewheel.store.changes import ClaimedJob
    from timewheel.task import Task
    from timewheel.work.context import JobContext


class Stopping(Enum):
    """Why we asked a running handler to stop."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"


class Run:
    """One attempt on its way through a handler."""

    __slots__ = (
        "args",
        "begun",
        "claimant",
        "context",
        "entered",
        "expired",
        "grace",
        "handle",
        "job",
        "kwargs",
        "pulse",
        "retry_after_us",
        "settled",
        "started",
        "stopping",
        "task",
        "timer",
        "watched",
        "withdrawn",
    )

    def __init__(self, claimant: Any, task: Task, args: list[Any], kwargs: dict[str, Any], context: JobContext) -> None:
        self.claimant = claimant
        self.job: ClaimedJob = claimant.job
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.context = context
        self.handle: asyncio.Task[None] | None = None  # None: it runs in a thread
        self.entered = task.is_async  # a sync handler is entered when a thread picks it up
        self.started: Now | None = None
        self.stopping: Stopping | None = None
        self.begun = False  # its handler's code was called
        self.expired: str | None = None  # which of its limits ended it, in words
        self.settled = False
        self.retry_after_us = 0  # what its handler said when it was throttled
        self.watched = self.job.timeout_us is not None or self.job.flow is not None  # most runs have no limit
        self.timer: Timer | None = None  # of its timeout, then of what it gets to end
        self.pulse: Timer | None = None  # of the next look at its heartbeat
        self.grace: Timer | None = None  # of what it gets between a cancel request and CancelledError
        self.withdrawn = False

    @property
    def unborn(self) -> bool:
        """Whether its task has ended before its first step."""
        return self.handle is not None and self.handle.done() and self.started is None

    def too_late(self, now: Now) -> bool:
        """Whether it may not begin any more: its job has expired or is given up."""
        flow, job = self.job.flow, self.job
        if flow is None:
            return False
        expires = flow.expires_at is not None and now.wall_us >= flow.expires_at
        over = flow.deadline is not None and now.wall_us >= flow.deadline
        return over or (expires and not job.failures and not job.losses)

    def stop_timers(self) -> None:
        """None of its limits matters any more."""
        for timer in (self.timer, self.pulse, self.grace):
            if timer is not None:
                timer.cancel()
        self.timer = self.pulse = self.grace = None
