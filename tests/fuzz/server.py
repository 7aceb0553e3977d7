"""A whole server to throw requests at: a scheduler on a journal of its own, its HTTP API, a port, in a thread.

It is what `serve` runs, less the process around it: signals, exits and logs. Its tasks end fast, fail, or hang.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from timewheel import Permanent, Queue, Rate, Scheduler
from timewheel.serve.app import create_app
from timewheel.serve.protocol import QuietServer
from timewheel.serve.runner import bind

START_S = 60


def make_scheduler(folder: Path) -> Scheduler:
    """One on SQLite in `folder`; syncs are left out, for a fuzzer makes thousands of jobs."""
    scheduler = Scheduler(f"sqlite:///{folder}/fuzzed.db", durability="process", queues={"slow": Queue(rate=Rate(5))})

    @scheduler.task(name="echo")
    async def echo(*args: Any, **kwargs: Any) -> Any:
        return {"args": args, "kwargs": kwargs}

    @scheduler.task(name="add", queue="slow", tags=["sum"])
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @scheduler.task(name="fail")
    async def fail(*args: Any) -> None:
        raise Permanent(f"no way with {args!r}")

    @scheduler.task(name="hang", timeout_s=1)
    async def hang() -> None:
        await asyncio.Event().wait()

    return scheduler


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a server that runs until the block ends. Raises what made the server fail."""
    listener = bind("127.0.0.1", 0)
    ready = threading.Event()
    faults: list[BaseException] = []
    stop: list[Any] = []

    async def live() -> None:
        async with make_scheduler(folder) as scheduler:
            server = QuietServer(create_app(scheduler))
            serving = asyncio.create_task(server.run_on(listener))
            stopped = asyncio.Event()
            stop.append((asyncio.get_running_loop(), stopped))
            await server.listening.wait()
            ready.set()
            await stopped.wait()
            server.should_exit = server.force_exit = True
            await serving
            await scheduler.stop(grace_s=0)

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            faults.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="fuzzed server")
    thread.start()
    try:
        assert ready.wait(START_S), "the server did not start"
        if not faults:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        if stop:
            loop, stopped = stop[0]
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set)
        thread.join(START_S)
        listener.close()
    if faults:
        raise faults[0]
