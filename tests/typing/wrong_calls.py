"""Wrong calls of the public API. Every line marked so must be refused by mypy --strict and by pyright, no other line.

Checked, never run. One mistake a line.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from timewheel import Civil, Cron, Every, Job, Queue, Rate, Retry, Schedule, Scheduler, Unique

scheduler = Scheduler("memory://")
when = datetime(2030, 1, 1, tzinfo=UTC)


@scheduler.task
async def plain(user_id: int) -> str:
    return str(user_id)


@scheduler.task
def sync(a: int, *, b: str = "") -> float:
    return a * 1.0


@scheduler.task(queu="mail")  # WRONG an option that does not exist
async def typo() -> None: ...


async def arguments() -> None:
    await scheduler.at(when, plain)  # WRONG one too few
    await scheduler.at(when, plain, "42")  # WRONG type
    await scheduler.at(when, plain, 1, 2)  # WRONG one too many
    await scheduler.now(sync, 1, c="x")  # WRONG name
    await scheduler.now(sync, 1, b=2)  # WRONG type of a keyword
    await scheduler.after(5, sync, b="x")  # WRONG one is missing
    scheduler.new(when, plain, None)  # WRONG type in a draft
    scheduler.blocking.after(5, plain, "x")  # WRONG type from a thread


async def times() -> None:
    await scheduler.at("tomorrow", plain, 1)  # WRONG a text is no time
    await scheduler.at(timedelta(seconds=1), plain, 1)  # WRONG a delay is no time
    await scheduler.after(when, plain, 1)  # WRONG a time is no delay
    await scheduler.after(None, plain, 1)  # WRONG nothing is no delay
    await scheduler.at(when, 42)  # WRONG a number is no task


async def options() -> None:
    scheduler.options(priorty=3)  # WRONG an option that does not exist
    scheduler.options(tags="abc")  # WRONG a bare text is not a list of tags
    scheduler.options(priority="high")  # WRONG type
    scheduler.options(timeout_s="30")  # WRONG type
    Scheduler("memory://", durability="fast")  # WRONG no such durability
    Scheduler("memory://", when_owned="steal")  # WRONG no such choice
    Scheduler("memory://", rate=100)  # WRONG a rate has a unit
    Rate("5")  # WRONG type
    Queue(rate=5)  # WRONG a rate has a unit
    Queue(key_rate=5)  # WRONG a rate has a unit
    scheduler.options(key_rate=Rate(1))  # WRONG an option of a task
    scheduler.options(unique=True)  # WRONG no record
    scheduler.options(wait_for=[5])  # WRONG a number is no job
    scheduler.options(if_dependency_fails="cancel")  # WRONG no such choice
    scheduler.options(deadline="tomorrow")  # WRONG a text is no time
    scheduler.options(cost="3")  # WRONG type
    scheduler.task(classify={ValueError: "FATAL"})  # WRONG no such class
    scheduler.task(idempotent=None)  # WRONG type
    scheduler.task(rate_key="k")  # WRONG an option of a job
    scheduler.recurring(unique=Unique())  # WRONG an option of one job
    Unique(by=("arguments",))  # WRONG no such part
    Unique(on_conflict="ignore")  # WRONG no such choice
    Unique("k")  # WRONG it has a name
    scheduler.blocking.queue("mail").update(rate=5)  # WRONG a rate has a unit
    Retry(tries=5)  # WRONG an option that does not exist


async def results(job: Job[str]) -> None:
    number: int = await job.result()  # WRONG type of the result
    other: Job[int] = await scheduler.now(plain, 1)  # WRONG type of the job
    narrow: Job[str] = await scheduler.now(sync, 1)  # WRONG type of the job
    job.state = job.state  # WRONG a snapshot is frozen
    scheduler.jobs(state="RUNNING")  # WRONG no such state of a job
    print(number, other, narrow)  # noqa: T201


@scheduler.periodic("@daily", misfre="ALL")  # WRONG an option that does not exist
async def misspelt() -> None: ...


@scheduler.periodic("@daily")  # WRONG nobody gives it its argument
async def needs(user_id: int) -> None: ...


@scheduler.periodic(60)  # WRONG a number is no rule
async def every_minute() -> None: ...


@scheduler.cron("@daily")  # WRONG periodic is the decorator
async def daily() -> None: ...


async def recurring(schedule: Schedule[str]) -> None:
    await scheduler.cron("@daily", plain)  # WRONG one too few
    await scheduler.cron("@daily", plain, "42")  # WRONG type
    await scheduler.cron(Every(60), plain, 42)  # WRONG not a cron rule
    await scheduler.every("@daily", plain, 42)  # WRONG a text is no delay
    await scheduler.every(60, sync, 1, c="x")  # WRONG name
    await scheduler.schedule(60, plain, 42)  # WRONG a number is no rule
    scheduler.recurring(overlap="SKIPP")  # WRONG no such policy
    scheduler.recurring(misfire="latest")  # WRONG no such policy
    scheduler.recurring(idempotency_key="k")  # WRONG an option of one job
    scheduler.recurring(if_exists="replace")  # WRONG no such choice
    scheduler.options(tz="UTC")  # WRONG an option of a schedule
    Cron("@daily", gap="BOTH")  # WRONG no such policy
    Civil(weeks=2)  # WRONG no anchor
    Scheduler("memory://", prune="yes")  # WRONG type
    await schedule.update(misfre="ALL")  # WRONG an option that does not exist
    await schedule.pause(until="tomorrow")  # WRONG a text is no time
    await schedule.backfill(when)  # WRONG no end
    scheduler.schedules(state="RUNNING")  # WRONG no such state of a schedule
    narrow: Schedule[int] = await scheduler.cron("@daily", plain, 42)  # WRONG type of the schedule
    print(narrow)  # noqa: T201


async def repairs(job: Job[str]) -> None:
    await job.replay(actor="ada", reason="r")  # WRONG nothing is said of the cause
    await job.replay("ada", "r", True)  # WRONG by name only
    await job.discard(actor="ada")  # WRONG no reason
    await scheduler.dead_letters().replay(actor="a", reason="r", cause_fixed=True, rate=5)  # WRONG type
    scheduler.dead_letters(state="DEAD")  # WRONG they are all dead
    Scheduler("memory://", retention=3600)  # WRONG type
