"""The application that is killed: tasks that write down when they start and end, on the journal of the current folder.

Each start and end is one line of `runs.log`, appended by one write: a SIGKILL takes no line that was written, and the
folder of a test tells the runs of all its processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from timewheel.policies import Retry
from timewheel.scheduler import Scheduler
from timewheel.work.context import current

RUNS = "runs.log"
CLIENTS = 4
FAR_S = 3600.0
SIDE = "side"  # the queue that is paused and resumed

scheduler = Scheduler(f"sqlite:///{os.environ.get('JOURNAL', 'jobs.db')}", threads=2, concurrency=8)


def moment() -> int:
    """Nanoseconds on a clock that all processes of this boot share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _note(what: str, number: int) -> None:
    this = current()
    line = json.dumps({"t": moment(), "what": what, "number": number, "job": this.job_id, "attempt": this.attempt})
    descriptor = os.open(RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@scheduler.task(name="quick")
async def quick(number: int) -> int:
    """Ends at once."""
    _note("start", number)
    _note("done", number)
    return number


@scheduler.task(name="slow")
async def slow(number: int) -> int:
    """Takes a while, and so is often cut off."""
    _note("start", number)
    await asyncio.sleep(0.02 + number % 7 * 0.01)
    _note("done", number)
    return number


@scheduler.task(name="thread")
def thread(number: int) -> int:
    """Runs in a thread, where nothing can stop it."""
    _note("start", number)
    time.sleep(0.005)
    _note("done", number)
    return number


@scheduler.task(name="fails", retry=Retry(max_attempts=3, base_s=0.01, cap_s=0.05))
async def fails(number: int) -> Any:
    """Fails twice."""
    _note("start", number)
    if current().attempt % 3:
        raise RuntimeError("not yet")
    _note("done", number)


@scheduler.task(name="aside", queue=SIDE)
async def aside(number: int) -> None:
    """In the queue that is paused now and then."""
    _note("start", number)
    await asyncio.sleep(0.005)
    _note("done", number)


TASKS = {"quick": "default", "slow": "default", "thread": "default", "fails": "default", "aside": SIDE}
