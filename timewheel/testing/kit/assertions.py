"""What a test says about jobs: assert_scheduled, assert_not_scheduled, assert_drained.

They look at the scheduler of the running test (the fixture `scheduler`, or what its clock made or borrowed), or at the
one given as `scheduler=`. They need no `await`, so none can be forgotten; the journal must be in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from timewheel.errors import InvalidOption
from timewheel.job import Job
from timewheel.model import JobState
from timewheel.scheduler import Scheduler
from timewheel.testing.kit.clock import Length, open_clock
from timewheel.testing.kit.delays import delay_of
from timewheel.testing.kit.reading import all_jobs, all_schedules
from timewheel.times import utc_datetime, when_us

CLOSE = timedelta(milliseconds=1)  # the tick: instants nearer than that are the same
MOST_LINES = 20
Task = Callable[..., Any] | str


@dataclass(frozen=True)
class _Wanted:
    task: str
    at: datetime | None
    fields: dict[str, Any]  # args, kwargs, queue, tag: those that were given

    def differences(self, job: Job[Any]) -> list[str]:
        found = [] if job.task == self.task else ["task"]
        if self.at is not None and abs(job.scheduled_at - self.at) >= CLOSE:
            found.append("at")
        shown = {"args": job.args, "kwargs": job.kwargs, "queue": job.queue}
        found += [name for name, value in shown.items() if name in self.fields and self.fields[name] != value]
        if "tag" in self.fields and self.fields["tag"] not in job.tags:
            found.append("tag")
        return found

    def __str__(self) -> str:
        at = "" if self.at is None else f" at {self.at}"
        return f"{self.task}{at}" + "".join(f" {name}={value!r}" for name, value in self.fields.items())


def assert_scheduled(
    task: Task,
    *,
    at: datetime | Length | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    tag: str | None = None,
    count: int | None = None,
    scheduler: Scheduler | None = None,
) -> list[Job[Any]]:
    """A job of this task is to run: it is SCHEDULED, WAITING or ACTIVE. Returns all that match, oldest first.

    `task` is the function or the name. `at` is an aware datetime, Unix seconds, or a length from now ("2h", a
    timedelta); a job is at it when less than 1 ms away. `count`: exactly so many match. A schedule makes its jobs when
    they are due, not before: `clock.advance` to a slot. A failure lists what is scheduled, and in what it differs.
    """
    __tracebackhide__ = True
    scheduler = scheduler or the_scheduler()
    wanted = _wanted(scheduler, task, at, {"args": args, "kwargs": kwargs, "queue": queue, "tag": tag})
    jobs = all_jobs(scheduler)
    found = [job for job in jobs if not job.state.final and not wanted.differences(job)]
    if not found if count is None else len(found) != count:
        number = "no job is" if not found else f"{jobs_are(len(found))}, not {count},"
        raise AssertionError(f"{number} scheduled: {wanted}\n{_listed(scheduler, jobs, wanted)}")
    return found


def assert_not_scheduled(
    task: Task,
    *,
    at: datetime | Length | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    tag: str | None = None,
    scheduler: Scheduler | None = None,
) -> None:
    """No job like this is to run; takes what assert_scheduled takes."""
    __tracebackhide__ = True
    scheduler = scheduler or the_scheduler()
    wanted = _wanted(scheduler, task, at, {"args": args, "kwargs": kwargs, "queue": queue, "tag": tag})
    jobs = all_jobs(scheduler)
    if any(not job.state.final and not wanted.differences(job) for job in jobs):
        raise AssertionError(f"a job is scheduled: {wanted}\n{_listed(scheduler, jobs, wanted)}")


def assert_drained(*, scheduler: Scheduler | None = None) -> None:
    """No job is left to run, and none is DEAD. A failure lists those, with the errors of the dead ones."""
    __tracebackhide__ = True
    scheduler = scheduler or the_scheduler()
    jobs = all_jobs(scheduler)
    left = sum(not job.state.final for job in jobs)
    dead = [job for job in jobs if job.state is JobState.DEAD]
    if left or dead:
        errors = [f"{job.id} of {job.task} is DEAD ({job.reason}):\n{job.error}" for job in dead[:MOST_LINES]]
        message = f"{jobs_are(left)} left to run, {len(dead)} DEAD\n{_listed(scheduler, jobs, None)}"
        raise AssertionError("\n".join([message, *errors]))


def the_scheduler() -> Scheduler:
    """The one scheduler of the running test."""
    clock = open_clock()
    if clock is None:
        raise InvalidOption("no test with the fixtures `clock` or `scheduler` runs here: pass scheduler=...")
    if len(clock.schedulers) != 1:
        known = "no scheduler" if not clock.schedulers else f"{len(clock.schedulers)} schedulers"
        raise InvalidOption(f"the test's clock knows {known}: pass scheduler=... (or make it with clock.scheduler())")
    return clock.schedulers[0]


def _wanted(scheduler: Scheduler, task: Task, at: datetime | Length | None, fields: dict[str, Any]) -> _Wanted:
    name = task if isinstance(task, str) else scheduler._registry.resolve(task)[0].name
    given = {field: value for field, value in fields.items() if value is not None}
    if "args" in given:
        if isinstance(given["args"], str):
            raise InvalidOption(f"args={given['args']!r}: give a tuple of arguments, as in args=({given['args']!r},)")
        given["args"] = tuple(given["args"])
    if "kwargs" in given:
        given["kwargs"] = dict(given["kwargs"])
    return _Wanted(name, None if at is None else _instant(scheduler, at), given)


def _instant(scheduler: Scheduler, at: datetime | Length) -> datetime:
    if isinstance(at, (str, timedelta)):
        return utc_datetime(scheduler._system.clock.wall_us() + delay_of(at))
    return utc_datetime(when_us(at, "at=timedelta(seconds={})"))


def _listed(scheduler: Scheduler, jobs: list[Job[Any]], wanted: _Wanted | None) -> str:
    """What is scheduled, the likeliest first, and how many have ended how."""
    now = utc_datetime(scheduler._system.clock.wall_us())
    live = [job for job in jobs if not job.state.final]
    if wanted is not None:
        live.sort(key=lambda job: len(wanted.differences(job)) + 10 * (job.task != wanted.task))
    lines = [f"it is {now}; " + ("scheduled:" if live else "nothing is scheduled")]
    lines += [f"  {line_of(job, now)}{_note(job, wanted)}" for job in live[:MOST_LINES]]
    lines += [f"  and {len(live) - MOST_LINES} more"] if len(live) > MOST_LINES else []
    lines += _schedules(scheduler, wanted)
    ended = Counter(job.state.value for job in jobs if job.state.final)
    lines += ["ended: " + ", ".join(f"{number} {state}" for state, number in ended.items())] if ended else []
    return "\n".join(lines)


def _schedules(scheduler: Scheduler, wanted: _Wanted | None) -> list[str]:
    """The schedules of the task that was looked for (all, if none was): their jobs exist only once they are due."""
    found = [one for one in all_schedules(scheduler) if wanted is None or one.task == wanted.task]
    lines = [f"  {one.id}: {one.task}, {one.state}, next at {one.next_at}" for one in found[:MOST_LINES]]
    more = [f"  and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []
    return ["schedules, which make their jobs when these are due:", *lines, *more] if lines else []


def jobs_are(number: int) -> str:
    """As in: 1 job is, 2 jobs are."""
    return f"{number} job is" if number == 1 else f"{number} jobs are"


def line_of(job: Job[Any], now: datetime) -> str:
    """A job in one line."""
    ahead = job.scheduled_at - now
    when = "now" if not ahead else f"in {ahead}" if ahead > timedelta(0) else f"{-ahead} ago"
    call = ", ".join([*map(repr, job.args), *(f"{name}={value!r}" for name, value in job.kwargs.items())])
    reason = f" ({job.reason})" if job.reason else ""
    return f"{job.task}({call}) at {job.scheduled_at} ({when}), queue {job.queue}, {job.state}{reason}"


def _note(job: Job[Any], wanted: _Wanted | None) -> str:
    differences = [] if wanted is None else wanted.differences(job)
    return f"  <- another {', '.join(differences)}" if differences and "task" not in differences else ""
