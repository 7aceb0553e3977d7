"""Right calls of the public API: mypy --strict and pyright must accept each, and infer the types said here.

Checked, never run. A handler's parameters and its result must come through every verb.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, assert_type

from timewheel import (
    Calendar,
    Civil,
    Cron,
    DeadLetters,
    DiscardAnswer,
    Draft,
    Every,
    Gap,
    Job,
    JobState,
    Misfire,
    Operation,
    Overlap,
    Permanent,
    Query,
    Queue,
    Rate,
    ReplayAnswer,
    Retention,
    Retry,
    Schedule,
    Scheduler,
    ScheduleState,
    Snooze,
    Unique,
    current,
)

scheduler = Scheduler(
    "sqlite:///jobs.db", rate=Rate(100), queues={"mail": Queue(concurrency=2, rate=Rate(5, per_s=60), weight=3)}
)
memory = Scheduler("memory://", concurrency=1, threads=1, durability="process", when_owned="wait")
berlin = Scheduler("memory://", tz="Europe/Berlin", prune=True)
when = datetime(2030, 1, 1, tzinfo=UTC)
R = TypeVar("R")


@scheduler.task
async def plain(user_id: int) -> str:
    return str(user_id)


@scheduler.task(name="mail.reset", queue="mail", timeout_s=30, retry=Retry(max_attempts=5, base_s=1, cap_s=60))
async def reset(user_id: int, *, urgent: bool = False) -> str:
    if current().attempt > 3:
        raise Permanent("no use")
    if urgent:
        raise Snooze(timedelta(seconds=5))
    return str(user_id)


@scheduler.task(
    name="card.charge",
    heartbeat_timeout_s=timedelta(seconds=30),
    classify={ConnectionError: "TRANSIENT", KeyError: "PERMANENT", 409: "AMBIGUOUS"},
    idempotent=False,
    dependency="stripe",
    rate=Rate(100),
    concurrency=20,
    key_rate=Rate(5, per_s=60, burst=5),
    key_concurrency=2,
    cancel_grace_s=2.5,
)
async def charge(amount: int) -> str:
    return str(amount)


@scheduler.task(classify=lambda error: "THROTTLED" if "slow down" in str(error) else None)
def asks_a_function() -> None: ...


@scheduler.task(tags=["report"])
def in_a_thread(a: int, b: float = 1.0) -> float:
    scheduler.blocking.after(5, plain, a)
    return a * b


def awkward(when: str, fn: int) -> None:
    """Parameters named like those of the verbs."""


class Reports:
    @staticmethod
    async def daily(day: str) -> int:
        return len(day)


def logged(function: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[R]]:
    @functools.wraps(function)
    async def inner(*args: Any, **kwargs: Any) -> R:
        return await function(*args, **kwargs)

    return inner


async def verbs() -> None:
    assert_type(await plain(1), str)  # the decorator changes nothing
    assert_type(await scheduler.at(when, plain, 42), Job[str])
    assert_type(await scheduler.at(1_900_000_000.5, plain, 42), Job[str])
    assert_type(await scheduler.after(900, reset, 42, urgent=True), Job[str])
    assert_type(await scheduler.after(timedelta(minutes=15), reset, 42), Job[str])
    assert_type(await scheduler.now(in_a_thread, 1), Job[float])
    assert_type(await scheduler.now(in_a_thread, 1, b=2.0), Job[float])
    assert_type(await scheduler.now(awkward, "noon", 3), Job[None])
    assert_type(await scheduler.now(awkward, when="noon", fn=3), Job[None])
    assert_type(await scheduler.now(Reports.daily, "monday"), Job[int])
    assert_type(await scheduler.now(functools.partial(in_a_thread, 1)), Job[float])
    assert_type(await scheduler.now(logged(plain), 1), Job[str])
    await scheduler.at(when, "mail.reset", 42, urgent=True)  # by name: any arguments
    async with scheduler:
        pass


async def options() -> None:
    with_options = scheduler.options(
        priority=3, idempotency_key="order-17", tags=["a"], queue="mail", timeout_s=3, retry=2, misfire_grace_s=60
    )
    assert_type(await with_options.after(900, reset, 42), Job[str])
    assert_type(await scheduler.options(tags=("a", "b")).at(when, plain, 1), Job[str])
    assert_type(await scheduler.options(tags={"a"}, retry=None).now(in_a_thread, 1), Job[float])


async def flow_control(job: Job[int]) -> None:
    keyed = scheduler.options(rate_key="tenant-3", cost=3, partition_key="tenant-3", concurrency_key="account-7")
    assert_type(await keyed.now(charge, 5), Job[str])
    ends = scheduler.options(expires_after_s=60, deadline_after_s=timedelta(hours=1), heartbeat_timeout_s=None)
    assert_type(await ends.after(5, plain, 1), Job[str])
    await scheduler.options(expires_at=when, deadline=1_900_000_000).after(5, plain, 1)
    await scheduler.options(unique=Unique(), wait_for=[job, "job-0000100000007"]).now(plain, 1)
    await scheduler.options(wait_for=(job,), if_dependency_fails="WAIT").now(plain, 1)
    await scheduler.options(wait_for={job}).now(plain, 1)
    jobs: list[Job[int]] = [job]
    await scheduler.options(wait_for=jobs).now(plain, 1)
    Unique(by=("key",), key="sync", period_s=60, states=["ACTIVE", "COMPLETED"], on_conflict="replace")
    Unique(by=["task", "args", "queue"], period_s=timedelta(hours=1), on_conflict="fail")
    Unique(states=("ACTIVE",), by=("task", "args"))
    Unique(states={JobState.ACTIVE})
    assert_type((job.deadline, job.expires_at), tuple[datetime | None, datetime | None])
    assert_type((job.next_retry_at, job.first_failed_at), tuple[datetime | None, datetime | None])
    assert_type((job.last_fault, job.wait_for), tuple[str | None, tuple[str, ...]])
    assert_type([attempt.fault for attempt in await job.attempts()], list[str | None])
    await scheduler.queue("mail").update(rate=Rate(5), concurrency=3, weight=4, key_rate=Rate(1), key_concurrency=2)
    await scheduler.recurring(rate_key="k", cost=2, expires_after_s=3600, partition_key=None).cron("@daily", plain, 1)


async def many() -> None:
    draft = scheduler.new(when, plain, 1)
    assert_type(draft, Draft[str])
    assert_type(await scheduler.at_many(scheduler.new(when, plain, i) for i in range(3)), list[Job[str]])
    mixed: list[Draft[object]] = [draft, scheduler.new(timedelta(hours=1), in_a_thread, 2)]
    await scheduler.at_many(mixed)


async def jobs(job: Job[str]) -> None:
    anything: Job[object] = job  # covariant
    assert_type(await job.result(timeout_s=5), str)
    assert_type(await job.wait(timeout_s=5), Job[str])
    assert_type(await job.refresh(), Job[str])
    assert_type(job.id, str)
    assert_type(job.scheduled_at, datetime)
    assert_type(job.created, bool)
    if await job.cancel(reason="changed my mind"):
        await anything.reschedule(when)
    await job.reschedule(timedelta(seconds=3))
    await job.attempts()
    async for one in scheduler.jobs(state="SCHEDULED", queue="mail", page_size=10):
        assert_type(one.id, str)
    page = await scheduler.jobs(state=["ACTIVE", "WAITING"], tag="a")
    assert_type([one.id for one in page.items], list[str])
    assert_type(page.next_page_token, str | None)
    assert_type(await scheduler.jobs(task="mail.reset").count(), int)
    await scheduler.get_job("job-abc")
    await scheduler.queue("mail").pause()
    await scheduler.queue("mail").resume()


def from_a_thread() -> None:
    job = scheduler.blocking.after(5, plain, 42)
    assert_type(job.result(timeout_s=5), str)
    assert_type(job.id, str)
    scheduler.blocking.at(when, in_a_thread, 1, b=2.0)
    scheduler.blocking.now(reset, 1, urgent=True)
    scheduler.blocking.options(unique=Unique(), wait_for=[job]).now(plain, 1)
    scheduler.blocking.queue("mail").update(concurrency=3, weight=2)
    assert_type(scheduler.blocking.new(when, plain, 1), Draft[str])
    assert_type(scheduler.blocking.options(priority=1).new(timedelta(hours=1), in_a_thread, 2), Draft[float])


@scheduler.periodic("*/5 * * * *", id="sweep", misfire="SKIP", overlap=Overlap.ALLOW(limit=3))
async def sweep(depth: int = 1) -> int:
    if (missed := current().missed) is not None:
        assert_type(missed.first, datetime)
        assert_type(missed.count, int)
    assert_type(current().schedule_id, str | None)
    assert_type(current().nominal_at, datetime | None)
    return depth


@scheduler.periodic(Every(60))
@scheduler.task(name="tidy")
def tidy() -> None: ...


async def recurring() -> None:
    assert_type(await sweep(2), int)  # the decorator changes nothing
    assert_type(await scheduler.cron("0 9 * * mon", plain, 42), Schedule[str])
    assert_type(await scheduler.cron(Cron("0 9 * * mon", tz="Europe/Berlin", gap="SKIP"), plain, 42), Schedule[str])
    assert_type(await scheduler.every(60, in_a_thread, 1, b=2.0), Schedule[float])
    assert_type(await scheduler.every(timedelta(hours=1), reset, 42, urgent=True), Schedule[str])
    assert_type(await scheduler.schedule("@daily", Reports.daily, "monday"), Schedule[int])
    assert_type(await scheduler.schedule(Every(5, after_completion=True), awkward, when="noon", fn=3), Schedule[None])
    assert_type(await scheduler.schedule(Civil(weeks=2, anchor=when), logged(plain), 1), Schedule[str])
    assert_type(await scheduler.cron("0 9 * * mon", functools.partial(in_a_thread, 1)), Schedule[float])
    await scheduler.cron("0 9 * * mon", "mail.reset", 42, urgent=True)  # by name: any arguments
    bank = Calendar("bank", exclude=[when.date()])
    with_options = scheduler.recurring(
        id="payroll",
        misfire=Misfire.ALL,
        overlap="QUEUE_ONE",
        jitter_s=20,
        queue="pay",
        tz="Europe/London",
        fold="BOTH",
    )
    assert_type(
        await with_options.schedule(Cron("0 18 L * *", calendar=bank, roll="preceding"), plain, 1), Schedule[str]
    )
    more = scheduler.recurring(gap=Gap.SKIP, start=when, end=when, max_runs=3, if_exists="keep", catch_up_per_s=None)
    assert_type(await more.every(60, in_a_thread, 1), Schedule[float])
    assert_type(await scheduler.recurring(overlap=Overlap.SERIALIZE("db")).cron("@hourly", plain, 1), Schedule[str])


async def schedules(schedule: Schedule[str]) -> None:
    anything: Schedule[object] = schedule  # covariant
    assert_type(schedule.state, ScheduleState)
    assert_type(schedule.next_at, datetime | None)
    assert_type(await schedule.trigger(), Job[str] | None)
    assert_type(await schedule.update(Every(3600), priority=1), Schedule[str])
    assert_type(await schedule.update(misfire="ALL", if_version=schedule.version), Schedule[str])
    assert_type(await schedule.pause(note="audit", until=when), Schedule[str])
    await anything.resume()
    done = await schedule.backfill(when, 1_900_000_000, dry_run=False)
    assert_type(done.made, int)
    assert_type([job.id for job in done.jobs], list[str])
    assert_type([(line.at, line.utc_offset) for line in await schedule.preview(n=3)], list[tuple[datetime, timedelta]])
    async for occurrence in schedule.occurrences():
        assert_type(occurrence.nominal_at, datetime)
        assert_type(occurrence.job_id, str | None)
    await schedule.delete()
    assert_type(await scheduler.get_schedule("payroll"), Schedule[Any])
    assert_type(scheduler.schedules(state=["ACTIVE", "PARKED"], task="tidy"), Query[Schedule[Any]])
    assert_type(await scheduler.jobs(schedule="payroll").count(), int)


def schedules_from_a_thread() -> None:
    schedule = scheduler.blocking.cron("0 9 * * mon", plain, 42)
    job = schedule.trigger(force=True)
    if job is not None:
        assert_type(job.result(), str)
    assert_type(schedule.pause().resume().update(Every(5)).id, str)
    scheduler.blocking.recurring(id="b", priority=1).every(60, in_a_thread, 1, b=2.0)
    assert_type([one.state for one in scheduler.blocking.schedules(state="ACTIVE")], list[ScheduleState])


async def repairs(job: Job[str]) -> None:
    Scheduler("memory://", retention=Retention(completed_s=3600, queues={"mail": Retention(dead_s=timedelta(days=9))}))
    letters = scheduler.dead_letters(task="t", since=datetime.now(UTC), until=1_800_000_000, page_size=10)
    assert_type(letters, DeadLetters)
    async for letter in letters:
        assert_type(letter, Job[Any])
    operation = await letters.replay(actor="ada", reason="r", cause_fixed=True, canary=3, rate=Rate(5), dry_run=True)
    assert_type(operation, Operation)
    assert_type(await operation.wait(timeout_s=5), Operation)
    assert_type(await letters.discard(actor="ada", reason="r"), Operation)
    assert_type(await job.replay(actor="ada", reason="r", cause_fixed="mended", args=[1], kwargs={}), ReplayAnswer)
    assert_type(await job.discard(actor="ada", reason="r"), DiscardAnswer)
    ended: list[Operation] = [each async for each in scheduler.operations()]
    assert_type(await ended[0].stop(actor="ada", reason="r"), Operation)
    scheduler.on_dead_letters(print, rate_per_min=5, size=None)
    for each in scheduler.blocking.dead_letters():
        assert_type(each.replay(actor="ada", reason="r", cause_fixed=True), ReplayAnswer)
