"""The circuit breaker of one dependency: may its jobs call it, or had they better wait because it keeps failing? Pure.

    CLOSED      all may start. The attempts that end are counted, in tenths of the window: failures and successes. A
                failure that makes `failures` of them, and at least `min_share` of all, opens it for `open_s`; one that
                is throttled, and says for how long, opens it for so long at once.
    OPEN        none may start: they are told to come when it ends, `spread.GAP_US` apart, so that the last of many come
                up to `open_s` later. What still runs may end; of that only another throttling counts, which can make
                it longer.
    HALF_OPEN   from the first job that comes after that: `probes` at a time may start, the others wait on. What ends of
                others is not counted. `closes_after` successes of probes close it; a failure of one opens it again.
    FORCED_OPEN, FORCED_CLOSED      as a person says, until a person says `auto`. Nothing is counted.

Hence, with a concurrency of c, a dependency that does nothing but fail is called by at most c + failures jobs before it
opens (more, where successes keep its share below `min_share`), and from then on by at most `probes` at a time; each
probe that fails is followed by `open_s` in which nobody calls. After it closes those that waited come back `GAP_US`
apart, or within `open_s` if they are more than fit into that.

What is saved is one integer: until when it is open (0 and 1: forced closed and open; None: closed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from timewheel.checks import microseconds
from timewheel.dispatch.spread import Spread
from timewheel.model import SECOND_US, FaultClass

if TYPE_CHECKING:
    from timewheel.safeguards import Breaker

TENTHS = 10
PROBE_LOOK_US = SECOND_US // 2  # after so long a job that found all probes taken asks again, at the earliest
LONGEST_US = 24 * 3600 * SECOND_US  # that it is open at a time
FORCED_CLOSED_VALUE, FORCED_OPEN_VALUE = 0, 1


class BreakerState(StrEnum):
    """Where a breaker stands."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"
    FORCED_OPEN = "FORCED_OPEN"
    FORCED_CLOSED = "FORCED_CLOSED"

    @property
    def lets_all(self) -> bool:
        """Whether every job may start."""
        return self in (BreakerState.CLOSED, BreakerState.FORCED_CLOSED)


class Transition(NamedTuple):
    """A breaker went from one state to another, and why; `until_us`: as long as it is OPEN."""

    before: BreakerState
    after: BreakerState
    reason: str
    until_us: int | None = None


class CircuitBreaker:
    """See the module. `told(transition)` hears of every change of state. Instants are steady microseconds."""

    def __init__(
        self, settings: Breaker, saved: int | None, now_us: int, told: Callable[[Transition], None] = lambda _: None
    ) -> None:
        self._settings = settings
        self._told = told
        self._window_us = max(TENTHS, microseconds(settings.window_s))
        self._open_us = max(1, microseconds(settings.open_s))
        self.state = BreakerState.CLOSED
        self.until_us = 0
        self._ended: deque[list[int]] = deque()  # [number of the tenth, failures, successes]
        self._probes: set[int] = set()
        self._successes = 0
        self.spread = Spread()
        if saved is not None:
            forced = {FORCED_CLOSED_VALUE: BreakerState.FORCED_CLOSED, FORCED_OPEN_VALUE: BreakerState.FORCED_OPEN}
            self.state = forced.get(saved, BreakerState.OPEN)
            self.until_us = min(saved, now_us + LONGEST_US)

    @property
    def value(self) -> int | None:
        """What is to be saved of it."""
        if self.state is BreakerState.FORCED_CLOSED:
            return FORCED_CLOSED_VALUE
        if self.state is BreakerState.FORCED_OPEN:
            return FORCED_OPEN_VALUE
        return None if self.state is BreakerState.CLOSED else self.until_us

    # ---- who may start -----------------------------------------------------------------------------------------------

    def turn(self, job_id: int, now_us: int) -> int | None:
        """None: this job may start now; otherwise when it is to come again."""
        self.spread.came(job_id)
        if self.state is BreakerState.OPEN and now_us >= self.until_us:
            self._go(BreakerState.HALF_OPEN, "its time is over")
        if self.state.lets_all:
            return None
        if self.state is BreakerState.OPEN:
            return self.spread.tell(job_id, self.until_us, self._open_us)
        if self.state is BreakerState.FORCED_OPEN:
            return self.spread.tell(job_id, now_us + max(self._open_us, SECOND_US), self._open_us)
        if len(self._probes) < self._settings.probes:
            return None
        return self.spread.tell(job_id, now_us + PROBE_LOOK_US, self._open_us)

    def start(self, job_id: int) -> None:
        """A job that may start is going to."""
        if self.state is BreakerState.HALF_OPEN:
            self._probes.add(job_id)

    def holds(self, job_id: int) -> bool:
        """Whether a job that was to start still may."""
        return self.state.lets_all or job_id in self._probes

    def left(self, job_id: int) -> None:
        """A job that was to start has ended, or did not start after all."""
        self._probes.discard(job_id)

    # ---- how they end ------------------------------------------------------------------------------------------------

    def succeeded(self, job_id: int, now_us: int) -> None:
        """An attempt was a success."""
        if self.state is BreakerState.CLOSED:
            self._tenth(now_us)[2] += 1
        elif self.state is BreakerState.HALF_OPEN and job_id in self._probes:
            self._successes += 1
            if self._successes >= self._settings.closes_after:
                self._go(BreakerState.CLOSED, f"{self._successes} successes in a row")

    def failed(self, job_id: int, fault: FaultClass, now_us: int, retry_after_us: int = 0) -> None:
        """An attempt failed. `retry_after_us`: how long a throttled one was told to wait; 0: it was not told."""
        if fault is FaultClass.PERMANENT:
            return
        if fault is FaultClass.THROTTLED and retry_after_us > 0:
            self._throttled(min(now_us + retry_after_us, now_us + LONGEST_US))
        elif self.state is BreakerState.HALF_OPEN and job_id in self._probes:
            self._open(now_us + self._open_us, f"a probe failed ({fault})")
        elif self.state is BreakerState.CLOSED:
            self._tenth(now_us)[1] += 1
            failures, successes = self.counts(now_us)
            enough = failures >= self._settings.failures
            if enough and failures >= self._settings.min_share * (failures + successes):
                self._open(now_us + self._open_us, f"{failures} of {failures + successes} attempts failed")

    def counts(self, now_us: int) -> tuple[int, int]:
        """The failures and the successes that count at present."""
        oldest = now_us * TENTHS // self._window_us - TENTHS
        while self._ended and self._ended[0][0] <= oldest:
            self._ended.popleft()
        return sum(tenth[1] for tenth in self._ended), sum(tenth[2] for tenth in self._ended)

    def force(self, state: BreakerState, why: str) -> None:
        """A person says FORCED_OPEN, FORCED_CLOSED, or CLOSED: it goes by itself again."""
        self._go(state, why)

    def _throttled(self, until_us: int) -> None:
        if self.state is BreakerState.OPEN:
            self.until_us = max(self.until_us, until_us)
        elif self.state in (BreakerState.CLOSED, BreakerState.HALF_OPEN):
            self._open(until_us, "it was throttled")

    def _tenth(self, now_us: int) -> list[int]:
        number = now_us * TENTHS // self._window_us
        if not self._ended or self._ended[-1][0] < number:
            self._ended.append([number, 0, 0])
            self.counts(now_us)
        return self._ended[-1]

    def _open(self, until_us: int, why: str) -> None:
        self.until_us = until_us
        self._go(BreakerState.OPEN, why)

    def _go(self, state: BreakerState, why: str) -> None:
        if state is self.state:
            return
        before, self.state = self.state, state
        self._probes.clear()
        self._successes = 0
        self._ended.clear()
        self._told(Transition(before, state, why, self.until_us if state is BreakerState.OPEN else None))
