"""The options as types, for those who write them: which there are, and what each may be.

Pure. `timewheel.options` says where each belongs and checks what is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypedDict

from timewheel.flow import DependencyFails
from timewheel.model import FaultClass
from timewheel.planning.policies import MisfireName, OverlapName
from timewheel.policies import Rate, Retry, Unique
from timewheel.recurrence.choices import FoldName, GapName


class KnownJob(Protocol):
    """A job that was scheduled, as `wait_for` takes it: what the verbs give back."""

    @property
    def id(self) -> str:
        """Its public id."""

    @property
    def number(self) -> int:
        """The id inside timewheel."""


Tags = list[str] | tuple[str, ...] | set[str] | frozenset[str]
Waited = KnownJob | str
FaultName = FaultClass | Literal["TRANSIENT", "THROTTLED", "PERMANENT", "AMBIGUOUS"]
Classify = Mapping[type[BaseException] | int, FaultName] | Callable[[BaseException], FaultName | None]


class CommonOptions(TypedDict, total=False):
    """Options that tasks and jobs have."""

    queue: str  # 1 to 100 printable characters
    priority: int  # 0 (first) to 9
    retry: Retry | int | None  # an int: that many attempts in all; None: one attempt
    timeout_s: float | timedelta | None  # of one attempt, above 0; None: no limit
    heartbeat_timeout_s: float | timedelta | None  # longest silence of a running handler, above 0; None: no limit
    tags: Tags  # at most 20, each of 1 to 100 printable characters


class TaskOptions(CommonOptions, total=False):
    """Options of a task, some of them the defaults of its jobs: `@scheduler.task(...)`."""

    classify: Classify | None  # what its exceptions (types, HTTP status) mean, or a function that says
    idempotent: bool  # False: an attempt whose end is not known for sure makes the job DEAD
    dependency: str | None  # what it calls, 1 to 100 printable characters: tasks that share one share its fate
    rate: Rate | None  # of its starts
    concurrency: int | None  # of its jobs, 1 to 100,000
    key_rate: Rate | None  # of the starts with each rate_key
    key_concurrency: int | None  # of the jobs with each concurrency_key, 1 to 100,000
    cancel_grace_s: float | timedelta  # between cancel_requested and CancelledError, at least 0 (0)


class JobOptions(CommonOptions, total=False):
    """Options that every job has. A job's own value goes before its task's."""

    # Both count from scheduled_at as it was first asked, above 0: a reschedule does not move them.
    expires_after_s: float | timedelta | None  # from then on it does not start any more, unless it began before
    deadline_after_s: float | timedelta | None  # then it is given up, whatever it has begun
    concurrency_key: str | None  # 1 to 255 printable characters; of the jobs with it a limited number runs at a time
    rate_key: str | None  # 1 to 255 printable characters; the starts with it have a rate: key_rate
    cost: int  # what a start takes of that rate, 1 to 1,000 (1)
    partition_key: str | None  # 1 to 255 printable characters; jobs with different ones share their queue fairly


class OneShotOptions(JobOptions, total=False):
    """Options of a job that runs once: `scheduler.options(...)`."""

    idempotency_key: str  # 1 to 255 printable characters
    misfire_grace_s: float  # seconds, at least 0
    unique: Unique | None
    expires_at: datetime | float | None  # from then on it does not start any more, unless it began before
    deadline: datetime | float | None  # then it is given up, whatever it has begun
    wait_for: Sequence[Waited] | set[Waited] | frozenset[Waited] | None  # at most 1,000
    if_dependency_fails: DependencyFails | Literal["CANCEL", "RUN", "WAIT"]  # one of them did not complete: CANCEL


class ScheduleOptions(JobOptions, total=False):
    """Options of a schedule, and of its jobs: `scheduler.recurring(...)`, `@scheduler.periodic(rule, ...)`."""

    id: str  # 1 to 200 printable characters; without it the task's name
    tz: str | None  # of a rule given as text, like gap and fold
    gap: GapName
    fold: FoldName
    misfire: MisfireName  # of slots that were missed: LATEST
    misfire_grace_s: float  # seconds, at least 0: a slot that is reached later was missed (10)
    catch_up_max: int  # of misfire ALL: at most so many, 1 to 1,000 (100)
    catch_up_per_s: float | None  # of misfire ALL: so many a second (1); None: at once
    overlap: OverlapName  # while a job of the schedule is not final: SKIP
    jitter_s: float | timedelta  # jobs are due so much later, at most (0)
    start: datetime | float | None  # the first instant that may be a slot
    end: datetime | float | None  # the first instant that is none any more
    max_runs: int | None  # jobs that the rule makes in all
    if_exists: Literal["update", "keep", "fail"]  # declared again and different: update
