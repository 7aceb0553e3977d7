"""What waits in memory for a handler, as the loader sees it: ready queues, claims under way, the gate. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timewheel.dispatch.gate import Gate
    from timewheel.dispatch.last_chance import LastChance
    from timewheel.dispatch.ready import Ready
    from timewheel.model import Lane


class Queued:
    """A view of the dispatcher's parts. `hinted`: job id -> lane, of the claims under way."""

    def __init__(self, ready: Ready, hinted: Mapping[int, int], gate: Gate, last_chance: LastChance) -> None:
        self._ready = ready
        self._hinted = hinted
        self._gate = gate
        self._last_chance = last_chance

    def add_lane(self, lane: Lane) -> None:
        """Make a lane known."""
        self._ready.add_lane(lane)

    def ready_size(self, lane: int) -> int:
        """Entries of a lane that wait for a claim."""
        return self._ready.size(lane)

    def known_ids(self, lane: int) -> Collection[int]:
        """Ids that are in ready, held, in a claim under way, or at the gate."""
        return {*self._ready.ids(lane), *self._hinted, *self._gate.waiting, *self._last_chance.held_ids()}

    def clear(self, lane: int) -> None:
        """Forget the entries of a lane that wait for a claim."""
        self._ready.clear(lane)

    def __len__(self) -> int:
        return len(self._ready)
