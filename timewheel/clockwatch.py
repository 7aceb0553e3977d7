"""What follows when the wall clock was set, or the machine slept. The work does not grow with the size of the step.

Forward: overdue wall jobs follow their misfire policy, which looks at `watching_since`. Back: what was claimed for an
instant that is in the future again is given back, and nothing fires early. Both ways the wall wheel, the wall lanes and
their frontiers are dropped and loaded afresh, and schedules planned by the clock as it is. Steady jobs notice nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from timewheel.events import ClockStepped, Notices, Suspended
from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.store.changes import AddEntry

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.timeline import Timeline

_log = logging.getLogger("timewheel")


class Gatekeeper(Protocol):
    """The dispatcher, as seen from here."""

    watching_since: Now

    def look(self) -> None:
        """Let in and claim what may start by the clocks as they are now."""

    def give_back(self, reason: str, kind: ClockKind | None = None) -> None:
        """Release what waits at the gate."""


class Reloads(Protocol):
    """The loader, as seen from here."""

    def reset(self, kind: ClockKind | None = None) -> None:
        """Load the lanes of a clock afresh."""


class Plans(Protocol):
    """The planner, as seen from here."""

    def look(self) -> None:
        """See what has come, by the clocks as they are now."""


class ClockWatch:
    """See the module. `note(entry)` has a journal entry written."""

    def __init__(
        self,
        timeline: Timeline,
        clock: Clock,
        concerned: tuple[Gatekeeper, Reloads, Plans],
        note: Callable[[AddEntry], None],
        notices: Notices,
    ) -> None:
        self._timeline = timeline
        self._clock = clock
        self._gatekeeper, self._loader, self._planner = concerned
        self._note = note
        self._notices = notices

    def look(self) -> None:
        """Compare the clocks with the last look, and act on a difference."""
        reading = self._clock.read()
        stepped, suspended = self._timeline.observe(reading)
        if not stepped and not suspended:
            return
        now = self._timeline.now(reading.wall_us, reading.boot_us)
        self._gatekeeper.look()
        if suspended:
            self._suspended(now, suspended)
        if stepped:
            self._stepped(now, stepped)
        self._planner.look()

    def _suspended(self, now: Now, duration_us: int) -> None:
        self._gatekeeper.watching_since = now
        self._notices.emit(Suspended(duration_us))
        self._note(AddEntry("suspend", json.dumps({"duration_us": duration_us})))
        _log.warning("the machine slept for %.1f s", duration_us / SECOND_US)

    def _stepped(self, now: Now, difference_us: int) -> None:
        since = self._gatekeeper.watching_since
        wall = now.wall_us if difference_us > 0 else min(since.wall_us, now.wall_us)
        self._gatekeeper.watching_since = Now(wall, since.steady_us)
        if difference_us < 0:
            self._gatekeeper.give_back("clock_step", ClockKind.WALL)
        self._loader.reset(ClockKind.WALL)
        self._notices.emit(ClockStepped(difference_us))
        self._note(AddEntry("clock_step", json.dumps({"difference_us": difference_us})))
        _log.warning("the wall clock was set by %+.3f s", difference_us / SECOND_US)
