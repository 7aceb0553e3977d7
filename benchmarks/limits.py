"""What does each limit cost, as a ratio to none?

    python -m benchmarks.limits [--quick | --full] [--dir FOLDER]

No-op `async def` jobs, scheduled by one `at_many`, in a new SQLite file, with the default durability; the time is from
that call until the outcome of the last job is durable. Each case has one limit, so wide that no job ever waits for it:
what is measured is the asking. The last one is the other kind: its jobs wait, at a rate, and each is told once when to
come (see `timewheel.dispatch.meter`).

- jobs_per_s, cpu_us: as of `benchmarks.throughput`, the median of the repetitions.
- ratio: of jobs_per_s to that of no limit, the median over the repetitions; in each all cases are measured in turns.
- cpu_ratio: the same of processor time, upside down: 0.5 is twice as much of it. It hardly depends on what else the
  machine does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from benchmarks.machine import arguments, folder_in, print_rows, run_async
from benchmarks.throughput import Speed, settled
from timewheel import Dependency, Queue, Rate, RetryBudget, Scheduler, Unique, current

KEYS = 100
WIDE = Rate(1_000_000, burst=1_000_000)
GUARDED = {"dependencies": {"target": Dependency(retry_budget=RetryBudget())}}
NONE = "no limit"
ONE_OF_KEYS = object()


class Case(NamedTuple):
    """One limit: options of the scheduler, of the task, and of the jobs; ONE_OF_KEYS in the latter is one of `KEYS`."""

    scheduler: dict[str, Any] = {}  # noqa: RUF012  never changed
    task: dict[str, Any] = {}  # noqa: RUF012
    job: dict[str, Any] = {}  # noqa: RUF012


CASES: dict[str, Case] = {
    NONE: Case(),
    "rate of the scheduler": Case({"rate": WIDE}),
    "rate of the queue": Case({"queues": {"default": Queue(rate=WIDE)}}),
    "rate of the task": Case(task={"rate": WIDE}),
    "concurrency of the task": Case(task={"concurrency": 10_000}),
    "rate of each of 100 keys": Case(task={"key_rate": WIDE}, job={"rate_key": ONE_OF_KEYS}),
    "concurrency of each of 100 keys": Case(task={"key_concurrency": 10_000}, job={"concurrency_key": ONE_OF_KEYS}),
    "a partition for each of 100 keys": Case(job={"partition_key": ONE_OF_KEYS}),
    "breaker and retry budget of its dependency": Case(GUARDED, task={"dependency": "target"}),
    "retry budget of the queue": Case({"queues": {"default": Queue(retry_budget=RetryBudget())}}),
    "unique by its arguments": Case(job={"unique": Unique()}),
    "an expiry": Case(job={"expires_after_s": 86_400}),
    "a deadline": Case(job={"deadline_after_s": 86_400}),
}
TOLD = "rate of the task, each job told when to come"


class Sizes(NamedTuple):
    """How many jobs a case has, how many are told when to come, and at what rate; and how often."""

    jobs: int
    told: int
    told_a_second: int
    repetitions: int


QUICK = Sizes(2_000, 200, 1_000, 1)
NORMAL = Sizes(20_000, 5_000, 5_000, 5)
FULL = Sizes(100_000, 20_000, 5_000, 5)


async def end_to_end(path: Path, case: Case, jobs: int) -> Speed:
    """Scheduled and run."""
    scheduler = Scheduler(f"sqlite:///{path}", **{"concurrency": 1_000, **case.scheduler})
    ran = 0
    last: Any = None

    @scheduler.task(name="noop", **case.task)
    async def noop(number: int) -> None:
        nonlocal ran
        ran += 1
        if ran == jobs:
            last.set_result(current().job_id)

    async with scheduler:
        last = asyncio.get_running_loop().create_future()
        makers = [scheduler.options(**_options(case, key)).new for key in range(KEYS)]
        drafts = [makers[number % KEYS](timedelta(), noop, number) for number in range(jobs)]
        began, worked = perf_counter(), process_time()
        await scheduler.at_many(drafts)
        await settled(scheduler, last)
        speed = Speed(jobs / (perf_counter() - began), (process_time() - worked) / jobs * 1e6)
        completed = await scheduler.jobs(state="COMPLETED").count()
    assert completed == jobs, f"{completed} of {jobs} jobs are COMPLETED"
    return speed


def _options(case: Case, key: int) -> dict[str, Any]:
    return {name: f"key {key}" if value == ONE_OF_KEYS else value for name, value in case.job.items()}


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """A row a limit."""
    told = Case(task={"rate": Rate(sizes.told_a_second)})
    cases = [(name, case, sizes.jobs) for name, case in CASES.items()] + [(TOLD, told, sizes.told)]
    speeds: dict[str, list[Speed]] = {name: [] for name, _, _ in cases}
    for again in range(sizes.repetitions):
        for number, (name, case, jobs) in enumerate(cases):
            speeds[name].append(run_async(end_to_end(folder / f"{number}-{again}.db", case, jobs)))
    return [_row(name, jobs, speeds[name], speeds[NONE]) for name, _, jobs in cases]


def _row(name: str, jobs: int, speeds: list[Speed], none: list[Speed]) -> dict[str, object]:
    pairs = list(zip(speeds, none, strict=True))
    return {
        "limit": name,
        "jobs": jobs,
        "jobs_per_s": round(median(speed.jobs_per_s for speed in speeds)),
        "cpu_us": round(median(speed.cpu_us for speed in speeds)),
        "ratio": _middle(speed.jobs_per_s / bare.jobs_per_s for speed, bare in pairs),
        "cpu_ratio": _middle(bare.cpu_us / speed.cpu_us for speed, bare in pairs),
    }


def _middle(ratios: Iterable[float]) -> float:
    return round(median(ratios), 2)


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows. Journals go into a new folder in `parent`, removed afterwards."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__)
    print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
