"""Lives of a real `serve` under HTTP clients, which note what they asked and what was answered."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

from tests.crash.book import Book
from tests.crash.lives import ERRORS, LONG_S, Ended, Moment, draw_moment, environment, is_a
from tests.crash.work import CLIENTS, FAR_S, TASKS, moment

JOBS = "/api/v1/jobs"
KEYS = 40


def serve_life(folder: Path, book: Book, life: int, chance: random.Random) -> Ended:
    """One life, ended at a moment that the chance draws."""
    return asyncio.run(asyncio.wait_for(_Life(folder, book, life, chance).run(), LONG_S))


class _Life:
    """A server, its clients, and the end of it."""

    def __init__(self, folder: Path, book: Book, life: int, chance: random.Random) -> None:
        self.book = book
        self.life = life
        self.chance = chance
        self.url = ""
        self._folder = folder
        self._moment: Moment = draw_moment(chance, longest_s=3.0, events=60)
        self._left = self._moment.nth
        self._ended = Ended(0, when=self._moment.what)
        self._sender: asyncio.Task[None] | None = None

    async def run(self) -> Ended:
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "timewheel", "serve", "--port", "0", "--app", "tests.crash.work:scheduler",
            "--grace", "0.3", cwd=self._folder, env=environment(), stderr=PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            if self._moment.what == "any time":
                self._send_soon()
            self.hear({"phase": "starting"})
            clients = asyncio.create_task(self._use())
            self._ended.code = await process.wait()
            self._ended.killed = self._ended.code == -signal.SIGKILL
            await clients
            if self._sender is not None:
                await self._sender
            return self._ended
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    def hear(self, event: dict[str, Any]) -> None:
        """Note an event of now; it may be the one that the end waits for."""
        self.book.hear({"t": moment(), **event})
        if self._sender is None and is_a(event, self._moment.what):
            self._left -= 1
            if self._left == 0:
                self._send_soon()

    def _send_soon(self) -> None:
        async def send() -> None:
            await asyncio.sleep(self._moment.delay_s)
            if self._process.returncode is not None:
                return
            os.killpg(self._process.pid, self._moment.signal)
            if self._moment.signal == signal.SIGTERM:
                await self._watch_the_drain()

        self._sender = asyncio.create_task(send())

    async def _watch_the_drain(self) -> None:
        with suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session:
                while self._ended.draining is None:
                    async with session.get(f"{self.url}/readyz") as answer:
                        drains = answer.status != 200
                    if drains:  # what had passed the gate by then takes its first step within a turn of the loop
                        async with session.get(f"{self.url}/livez"):
                            self._ended.draining = moment()
        if self._ended.draining is None:  # it has stopped already
            self._ended.draining = moment()

    async def _use(self) -> None:
        assert self._process.stderr is not None
        serving = asyncio.Event()

        async def read() -> None:
            assert self._process.stderr is not None
            with (self._folder / ERRORS).open("ab") as errors:
                async for line in self._process.stderr:
                    errors.write(line)
                    errors.flush()
                    found = re.search(rb"serving (http://\S+)", line)
                    if found is not None:
                        self.url = found[1].decode()
                        serving.set()
            serving.set()

        reading = asyncio.create_task(read())
        await serving.wait()
        if self.url:
            self.hear({"phase": "started"})
            async with aiohttp.ClientSession(self.url) as session:
                await asyncio.gather(*(Client(self, session, place).run() for place in range(CLIENTS)))
        await reading


class Client:
    """Asks one thing after another, until the server is gone or takes nothing any more."""

    def __init__(self, life: _Life, session: aiohttp.ClientSession, place: int) -> None:
        self._life = life
        self._session = session
        self._place = place
        self._chance = random.Random(f"{life.chance.random()} {place}")
        self._numbers = count(life.life * 1_000_000 + place, CLIENTS)
        self._operations = count()
        self._far: list[tuple[int, str]] = []

    async def run(self) -> None:
        """See the class."""
        verbs: list[Callable[[], Coroutine[Any, Any, bool]]] = [
            self._submit, self._submit, self._submit_with_key, self._submit_many, self._cancel, self._move,
        ]  # fmt: skip
        with suppress(aiohttp.ClientError, ConnectionError):
            while await self._chance.choice(verbs)():
                pass

    async def _ask(self, what: str, path: str, body: dict[str, Any], **facts: Any) -> Any:
        """The answer when it is 2xx, else None."""
        operation = f"{self._life.life}.{self._place}.{next(self._operations)}"
        self._life.hear({"will": what, "op": operation, **facts})
        async with self._session.post(path, json=body) as answer:
            found = await answer.json(content_type=None)
            if answer.status >= 300:
                self._life.hear({"refused": answer.status, "op": operation})
                assert answer.status == 503, (answer.status, found)
                return None
        if what != "submit":
            self._life.hear({"did": what, "op": operation, "answer": found["answer"]})
        elif "results" in found:
            pairs = zip(facts["numbers"], found["results"], strict=True)
            made = [[number, each["id"]] for number, each in pairs if each["status"] < 300]
            self._life.hear({"did": what, "op": operation, "jobs": made})
        else:
            self._life.hear({"did": what, "op": operation, "jobs": [[facts["numbers"][0], found["id"]]]})
        return found

    def _job(self, number: int, delay_s: float) -> dict[str, Any]:
        return {"task": self._chance.choice(list(TASKS)), "args": [number], "delay_s": delay_s}

    async def _submit(self) -> bool:
        number, far = next(self._numbers), self._chance.random() < 0.4
        body = self._job(number, FAR_S if far else round(self._chance.uniform(0, 0.2), 3))
        made = await self._ask("submit", JOBS, body, numbers=[number], task=body["task"])
        if far and made is not None:
            self._far.append((number, made["id"]))
        return made is not None

    async def _submit_with_key(self) -> bool:
        number = self._chance.randrange(KEYS) * CLIENTS + self._place
        key = f"key-{number}"
        body = {"task": "quick", "args": [number], "delay_s": 0.01, "idempotency_key": key}
        return await self._ask("submit", JOBS, body, numbers=[number], task="quick", key=key) is not None

    async def _submit_many(self) -> bool:
        numbers = [next(self._numbers) for _ in range(self._chance.randint(2, 9))]
        task, delay_s = self._chance.choice(list(TASKS)), self._chance.choice([0.0, 0.05, FAR_S])
        body = {"jobs": [{"task": task, "args": [number], "delay_s": delay_s} for number in numbers]}
        return await self._ask("submit", f"{JOBS}/batch", body, numbers=numbers, task=task) is not None

    async def _cancel(self) -> bool:
        if not self._far:
            return True
        number, job = self._far.pop(self._chance.randrange(len(self._far)))
        body = {"reason": "why not"}
        return await self._ask("cancel", f"{JOBS}/{job}/cancel", body, job=job, number=number) is not None

    async def _move(self) -> bool:
        if not self._far:
            return True
        number, job = self._far.pop(self._chance.randrange(len(self._far)))
        far = self._chance.random() < 0.5
        body = {"delay_s": 2 * FAR_S if far else round(self._chance.uniform(0, 0.1), 3)}
        found = await self._ask("move", f"{JOBS}/{job}/reschedule", body, job=job, number=number, far=far)
        if found is not None and found["answer"] == "moved":
            self._far.append((number, job))
        return found is not None
