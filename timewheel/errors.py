"""Every error timewheel raises on purpose, as one tree.

    TimewheelError
    |-- InvalidTime (ValueError)          a `when` or a delay that names no usable instant
    |-- InvalidRule (ValueError)          a recurrence, zone or calendar that cannot be; `.field` names the part
    |-- InvalidOption (TypeError)         an option that is unknown, misplaced or has a bad value
    |-- InvalidTask (TypeError)           a function that no fresh process could find, or a bad call of it
    |-- NotSerializable (TypeError)       an argument that would not come back as it went in
    |-- JobNotFound, ScheduleNotFound, OperationNotFound (LookupError)
    |-- ScheduleIdRequired                two different schedules without an id of their own; `.schedule` is the name
    |-- ScheduleExists                    there is one with this id, and `if_exists="fail"`
    |-- VersionConflict                   `if_version` named another version; `.version` is the present one
    |-- IdempotencyConflict, UniqueConflict   of another request with its key, of its kind; `.job_id` names the job
    |-- PartlyScheduled                   at_many stopped half way; `.jobs` are acknowledged, `.cause` says why
    |-- WaitTimeout (TimeoutError), JobDead, JobCancelled, JobSkipped, ResultOmitted: each carries `.job`
    |-- NotStarted, NotOwner, WrongThread, ForkedScheduler, NotInJob; SchedulerFailed: `.cause` is the fault
    |-- Overloaded                        a bounded queue is full (HTTP answers 429)
    `-- JournalError                      each names the journal's `.path`
        |-- JournalOwned                  another process fires its jobs; `.owner` says which
        |-- JournalBusy                   another program holds the database's write lock
        |-- JournalFull                   no space: nothing was accepted
        |-- JournalCorrupt                not a database, damaged, or not ours
        |-- JournalTruncated              commits that were made are missing from the file
        |-- JournalNewer                  written by a newer timewheel
        |-- JournalUnsafe                 a place where SQLite's locks do not work (network file system)
        |-- JournalUnavailable            cannot be created, opened, or is gone
        `-- JournalUnknown                the outcome of a commit is unknown: retry with the same key

A message says what was wrong, with which value, and the way out. For what handlers raise see `timewheel.work.classify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class TimewheelError(Exception):
    """Base of every error that timewheel raises on purpose."""


class InvalidTime(TimewheelError, ValueError):
    """A time or a delay that cannot be used: naive, not finite, negative, out of range, or of the wrong unit."""


class InvalidRule(TimewheelError, ValueError):
    """A recurrence that cannot be: misspelt, impossible, too large; `.field` names the part, like `minute` or `tz`."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class InvalidOption(TimewheelError, TypeError):
    """An option (`.field`, where it is one) that does not exist, is misplaced, or has a value outside its range."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidTask(TimewheelError, TypeError):
    """A function that a fresh process could not find again, or arguments that do not fit its signature."""


class NotSerializable(TimewheelError, TypeError):
    """An argument that would not come back from the journal exactly as it went in."""


class _OtherJob(TimewheelError):
    """An error that names a job by its id, `.job_id`."""

    def __init__(self, message: str, *, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobNotFound(_OtherJob, LookupError):
    """No job has this id (`.job_id`, as it was given)."""


class _ScheduleError(TimewheelError):
    """An error about one schedule, whose id is `.schedule`."""

    def __init__(self, message: str, *, schedule: str) -> None:
        super().__init__(message)
        self.schedule = schedule


class ScheduleNotFound(_ScheduleError, LookupError):
    """No schedule has this id (`.schedule`, as it was given)."""


class OperationNotFound(TimewheelError, LookupError):
    """No operation has this id."""


class ScheduleIdRequired(_ScheduleError):
    """A second, different schedule of one task without an id: `.schedule` is the id that both would get."""


class ScheduleExists(_ScheduleError):
    """There is a schedule with this id, and it was not to be changed."""


class VersionConflict(_ScheduleError):
    """The schedule has been edited meanwhile: its version is `.version`, and not the `if_version` that was given."""

    def __init__(self, message: str, *, schedule: str, version: int) -> None:
        super().__init__(message, schedule=schedule)
        self.version = version


class IdempotencyConflict(_OtherJob):
    """The idempotency key was used before with a different request; `.job_id` is the job that holds it."""

    def __init__(self, message: str, *, key: str, job_id: str) -> None:
        super().__init__(message, job_id=job_id)
        self.key = key


class UniqueConflict(_OtherJob):
    """Another job stood in the way of a unique one with `on_conflict="fail"`: `.job_id`. Nothing was made."""


class PartlyScheduled(TimewheelError):
    """`at_many` failed after some of its jobs were acknowledged: `.jobs` are durable, `.cause` is the failure."""

    def __init__(self, message: str, *, jobs: Sequence[Any], cause: BaseException) -> None:
        super().__init__(message)
        self.jobs = list(jobs)
        self.cause = cause


class _JobError(TimewheelError):
    """An error about one job, whose latest snapshot is `.job`."""

    def __init__(self, message: str, *, job: Any) -> None:
        super().__init__(message)
        self.job = job


class WaitTimeout(_JobError, TimeoutError):
    """The job was not final when the wait ended; the job itself is untouched."""


class JobDead(_JobError):
    """The job failed for good: it is a dead letter."""


class JobCancelled(_JobError):
    """The job was cancelled."""


class JobSkipped(_JobError):
    """The job was skipped by a policy it was given."""


class ResultOmitted(_JobError):
    """The job succeeded, but its result was not JSON or was too large to keep; the message says which."""


class NotStarted(TimewheelError):
    """A verb was used before `start()` or after `stop()`."""


class NotOwner(TimewheelError):
    """This scheduler stands by (`when_owned="wait"`): another process owns the journal, so it may only read."""


class WrongThread(TimewheelError):
    """An async verb was used from another event loop or thread; use `scheduler.blocking` there."""


class ForkedScheduler(TimewheelError):
    """A scheduler was used in a child process forked after it started; create one in the child."""


class NotInJob(TimewheelError):
    """`current()` was called outside a running job."""


class SchedulerFailed(TimewheelError):
    """The scheduler stopped dispatching after a fault; `.cause` is the fault."""

    def __init__(self, message: str, *, cause: BaseException) -> None:
        super().__init__(message)
        self.cause = cause


class Overloaded(TimewheelError):
    """A bounded queue is full; try again after `.retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class JournalError(TimewheelError):
    """Something is wrong with the journal at `.path` (a file's path, or "memory")."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class JournalOwned(JournalError):
    """Another process owns the journal; `.owner` has its pid, host and since when (None where unreadable)."""

    def __init__(self, message: str, *, path: str, owner: dict[str, Any] | None = None) -> None:
        super().__init__(message, path=path)
        self.owner = owner


class JournalBusy(JournalError):
    """Another program held the database's write lock for too long; nothing was written."""


class JournalFull(JournalError):
    """There is no space left for the journal; nothing was written."""


class JournalCorrupt(JournalError):
    """The file is damaged, is not a database, or belongs to another program; it was left untouched."""


class JournalTruncated(JournalError):
    """The file lacks commits that were made: `.missing` is the first and the last missing commit number."""

    def __init__(self, message: str, *, path: str, missing: tuple[int, int]) -> None:
        super().__init__(message, path=path)
        self.missing = missing


class JournalNewer(JournalError):
    """The journal was written by a newer version of timewheel; it was left untouched."""


class JournalUnsafe(JournalError):
    """The journal lies where SQLite's locks cannot be trusted (a network file system)."""


class JournalUnavailable(JournalError):
    """The journal cannot be created, opened or written at all, or its file is gone."""


class JournalUnknown(JournalError):
    """An I/O error came back from a commit: it may or may not have happened. Retry with the same idempotency key."""
