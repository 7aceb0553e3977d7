"""Wall time, steady time, and what a clock did meanwhile. Pure: readings come in, decisions go out.

Steady time goes on from the journal's last steady time by the elapsed time since (suspends included). On the same boot
of the machine that elapsed time is exact, whatever the wall clock did. After another boot it is not known, so the wall
clock has to serve once: steady = wall minus the saved offset, and never less than what was saved.

Example: the journal's last commit saved wall 1,000 s, steady 990 s, 50 s after boot. The process starts again on the
same boot 80 s after it: steady is 990 + 30 = 1,020 s even if the wall clock was set to 500 s in between. On another
boot with the wall clock at 1,600 s: steady is 1,600 - (1,000 - 990) = 1,590 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from timewheel.model import SECOND_US, Anchor, Now

STEP_US = SECOND_US // 4  # a larger difference between wall and elapsed time is a step, not drift
SUSPEND_US = SECOND_US // 4
SHOWN_DRIFT_US = 1_000  # a steady time is shown on the wall scale; its last digits should not dance with the drift


class Reading(NamedTuple):
    """One look at the machine's clocks, microseconds: wall, since boot (suspends included), since boot (awake)."""

    wall_us: int
    boot_us: int
    awake_us: int


class Observed(NamedTuple):
    """What happened between two looks: `stepped_us` (0: no step; negative: back) and `suspended_us` (0: no suspend)."""

    stepped_us: int
    suspended_us: int


class Timeline:
    """Steady time on top of a machine's clocks, and the detector of steps and suspends.

    `shown_offset_us` is wall minus steady, for showing steady times: it follows the wall clock by the millisecond.
    """

    def __init__(self, anchor: Anchor | None, boot_id: str, reading: Reading) -> None:
        """`anchor`: what the journal's last commit saved, None for a new journal: steady then begins at wall."""
        self.boot_id = boot_id
        self._offset = _steady_at_start(anchor, boot_id, reading) - reading.boot_us
        self._last = reading
        self.shown_offset_us = reading.wall_us - reading.boot_us - self._offset

    def now(self, wall_us: int, boot_us: int) -> Now:
        """Both clocks at this moment."""
        return Now(wall_us, boot_us + self._offset)

    def reader(self, wall_us: Callable[[], int], boot_us: Callable[[], int]) -> Callable[[], Now]:
        """A function that reads both clocks: asked several times a job, so it takes no detour."""
        offset, make = self._offset, tuple.__new__

        def now() -> Now:
            return make(Now, (wall_us(), boot_us() + offset))

        return now

    def observe(self, reading: Reading) -> Observed:
        """Compare with the last look. Call it at every wake, at most a second apart."""
        last, self._last = self._last, reading
        elapsed = reading.boot_us - last.boot_us
        step = reading.wall_us - last.wall_us - elapsed
        asleep = elapsed - (reading.awake_us - last.awake_us)
        offset = reading.wall_us - reading.boot_us - self._offset
        if abs(offset - self.shown_offset_us) > SHOWN_DRIFT_US:
            self.shown_offset_us = offset
        return Observed(step if abs(step) > STEP_US else 0, asleep if asleep > SUSPEND_US else 0)


def _steady_at_start(anchor: Anchor | None, boot_id: str, reading: Reading) -> int:
    if anchor is None:
        return reading.wall_us
    if anchor.boot_id == boot_id and reading.boot_us >= anchor.boot_us:
        return anchor.steady_us + (reading.boot_us - anchor.boot_us)
    return max(anchor.steady_us, reading.wall_us - (anchor.wall_us - anchor.steady_us))
