"""The ticker: keeps the two wheels (wall and steady) turning, and sends what fires to the ready queues.

It wakes at the next tick that has anything, at once when an earlier job comes in, and at least once a second (as the
clock says), so that a wall clock that was set, or a machine that slept, is noticed (`on_wake`). It works in bounded
portions: `PORTION` entries a loop turn. Wheels run `ahead_us` before the clocks, so that claims can be committed before
jobs are due.

Wheels never forget an entry, so a cancelled or moved job leaves a stale one behind. When those outnumber half of the
live ones, `rebuild` puts fresh wheels in the place of the old ones: while the caller fills them from the due index,
new entries go to both, and the old ones go on firing; then the fresh ones are swapped in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from timewheel.alarm import Alarm
from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.wheel.wheel import Wheel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from timewheel.ports import Clock

PORTION = 2_000
LAST_ID = (1 << 63) - 1


class _Side:
    """One wheel with what belongs to it."""

    __slots__ = ("edge", "fresh", "lags", "sizes", "wheel")

    def __init__(self, edge: int) -> None:
        self.edge = edge  # the wheel was advanced to this instant; what is due by then goes straight to ready,
        self.lags = False  # unless the wheel has more to fire up to there, which goes first
        self.wheel = Wheel(edge)
        self.fresh: Wheel | None = None
        self.sizes: Counter[int] = Counter()  # entries by lane

    def recount(self) -> None:
        self.sizes = Counter(lane for _, _, lane in self.wheel.entries())


class Ticker:
    """See the module. `fire(entries)` takes (due_us, job_id, lane) triples that are due within `ahead_us`."""

    def __init__(
        self,
        clock: Clock,
        now: Callable[[], Now],
        fire: Callable[[Sequence[tuple[int, int, int]]], None],
        on_wake: Callable[[], None],
        ahead_us: int,
    ) -> None:
        self._now = now
        self._fire = fire
        self._on_wake = on_wake
        self._ahead_us = ahead_us
        self._alarm = Alarm(clock)
        self._longest_sleep_us = clock.longest_sleep_s * SECOND_US
        current = now()
        self._sides = {kind: _Side(current.on(kind) + ahead_us) for kind in ClockKind}
        self._next_wake: dict[ClockKind, float] = dict.fromkeys(ClockKind, 0)

    def insert(self, kind: ClockKind, due_us: int, job_id: int, lane: int) -> None:
        """Keep a job until it is due."""
        side = self._sides[kind]
        if due_us <= side.edge and not side.lags:
            self._fire([(due_us, job_id, lane)])
            return
        side.wheel.insert(due_us, job_id, lane)
        if side.fresh is not None:
            side.fresh.insert(due_us, job_id, lane)
        side.sizes[lane] += 1
        if due_us - self._ahead_us < self._next_wake[kind]:
            self._alarm.ring()

    def extend(self, kind: ClockKind, lane: int, keys: Sequence[tuple[int, int]], *, fresh: bool = False) -> None:
        """Keep many jobs of one lane: (due_us, job_id) pairs, in order. `fresh`: only in the wheel being rebuilt."""
        side = self._sides[kind]
        if fresh:
            _pour(side.fresh, lane, keys)
            return
        due = 0 if side.lags else bisect_right(keys, (side.edge, LAST_ID))
        if due:
            self._fire([(due_us, job_id, lane) for due_us, job_id in keys[:due]])
        _pour(side.wheel, lane, keys[due:])
        _pour(side.fresh, lane, keys[due:])
        side.sizes[lane] += len(keys) - due
        self._alarm.ring()

    def size(self, kind: ClockKind, lane: int) -> int:
        """How many entries of a lane wait in its wheel, stale ones included."""
        return self._sides[kind].sizes[lane]

    def lags(self, kind: ClockKind) -> bool:
        """Whether jobs that are due wait in the wheel: there were more than one turn could fire."""
        return self._sides[kind].lags

    def fired_until_us(self, kind: ClockKind) -> int:
        """Whatever is due before this instant has left the wheel, or never enters it."""
        side = self._sides[kind]
        due = side.wheel.next_due_us()
        return side.edge if due is None else min(side.edge, due)

    def __len__(self) -> int:
        return sum(len(side.wheel) for side in self._sides.values())

    def drop(self, kind: ClockKind) -> None:
        """Forget a whole wheel: its clock was set, so that it must be loaded afresh."""
        self._sides[kind] = _Side(self._now().on(kind) + self._ahead_us)
        self._alarm.ring()

    @asynccontextmanager
    async def rebuild(self) -> AsyncIterator[None]:
        """Inside the block `extend(fresh=True)` fills new wheels; at its end they replace the old ones.

        When the block raises, or a wheel was dropped meanwhile, the old one simply stays.
        """
        sides = list(self._sides.values())
        for side in sides:
            side.fresh = Wheel(side.edge)
        try:
            yield
            for side in sides:
                if side.fresh is not None:
                    side.wheel = side.fresh
                    side.lags = True
                    side.recount()
        finally:
            for side in sides:
                side.fresh = None
        self._alarm.ring()

    async def run(self) -> None:
        """Turn the wheels for ever; ends by cancellation."""
        while True:
            self._on_wake()
            await self._alarm.wait(self.turn() / SECOND_US)

    def look(self) -> None:
        """Take a turn now: a clock was set, or the machine slept."""
        self._alarm.ring()

    def turn(self) -> float:
        """Fire one portion of each wheel; microseconds until the next turn.

        Others may turn it too: before they insert many jobs that are due by now, which then skip the wheel.
        """
        now = self._now()
        sleep = self._longest_sleep_us
        for kind, side in self._sides.items():
            moment = now.on(kind) + self._ahead_us
            side.edge = max(side.edge, moment)
            fired = side.wheel.advance(side.edge, PORTION)
            if fired:
                side.sizes.subtract(Counter([lane for _, _, lane in fired]))
                self._fire(fired)
            side.lags = side.wheel.behind(side.edge)
            if side.lags:
                sleep = 0
            due = side.wheel.next_due_us()
            if due is not None:
                sleep = min(sleep, max(0, due - moment))
            self._next_wake[kind] = moment - self._ahead_us + sleep
        return sleep


def _pour(wheel: Wheel | None, lane: int, keys: Sequence[tuple[int, int]]) -> None:
    if wheel is not None and keys:
        dues, job_ids = zip(*keys, strict=True)
        wheel.extend(dues, job_ids, lane)
