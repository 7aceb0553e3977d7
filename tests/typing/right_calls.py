"""Right calls of the public API: mypy --strict and pyright must accept each, and infer the types said here.

Checked, never run. A handler's parameters and its result must come through every verb.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, assert_type

from timewheel import Draft, Job, Permanent, Queue, Rate, Retry, Scheduler, Snooze, current

scheduler = Scheduler(
    "sqlite:///jobs.db", rate=Rate(100), queues={"mail": Queue(concurrency=2, rate=Rate(5, per_s=60))}
)
memory = Scheduler("memory://", concurrency=1, threads=1, durability="process", when_owned="wait")
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
    assert_type(scheduler.blocking.new(when, plain, 1), Draft[str])
    assert_type(scheduler.blocking.options(priority=1).new(timedelta(hours=1), in_a_thread, 2), Draft[float])
