"""Plays seeds with a bug planted until one finds it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.planted.bugs import PLANTED
from tests.planted.planting import Bug
from timewheel.testing.simulation import run_seed

DETERMINISM = "I28"


@dataclass(frozen=True)
class Find:
    """What came of a search: the seed and the invariant that found it (None: nothing did), and what was done for it."""

    bug: str
    seed: int | None
    invariant: str
    message: str
    played: int
    faults: int


def search(bug: Bug, seeds: Iterable[int]) -> Find:
    """Play these seeds, in this order, until the bug is found."""
    played = faults = 0
    with bug.plant():
        for seed in seeds:
            outcome = run_seed(seed, bug.store)
            played += 1
            faults += outcome.faults
            if outcome.violation is not None:
                found = outcome.violation
                return Find(bug.name, seed, found.invariant, found.message, played, faults)
            if DETERMINISM in bug.invariants and run_seed(seed, bug.store).trace != outcome.trace:
                return Find(bug.name, seed, DETERMINISM, "two runs of one seed differ", played + 1, faults)
    return Find(bug.name, None, "", f"not found in {played} seeds", played, faults)


def search_all(name: str) -> Find:
    """Play every seed that a bug is allowed, from 0 on."""
    bug = PLANTED[name]
    return search(bug, range(bug.seeds))
