"""Many seeds on many processes, and what came of them all."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from timewheel.testing.simulation.running import Outcome, Violation, run_seed

CHUNK = 8  # seeds that a process is given at once
LEASE = 60  # chunks after which a process is replaced: what its crashes left behind goes with it
Task = tuple[str, list[int]]


@dataclass(slots=True)
class Tally:
    """The sums over many seeds. Times in seconds: `virtual_s` of the simulated machines, `took_s` of ours."""

    seeds: int = 0
    lives: int = 0
    jobs: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more seed on one store."""
        self.seeds += 1
        self.lives += outcome.lives
        self.jobs += outcome.jobs
        self.attempts += outcome.attempts
        self.virtual_s += outcome.virtual_s
        self.counts.update(outcome.counts)
        if outcome.violation is not None:
            self.violations.append(outcome.violation)

    def faults(self) -> dict[str, int]:
        """How many faults of each kind were injected."""
        begin = "fault: "
        found = {name.removeprefix(begin): count for name, count in self.counts.items() if name.startswith(begin)}
        return dict(sorted(found.items()))

    def report(self) -> dict[str, Any]:
        """For a report: what any method of proof tells of itself first, then the simulation's own numbers."""
        faults = self.faults()
        return {
            "method": "simulation",
            "cases": self.lives,
            "faults": sum(faults.values()),
            "violations": len(self.violations),
            "seeds": self.seeds,
            "seconds": round(self.took_s, 1),
            "virtual_seconds": round(self.virtual_s),
            "jobs": self.jobs,
            "attempts": self.attempts,
            "commits": self.counts["commits"],
            "faults_by_kind": faults,
            "counts": dict(sorted(self.counts.items())),
            "found": [
                {"seed": each.seed, "store": each.store, "invariant": each.invariant, "message": each.message}
                for each in self.violations
            ],
        }


def run_campaign(
    seeds: Sequence[int],
    stores: Sequence[str],
    *,
    jobs: int,
    progress: Callable[[Tally], None] = lambda tally: None,
    found: Callable[[Violation], None] = lambda violation: None,
    most_violations: int = 10,
) -> Tally:
    """Run every seed on every store, on `jobs` processes; stops early after so many violations."""
    tally = Tally()
    began = time.monotonic()
    for outcomes in _outcomes(seeds, stores, jobs):
        for outcome in outcomes:
            tally.add(outcome)
            if outcome.violation is not None:
                found(outcome.violation)
        tally.took_s = time.monotonic() - began
        progress(tally)
        if len(tally.violations) >= most_violations:
            break
    return tally


def _tasks(seeds: Sequence[int], stores: Sequence[str]) -> Iterator[Task]:
    for begin in range(0, len(seeds), CHUNK):
        for store in stores:
            yield store, list(seeds[begin : begin + CHUNK])


def _outcomes(seeds: Sequence[int], stores: Sequence[str], jobs: int) -> Iterator[list[Outcome]]:
    tasks = _tasks(seeds, stores)
    if jobs == 1:
        yield from map(_run, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=LEASE) as pool:
        waiting: set[Future[list[Outcome]]] = {pool.submit(_run, task) for task in islice(tasks, jobs * 3)}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= {pool.submit(_run, task) for task in islice(tasks, len(done))}
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _run(task: Task) -> list[Outcome]:
    store, seeds = task
    return [run_seed(seed, store) for seed in seeds]
