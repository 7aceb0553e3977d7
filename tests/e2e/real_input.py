"""Real input, end to end: a file of HTTP jobs, a target that fails at random, and a server that is killed on the way.

    python -m tests.e2e.real_input --jobs 10000 --kills 3 --fail 0.1 --seed 1

`serve` and `jobs import` run as an operator runs them, in processes of their own; the target lives in this one, and
writes down every request. Kills come at random requests, the first while the file is being imported. What was seen,
by the target and through the commands, is then judged by `faults_of`: a pure function, which has tests of its own.
Ends with 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from tests.e2e.serving import environment

FIRST_KILL_WITHIN = 0.03  # of the requests: a part of the file is not sent yet
SPREAD_S = 2.0  # the jobs are due within this
PAUSE_S = 0.25  # between two looks at the server, unless the target hears something before
ASK_AT_ONCE = 8
OPEN = ("SCHEDULED", "WAITING", "ACTIVE")
Say = Callable[[str], None]


class Plan(NamedTuple):
    """What to do."""

    jobs: int
    kills: int = 0
    fail: float = 0.1
    seed: int = 1
    deadline_s: float = 600.0

    def moments(self) -> list[int]:
        """At which requests the server is killed."""
        chance = random.Random(f"kills {self.seed}")
        early = max(1, int(self.jobs * FIRST_KILL_WITHIN))
        later = chance.sample(range(early + 1, self.jobs), max(0, self.kills - 1))
        return [chance.randint(1, early), *sorted(later)][: self.kills]

    def lines(self, url: str) -> bytes:
        """The file."""
        chance = random.Random(f"delays {self.seed}")
        jobs = (
            {
                "task": "http.request",
                "kwargs": {"url": url, "json": {"line": line}},
                "retry": 10,
                "delay_s": round(chance.uniform(0, SPREAD_S), 3),
            }
            for line in range(1, self.jobs + 1)
        )
        return "".join(json.dumps(job) + "\n" for job in jobs).encode()


class Hit(NamedTuple):
    """A request that the target answered."""

    at_s: float
    key: str
    line: int
    status: int


class Target:
    """Answers 500 to some requests, 200 to the others, and remembers all."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self._plan = plan
        self._say = say
        self._chance = random.Random(f"answers {plan.seed}")
        self._awaited: list[tuple[Callable[[], bool], asyncio.Event]] = []
        self._runner: web.AppRunner | None = None
        self.hits: list[Hit] = []
        self.good: set[str] = set()

    async def __aenter__(self) -> Target:
        app = web.Application()
        app.router.add_post("/", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}/"

    async def until(self, reached: Callable[[], bool]) -> None:
        """Return as soon as a request has made this true."""
        if not reached():
            event = asyncio.Event()
            self._awaited.append((reached, event))
            await event.wait()

    async def _answer(self, request: web.Request) -> web.Response:
        line = (await request.json())["line"]
        key = request.headers["Idempotency-Key"]
        status = 500 if self._chance.random() < self._plan.fail else 200
        self.hits.append(Hit(time.monotonic(), key, line, status))
        if status == 200 and key not in self.good:
            self.good.add(key)
            if len(self.good) % max(1, self._plan.jobs // 10) == 0:
                self._say(f"{len(self.good):,} jobs have succeeded, {len(self.hits):,} requests")
        for reached, event in self._awaited:
            if reached():
                event.set()
        self._awaited = [(reached, event) for reached, event in self._awaited if not event.is_set()]
        return web.Response(status=status)


class Server:
    """`timewheel serve` in a process group of its own, on one port and one journal through all its lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self.lines: deque[str] = deque(maxlen=200)
        self.url = ""

    async def start(self) -> None:
        """Start it. Returns when it serves; raises when it ends before."""
        port = self.url.rpartition(":")[2] or "0"
        self._up.clear()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "timewheel", "serve", "--db", "jobs.db", "--port", port, "--allow-http", "127.0.0.1",
            cwd=self._folder, env=environment(), start_new_session=True, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE,
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read(self._process))
        up = asyncio.create_task(self._up.wait())
        await asyncio.wait([up, self._reading], return_when=asyncio.FIRST_COMPLETED)
        if not up.done():
            up.cancel()
            raise AssertionError(self.story("the server did not start"))

    async def _read(self, process: Process) -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            line = raw.decode().rstrip()
            self.lines.append(line)
            _, found, address = line.partition("timewheel.serve serving ")
            if found:
                self.url = address.split()[0]
            elif "timewheel.serve tasks:" in line:
                self._up.set()

    async def signal(self, number: int) -> int:
        """Send a signal to all of it, and wait for its exit code."""
        assert self._process is not None
        assert self._reading is not None
        with suppress(ProcessLookupError):  # it has ended already: its exit code says how
            os.killpg(self._process.pid, number)
        await self._reading
        return await self._process.wait()

    async def ended(self) -> None:
        """Return when it has ended."""
        assert self._process is not None
        await self._process.wait()

    def story(self, what: str) -> str:
        """What happened, with what the server said last."""
        return "\n".join([what, *self.lines])

    async def close(self) -> None:
        """See that nothing is left of it."""
        if self._process is not None and self._process.returncode is None:
            await self.signal(signal.SIGKILL)


class Done(NamedTuple):
    """What a command did."""

    code: int
    documents: list[Any]
    said: str


NOTHING = Done(-1, [], "")


@dataclass
class Kill:
    """One SIGKILL, and how long after it the server served again, and called the target again."""

    at_s: float
    ended_at_s: float
    code: int
    serving_s: float = 0.0
    working_s: float = 0.0


@dataclass
class Evidence:
    """All that was seen."""

    plan: Plan
    sha256: str = ""
    hits: list[Hit] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    imported: Done = NOTHING
    again: Done = NOTHING
    listed: Done = NOTHING
    verified: Done = NOTHING
    attempts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by job; of jobs with more than one
    stopped: int = -1
    last_line: str = ""
    started_at_s: float = 0.0
    import_s: float = 0.0

    def met_import(self, kill: Kill) -> bool:
        """Whether the import had to live through this kill."""
        return kill.at_s + kill.serving_s < self.started_at_s + self.import_s

    def states(self) -> Counter[str]:
        """How many attempts ended how, first ones that were the only ones left out."""
        return Counter(attempt["state"] for attempts in self.attempts.values() for attempt in attempts)


class Scenario:
    """One run of a plan."""

    def __init__(self, plan: Plan, folder: Path, target: Target, say: Say) -> None:
        self._plan = plan
        self._folder = folder
        self._target = target
        self._say = say
        self.server = Server(folder)
        self._file = folder / "jobs.jsonl"
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the import, for good
        self.seen = Evidence(plan)

    async def run(self) -> None:
        """All of it."""
        content = self._plan.lines(self._target.url)
        self._file.write_bytes(content)
        self.seen.sha256 = hashlib.sha256(content).hexdigest()
        try:
            await self.server.start()
            self._say(f"serving at {self.server.url}, importing {self._plan.jobs:,} jobs")
            await self._import_and_kill()
            self.seen.again = await self._command("jobs", "import", self._file.name, "--json")
            self.seen.listed = await self._command("jobs", "list", "--limit", "0", "--json")
            self._say("reading the attempts")
            await self._read_attempts()
            self.seen.stopped = await self.server.signal(signal.SIGTERM)
            self.seen.last_line = self.server.lines[-1]
            self.seen.verified = await self._command("verify", "--db", "jobs.db", "--json")
        finally:
            await self.server.close()
            self.seen.hits = self._target.hits

    async def _import_and_kill(self) -> None:
        self.seen.started_at_s = time.monotonic()
        importing = asyncio.create_task(self._import())
        try:
            for moment in self._plan.moments():
                await self._requests(moment)
                await self._kill()
            await self._until(lambda: len(self._target.good) >= self._plan.jobs)
            await importing
            await self._all_final()
        finally:
            importing.cancel()
            await asyncio.gather(importing, return_exceptions=True)

    async def _import(self) -> None:
        done = await self._command("jobs", "import", self._file.name, "--json")
        self.seen.import_s = time.monotonic() - self.seen.started_at_s
        self.seen.imported = done
        if done.code != 0:
            self._failed.set_exception(AssertionError(f"the import ended with {done.code}: {done}"))
        self._say(f"imported in {self.seen.import_s:.1f} s")

    async def _requests(self, number: int) -> None:
        await self._until(lambda: len(self._target.hits) >= number)

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Wait until the target has seen something; raise when the server ends before, or the import fails."""
        waiting = asyncio.create_task(self._target.until(reached))
        ending = asyncio.create_task(self.server.ended())
        try:
            await asyncio.wait([waiting, ending, self._failed], return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            if not waiting.done():
                raise AssertionError(self.server.story("the server ended by itself"))
        finally:
            waiting.cancel()
            ending.cancel()

    async def _kill(self) -> None:
        at_s = time.monotonic()
        code = await self.server.signal(signal.SIGKILL)
        ended_at_s = time.monotonic()
        number = len(self._target.hits)
        await self.server.start()
        serving_s = time.monotonic() - at_s
        self.seen.kills.append(Kill(at_s, ended_at_s, code, serving_s, serving_s))
        self._say(f"killed at request {number:,}; served again after {serving_s:.2f} s")
        await self._requests(number + 1)
        self.seen.kills[-1].working_s = time.monotonic() - at_s

    async def _all_final(self) -> None:
        """Wait until the server says that no job is open."""
        async with aiohttp.ClientSession() as session:
            query = [("page_size", "1"), *(("state", state) for state in OPEN)]
            while True:
                async with session.get(f"{self.server.url}/api/v1/jobs", params=query) as answer:
                    page = await answer.json()
                    assert answer.status == 200, page
                if not page["items"] and page["next_page_token"] is None:
                    return
                with suppress(TimeoutError):  # then look again
                    await asyncio.wait_for(self._requests(len(self._target.hits) + 1), PAUSE_S)

    async def _read_attempts(self) -> None:
        """Through the API, those of every job that has more than one."""
        jobs = iter([job for job in self.seen.listed.documents if job["attempt"] > 1])

        async def read_some(session: aiohttp.ClientSession) -> None:
            for job in jobs:  # shared: each worker takes the next one
                async with session.get(f"{self.server.url}/api/v1/jobs/{job['id']}/attempts") as answer:
                    self.seen.attempts[job["id"]] = (await answer.json())["items"]

        async with aiohttp.ClientSession(raise_for_status=True) as session:
            await asyncio.gather(*(read_some(session) for _ in range(ASK_AT_ONCE)))

    async def _command(self, *arguments: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "timewheel", *arguments, cwd=self._folder,
            env=environment(TIMEWHEEL_URL=self.server.url), stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        try:
            out, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Done(process.returncode, [json.loads(line) for line in out.splitlines()], said.decode())


async def play(plan: Plan, folder: Path, say: Say) -> Evidence:
    """Play a plan in an empty folder. Raises AssertionError when it cannot be brought to its end."""
    async with Target(plan, say) as target:
        scenario = Scenario(plan, folder, target, say)
        try:
            async with asyncio.timeout(plan.deadline_s):
                await scenario.run()
        except TimeoutError:
            raise AssertionError(scenario.server.story(f"no end within {plan.deadline_s:g} s")) from None
        return scenario.seen


def faults_of(seen: Evidence) -> list[str]:
    """Everything that does not hold."""
    return [*_faults_of_commands(seen), *_faults_of_jobs(seen), *_faults_of_requests(seen)]


def _faults_of_commands(seen: Evidence) -> list[str]:
    jobs = seen.plan.jobs
    found = [f"a killed server ended with {kill.code}" for kill in seen.kills if kill.code != -signal.SIGKILL]
    if len(seen.kills) != seen.plan.kills:
        found.append(f"{len(seen.kills)} kills instead of {seen.plan.kills}")
    for name, done in (("import", seen.imported), ("second import", seen.again)):
        summary = done.documents[0] if len(done.documents) == 1 else {}
        sent = summary.get("created", 0) + summary.get("existed", 0)
        if (done.code, sent, summary.get("refused"), summary.get("left")) != (0, jobs, [], 0):
            found.append(f"the {name} ended with {done.code}: {summary} {done.said}")
        if name == "second import" and summary.get("created") != 0:
            found.append(f"the second import created {summary.get('created')} jobs")
        if name == "import" and not seen.kills and summary.get("existed") != 0:
            found.append(f"the import found {summary.get('existed')} jobs in an empty journal")
    if seen.listed.code != 0:
        found.append(f"the list ended with {seen.listed.code}: {seen.listed.said}")
    if seen.stopped != 0 or "every outcome is durable" not in seen.last_line:
        found.append(f"after SIGTERM the server ended with {seen.stopped}, saying {seen.last_line!r}")
    findings = seen.verified.documents[0].get("findings") if seen.verified.documents else None
    if seen.verified.code != 0 or findings != []:
        found.append(f"verify ended with {seen.verified.code}: {findings} {seen.verified.said}")
    return found


def _faults_of_jobs(seen: Evidence) -> list[str]:
    expected = {f"import:{seen.sha256}:{line}" for line in range(1, seen.plan.jobs + 1)}
    keys = Counter(job["idempotency_key"] for job in seen.listed.documents)
    found = [f"lost: {key}" for key in sorted(expected - keys.keys())]
    found += [f"came from nowhere: {key}" for key in sorted(keys.keys() - expected)]
    found += [f"{count} jobs have the key {key}" for key, count in keys.items() if count > 1]
    for job in seen.listed.documents:
        key = job["idempotency_key"]
        if job["state"] != "COMPLETED":
            found.append(f"{key} is {job['state']}: {job['reason']} {job['error']}")
        if job["attempt"] > 1:
            attempts = seen.attempts.get(job["id"], [])
            found += [f"{key}: {fault}" for fault in _faults_of_attempts(attempts, job["attempt"])]
    return found


def _faults_of_attempts(attempts: list[dict[str, Any]], count: int) -> list[str]:
    found = []
    numbers = [attempt["number"] for attempt in attempts]
    if numbers != list(range(1, count + 1)):
        found.append(f"attempts are numbered {numbers}, and the job says {count}")
    states = [attempt["state"] for attempt in attempts]
    if states[-1:] != ["SUCCEEDED"] or not set(states[:-1]) <= {"FAILED_RETRYABLE", "LOST", "RELEASED"}:
        found.append(f"attempts ended {states}")
    strange = [attempt["error"] for attempt in attempts if attempt["state"] == "FAILED_RETRYABLE"]
    found += [f"an attempt failed by {error!r}" for error in strange if "answered 500" not in (error or "")]
    return found


def _faults_of_requests(seen: Evidence) -> list[str]:
    hits: dict[str, list[Hit]] = {}
    for hit in seen.hits:
        hits.setdefault(hit.key, []).append(hit)
    found = []
    for job in seen.listed.documents:
        states = Counter(attempt["state"] for attempt in seen.attempts.get(job["id"], [{"state": "SUCCEEDED"}]))
        line = int(job["idempotency_key"].rpartition(":")[2])
        faults = _faults_of_key(hits.pop(job["id"], []), line, states, seen.kills)
        found += [f"{job['id']} of line {line}: {fault}" for fault in faults]
    return [*found, *(f"the target saw a key that is no job's: {key}" for key in hits)]


def _faults_of_key(hits: list[Hit], line: int, states: Counter[str], kills: list[Kill]) -> list[str]:
    """The requests of a job against its attempts: a further one only where an attempt was LOST to a kill."""
    lost, failed = states["LOST"], states["FAILED_RETRYABLE"]
    good = sum(hit.status == 200 for hit in hits)
    bad = len(hits) - good
    found = []
    if not 1 <= good <= 1 + lost:
        found.append(f"answered 200 {good} times, with {lost} attempts LOST")
    if not failed <= bad <= failed + lost or len(hits) > 1 + failed + lost:
        found.append(f"{good} good and {bad} bad answers, for {dict(states)}")
    if lost > len(kills):
        found.append(f"{lost} attempts LOST by {len(kills)} kills")
    if any(hit.line != line for hit in hits):
        found.append(f"came with the arguments of lines {sorted({hit.line for hit in hits})}")
    for former, later in pairwise(hits):
        if former.status == 200 and not any(former.at_s <= kill.ended_at_s <= later.at_s for kill in kills):
            found.append("repeated after it had succeeded, with no kill in between")
    return found


def report(seen: Evidence) -> str:
    """The figures."""
    good = [hit for hit in seen.hits if hit.status == 200]
    states = seen.states()
    summary = seen.imported.documents[0] if seen.imported.documents else {}
    repeated = sum(count > 1 for count in Counter(hit.key for hit in good).values())
    jobs_lost = sum(any(one["state"] == "LOST" for one in attempts) for attempts in seen.attempts.values())
    lines = [
        f"plan          {seen.plan}",
        f"import        {seen.import_s:.1f} s, {seen.plan.jobs / max(seen.import_s, 1e-9):,.0f} jobs/s "
        f"({summary.get('created')} created, {summary.get('existed')} already there)",
        f"run           {_pace(good)}",
        f"requests      {len(seen.hits):,}, of them {len(seen.hits) - len(good):,} answered 500",
        f"retries       {len(seen.attempts):,} jobs with more than one attempt, at most "
        f"{max(map(len, seen.attempts.values()), default=1)}",
        f"attempts      {states['FAILED_RETRYABLE']:,} FAILED_RETRYABLE, "
        f"{states['LOST']:,} LOST (of {jobs_lost:,} jobs), {states['RELEASED']:,} RELEASED",
        f"duplicates    {repeated:,} jobs answered 200 more than once",
    ]
    for kill in seen.kills:
        met = ", while importing" if seen.met_import(kill) else ""
        lines.append(
            f"kill          at {kill.at_s - seen.started_at_s:.1f} s{met}: served again after {kill.serving_s:.2f} s, "
            f"the first request after {kill.working_s:.2f} s"
        )
    return "\n".join(lines)


def _pace(good: list[Hit]) -> str:
    """How fast jobs succeeded; without the last tenth, which waits for its back-off."""
    first: dict[str, float] = {}
    for hit in good:
        first.setdefault(hit.key, hit.at_s)
    instants = sorted(first.values())
    if len(instants) < 2:
        return "too little to tell"
    most = len(instants) * 9 // 10
    took_s = max(instants[most] - instants[0], 1e-9)
    return f"90 % in {took_s:.1f} s, {most / took_s:,.0f} jobs/s; the last after {instants[-1] - instants[0]:.1f} s"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.real_input", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--fail", type=float, default=0.1, help="share of requests that are answered 500")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=900.0, metavar="S")
    return parser.parse_args()


def main() -> int:
    """Play one plan, show progress on stderr and the report on stdout."""
    options = _options()
    plan = Plan(options.jobs, options.kills, options.fail, options.seed, options.deadline)
    began_s = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")

    with tempfile.TemporaryDirectory(prefix="timewheel-") as folder:
        seen = asyncio.run(play(plan, Path(folder), say))
    faults = faults_of(seen)
    shown = "\n".join(faults[:50]) if faults else "everything holds"
    sys.stdout.write(f"{report(seen)}\n{len(faults) or 'no'} faults\n{shown}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
