"""What happens when 50,000 jobs are due in one second?

    python -m benchmarks.burst [--quick | --full] [--dir FOLDER]

No-op `async def` handlers, scheduled ahead with `at_many` (1,000 a call), `at` the wall clock, at instants drawn at
random within one second (seed 0), into a new SQLite file with the default durability; with concurrency 1,000 and with
the default of 100. Each burst has a process of its own. The figures:

- drain_s: from the second's beginning until the outcome of the last job is durable.
- gap_ms: the longest gap of the event loop in that time. A task of our own sleeps 1 ms at a time and measures with
  perf_counter how much longer each sleep was. `idle_gap_ms` is the same in the second before, on the same loop: what
  the machine and its other work add. Aim: under 20 ms.
- memory_mib: how far the peak of the resident memory, at any time, is above what the idle scheduler took before
  anything was scheduled.

The median of the repetitions is given.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.machine import arguments, child, folder_in, forget_peak, memory_mib, print_rows, run_async
from benchmarks.throughput import CONCURRENCY, DEFAULT_CONCURRENCY, Noop, settled, tally
from timewheel import Scheduler

AIM_GAP_MS = 20
BEAT_S = 0.001
A_CALL = 1_000
ONE = "--one"


class Sizes(NamedTuple):
    """How many jobs, how long before the second they are scheduled, how often, and at which concurrencies."""

    jobs: int
    lead_s: float
    repetitions: int
    concurrencies: tuple[int, ...] = (CONCURRENCY, DEFAULT_CONCURRENCY)


QUICK = Sizes(5_000, 3, 1)
NORMAL = Sizes(50_000, 15, 3)
FULL = Sizes(200_000, 60, 3)


class Heart:
    """Beats every millisecond; `longest_ms` is the longest delay of a beat since it was last set to 0."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    async def beat(self) -> None:
        """Until cancelled."""
        before = perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            now = perf_counter()
            self.longest_ms = max(self.longest_ms, (now - before - BEAT_S) * 1e3)
            before = now


class Figures(NamedTuple):
    """Of one burst."""

    drain_s: float
    gap_ms: float
    idle_gap_ms: float
    memory_mib: float


async def burst(path: Path, concurrency: int, sizes: Sizes) -> Figures:
    """Schedule, wait for the second, watch it."""
    scheduler = Scheduler(f"sqlite:///{path}", concurrency=concurrency)
    noop, last = tally(scheduler, sizes.jobs)
    async with scheduler:
        forget_peak()
        resident_mib = memory_mib("VmRSS")
        begins = time.time() + sizes.lead_s
        await schedule(scheduler, noop, begins, sizes.jobs)
        quiet_s = begins - 1 - time.time()
        assert quiet_s > 0, f"scheduling left no quiet second before the burst: {quiet_s:.1f} s"
        drain_s, gap_ms, idle_gap_ms = await watch(scheduler, last, begins, quiet_s)
        risen_mib = memory_mib("VmHWM") - resident_mib
        completed = await scheduler.jobs(state="COMPLETED").count()
    assert completed == sizes.jobs, f"{completed} of {sizes.jobs} jobs are COMPLETED"
    return Figures(drain_s, gap_ms, idle_gap_ms, risen_mib)


async def schedule(scheduler: Scheduler, noop: Noop, begins: float, jobs: int) -> None:
    """Make all jobs, and keep none in memory for longer than it takes."""
    rng = random.Random(0)
    for first in range(0, jobs, A_CALL):
        numbers = range(first, min(first + A_CALL, jobs))
        await scheduler.at_many(scheduler.new(begins + rng.random(), noop, number) for number in numbers)


async def watch(
    scheduler: Scheduler, last: asyncio.Future[str], begins: float, quiet_s: float
) -> tuple[float, float, float]:
    """(drain_s, gap_ms, idle_gap_ms): from a second before the burst until it is over."""
    await asyncio.sleep(quiet_s)
    heart = Heart()
    beating = asyncio.create_task(heart.beat())
    await asyncio.sleep(begins - time.time())
    idle_gap_ms, heart.longest_ms = heart.longest_ms, 0.0
    began = perf_counter() + begins - time.time()
    await settled(scheduler, last)
    drain_s = perf_counter() - began
    await asyncio.sleep(2 * BEAT_S)  # for the beat that is under way
    beating.cancel()
    return drain_s, heart.longest_ms, idle_gap_ms


def apart(path: Path, concurrency: int, sizes: Sizes) -> Figures:
    """A burst in a process of its own."""
    asked = json.dumps([str(path), concurrency, *sizes])
    return Figures(*json.loads(child("benchmarks.burst", ONE, asked)))


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """A row a concurrency."""
    rows: list[dict[str, object]] = []
    for concurrency in sizes.concurrencies:
        bursts = [apart(folder / f"{concurrency}-{again}.db", concurrency, sizes) for again in range(sizes.repetitions)]
        figures = Figures(*(median(column) for column in zip(*bursts, strict=True)))
        rows.append(
            {
                "jobs": sizes.jobs,
                "concurrency": concurrency,
                "drain_s": round(figures.drain_s, 2),
                "jobs_per_s": round(sizes.jobs / figures.drain_s),
                "gap_ms": round(figures.gap_ms, 1),
                "idle_gap_ms": round(figures.idle_gap_ms, 1),
                "memory_mib": round(figures.memory_mib, 1),
                "met": figures.gap_ms < AIM_GAP_MS,
            }
        )
    return rows


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows. Journals go into a new folder in `parent`, removed afterwards."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table; or, for `apart`, the figures of one burst."""
    if sys.argv[1:2] == [ONE]:
        path, concurrency, *sizes = json.loads(sys.argv[2])
        print(json.dumps(run_async(burst(Path(path), concurrency, Sizes(*sizes)))))
        return
    asked = arguments(__doc__)
    print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
