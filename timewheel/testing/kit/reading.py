"""Read a scheduler's journal without waiting: possible when it is in memory, where no read ever waits."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from timewheel.errors import InvalidOption, TimewheelError
from timewheel.job import Job
from timewheel.schedule import Schedule
from timewheel.scheduler import Scheduler
from timewheel.times import utc_datetime

T = TypeVar("T")


def all_jobs(scheduler: Scheduler) -> list[Job[Any]]:
    """Every job in the journal, oldest first. Raises InvalidOption when it is not in memory, and as reading does."""

    async def read() -> list[Job[Any]]:
        return [job async for job in scheduler.jobs(page_size=1000)]

    return at_once(read(), scheduler)[::-1]


def all_schedules(scheduler: Scheduler) -> list[Schedule[Any]]:
    """Every schedule in the journal, by id. Raises as `all_jobs`."""

    async def read() -> list[Schedule[Any]]:
        return [schedule async for schedule in scheduler.schedules(page_size=1000)]

    return at_once(read(), scheduler)


def has_jobs_to_come(scheduler: Scheduler) -> bool:
    """Whether a job is scheduled for later than now, or a schedule will make one; True as well where nobody can say."""

    async def read() -> bool:
        now = utc_datetime(scheduler._system.clock.wall_us())
        if any([job.due_at > now async for job in scheduler.jobs(state="SCHEDULED", page_size=1000)]):
            return True
        return any([schedule.next_at is not None async for schedule in scheduler.schedules(page_size=1000)])

    try:
        return at_once(read(), scheduler)
    except InvalidOption:  # not in memory
        return True
    except TimewheelError:  # not started, or stopped: nothing runs
        return False


def at_once(reading: Coroutine[Any, Any, T], scheduler: Scheduler) -> T:
    """The result of a coroutine that never waits. Raises InvalidOption when it does."""
    try:
        reading.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    reading.close()
    raise InvalidOption(
        f"the journal {scheduler.path} is not in memory, and reading it takes an await: use memory://, or look with "
        f"`[job async for job in scheduler.jobs(state=...)]`"
    )
