"""A program that embeds a scheduler, uses every verb at once, and says on a pipe what it is about to do and what came.

    python -m tests.crash.embedded work LIFE SEED       until it is killed, or stopped by SIGTERM
    python -m tests.crash.embedded drain LIFE SEED      until nothing is left to be run

One line of JSON an event: an intent before the call, an acknowledgement after it returned. `ENDURANCE=brisk` in the
environment has the journal looked after every few milliseconds, so that kills hit checkpoints too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any

from tests.crash.work import CLIENTS, FAR_S, SIDE, TASKS, moment, scheduler
from timewheel import TimewheelError, engine
from timewheel.errors import PartlyScheduled
from timewheel_storage.sqlite import keeping

KEYS = 40


def say(**event: Any) -> None:
    """Write an event at once; the time is that before the write."""
    os.write(1, f"{json.dumps({'t': moment(), **event})}\n".encode())


class Client:
    """Does one thing after another. Jobs belong to a client by their number, so that no two act on one at once."""

    def __init__(self, life: int, place: int, chance: random.Random) -> None:
        self._life = life
        self._place = place
        self._chance = chance
        self._numbers = count(life * 1_000_000 + place, CLIENTS)
        self._operations = count()
        self._far: list[Any] = []

    async def run(self) -> None:
        """For ever, or until the scheduler refuses."""
        mine = [job async for job in scheduler.jobs(state="SCHEDULED") if job.args[0] % CLIENTS == self._place]
        self._far = mine[:20]
        verbs: list[Callable[[], Awaitable[None]]] = [
            self.submit, self.submit, self.submit_far, self.submit_with_key, self.submit_many, self.cancel, self.move,
        ]  # fmt: skip
        if self._place == 0:
            verbs.append(self.pause)
        while scheduler.state == "RUNNING":
            await self._chance.choice(verbs)()

    async def _do(self, what: str, call: Callable[[], Awaitable[Any]], **facts: Any) -> Any:
        """Say the intent, call, say the answer. None when it was refused."""
        operation = f"{self._life}.{self._place}.{next(self._operations)}"
        say(will=what, op=operation, **facts)
        try:
            answer = await call()
        except PartlyScheduled as partly:
            say(did=what, op=operation, jobs=[[job.args[0], job.id] for job in partly.jobs])
            return None
        except TimewheelError as refused:
            say(refused=type(refused).__name__, op=operation)
            return None
        if isinstance(answer, list):
            say(did=what, op=operation, jobs=[[job.args[0], job.id] for job in answer])
        elif hasattr(answer, "created"):
            say(did=what, op=operation, jobs=[[facts["numbers"][0], answer.id]], created=answer.created)
        else:
            say(did=what, op=operation, answer=str(answer))
        return answer

    def _task(self) -> str:
        return self._chance.choice(list(TASKS))

    async def submit(self) -> None:
        """Soon: by either clock, or now."""
        number, task, delay = next(self._numbers), self._task(), self._chance.uniform(0, 0.2)
        calls = [
            lambda: scheduler.now(task, number),
            lambda: scheduler.after(delay, task, number),
            lambda: scheduler.at(time.time() + delay, task, number),
        ]
        await self._do("submit", self._chance.choice(calls), numbers=[number], task=task)

    async def submit_far(self) -> None:
        """For later than this test."""
        number, task = next(self._numbers), self._task()
        job = await self._do("submit", lambda: scheduler.after(FAR_S, task, number), numbers=[number], task=task)
        if job is not None:
            self._far.append(job)

    async def submit_with_key(self) -> None:
        """The same request again and again, over all lives."""
        number = self._chance.randrange(KEYS) * CLIENTS + self._place
        options = scheduler.options(idempotency_key=f"key-{number}")
        await self._do(
            "submit", lambda: options.after(0.01, "quick", number), numbers=[number], task="quick", key=f"key-{number}"
        )

    async def submit_many(self) -> None:
        """Several in few commits."""
        task = self._task()
        numbers = [next(self._numbers) for _ in range(self._chance.randint(2, 9))]
        delay = timedelta(seconds=self._chance.choice([0.0, 0.05, FAR_S]))
        drafts = [scheduler.new(delay, task, number) for number in numbers]
        await self._do("submit", lambda: scheduler.at_many(drafts), numbers=numbers, task=task)

    async def cancel(self) -> None:
        """One that waits."""
        if self._far:
            job = self._far.pop(self._chance.randrange(len(self._far)))
            await self._do("cancel", lambda: job.cancel(reason="why not"), job=job.id, number=job.args[0])

    async def move(self) -> None:
        """One that waits, to soon or to later."""
        if self._far:
            job = self._far.pop(self._chance.randrange(len(self._far)))
            far = self._chance.random() < 0.5
            delay = timedelta(seconds=2 * FAR_S if far else self._chance.uniform(0, 0.1))
            answer = await self._do("move", lambda: job.reschedule(delay), job=job.id, number=job.args[0], far=far)
            if answer:
                self._far.append(job)

    async def pause(self) -> None:
        """Pause the side queue for a moment."""
        queue = scheduler.queue(SIDE)
        await self._do("pause", queue.pause)
        await asyncio.sleep(self._chance.uniform(0, 0.05))
        await self._do("resume", queue.resume)


async def work(life: int, seed: str) -> None:
    """Use every verb until SIGTERM."""
    signalled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signalled.set)
    say(phase="starting")
    await scheduler.start()
    say(phase="started")
    clients = [
        asyncio.create_task(Client(life, place, random.Random(f"{seed} {life} {place}")).run())
        for place in range(CLIENTS)
    ]
    ended = asyncio.gather(*clients)
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
    if not signalled.is_set():
        await ended
        raise AssertionError(f"the clients ended, the scheduler is {scheduler.state}")
    stopping = asyncio.create_task(scheduler.stop(grace_s=0.3))
    while scheduler.state == "RUNNING":
        await asyncio.sleep(0)
    for _ in range(2):
        await asyncio.sleep(0)  # those that had passed the gate by then take their first step
    say(phase="draining")
    await stopping
    await ended
    say(phase="stopped")


async def drain(life: int) -> None:
    """Bring everything that waits to its end, and stop."""
    say(phase="starting")
    async with scheduler:
        say(phase="started")
        say(will="resume", op=f"{life}.resume")
        await scheduler.queue(SIDE).resume()
        async for job in scheduler.jobs(state="SCHEDULED"):
            say(will="move", op=f"{life}.{job.id}", job=job.id, number=job.args[0], far=False)
            await job.reschedule(timedelta(0))
        while await scheduler.jobs(state=["SCHEDULED", "ACTIVE", "WAITING"]).count():
            await asyncio.sleep(0.02)
    say(phase="stopped")


def main() -> None:
    """See the module."""
    what, life, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if os.environ.get("ENDURANCE") == "brisk":
        engine.HOUSEKEEPING_S = 0.005
        keeping.COMMITS_A_CHECKPOINT = 3
        keeping.WAL_LIMIT_BYTES = 100_000
    asyncio.run(work(life, seed) if what == "work" else drain(life))


if __name__ == "__main__":
    main()
