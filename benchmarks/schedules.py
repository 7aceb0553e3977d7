"""What does it cost to plan 10,000 schedules that are due in the same second, and to start with them?

    python -m benchmarks.schedules [--quick | --full] [--dir FOLDER]

A new SQLite file with the default durability. The schedules are crons of one slot a day, all at the same second, no two
alike in id, of a no-op `async def` task. One process a repetition, which measures one after another:

- one-shot: as many jobs, submitted with `at_many` (1,000 a call) for a day later: `made_s` until all are on disk. This
  is what the schedules' jobs are compared with: the same rows, asked for by name.
- schedules: `made_s` from the second's beginning until the jobs of all schedules are on disk, as the notices tell it,
  while their queue is paused; `times` is that over the time of the one-shot jobs.
- schedules, run: the next such second with the queue open: until the jobs are on disk; they begin to run meanwhile.

Each with `gap_ms`, the longest gap of the event loop in that time (a task sleeps 1 ms at a time and measures how much
longer each sleep was), and `idle_gap_ms`, the same over the second before. Then, in processes of their own, restarts of
that file's copies: with the schedules, with the one-shot jobs alone, and with neither:

- running_s: from the call of `start()` until it returns;
- overdue: the same with the schedules' slot missed: `made_s` from the call of `start()` until every schedule has the
  job of its newest slot; these jobs begin to run meanwhile.

The median of the repetitions is given. Aim with 10,000 schedules due in one second: jobs on disk within 1 s, gap of at
most 20 ms.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.burst import AIM_GAP_MS, BEAT_S, Heart
from benchmarks.machine import arguments, child, folder_in, print_rows, run_async
from timewheel import Cron, Scheduler
from timewheel.events import Notice, OccurrencesRecorded
from timewheel.schedule_records import Fate

AIM_MADE_S = 1.0
A_CALL = 1_000
AT_ONCE = 500
PATIENCE_S = 120
DAY_S = 86_400
GRACE_S = 0.5  # of what is overdue, so that nobody waits for it
MAKE, START = "--make", "--start"


class Sizes(NamedTuple):
    """How many schedules, how often; `lead_s`: what declaring them may take at most."""

    schedules: int
    repetitions: int
    lead_s: float


QUICK = Sizes(500, 1, 5)
NORMAL = Sizes(10_000, 3, 60)
FULL = Sizes(50_000, 3, 300)


class Figures(NamedTuple):
    """How long it took, and what the loop had to bear meanwhile, and in the second before."""

    made_s: float
    gap_ms: float
    idle_gap_ms: float


class Made:
    """Counts the jobs that schedules make, as the notices tell."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.jobs = 0
        self._wanted = 0
        self._reached: asyncio.Future[float] | None = None
        scheduler.notices.subscribe(self._hear)

    def _hear(self, notice: Notice) -> None:
        if isinstance(notice, OccurrencesRecorded):
            self.jobs += sum(count for (fate, _), count in notice.fates.items() if fate is Fate.JOB)
        if self._reached is not None and not self._reached.done() and self.jobs >= self._wanted:
            self._reached.set_result(perf_counter())

    async def until(self, jobs: int) -> float:
        """When so many were made (perf_counter)."""
        self._wanted = jobs
        self._reached = asyncio.get_running_loop().create_future()
        if self.jobs >= jobs:
            return perf_counter()
        return await asyncio.wait_for(self._reached, PATIENCE_S)


def scheduler_on(path: Path) -> Scheduler:
    """A scheduler with the task."""
    scheduler = Scheduler(f"sqlite:///{path}")

    @scheduler.task(name="noop", queue="planned")
    async def noop() -> None: ...

    return scheduler


def daily_at(instant: float) -> Cron:
    """The slot of every day at that second."""
    return Cron(datetime.fromtimestamp(instant, UTC).strftime("%-S %-M %-H * * *"))


async def declare(scheduler: Scheduler, rule: Cron, first: int, count: int, grace_s: float = 10) -> None:
    """So many schedules, some at a time."""
    for begin in range(first, first + count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, first + count))
        await asyncio.gather(
            *(scheduler.recurring(id=f"s{number}", misfire_grace_s=grace_s).cron(rule, "noop") for number in numbers)
        )


async def watched(begins: float | None, work: Callable[[], Coroutine[Any, Any, float]]) -> Figures:
    """Do some work at that instant, or in a second from now; it returns when it was done (perf_counter)."""
    begins = begins or time.time() + 1.2
    gc.collect()  # what was done before, declaring for one, is not to be paid for here
    await asyncio.sleep(max(0.0, begins - 1 - time.time()))
    heart = Heart()
    beating = asyncio.create_task(heart.beat())
    await asyncio.sleep(begins - time.time() - 0.01)  # the loop may not be asleep over the second's beginning
    idle_gap_ms, heart.longest_ms = heart.longest_ms, 0.0
    began = perf_counter() + max(0.0, begins - time.time())
    made_s = await work() - began
    await asyncio.sleep(2 * BEAT_S)  # for the beat that is under way
    beating.cancel()
    return Figures(made_s, heart.longest_ms, idle_gap_ms)


async def one_shots(scheduler: Scheduler, jobs: int) -> Figures:
    """Submit as many jobs."""

    async def submit() -> float:
        await asyncio.sleep(0.01)
        for begin in range(0, jobs, A_CALL):
            size = min(A_CALL, jobs - begin)
            await scheduler.at_many(scheduler.new(timedelta(days=1), "noop") for _ in range(size))
        return perf_counter()

    return await watched(None, submit)


async def second(scheduler: Scheduler, made: Made, sizes: Sizes, first: int, *, paused: bool) -> Figures:
    """Declare schedules that are due at the same second, and see that second."""
    queue = scheduler.queue("planned")
    await (queue.pause() if paused else queue.resume())
    began = perf_counter()
    begins = float(int(time.time() + sizes.lead_s))
    await declare(scheduler, daily_at(begins), first, sizes.schedules)
    took_s = perf_counter() - began
    assert time.time() < begins - 1.5, f"declaring took {took_s:.1f} s: more than the lead of {sizes.lead_s} s"
    wanted = made.jobs + sizes.schedules
    return await watched(begins, lambda: made.until(wanted))


async def make(path: Path, sizes: Sizes) -> dict[str, Figures]:
    """Fill a new file, measuring."""
    scheduler = scheduler_on(path)
    made = Made(scheduler)
    async with scheduler:
        found = {"one-shot": await one_shots(scheduler, sizes.schedules)}
        found["schedules"] = await second(scheduler, made, sizes, 0, paused=True)
        found["schedules, run"] = await second(scheduler, made, sizes, sizes.schedules, paused=False)
    return found


async def prepare(path: Path, sizes: Sizes, what: str) -> None:
    """A file for a restart: with nothing, with one-shot jobs, with schedules, or with schedules that are overdue."""
    scheduler = scheduler_on(path)
    async with scheduler:
        if what == "one-shot":
            await scheduler.at_many(scheduler.new(timedelta(days=1), "noop") for _ in range(sizes.schedules))
        elif what != "empty":
            lead_s = sizes.lead_s if what == "overdue" else DAY_S / 2
            due = float(int(time.time() + lead_s))
            await declare(scheduler, daily_at(due), 0, sizes.schedules, GRACE_S)
            assert time.time() < due, "declaring took longer than the lead"


async def start(path: Path, jobs: int) -> Figures:
    """Open the file; wait for the jobs of what is overdue."""
    scheduler = scheduler_on(path)
    made = Made(scheduler)
    heart = Heart()
    beating = asyncio.create_task(heart.beat())
    await asyncio.sleep(0.5)
    idle_gap_ms, heart.longest_ms = heart.longest_ms, 0.0
    began = perf_counter()
    await scheduler.start()
    took_s = perf_counter() - began
    if jobs:
        took_s = await made.until(jobs) - began
    await asyncio.sleep(0.5)
    beating.cancel()
    await scheduler.stop()
    return Figures(took_s, heart.longest_ms, idle_gap_ms)


def measure_once(folder: Path, sizes: Sizes) -> dict[str, Figures]:
    """Everything once, each start in a process of its own."""
    size = json.dumps(sizes)
    found = {
        name: Figures(*figures)
        for name, figures in json.loads(child("benchmarks.schedules", MAKE, str(folder / "made.db"), size, "")).items()
    }
    for what in ("empty", "one-shot", "schedules", "overdue"):
        path = folder / f"{what}.db"
        began = time.time()
        child("benchmarks.schedules", MAKE, str(path), size, what)
        if what == "overdue":
            time.sleep(max(0.0, began + sizes.lead_s + 2 - time.time()))
        jobs = sizes.schedules if what == "overdue" else 0
        figures = json.loads(child("benchmarks.schedules", START, str(path), size, str(jobs)))
        found[f"start, {what}"] = Figures(*figures)
    return found


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """A row a question, in the order of the module's text."""
    runs = []
    for again in range(sizes.repetitions):
        (folder / str(again)).mkdir()
        runs.append(measure_once(folder / str(again), sizes))
    figures = {
        what: Figures(*(median(column) for column in zip(*(run[what] for run in runs), strict=True)))
        for what in runs[0]
    }
    return [row(sizes.schedules, what, figures) for what in figures]


BESIDE = {
    "schedules": "one-shot",
    "schedules, run": "one-shot",
    "start, schedules": "start, one-shot",
    "start, overdue": "one-shot",
}
JUDGED = ("schedules", "schedules, run")


def row(schedules: int, what: str, figures: dict[str, Figures]) -> dict[str, object]:
    """One row; `times` is its time over that of what it is compared with, in the same run."""
    mine, beside = figures[what], figures.get(BESIDE.get(what, ""))
    met = mine.made_s <= AIM_MADE_S and mine.gap_ms <= AIM_GAP_MS
    return {
        "what": what,
        "schedules": schedules,
        "made_s": round(mine.made_s, 3),
        "gap_ms": round(mine.gap_ms, 1),
        "idle_gap_ms": round(mine.idle_gap_ms, 1),
        "times": "-" if beside is None else round(mine.made_s / beside.made_s, 2),
        "met": met if what in JUDGED else "-",
    }


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows. Journals go into a new folder in `parent`, removed afterwards."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table; or do what a process of its own is for."""
    if sys.argv[1:2] and sys.argv[1] in (MAKE, START):
        path, sizes, what = Path(sys.argv[2]), Sizes(*json.loads(sys.argv[3])), sys.argv[4]
        if sys.argv[1] == START:
            print(json.dumps(run_async(start(path, int(what)))))
        elif what:
            run_async(prepare(path, sizes, what))
        else:
            print(json.dumps(run_async(make(path, sizes))))
        return
    asked = arguments(__doc__)
    print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
