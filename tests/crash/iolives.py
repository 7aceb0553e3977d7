"""The lives whose every call of the system is let fail: small programs around the real scheduler on a real file.

    full        creates the journal, schedules, cancels, moves, runs and settles jobs, writes the log back, stops
    recovery    starts on what a killed process left: open attempts, a log that was not written back
    migration   starts on the journal of an older version, which the first start brings up to date
    busy        commits much, for the power cuts

A life says on a file what it asks for, and what it was told, a line each; a SIGKILL takes no line that was written. Its
clock runs `SPEED` times as fast as ours, so that housekeeping, retries and patience take no time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from timewheel.cli.exits import code_of
from timewheel.errors import JournalError, JournalFull, JournalUnavailable, JournalUnknown, SchedulerFailed, WaitTimeout
from timewheel.policies import Retry
from timewheel.scheduler import Scheduler
from timewheel.system import System, SystemClock
from timewheel.timeline import Reading
from timewheel.work.classify import Permanent
from timewheel.work.context import current
from timewheel_storage.sqlite import schema

SPEED = 40
ORIGIN_US = 1_800_000_000_000_000
TRIES = 10
PATIENCE_S = 30.0  # of our clock, for anything: more is a hang
NEXT_SCRIPT = """
CREATE TABLE copied (job_id INTEGER PRIMARY KEY, arguments TEXT NOT NULL) STRICT;
INSERT INTO copied SELECT job_id, arguments FROM jobs;
CREATE INDEX copied_arguments ON copied (arguments);
ALTER TABLE jobs ADD COLUMN shade TEXT;
"""
NEXT_VERSION = len(schema.migrations()) + 1


class FastClock(SystemClock):
    """The machine's clocks, `SPEED` times as fast. All processes of one boot share them."""

    def boot_us(self) -> int:
        return super().boot_us() * SPEED

    def wall_us(self) -> int:
        return ORIGIN_US + self.boot_us()

    def read(self) -> Reading:
        boot_us = self.boot_us()
        return Reading(ORIGIN_US + boot_us, boot_us, time.monotonic_ns() // 1000 * SPEED)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Any:
        return super().call_later(delay_s / SPEED, callback)


async def nap(delay_s: float) -> None:
    """Sleep by the fast clock."""
    await asyncio.sleep(delay_s / SPEED)


def update_to_come() -> None:
    """From now on this process is of a version with one more migration."""
    scripts = (*schema.migrations(), NEXT_SCRIPT)
    schema.migrations = lambda: scripts


def name_of(answer: Any) -> str:
    """The name of an enum's member."""
    return str(answer.name)


class GaveUp(Exception):
    """The journal took nothing for `TRIES` times, or a job was not done in time: the life goes on to its end."""


class Script:
    """What a life asks and is told."""

    def __init__(self, told: Path, wait_s: float = PATIENCE_S) -> None:
        """`wait_s`, of our clock: how long it waits for a job."""
        self.wait_s = wait_s
        self._file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, *words: object) -> None:
        """Say a line."""
        os.write(self._file, json.dumps(words).encode() + b"\n")

    async def verb(self, verb: str, name: str, call: Callable[[], Awaitable[Any]], show: Any = str) -> Any:
        """Ask; when it is unknown or there is no space, again with the same key, as the errors say."""
        self.tell("ask", verb, name)
        for _ in range(TRIES):
            try:
                answer = await asyncio.wait_for(call(), PATIENCE_S)
            except (JournalUnknown, JournalFull) as error:
                self.tell("error", verb, name, type(error).__name__)
                await nap(1.5)
            except JournalUnavailable as error:  # only reading says so, while the scheduler is not FAILED
                self.tell("error", verb, name, type(error).__name__)
                if verb not in ("wait", "look"):
                    raise
                await nap(1.5)
            except WaitTimeout:
                break
            else:
                self.tell("ack", verb, name, show(answer))
                return answer
        raise GaveUp(verb)


def application(
    journal: Path, script: Script, *, patient: bool, durability: Literal["power", "process"] = "power"
) -> Scheduler:
    """The scheduler of a life. `patient`: its long handlers run until they are cancelled."""
    app = Scheduler(f"sqlite:///{journal}", system=System(clock=FastClock()), threads=2, durability=durability)

    def began(name: str) -> None:
        script.tell("start", name, current().attempt)

    @app.task(name="quick")
    async def quick(name: str) -> str:
        began(name)
        return name

    @app.task(name="thread")
    def thread(name: str) -> str:
        began(name)
        return name

    @app.task(name="dies")
    async def dies(name: str) -> None:
        began(name)
        raise Permanent("as it must")

    @app.task(name="again", retry=Retry(max_attempts=3, base_s=0.5, cap_s=1))
    async def again(name: str) -> str:
        began(name)
        if current().attempt == 1:
            raise RuntimeError("once more")
        return name

    @app.task(name="long")
    async def long(name: str) -> str:
        began(name)
        if patient:
            await asyncio.Event().wait()
        return name

    return app


def submit(app: Scheduler, task: str, name: str, delay_s: float = 0.0) -> Callable[[], Awaitable[Any]]:
    """A submission that may be repeated."""
    return lambda: app.options(idempotency_key=name).after(delay_s, task, name)


async def outcome(script: Script, name: str, job: Any) -> None:
    """Wait until it is final."""
    await script.verb("wait", name, lambda: job.wait(timeout_s=SPEED * script.wait_s), lambda job: job.state)


async def start(app: Scheduler, script: Script) -> None:
    """Start; after an error again, since what failed need not fail for ever."""
    script.tell("ask", "start", "")
    for turn in range(TRIES):
        try:
            await asyncio.wait_for(app.start(), PATIENCE_S)
        except JournalError as error:
            script.tell("error", "start", "", type(error).__name__)
            if turn == TRIES - 1:
                raise
        else:
            script.tell("ack", "start", "")
            return


async def full(app: Scheduler, script: Script) -> None:
    """See the module."""
    jobs = {}
    for task, name in (("quick", "first"), ("thread", "second"), ("dies", "third"), ("again", "fourth")):
        jobs[name] = await script.verb("submit", name, submit(app, task, name))
    far = await script.verb("submit", "far", submit(app, "quick", "far", 90_000))
    for name in ("cancelled", "moved"):
        jobs[name] = await script.verb("submit", name, submit(app, "quick", name, 80_000))
    await script.verb("cancel", "cancelled", lambda: jobs["cancelled"].cancel(reason="no"), name_of)
    await script.verb("move", "moved", lambda: jobs["moved"].reschedule(ORIGIN_US / 1e6), name_of)
    jobs["long"] = await script.verb("submit", "long", submit(app, "long", "long"))
    names = [f"many-{number}" for number in range(3)]
    for name in names:
        script.tell("ask", "submit", name)

    def drafts() -> Any:
        return (app.options(idempotency_key=name).new(timedelta(), "quick", name) for name in names)

    for name, job in zip(names, await script.verb("at_many", "many", lambda: app.at_many(drafts())), strict=True):
        script.tell("ack", "submit", name, str(job.id))
        jobs[name] = job
    await script.verb("pause", "side", lambda: app.queue("side").pause())
    await nap(1)
    await script.verb("cancel", "long", lambda: jobs["long"].cancel(reason="enough"), name_of)
    for name, job in jobs.items():
        await outcome(script, name, job)
    await script.verb("look", "far", far.refresh, lambda job: job.state)
    await nap(3)  # idle for two turns of housekeeping: the log is written back and emptied
    jobs["last"] = await script.verb("submit", "last", submit(app, "quick", "last"))
    await outcome(script, "last", jobs["last"])


async def busy(app: Scheduler, script: Script) -> None:
    """So many commits that the log is written back while others are made."""
    for number in range(120):
        job = await script.verb("submit", f"busy-{number}", submit(app, "quick", f"busy-{number}"))
        if number % 10 == 9:
            await outcome(script, f"busy-{number}", job)
        if number % 60 == 59:
            await nap(3)  # idle: the log is emptied


async def recovery(app: Scheduler, script: Script) -> None:
    """See the module: all that was left comes to its end."""
    await all_final(app, script)
    await nap(2.5)


async def all_final(app: Scheduler, script: Script) -> None:
    """Wait until nothing is left but what is far away."""
    for _ in range(int(script.wait_s * 200)):
        try:
            page = await app.jobs(state=["SCHEDULED", "WAITING", "ACTIVE"])
        except JournalUnavailable as error:
            script.tell("error", "look", "", type(error).__name__)
            await nap(1)
            continue
        if not [job for job in page if job.due_at.timestamp() < time_soon()]:
            return
        await asyncio.sleep(0.005)
    raise GaveUp("something is never done")


def time_soon() -> float:
    """Two hours from now, by the fast clock, in seconds."""
    return FastClock().wall_us() / 1e6 + 7200


async def proof_of_life(app: Scheduler, script: Script) -> None:
    """After a fault that passes by: idle for a while, it still lives, and takes and runs a job."""
    await nap(14)
    job = await script.verb("submit", "after", submit(app, "quick", "after"))
    await outcome(script, "after", job)


LIVES = {"full": full, "busy": busy, "recovery": recovery, "migration": recovery}


async def live(
    life: str,
    journal: Path,
    told: Path,
    faulted: Callable[[], bool] = lambda: False,
    *,
    passes: bool = True,
    durability: Literal["power", "process"] = "power",
) -> int:
    """Live it to the end; the exit code that `serve` would have for what it met.

    `faulted`: whether it met a fault; `passes`: that fault does not stay.
    """
    script = Script(told, PATIENCE_S if passes else 3)
    app = application(journal, script, patient=life == "full", durability=durability)
    started = False
    try:
        await start(app, script)
        started = True
        try:
            await LIVES[life](app, script)
            if passes and faulted():
                await proof_of_life(app, script)
        except GaveUp as verb:
            script.tell("gave up", str(verb))
        script.tell("ask", "stop", "")
        await asyncio.wait_for(app.stop(20), PATIENCE_S)
        app.raise_if_failed()
    except (SchedulerFailed, JournalError) as error:
        code = code_of(error, starting=not started)
        script.tell("end", code, type(getattr(error, "cause", error)).__name__, str(error))
        if started:
            await asyncio.wait_for(app.stop(0), PATIENCE_S)
        return code
    script.tell("end", 0)
    return 0


async def leave_a_mess(journal: Path, told: Path) -> None:
    """What recovery finds: jobs that run, wait, are cancelled, were tried before; and then the process is killed."""
    script = Script(told)
    app = application(journal, script, patient=True)
    await app.start()
    for number in range(3):
        await script.verb("submit", f"long-{number}", submit(app, "long", f"long-{number}"))
    for task, name in (("quick", "first"), ("again", "fourth"), ("dies", "third")):
        job = await script.verb("submit", name, submit(app, task, name))
        await outcome(script, name, job)
    await script.verb("submit", "soon", submit(app, "quick", "soon", 6))
    await script.verb("submit", "far", submit(app, "quick", "far", 90_000))
    gone = await script.verb("submit", "gone", submit(app, "quick", "gone", 80_000))
    await script.verb("cancel", "gone", lambda: gone.cancel(reason="no"), name_of)
    os.kill(os.getpid(), signal.SIGKILL)
