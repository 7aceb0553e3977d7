"""A retry budget: how many of the starts may be retries, so that failures do not multiply the load. Pure.

Starts are counted by tenths of the window. A retry may start when the retries of the window, with those that are
promised, are fewer than `share` of its starts plus `at_least`. Retries are remembered for a tenth longer than the
window, and starts for a tenth less, at the most: so the law holds in every window that ends with a retry's start:

    retries  <=  share * starts + at_least          (the starts are all, that retry's included)

Retries beyond it are told instants at which to come again, from a tenth of the window from now on, for a window long,
twice as often as retries may start. Nothing is saved: after a restart the window is empty, and `at_least` may start.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING

from timewheel.checks import microseconds
from timewheel.dispatch.spread import GAP_US, Spread

if TYPE_CHECKING:
    from timewheel.safeguards import RetryBudget

TENTHS = 10


class Budget:
    """See the module. Instants are steady microseconds."""

    def __init__(self, settings: RetryBudget) -> None:
        self.settings = settings
        self._share = Fraction(str(settings.share))
        self._window_us = max(TENTHS, microseconds(settings.window_s))
        self._tenths: deque[list[int]] = deque()  # [number, starts, retries]
        self.promised = 0
        self.spread = Spread()
        self.deferred = 0  # how often a retry was told to come again

    def turn(self, job_id: int, now_us: int) -> int | None:
        """None: this retry may start now; otherwise when it is to come again."""
        self.spread.came(job_id)
        if self._allows(self.promised, now_us):
            return None
        self.deferred += 1
        allowed = int(self._share * self.counts(now_us)[0]) + self.settings.at_least
        gap_us = max(GAP_US, self._window_us // (2 * max(1, allowed)))
        return self.spread.tell(job_id, now_us + self._window_us // TENTHS, self._window_us, gap_us)

    def promise(self) -> None:
        """A retry is going to start."""
        self.promised += 1

    def take_back(self) -> None:
        """A retry that was promised its start has started (and was counted), or does not start now."""
        self.promised -= 1
        assert self.promised >= 0, "more retries came back than were promised"

    def may_enter(self, now_us: int) -> bool:
        """Whether a promised retry may start now: the window has moved on since it was promised."""
        return self._allows(0, now_us)

    def start(self, now_us: int, *, retry: bool) -> None:
        """A job starts."""
        number = now_us * TENTHS // self._window_us
        if not self._tenths or self._tenths[-1][0] < number:
            self._tenths.append([number, 0, 0])
            self._forget(number)
        self._tenths[-1][1] += 1
        self._tenths[-1][2] += retry

    def counts(self, now_us: int) -> tuple[int, int]:
        """The starts and the retries that count at present."""
        number = now_us * TENTHS // self._window_us
        self._forget(number)
        starts = sum(tenth[1] for tenth in self._tenths if tenth[0] > number - TENTHS)
        return starts, sum(tenth[2] for tenth in self._tenths)

    def _allows(self, others: int, now_us: int) -> bool:
        starts, retries = self.counts(now_us)
        return retries + others + 1 <= self._share * (starts + others + 1) + self.settings.at_least

    def _forget(self, number: int) -> None:
        while self._tenths and self._tenths[0][0] < number - TENTHS:
            self._tenths.popleft()
