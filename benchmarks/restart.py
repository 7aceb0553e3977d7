"""How long does a restart take, and how much memory, when many jobs are pending?

    python -m benchmarks.restart [--quick | --full] [--dir FOLDER]

One SQLite file a size. Of the pending jobs nine in ten are far, due between an hour and thirty days from now, and one
in ten is near, made last and due between two and fifteen minutes later, so that with 10**6 pending the first page of
the due index is full; instants drawn at random (seed 0). They are made with `at_many` and durability="process", which
makes no difference to the file, and counted. Last come ten jobs that are due a second later; then the maker stops at
once, so that they are overdue when the next process starts. A new process then opens the file with the default
durability and measures

- running_s: from the call of `start()` until it returns, in state RUNNING;
- first_job_s: from the call of `start()` until the handler of the first overdue job is entered;
- memory_mib: the peak of its resident memory (VmHWM) from its birth until three seconds after that, when the page of
  what is due next has been read; `import_mib` is the same of a process that only imports timewheel and its adapter;
- cold_s: running_s when the file is not in the page cache (dropped with posix_fadvise), as after a boot.

running_s, first_job_s and memory_mib are the median of the repetitions, each a process of its own with ten new overdue
jobs, and the file in the page cache, as when a process was killed or deployed anew. The time to start Python and to
import timewheel is not in them. Aim with 10**6 pending: under 1 s until the first job runs, under 150 MB.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.machine import arguments, child, folder_in, memory_mib, print_rows, run_async
from benchmarks.throughput import Noop
from timewheel import Scheduler

A_CALL = 10_000
OVERDUE = 10
NEAR_SHARE = 10
"""One in so many is near."""
NEAR_S, FAR_S = (120, 900), (3_600, 30 * 86_400)
SETTLE_S = 3.0
PATIENCE_S = 120
AIM_S, AIM_BYTES = 1.0, 150_000_000
MAKE, MEASURE, IMPORT = "--make", "--measure", "--import"


class Sizes(NamedTuple):
    """How many jobs are pending, how often a restart is measured, how long it is watched."""

    pending: tuple[int, ...]
    repetitions: int
    settle_s: float = SETTLE_S


QUICK = Sizes((10_000,), 1, 1.0)
NORMAL = Sizes((10_000, 100_000, 1_000_000), 3)
FULL = Sizes((10_000, 100_000, 1_000_000, 5_000_000), 5)


class Figures(NamedTuple):
    """Of one restart."""

    running_s: float
    first_job_s: float
    memory_mib: float


async def make(path: Path, pending: int) -> None:
    """Fill a new file."""
    scheduler = Scheduler(f"sqlite:///{path}", durability="process")
    rng = random.Random(0)
    near = pending // NEAR_SHARE

    @scheduler.task(name="noop")
    async def noop(number: int) -> None: ...

    async with scheduler:
        for jobs, (from_s, to_s) in ((pending - near, FAR_S), (near, NEAR_S)):
            now = time.time()
            for first in range(0, jobs, A_CALL):
                numbers = range(first, min(first + A_CALL, jobs))
                await scheduler.at_many(
                    scheduler.new(now + rng.uniform(from_s, to_s), noop, number) for number in numbers
                )
        made = await scheduler.jobs(state="SCHEDULED").count()
        assert made == pending, f"{made} of {pending} jobs are SCHEDULED"
        await make_overdue(scheduler, noop)


async def make_overdue(scheduler: Scheduler, noop: Noop) -> None:
    """Jobs for the next process; this one must stop before they are due."""
    due = time.time() + 1
    await scheduler.at_many(scheduler.new(due, noop, number) for number in range(OVERDUE))
    assert time.time() < due, "the maker was so slow that it may have run the overdue jobs itself"
    await scheduler.stop()


async def restart(path: Path, settle_s: float) -> Figures:
    """Open the file, run what is overdue, leave new overdue jobs behind."""
    scheduler = Scheduler(f"sqlite:///{path}")
    entered: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    @scheduler.task(name="noop")
    async def noop(number: int) -> None:
        if not entered.done():
            entered.set_result(perf_counter())

    began = perf_counter()
    await scheduler.start()
    running_s = perf_counter() - began
    assert scheduler.state == "RUNNING", f"start() returned in state {scheduler.state}"
    first_job_s = await asyncio.wait_for(entered, PATIENCE_S) - began
    await asyncio.sleep(settle_s)
    peak_mib = memory_mib("VmHWM")
    await make_overdue(scheduler, noop)
    return Figures(running_s, first_job_s, peak_mib)


def restart_apart(path: Path, settle_s: float, *, cold: bool = False) -> Figures:
    """A restart in a process of its own, when the overdue jobs are due."""
    time.sleep(1.1)
    if cold:
        for file in files_of(path):
            _drop_from_cache(file)
    return Figures(*json.loads(child("benchmarks.restart", MEASURE, str(path), str(settle_s))))


def files_of(path: Path) -> list[Path]:
    """The journal and what SQLite and timewheel keep beside it."""
    return sorted(path.parent.glob(f"{path.name}*"))


def _drop_from_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """A row a size."""
    rows: list[dict[str, object]] = []
    import_mib = float(child("benchmarks.restart", IMPORT))
    for pending in sizes.pending:
        path = folder / f"{pending}.db"
        child("benchmarks.restart", MAKE, str(path), str(pending))
        file_mib = sum(file.stat().st_size for file in files_of(path)) / (1 << 20)
        restarts = [restart_apart(path, sizes.settle_s) for _ in range(sizes.repetitions)]
        cold = restart_apart(path, sizes.settle_s, cold=True)
        figures = Figures(*(median(column) for column in zip(*restarts, strict=True)))
        rows.append(
            {
                "pending": pending,
                "file_mib": round(file_mib, 1),
                "running_s": round(figures.running_s, 3),
                "first_job_s": round(figures.first_job_s, 3),
                "cold_s": round(cold.running_s, 3),
                "memory_mib": round(figures.memory_mib, 1),
                "import_mib": round(import_mib, 1),
                "met": figures.first_job_s < AIM_S and figures.memory_mib * (1 << 20) < AIM_BYTES,
            }
        )
        for file in files_of(path):
            file.unlink()
    return rows


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows. The journals go into a new folder in `parent`, removed afterwards."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table; or do what a process of its own is for."""
    what, *rest = [*sys.argv[1:], ""]
    if what == MAKE:
        run_async(make(Path(rest[0]), int(rest[1])))
    elif what == MEASURE:
        print(json.dumps(run_async(restart(Path(rest[0]), float(rest[1])))))
    elif what == IMPORT:
        import timewheel_storage.sqlite  # noqa: F401  it is imported when a scheduler is made

        print(memory_mib("VmHWM"))
    else:
        asked = arguments(__doc__)
        print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
