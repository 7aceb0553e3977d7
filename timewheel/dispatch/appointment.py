"""One timer that always stands at the earliest instant it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US

if TYPE_CHECKING:
    from timewheel.ports import Clock, Timer


class Appointment:
    """Calls `callback` at the earliest instant asked for since the last call. Instants are steady microseconds.

    It may call before, where the clock does not tell when the machine has slept: whoever is called asks again.
    """

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._longest_sleep_s = clock.longest_sleep_s
        self._callback = callback
        self._timer: Timer | None = None
        self._at_us = 0

    def make(self, at_us: int, now_us: int) -> None:
        """Have the callback called at `at_us`, or earlier if that was asked for before."""
        if self._timer is not None:
            if now_us < self._at_us <= at_us:
                return
            self._timer.cancel()
        self._at_us = at_us
        self._timer = self._clock.call_later(min((at_us - now_us) / SECOND_US, self._longest_sleep_s), self._come)

    def forget(self) -> None:
        """Call nobody until asked again: the machine slept, and a timer does not know that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _come(self) -> None:
        self._timer = None
        self._callback()
