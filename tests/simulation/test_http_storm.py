"""A storm against one HTTP target, which counts what reaches it: down for a minute, then 429 for another, then well.

The bounds that are held, for a task with `Rate(r, burst=b)` of a dependency with its breaker as by default (5 failures,
open for 30 s, one probe) and a retry budget, at a concurrency of c:

- always: in any window of w seconds at most r * w + b requests reach it, over a restart in the middle of it too;
- while it fails: at most c + 5 requests until the breaker opens, then one in 30 s, a probe;
- while it answers 429 with Retry-After: one request for each Retry-After;
- in any window of the budget at most share * starts + at_least are retries;
- in all at most one request a job, and one more for each that failed.

    HYPOTHESIS_PROFILE=deep python -m pytest tests/simulation/test_http_storm.py -m slow      20,000 jobs; minutes
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from email.utils import format_datetime
from itertools import pairwise

import httpx
import pytest
from helpers import STORES, SlowStore, Stage

from tests.marks import DEEP
from timewheel import Dependency, Rate, Retry, RetryBudget
from timewheel.dispatch.breaker import BreakerState
from timewheel.events import BreakerChanged
from timewheel.model import JobState
from timewheel.testing.invariants import check_dump
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

RATE = Rate(50, burst=10)
BUDGET = RetryBudget(share=0.02, window_s=20, at_least=2)
RETRY = Retry(max_attempts=20, base_s=1, cap_s=60)
CONCURRENCY = 20
FAILURES = 5  # that open a breaker, as by default
FAILS_S, THROTTLES_S, RETRY_AFTER_S = 60, 60, 12
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


class Server:
    """An HTTP server that answers after 50 ms; `arrivals`: seconds since it began at which requests reached it."""

    def __init__(self, machine):
        self.machine = machine
        self.began = machine.awake_us
        self.arrivals = []
        self.answers = Counter()
        self.failed = set()  # the numbers of the jobs that were answered otherwise than 200

    def elapsed_s(self):
        return (self.machine.awake_us - self.began) / 1e6

    async def answer(self, request):
        self.arrivals.append(self.elapsed_s())
        await asyncio.sleep(0.05)  # virtual
        reply = self._reply(len(self.arrivals))
        self.answers[reply.status_code] += 1
        if reply.is_error:
            self.failed.add(int(request.content))
        return reply

    def _reply(self, number):
        at = self.elapsed_s()
        if at < FAILS_S:
            return httpx.Response(503)
        if at < FAILS_S + THROTTLES_S:
            date = self.machine.now()
            after = format_datetime(date + timedelta(seconds=RETRY_AFTER_S), usegmt=True) if number % 2 else "12"
            return httpx.Response(429, headers={"Retry-After": after, "Date": format_datetime(date, usegmt=True)})
        return httpx.Response(200)

    def within(self, since_s, until_s):
        """How many requests reached it then."""
        return sum(since_s <= at < until_s for at in self.arrivals)


class Storm(Stage):
    """A stage whose task `call(number)` asks the server and raises what httpx raises. `task`: more options of it."""

    def __init__(self, store=None, *, seed=1, task=None, dependency=None, **options):
        guarded = Dependency(retry_budget=BUDGET) if dependency is None else dependency
        super().__init__(
            VirtualMachine(seed=seed, shuffle=True),
            SlowStore(store or MemoryStore(), seed, commit_s=0.01),
            concurrency=CONCURRENCY,
            dependencies={"target": guarded},
            **options,
        )
        self.server = Server(self.machine)
        self.task = {"rate": RATE, **(task or {})}
        self.starts = []  # (seconds, whether it had failed before), a list a life

    async def call(self, number):
        self.starts[-1].append((self.server.elapsed_s(), number in self.server.failed))
        answer = await self.client.post("http://target/", json=number)
        answer.raise_for_status()

    def scheduler(self):
        scheduler = super().scheduler()
        self.client = httpx.AsyncClient(transport=httpx.MockTransport(self.server.answer), trust_env=False)
        scheduler.task(name="call", dependency="target", retry=RETRY, **self.task)(self.call)
        self.starts.append([])
        return scheduler

    async def submit(self, scheduler, jobs):
        await scheduler.at_many(scheduler.new(timedelta(0), "call", number) for number in range(jobs))

    def jobs(self):
        return self.dump()["jobs"].values()


def most_too_many(arrivals, rate):
    """By how much the worst window has more arrivals than rate * w + burst allows; 0 or less: none has.

    For a window that begins with one arrival and ends with another, both counted: of those all others are parts.
    """
    worst, least = -rate.burst, None
    for place, at in enumerate(arrivals):
        spent = place - at * rate.count / rate.per_s
        least = spent if least is None else min(least, spent)
        worst = max(worst, spent - least + 1 - rate.burst)
    return worst


def retries_too_many(starts, budget):
    """As `most_too_many`, of the law of a retry budget: windows that end with the start of a retry."""
    worst, first, retries = -budget.at_least, 0, 0
    ordered = sorted(starts)
    for place, (at, again) in enumerate(ordered):
        retries += again
        while ordered[first][0] < at - budget.window_s:
            retries -= ordered[first][1]
            first += 1
        if again:
            same = sum(start == (at, True) for start in ordered[first:place])  # which came first is not known here
            worst = max(worst, retries - same - budget.share * (place + 1 - first) - budget.at_least)
    return worst


def check_bounds(storm, jobs, lost=0):
    """What the module says; `lost`: attempts that a crash cut off."""
    server, arrivals = storm.server, storm.server.arrivals
    assert arrivals == sorted(arrivals)
    assert most_too_many(arrivals, RATE) < 1e-3
    opened = server.within(0, 5)
    assert FAILURES <= opened <= CONCURRENCY + FAILURES
    assert server.within(5, FAILS_S) <= FAILS_S // 30
    throttled = server.answers[429]
    assert 1 <= throttled <= THROTTLES_S // RETRY_AFTER_S + 1
    for starts in storm.starts:
        assert retries_too_many(starts, BUDGET) < 1e-6
    assert server.answers[200] >= jobs
    assert len(arrivals) <= jobs + server.answers[503] + throttled + lost


def check_ends(storm, jobs):
    """All completed, nothing is dead, and what failed says what it failed of."""
    assert Counter(job.state for job in storm.jobs()) == {JobState.COMPLETED: jobs}
    check_dump(storm.dump())
    kinds = Counter(attempt.error_kind for attempt in storm.dump()["attempts"].values() if attempt.error_kind)
    assert {*kinds} - {"Lost"} == {"httpx.HTTPStatusError"}, "Lost: a process died"


def check_history(history, storm):
    """Newest first: it opened as the target failed, opened again with each probe that failed, and closed in the end."""
    events = history[::-1]
    assert [event.before for event in events] == [CLOSED, *(event.after for event in events[:-1])]
    assert (events[0].after, events[-1].after) == (OPEN, CLOSED)
    assert "attempts failed" in events[0].reason
    assert any("a probe failed" in event.reason for event in events)
    throttled = [event for event in events if event.reason == "it was throttled"]
    assert 1 <= len(throttled) <= storm.server.answers[429]
    assert {event.after for event in throttled} == {OPEN}
    for event in throttled:  # the header speaks in whole seconds
        assert RETRY_AFTER_S - 1.1 <= (event.open_until - event.at).total_seconds() <= RETRY_AFTER_S + 0.1
    for now, following in pairwise(events):
        if now.after is OPEN and following.after is HALF_OPEN:
            assert following.at >= now.open_until - timedelta(milliseconds=1), "nobody tries before its time is over"


def entries(storm):
    """What the journal keeps of breakers: for whoever asks when it is over."""
    return storm.machine.run(storm.store.entries_of("breaker", limit=1_000))


def storm_of(jobs, storm):
    """One life, in which all of it happens."""

    async def scene(scheduler):
        await storm.submit(scheduler, jobs)
        await storm.machine.sleep(FAILS_S + 30)
        state = scheduler.dependency("target").state()
        assert state.breaker in (OPEN, HALF_OPEN)
        assert state.waiting > jobs * 0.9, "they wait, visibly"
        for _ in range(200):
            await storm.machine.sleep(10)
            if await scheduler.jobs(state="COMPLETED").count() == jobs:
                break
        assert scheduler.dependency("target").state().breaker is CLOSED
        assert scheduler.dependency("target").state().waiting == 0
        return await scheduler.dependency("target").history()

    history = storm.play(scene)
    check_bounds(storm, jobs)
    check_ends(storm, jobs)
    check_history(history, storm)
    assert len(storm.noticed(BreakerChanged)) == len(history) == len(entries(storm))


def test_a_storm_of_2_000_jobs_keeps_its_bounds_and_all_complete():
    storm_of(2_000, Storm())


@pytest.mark.slow
@pytest.mark.parametrize(("store", "jobs"), [("sqlite", 2_000), pytest.param("memory", 20_000, marks=DEEP)])
def test_a_larger_storm_keeps_its_bounds_and_all_complete(store, jobs):
    storm_of(jobs, Storm(STORES[store](), seed=2))


def test_the_bounds_hold_over_crashes_in_the_middle_of_it():
    """Killed while the target fails, while it answers 429, and while the jobs run again: nothing is lost."""
    storm = Storm(seed=5)
    jobs = 500

    async def begin(scheduler):
        await storm.submit(scheduler, jobs)
        await storm.machine.sleep(FAILS_S / 2 + 1)

    async def go_on(scheduler):
        await storm.machine.sleep(60 - storm.server.elapsed_s() % 60 + 7)

    async def end(scheduler):
        await storm.machine.sleep(300)
        return await scheduler.dependency("target").history()

    storm.play(begin, crash_after=True)
    storm.play(go_on, crash_after=True)
    storm.play(go_on, crash_after=True)
    assert 0 < storm.server.answers[200] < jobs, "in the middle of it"
    history = storm.play(end)
    lost = len(storm.server.arrivals) - storm.server.answers.total()
    assert 0 < lost <= 3 * CONCURRENCY
    check_bounds(storm, jobs - lost, 2 * lost)
    check_ends(storm, jobs)
    assert (history[-1].after, history[0].after) == (OPEN, CLOSED)
    assert [one.after for one in history[1:]] == [one.before for one in history[:-1]], "as if it had never died"


@pytest.mark.parametrize(
    ("without", "for_s", "broken"),
    [
        ({"task": {"rate": None}}, 150, lambda storm: most_too_many(storm.server.arrivals, RATE) > 10),
        (
            {"dependency": Dependency(breaker=None, retry_budget=BUDGET)},
            30,
            lambda storm: storm.server.within(0, 5) > CONCURRENCY + FAILURES,
        ),
        (
            {"dependency": Dependency(breaker=None)},
            30,
            lambda storm: retries_too_many(storm.starts[0], BUDGET) > 10,
        ),
    ],
    ids=["rate", "breaker", "budget"],
)
def test_without_one_of_them_its_bound_does_not_hold(without, for_s, broken):
    """The audits above can fail: each protection alone is what keeps its bound."""
    storm = Storm(**without)

    async def scene(scheduler):
        await storm.submit(scheduler, 300)
        await storm.machine.sleep(for_s)

    storm.play(scene, crash_after=True)
    assert broken(storm)
