"""Runs seeds and plans: one, or one after the other until one fails."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

from timewheel.testing import virtual
from timewheel.testing.invariants import Violated
from timewheel.testing.simulation import (  # noqa: F401  they register themselves
    checkers_breakers,
    checkers_ends,
    checkers_flow,
    checkers_heartbeats,
    checkers_journal,
    checkers_laws,
    checkers_ledger,
    checkers_letters,
    checkers_misfire,
    checkers_numbers,
    checkers_overlap,
    checkers_rivals,
    checkers_standing,
    checkers_starts,
    checkers_time,
)
from timewheel.testing.simulation.checking import check_all, check_life
from timewheel.testing.simulation.drawing import draw_plan
from timewheel.testing.simulation.living import lead_life
from timewheel.testing.simulation.plan import Life, Plan
from timewheel.testing.simulation.stores import discard
from timewheel.testing.simulation.world import EMPTY, Silence, World

PEACE = Life(length_s=0.1, end="stop", grace_s=30)


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold: its number, what was seen, in which plan."""

    invariant: str
    message: str
    seed: int
    store: str
    plan: Plan

    def command(self) -> str:
        """What replays it."""
        return f"python -m timewheel.testing.simulation --seeds {self.seed} --store {self.store}"

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.store}: {self.message}\nreplay: {self.command()}"


@dataclass(slots=True)
class Outcome:
    """What came of one seed. `counts` says how often what was done; `trace` is equal for equal runs."""

    seed: int
    store: str
    lives: int
    virtual_s: float
    jobs: int
    attempts: int
    trace: str
    counts: Counter[str] = field(default_factory=Counter)
    violation: Violation | None = None

    @property
    def faults(self) -> int:
        """How many faults were injected."""
        return sum(count for name, count in self.counts.items() if name.startswith("fault: "))


def run_seed(seed: int, store: str = "memory", *, teller: Callable[[str], None] | None = None) -> Outcome:
    """Draw the plan of a seed and play it on a store, "memory" or "sqlite". Never raises for what the seed finds."""
    return run_plan(draw_plan(seed, store), teller=teller)


def run_plan(plan: Plan, *, teller: Callable[[str], None] | None = None) -> Outcome:
    """Play a plan: its lives one after the other, then one in peace, each looked at by every checker."""
    world = World(plan, teller)
    with Silence():
        violated = _play(world)
        outcome = _outcome(world, violated)
        discard(world.journal.inner)
        _bury()
    return outcome


def first_failure(
    seeds: Iterable[int],
    store: str = "memory",
    *,
    patch: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Violation | None:
    """The first violation that these seeds find, or None. `patch()` is entered meanwhile: a bug planted on purpose.

    >>> first_failure(range(3)) is None
    True
    """
    with patch():
        for seed in seeds:
            violation = run_seed(seed, store).violation
            if violation is not None:
                return violation
    return None


def _play(world: World) -> Violated | None:
    lives = [*world.plan.lives, PEACE]
    for number, life in enumerate(lives, 1):
        try:
            for record in lead_life(world, life, peaceful=number == len(lives)):
                if world.first_violation is None:
                    check_life(world, record)
            if number == len(lives) and world.first_violation is None:
                check_all(world)
        except Violated as violated:
            world.violate(violated)
        except Exception as error:  # noqa: BLE001  whatever comes out of a life that should not is a finding
            world.violate(Violated("I29", f"life {number} broke: {error!r}"))
        if world.first_violation is not None:
            return world.first_violation
    return None


def _outcome(world: World, violated: Violated | None) -> Outcome:
    plan = world.plan
    violation = None if violated is None else Violation(violated.invariant, str(violated), plan.seed, plan.store, plan)
    last = world.lives[-1].after or EMPTY
    for job in last["jobs"].values():
        world.counts[f"job: {job.state}"] += 1
    for attempt in last["attempts"].values():
        world.counts[f"attempt: {attempt.state}"] += 1
    virtual_s = world.elapsed_us / 1e6
    jobs, attempts = len(last["jobs"]), len(last["attempts"])
    trace = world.trace()
    return Outcome(plan.seed, plan.store, len(world.lives), virtual_s, jobs, attempts, trace, world.counts, violation)


def _bury() -> None:
    """End what crashes left standing, now that nobody looks any more: otherwise every life would be kept for ever."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        graves, virtual._GRAVEYARD[:] = list(virtual._GRAVEYARD), []
        for task in graves:
            with suppress(BaseException):  # their code runs on a loop that is gone
                task.get_coro().close()
        del graves
        gc.collect(0)
    finally:
        sys.unraisablehook = hook
