"""timewheel: an embedded, durable job scheduler for asyncio. One process, one file.

from timewheel import Scheduler

scheduler = Scheduler("sqlite:///jobs.db")

@scheduler.task(name="mail.reset")
async def send_reset(user_id: int) -> None: ...

async with scheduler:
    await scheduler.after(900, send_reset, 42)
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from timewheel.errors import (
        ForkedScheduler,
        IdempotencyConflict,
        InvalidOption,
        InvalidRule,
        InvalidTask,
        InvalidTime,
        JobCancelled,
        JobDead,
        JobNotFound,
        JobSkipped,
        JournalBusy,
        JournalCorrupt,
        JournalError,
        JournalFull,
        JournalNewer,
        JournalOwned,
        JournalTruncated,
        JournalUnavailable,
        JournalUnknown,
        JournalUnsafe,
        NotInJob,
        NotOwner,
        NotSerializable,
        NotStarted,
        OperationNotFound,
        Overloaded,
        PartlyScheduled,
        ResultOmitted,
        ScheduleExists,
        ScheduleIdRequired,
        ScheduleNotFound,
        SchedulerFailed,
        TimewheelError,
        UniqueConflict,
        VersionConflict,
        WaitTimeout,
        WrongThread,
    )
    from timewheel.handles import Draft, Page, Query
    from timewheel.job import Job
    from timewheel.letters import DeadLetters
    from timewheel.model import CancelAnswer, DiscardAnswer, JobState, ReplayAnswer, RescheduleAnswer
    from timewheel.operation import Operation
    from timewheel.planning.policies import Misfire, Overlap
    from timewheel.policies import Queue, Rate, Retry, Unique
    from timewheel.recurrence.calendar import Calendar
    from timewheel.recurrence.choices import Fold, Gap
    from timewheel.recurrence.cron import Cron
    from timewheel.recurrence.interval import Every
    from timewheel.recurrence.periods import Civil
    from timewheel.retention_rules import Retention
    from timewheel.safeguards import Breaker, Dependency, RetryBudget
    from timewheel.schedule import Schedule
    from timewheel.schedule_records import ScheduleState
    from timewheel.scheduler import Scheduler
    from timewheel.work.context import current
    from timewheel.work.signals import Ambiguous, Permanent, Snooze, Throttled, Transient

__all__ = [
    "Ambiguous",
    "Breaker",
    "Calendar",
    "CancelAnswer",
    "Civil",
    "Cron",
    "DeadLetters",
    "Dependency",
    "DiscardAnswer",
    "Draft",
    "Every",
    "Fold",
    "ForkedScheduler",
    "Gap",
    "IdempotencyConflict",
    "InvalidOption",
    "InvalidRule",
    "InvalidTask",
    "InvalidTime",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobNotFound",
    "JobSkipped",
    "JobState",
    "JournalBusy",
    "JournalCorrupt",
    "JournalError",
    "JournalFull",
    "JournalNewer",
    "JournalOwned",
    "JournalTruncated",
    "JournalUnavailable",
    "JournalUnknown",
    "JournalUnsafe",
    "Misfire",
    "NotInJob",
    "NotOwner",
    "NotSerializable",
    "NotStarted",
    "Operation",
    "OperationNotFound",
    "Overlap",
    "Overloaded",
    "Page",
    "PartlyScheduled",
    "Permanent",
    "Query",
    "Queue",
    "Rate",
    "ReplayAnswer",
    "RescheduleAnswer",
    "ResultOmitted",
    "Retention",
    "Retry",
    "RetryBudget",
    "Schedule",
    "ScheduleExists",
    "ScheduleIdRequired",
    "ScheduleNotFound",
    "ScheduleState",
    "Scheduler",
    "SchedulerFailed",
    "Snooze",
    "Throttled",
    "TimewheelError",
    "Transient",
    "Unique",
    "UniqueConflict",
    "VersionConflict",
    "WaitTimeout",
    "WrongThread",
    "current",
]

_HOMES = {
    "Draft": "handles",
    "Page": "handles",
    "Query": "handles",
    "Job": "job",
    "DeadLetters": "letters",
    "CancelAnswer": "model",
    "DiscardAnswer": "model",
    "JobState": "model",
    "ReplayAnswer": "model",
    "RescheduleAnswer": "model",
    "Misfire": "planning.policies",
    "Overlap": "planning.policies",
    "Queue": "policies",
    "Rate": "policies",
    "Retry": "policies",
    "Unique": "policies",
    "Calendar": "recurrence.calendar",
    "Fold": "recurrence.choices",
    "Gap": "recurrence.choices",
    "Cron": "recurrence.cron",
    "Every": "recurrence.interval",
    "Civil": "recurrence.periods",
    "Operation": "operation",
    "Retention": "retention_rules",
    "Breaker": "safeguards",
    "Dependency": "safeguards",
    "RetryBudget": "safeguards",
    "Schedule": "schedule",
    "ScheduleState": "schedule_records",
    "Scheduler": "scheduler",
    "Ambiguous": "work.signals",
    "Permanent": "work.signals",
    "Snooze": "work.signals",
    "Throttled": "work.signals",
    "Transient": "work.signals",
    "current": "work.context",
}

if not typing.TYPE_CHECKING:

    def __getattr__(name):
        """Import a name when it is first asked for: pytest reads this package at every start, for its plugin."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
        return value

    def __dir__():
        """What `dir()` and completion show."""
        return sorted({*globals(), *__all__})
