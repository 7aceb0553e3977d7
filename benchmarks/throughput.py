"""How many durable jobs a second are scheduled and run, and how does that compare with APScheduler 3 on SQLite?

    python -m benchmarks.throughput [--quick | --full] [--dir FOLDER]

Jobs are no-op `async def` handlers with one integer argument, in a new SQLite file, with the default durability: every
acknowledgement and every outcome is synced to the disk. Each of C callers does `await scheduler.now(noop, i)` in a
loop, waiting for each acknowledgement before it asks for the next; "at_many" is one call with all of them.

- jobs_per_s: end to end. Scheduling and running overlap; the time is from the first call until the outcome of the last
  job is durable. The handler counts; after the last run one `Job.wait` tells when its outcome, which is written last,
  is in the journal; that all are COMPLETED is checked afterwards, outside the time.
- acks_per_s: scheduling alone. The same calls with jobs due in an hour, so that nothing runs.
- cpu_us: processor time of the whole process, SQLite's thread included, a job end to end. Unlike the speeds it hardly
  depends on what else the machine does.

APScheduler: AsyncIOScheduler, SQLAlchemyJobStore on a new SQLite file, AsyncIOExecutor, jobs added with the trigger
"date" for now, misfire_grace_time=None so that none is skipped; SQLite as SQLAlchemy leaves it (rollback journal,
synchronous=FULL), and once more in WAL mode, which its users have to ask for. Its add_job is not a coroutine: it
commits before it returns and takes no callers. It is measured in two ways, and the faster one counts: a turn of the
loop after each add_job, so that jobs run while others are added, and all added at once. The time is from the first
add_job until the last handler has run and the store is empty. APScheduler keeps no outcomes and takes a job off before
it is known to have run: it promises less for this work.

"tuned": the same once more in a process set up as `serve` sets up its own (`timewheel.cli.serve.tune_process`: what is
there is taken out of garbage collection, which then runs less often, and threads switch every millisecond). A library
must not touch these settings; an application may.

Both run on the same loop (uvloop where it is installed), in this process, one after another, and the median of the
repetitions is given. APScheduler gets fewer jobs, as it is slower by far; speeds are a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks.machine import arguments, folder_in, print_rows, run_async
from timewheel import Scheduler, current
from timewheel.cli.serve import tune_process

AN_HOUR = timedelta(hours=1)
CONCURRENCY = 1_000
DEFAULT_CONCURRENCY = 100
PATIENCE_S = 240
AT_MANY = 0
"""In place of a number of callers."""

Noop = Callable[[int], Awaitable[None]]


class Speed(NamedTuple):
    """What a case came to."""

    jobs_per_s: float
    cpu_us: float
    """Of processor time, a job."""


class Sizes(NamedTuple):
    """How many jobs each case schedules, and how often."""

    one_caller: int
    hundred_callers: int
    many: int
    apscheduler: int
    repetitions: int


QUICK = Sizes(100, 2_000, 5_000, 30, 1)
NORMAL = Sizes(2_000, 20_000, 50_000, 200, 3)
FULL = Sizes(5_000, 100_000, 200_000, 1_000, 5)


def tally(scheduler: Scheduler, expected: int) -> tuple[Noop, asyncio.Future[str]]:
    """A no-op task, and a future that gets the id of the job whose run was the last of `expected`."""
    ran = 0
    last: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @scheduler.task(name="noop")
    async def noop(number: int) -> None:
        nonlocal ran
        ran += 1
        if ran == expected:
            last.set_result(current().job_id)

    return noop, last


async def settled(scheduler: Scheduler, last: asyncio.Future[str]) -> None:
    """Wait until the last run's outcome is durable. Raises TimeoutError rather than wait for ever for a lost job."""
    async with asyncio.timeout(PATIENCE_S):
        await (await scheduler.get_job(await last)).wait()


async def schedule(scheduler: Scheduler, noop: Noop, callers: int, jobs: int, when: timedelta) -> None:
    """Schedule all jobs and wait for every acknowledgement. Every caller takes the next number as it gets to it."""
    if callers == AT_MANY:
        await scheduler.at_many(scheduler.new(when, noop, number) for number in range(jobs))
        return
    numbers = iter(range(jobs))

    async def call() -> None:
        for number in numbers:
            if when:
                await scheduler.after(when, noop, number)
            else:
                await scheduler.now(noop, number)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(call())


async def end_to_end(path: Path, callers: int, concurrency: int, jobs: int) -> Speed:
    """Scheduled and run."""
    scheduler = Scheduler(f"sqlite:///{path}", concurrency=concurrency)
    noop, last = tally(scheduler, jobs)
    async with scheduler:
        began, worked = perf_counter(), process_time()
        await schedule(scheduler, noop, callers, jobs, timedelta())
        await settled(scheduler, last)
        speed = _speed(jobs, began, worked)
        completed = await scheduler.jobs(state="COMPLETED").count()
    assert completed == jobs, f"{completed} of {jobs} jobs are COMPLETED"
    return speed


async def acknowledgements(path: Path, callers: int, jobs: int) -> Speed:
    """Scheduled only."""
    scheduler = Scheduler(f"sqlite:///{path}")
    noop, _ = tally(scheduler, jobs)
    async with scheduler:
        began, worked = perf_counter(), process_time()
        await schedule(scheduler, noop, callers, jobs, AN_HOUR)
        speed = _speed(jobs, began, worked)
        scheduled = await scheduler.jobs(state="SCHEDULED").count()
    assert scheduled == jobs, f"{scheduled} of {jobs} jobs are SCHEDULED"
    return speed


def _speed(jobs: int, began: float, worked: float) -> Speed:
    """Of so many jobs since then."""
    return Speed(jobs / (perf_counter() - began), (process_time() - worked) / jobs * 1e6)


# ---- APScheduler -----------------------------------------------------------------------------------------------------

_ran: list[int] = []


async def apscheduler_noop(number: int) -> None:
    """APScheduler stores a reference to the function: it must be one of a module."""
    _ran.append(number)


async def apscheduler(path: Path, wal: bool, overlap: bool, jobs: int) -> Speed:
    """APScheduler 3; `overlap`: a turn of the loop after each add_job."""
    from apscheduler.executors.asyncio import AsyncIOExecutor  # type: ignore[import-untyped]
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]

    store = _apscheduler_store(path, wal)
    scheduler = AsyncIOScheduler(
        jobstores={"default": store},
        executors={"default": AsyncIOExecutor()},
        job_defaults={"misfire_grace_time": None, "max_instances": 1_000_000},
        timezone="UTC",
    )
    _ran.clear()
    scheduler.start()
    try:
        began, worked = perf_counter(), process_time()
        for number in range(jobs):
            scheduler.add_job(apscheduler_noop, args=(number,))
            if overlap:
                await asyncio.sleep(0)
        while len(_ran) < jobs or store.get_next_run_time() is not None:
            await asyncio.sleep(0.001)
        speed = _speed(jobs, began, worked)
    finally:
        scheduler.shutdown()
    assert len(_ran) == jobs, f"APScheduler ran {len(_ran)} of {jobs} jobs"
    return speed


def _apscheduler_store(path: Path, wal: bool) -> Any:
    from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-untyped]
    from sqlalchemy import create_engine, event

    engine = create_engine(f"sqlite:///{path}")
    if wal:
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode = WAL"))
    return SQLAlchemyJobStore(engine=engine)


def apscheduler_rows(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """A row a journal mode; none when APScheduler or SQLAlchemy is not installed."""
    rows = []
    for wal in (False, True):
        ways = []
        for overlap in (False, True):
            name = f"apscheduler-{wal}-{overlap}"
            try:
                ways.append(
                    median_speed(
                        run_async(apscheduler(folder / f"{name}-{again}.db", wal, overlap, sizes.apscheduler))
                        for again in range(sizes.repetitions)
                    )
                )
            except ImportError:
                return []
        row = {"system": "APScheduler 3, WAL" if wal else "APScheduler 3", "callers": "-", "concurrency": "-"}
        rows.append({**row, "jobs": sizes.apscheduler, **_figures(max(ways), None)})
    return rows


# ---- all of it -------------------------------------------------------------------------------------------------------


def median_speed(speeds: Iterable[Speed]) -> Speed:
    """The median of each figure."""
    return Speed(*(median(figures) for figures in zip(*speeds, strict=True)))


def _figures(speed: Speed, acks: Speed | None) -> dict[str, object]:
    return {
        "jobs_per_s": round(speed.jobs_per_s),
        "acks_per_s": "-" if acks is None else round(acks.jobs_per_s),
        "cpu_us": round(speed.cpu_us),
    }


def timewheel_row(folder: Path, callers: int, concurrency: int, jobs: int, repetitions: int) -> dict[str, object]:
    """One case of ours."""
    name = f"{callers}-{concurrency}"
    speeds, acks = [], []
    for again in range(repetitions):
        speeds.append(run_async(end_to_end(folder / f"{name}-{again}.db", callers, concurrency, jobs)))
        acks.append(run_async(acknowledgements(folder / f"{name}-{again}-acks.db", callers, jobs)))
    shown = "at_many" if callers == AT_MANY else callers
    row = {"system": "timewheel", "callers": shown, "concurrency": concurrency, "jobs": jobs}
    return {**row, **_figures(median_speed(speeds), median_speed(acks))}


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """All rows, with the ratio to APScheduler as its users find it."""
    cases = [
        (1, CONCURRENCY, sizes.one_caller),
        (100, CONCURRENCY, sizes.hundred_callers),
        (1_000, CONCURRENCY, sizes.many),
        (AT_MANY, CONCURRENCY, sizes.many),
        (1_000, DEFAULT_CONCURRENCY, sizes.many),
        (AT_MANY, DEFAULT_CONCURRENCY, sizes.many),
    ]
    rows = [timewheel_row(folder, *case, sizes.repetitions) for case in cases]
    others = apscheduler_rows(sizes, folder)
    rows += others
    tune_process()  # last: it stays
    tuned = [(1_000, CONCURRENCY, sizes.many), (AT_MANY, CONCURRENCY, sizes.many)]
    (folder / "tuned").mkdir()
    rows += [timewheel_row(folder / "tuned", *case, sizes.repetitions) | {"tuned": True} for case in tuned]
    for row in rows:
        row.setdefault("tuned", False)
        row["times_apscheduler"] = times(row, others[0]) if others else "-"
    return rows


def times(row: dict[str, object], other: dict[str, object]) -> float:
    """How many times as many jobs a second."""
    return round(float(str(row["jobs_per_s"])) / max(1.0, float(str(other["jobs_per_s"]))), 1)


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows: jobs and acknowledgements a second. Journals go into a new folder in `parent`, removed afterwards."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__)
    print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
