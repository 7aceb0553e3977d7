"""What the tests of `serve` share: the application in this process, and a real server in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from timewheel.scheduler import Scheduler
from timewheel.serve.app import create_app
from timewheel.work.classify import Permanent

ROOT = Path(__file__).parents[2]
LONG_S = 60.0  # longer than anything here takes, on a busy machine too


def make_scheduler(hanging: asyncio.Event | None = None, store: Any = "memory://") -> Scheduler:
    """One in memory, with tasks that do what the tests need; `hanging` is set when `hang` runs."""
    scheduler = Scheduler(store)
    gate = asyncio.Event()

    @scheduler.task(name="echo")
    async def echo(*args: Any, **kwargs: Any) -> Any:
        return {"args": args, "kwargs": kwargs}

    @scheduler.task(name="add", queue="math", tags=["sum"])
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @scheduler.task(name="fail")
    async def fail() -> None:
        raise Permanent("no way\x1b[31m")

    @scheduler.task(name="hang")
    async def hang() -> None:
        if hanging is not None:
            hanging.set()
        await gate.wait()

    return scheduler


@asynccontextmanager
async def client_of(scheduler: Scheduler, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application over a scheduler, without a socket."""
    transport = httpx.ASGITransport(app=create_app(scheduler, **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
        yield client


async def settled(scheduler: Scheduler, job_id: str) -> Any:
    """The job once it is final."""
    return await (await scheduler.get_job(job_id)).wait(timeout_s=LONG_S)


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that finds the checkout."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'storage'}", "PYTHONWARNINGS": "default", **more}


class Child:
    """`python -m timewheel serve` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.url = ""
        self.lines: list[str] = []

    async def line(self, pattern: str) -> str:
        """The next line of stderr that matches; raises when the process ends before."""
        assert self.process.stderr is not None
        while raw := await asyncio.wait_for(self.process.stderr.readline(), LONG_S):
            self.lines.append(raw.decode().rstrip())
            if re.search(pattern, self.lines[-1]):
                return self.lines[-1]
        raise AssertionError("\n".join(["the server ended:", *self.lines]))

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def end(self) -> int:
        """The exit code; the rest of stderr goes to `lines`."""
        _, stderr = await asyncio.wait_for(self.process.communicate(), LONG_S)
        self.lines += stderr.decode().splitlines()
        assert self.process.returncode is not None
        return self.process.returncode


async def launch(*arguments: str, cwd: Path) -> Child:
    """Start `serve` with these arguments, on a port of its own; it may be about to fail."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "timewheel", "serve", "--port", "0", *arguments,
        cwd=cwd, env=environment(), stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    return Child(process)


@asynccontextmanager
async def serving(*arguments: str, cwd: Path) -> AsyncIterator[Child]:
    """A running server; killed at the end when it still runs."""
    child = await launch(*arguments, cwd=cwd)
    try:
        found = re.search(r"http://\S+:\d+", await child.line("serving http"))
        assert found is not None
        child.url = found[0]
        await child.line("tasks:")
        yield child
    finally:
        if child.process.returncode is None:
            child.signal(signal.SIGKILL)
            await child.end()
