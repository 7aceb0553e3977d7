"""Whom the dispatcher works with, as it sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from timewheel.dispatch.gate import Claimant
    from timewheel.model import Now
    from timewheel.store.changes import Claim, Defer, SaveLimits
    from timewheel.store.key_limits import KeyLimits


class Claims(Protocol):
    """The committer, as the dispatcher sees it."""

    @property
    def full(self) -> bool:
        """Whether the journal has no space: nothing is claimed meanwhile."""

    def claim(self, change: Claim, receive: Callable[[Any], None]) -> None:
        """Queue a claim."""

    def save_limits(self, change: SaveLimits, receive: Callable[[Any], None]) -> None:
        """Write limits with the next batch, together with any that still wait: of those nobody hears."""

    def defer(self, change: Defer, receive: Callable[[Any], None]) -> None:
        """Queue a deferral of candidates."""

    def let_go(self, tasks: Mapping[str, int], receive: Callable[[Mapping[str, int], Any], None]) -> None:
        """Let so many that wait for a slot of each task go on; `receive(tasks, Unheld)` once that is durable."""

    def limit_keys(self, limits: KeyLimits) -> None:
        """So many jobs with one concurrency key may run from now on."""


class Floor(Protocol):
    """The worker, as the dispatcher sees it."""

    def start(self, claimant: Claimant, now: Now) -> None:
        """Run a job that passed the gate."""

    def release(self, claimant: Claimant, reason: str) -> None:
        """Give a job back that did not pass."""


class Surroundings(Protocol):
    """Whom the dispatcher tells what it cannot settle itself."""

    def drained(self) -> None:
        """Jobs were taken from ready."""

    def failed(self, cause: BaseException) -> None:
        """A fault of timewheel."""
