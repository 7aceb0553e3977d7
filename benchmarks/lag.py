"""How late do jobs start at a steady load?

    python -m benchmarks.lag [--quick | --full] [--dir FOLDER]

1,000 jobs a second for ten seconds: no-op `async def` handlers, scheduled ahead with one `at_many`, `at` the wall
clock, at instants drawn at random over the ten seconds (seed 0), into a new SQLite file with the default durability and
the default concurrency; the first is due three seconds after that began. start_lag = started_at - scheduled_at of each
attempt, as the scheduler itself reports it in its notices.

Beside it, in the same process and on the same loop, one after another:

- floor: `loop.call_at` for the same instants; how late each callback ran. In memory, nothing durable.
- fsync: append 4 KiB to a file in the same folder and fdatasync it, in a thread, half of the samples before and half
  after. A job that is durably claimed before it starts cannot be spared one of these when it is not claimed ahead.

Met, when the p99 of start_lag is at most 2 ms more than the p99 of fsync.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.machine import arguments, folder_in, fsync_us, percentile, print_rows, run_async
from timewheel import Scheduler
from timewheel.events import AttemptsEnded, Notice

JOBS_PER_S = 1_000
ALLOWED_US = 2_000
"""Above the fsync p99."""
PATIENCE_S = 120


class Sizes(NamedTuple):
    """How long, and how long before the first job is due."""

    seconds: float
    lead_s: float
    fsyncs: int
    jobs_per_s: int = JOBS_PER_S


QUICK = Sizes(1, 2, 200)
NORMAL = Sizes(10, 3, 200)
FULL = Sizes(60, 10, 1_000)


def offsets(sizes: Sizes) -> list[float]:
    """When the jobs are due, in seconds after the first instant."""
    rng = random.Random(0)
    return sorted(rng.uniform(0, sizes.seconds) for _ in range(round(sizes.seconds * sizes.jobs_per_s)))


async def floor(sizes: Sizes) -> list[float]:
    """How late the loop's own timers are, in microseconds."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    dues = offsets(sizes)
    first = loop.time() + 0.5
    finished = loop.create_future()

    def fire(due: float) -> None:
        late.append((loop.time() - due) * 1e6)
        if len(late) == len(dues):
            finished.set_result(None)

    for offset in dues:
        loop.call_at(first + offset, fire, first + offset)
    await finished
    return late


async def start_lags(path: Path, sizes: Sizes) -> list[int]:
    """The start lag of every job, in microseconds."""
    scheduler = Scheduler(f"sqlite:///{path}")
    dues = offsets(sizes)
    lags: list[int] = []
    finished = asyncio.get_running_loop().create_future()

    @scheduler.task(name="noop")
    async def noop(number: int) -> None: ...

    def listen(notice: Notice) -> None:
        if isinstance(notice, AttemptsEnded):
            lags.extend(lag for lag in notice.start_lags_us if lag is not None)
            if len(lags) >= len(dues) and not finished.done():
                finished.set_result(None)

    async with scheduler:
        scheduler.notices.subscribe(listen)
        first = time.time() + sizes.lead_s
        await scheduler.at_many(scheduler.new(first + due, noop, number) for number, due in enumerate(dues))
        spare_s = first - time.time()
        assert spare_s > 0, f"scheduling took {-spare_s:.1f} s more than the lead of {sizes.lead_s} s"
        await asyncio.wait_for(finished, sizes.lead_s + sizes.seconds + PATIENCE_S)
    assert len(lags) == len(dues), f"{len(lags)} attempts of {len(dues)} jobs"
    return lags


async def fsyncs(folder: Path, samples: int) -> list[int]:
    """Samples of fdatasync, taken in a thread."""
    return await asyncio.to_thread(fsync_us, folder, samples)


async def both(folder: Path, sizes: Sizes) -> tuple[list[float], list[int], list[int]]:
    """(floor, start lags, fsyncs), all in microseconds."""
    synced = await fsyncs(folder, sizes.fsyncs // 2)
    late = await floor(sizes)
    lags = await start_lags(folder / "lag.db", sizes)
    return late, lags, synced + await fsyncs(folder, sizes.fsyncs - len(synced))


def row(what: str, values: Sequence[float]) -> dict[str, object]:
    """The distribution of some lags, in milliseconds."""
    return {
        "what": what,
        "samples": len(values),
        "p50_ms": round(median(values) / 1e3, 2),
        "p99_ms": round(percentile(values, 0.99) / 1e3, 2),
        "max_ms": round(max(values) / 1e3, 2),
    }


def measure(sizes: Sizes, folder: Path) -> list[dict[str, object]]:
    """Three rows: start_lag, floor, fsync; the verdict stands with the first."""
    late, lags, synced = run_async(both(folder, sizes))
    aim_us = ALLOWED_US + percentile(synced, 0.99)
    met = percentile(lags, 0.99) <= aim_us
    return [
        {**row("start_lag", lags), "aim_p99_ms": round(aim_us / 1e3, 2), "met": met},
        {**row("floor: call_at", late), "aim_p99_ms": "-", "met": "-"},
        {**row("fsync", synced), "aim_p99_ms": "-", "met": "-"},
    ]


def run(full: bool = False, *, quick: bool = False, parent: str | None = None) -> list[dict[str, object]]:
    """All rows: p50, p99 and max in milliseconds. The journal goes into a new folder in `parent`, then removed."""
    with folder_in(parent) as folder:
        return measure(QUICK if quick else FULL if full else NORMAL, folder)


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__)
    print_rows(run(asked.full, quick=asked.quick, parent=asked.dir))


if __name__ == "__main__":
    main()
