"""Checkers of the limits of tasks and keys: their rates in every window, their slots at every instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from timewheel.model import SECOND_US, JobRecord, JobState, job_number
from timewheel.testing.simulation.checkers_starts import PATIENCE_US
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import Began, Ended, LifeRecord, Shaped
from timewheel.testing.simulation.facts_flow import Passed

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

Take = tuple[Passed, int]  # a start, and how many tokens it took


class MeteredStarts(Checker):
    """Starts of a task and of a key in any window, across restarts too."""

    number = "I17"
    sentence = "Starts of a task, and tokens of a key, in any window w never exceed rate*w + burst, across restarts too"

    @classmethod
    def all_over(cls, world: World) -> None:
        """Windows that other limits, or a crash within a slow claim, would excuse are left out."""
        if not world.limits.tasks:
            return
        excused = {record.end for record in world.lives if record.longest_commit_us > PATIENCE_US}
        takes: dict[str, list[Take]] = defaultdict(list)
        reshaped: set[str] = set()
        for place, fact in enumerate(world.log):
            if place in excused:
                takes.clear()
            if isinstance(fact, Shaped):
                reshaped = set() if fact.queue == "*" else {*reshaped, fact.queue}
            if isinstance(fact, Passed) and (job := world.lives[-1].after["jobs"].get(fact.job_id)) is not None:
                for name, rate, tokens in _demands(world, job):
                    if job.queue in reshaped and name.startswith("queue"):
                        takes.pop(name, None)
                        continue
                    takes[name].append((fact, min(tokens, rate["burst"])))
                    cls._window(name, takes[name], rate)

    @classmethod
    def _window(cls, name: str, takes: list[Take], rate: Mapping[str, float]) -> None:
        newest = takes[-1][0]
        recent = takes[:-61:-1]  # one that is longer hides nothing that a shorter one does not show
        for (start, _), tokens in zip(recent, accumulate(each for _, each in recent), strict=True):
            steady_us, elapsed_us = newest.steady_us - start.steady_us, newest.elapsed_us - start.elapsed_us
            window_s = max(steady_us, elapsed_us) / SECOND_US
            allowed = rate["count"] / rate["per_s"] * window_s + rate["burst"]
            cls.demand(tokens <= allowed + 1e-6, f"{tokens} tokens of {name} in {window_s} s", newest, start)


def _demands(world: World, job: JobRecord) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """(name, rate, tokens) of each rate that concerns a start of this job, as the plan declares it."""
    task = world.limits.tasks.get(job.task, {})
    queue = world.plan.limits["queues"].get(job.queue, {})
    if task.get("rate"):
        yield f"task {job.task}", task["rate"], 1
    if job.flow is not None and (key := job.flow.rate_key) is not None:
        for name, limits in ((f"task {job.task}", task), (f"queue {job.queue}", queue)):
            if limits.get("key_rate"):
                yield f"{name} key {key}", limits["key_rate"], job.flow.cost


class SlotsOfTasks(Checker):
    """Handlers of a task at once."""

    number = "I18"
    sentence = "Never do more handlers of a task run than its concurrency lets"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start of this life."""
        running: dict[str, set[str]] = defaultdict(set)
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Began | Ended) and (job := record.after["jobs"].get(job_number(fact.job_id))):
                most = world.limits.tasks.get(job.task, {}).get("concurrency")
                if isinstance(fact, Ended):
                    running[job.task].discard(fact.job_id)
                elif most is not None:
                    running[job.task].add(fact.job_id)
                    here = running[job.task]
                    cls.demand(len(here) <= most, f"{len(here)} of {job.task} run, {most} may", fact, sorted(here))


class Keys(Checker):
    """Of the jobs with one concurrency key so many run at a time as every one of them lets."""

    number = "I18"
    sentence = "Never do more handlers run whose jobs have one concurrency key than each of these jobs lets run"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start of this life; a handler that overran its last attempt holds the key of its job until it ends."""
        running: dict[str, dict[int, JobRecord]] = defaultdict(dict)
        others: dict[str, list[int | None]] = defaultdict(list)
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Shaped):
                others[fact.queue].append(fact.key_concurrency)
            if not isinstance(fact, Began | Ended):
                continue
            number = job_number(fact.job_id) or 0
            job = record.after["jobs"].get(number)
            if job is None or job.concurrency_key is None:
                continue
            held = running[job.concurrency_key]
            if isinstance(fact, Began):
                held[number] = job
                least = min(_most(world, one, others[one.queue]) for one in held.values())  # as the queues are now
                seen = f"{len(held)} run of key {job.concurrency_key}, {least} may"
                cls.demand(len(held) <= least, seen, fact, sorted(held))
            else:
                held.pop(number, None)

    @classmethod
    def all_over(cls, world: World) -> None:
        """In the end nobody waits."""
        for job in world.lives[-1].after["jobs"].values():
            cls.demand(job.state is not JobState.WAITING, "still waits", job)


def _most(world: World, job: JobRecord, others: list[int | None]) -> int:
    """How many of its key a job lets run, by the most that its queue said in this life."""
    task = world.limits.tasks.get(job.task, {}).get("key_concurrency")
    queues = [world.plan.limits["queues"].get(job.queue, {}).get("key_concurrency"), *others]
    return max(min((each for each in (task, queue) if each is not None), default=1) for queue in queues)
