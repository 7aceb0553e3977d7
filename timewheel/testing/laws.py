"""What laws of a journal are told with: a dump, and what is raised when one does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Dump = Mapping[str, Any]  # see timewheel.testing.conformance.bench.DumpableStore


class Violated(AssertionError):
    """An invariant does not hold: its number, what was seen, and the things it was seen on."""

    def __init__(self, invariant: str, seen: str, *evidence: object) -> None:
        self.invariant = invariant
        self.seen = seen
        self.evidence = evidence
        super().__init__("\n  ".join([f"{invariant}: {seen}", *map(repr, evidence)]))


def demand(holds: bool, invariant: str, seen: str, *evidence: object) -> None:
    """Raise `Violated` unless it holds."""
    if not holds:
        raise Violated(invariant, seen, *evidence)
