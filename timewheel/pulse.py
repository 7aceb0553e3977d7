"""The pulse of the event loop: how late its timers are, and who held it up when they are very late."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from timewheel.events import LoopGap, Notices
from timewheel.model import SECOND_US

if TYPE_CHECKING:
    from timewheel.ports import Clock, Timer, Watchdog

_log = logging.getLogger("timewheel")
BEAT_S = 0.05
GAP_US = 10_000  # a smaller lateness of a timer is the weather
BLOCKED_US = SECOND_US // 4  # a longer one is reported in the log


class Pulse:
    """Beats every `BEAT_S` awake seconds on the loop it was started on, and reports gaps as notices."""

    def __init__(self, clock: Clock, watchdog: Watchdog, notices: Notices) -> None:
        self._clock = clock
        self._watchdog = watchdog
        self._notices = notices
        self._timer: Timer | None = None
        self._expected = 0

    def start(self) -> None:
        """Begin to beat."""
        self._expected = self._clock.read().awake_us + int(BEAT_S * SECOND_US)
        self._timer = self._clock.call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._watchdog.stop()

    def _beat(self) -> None:
        gap = self._clock.read().awake_us - self._expected
        self._watchdog.beat()
        if gap > GAP_US:
            self._report(gap)
        self.start()

    def _report(self, gap_us: int) -> None:
        culprit = self._watchdog.culprit() if gap_us > BLOCKED_US else None
        if self._notices.wanted:
            self._notices.emit(LoopGap(gap_us, culprit))
        if gap_us > BLOCKED_US:
            by = culprit or "something unseen"
            _log.warning("the event loop was blocked for %.2f s by %s", gap_us / SECOND_US, by)
