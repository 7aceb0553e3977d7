"""The agenda: which schedules want to be planned when, on either clock. Pure.

One heap a clock. An entry that was moved or dropped stays in its heap until it comes up, or until such entries are the
most of it; so every operation costs O(log n), whatever is edited.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from timewheel.model import ClockKind, Now

_STALE_FLOOR = 1_000  # entries; below that a heap is not worth cleaning


class Agenda:
    """At most one time for each schedule, on one of the clocks."""

    def __init__(self) -> None:
        self._heaps: dict[ClockKind, list[tuple[int, str]]] = {kind: [] for kind in ClockKind}
        self._times: dict[str, tuple[ClockKind, int]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def put(self, schedule: str, clock: ClockKind, at: int) -> None:
        """Have the schedule come up at that instant, instead of any other."""
        if self._times.get(schedule) == (clock, at):
            return
        self._times[schedule] = (clock, at)
        heappush(self._heaps[clock], (at, schedule))
        if len(self._heaps[clock]) > 2 * len(self._times) + _STALE_FLOOR:
            self._clean(clock)

    def drop(self, schedule: str) -> None:
        """Have the schedule not come up."""
        self._times.pop(schedule, None)

    def take(self, now: Now, most: int) -> list[str]:
        """Take out at most `most` schedules whose time has come, the most overdue first on each clock."""
        taken: list[str] = []
        for clock, heap in self._heaps.items():
            until = now.on(clock)
            while len(taken) < most and heap and heap[0][0] <= until:
                at, schedule = heappop(heap)
                if self._times.get(schedule) == (clock, at):
                    del self._times[schedule]
                    taken.append(schedule)
        return taken

    def wait_us(self, now: Now) -> int | None:
        """How long until a schedule comes up; 0 when one has; None when there is none."""
        waits = []
        for clock, heap in self._heaps.items():
            while heap and self._times.get(heap[0][1]) != (clock, heap[0][0]):
                heappop(heap)
            if heap:
                waits.append(max(0, heap[0][0] - now.on(clock)))
        return min(waits) if waits else None

    def _clean(self, clock: ClockKind) -> None:
        self._heaps[clock] = [(at, schedule) for schedule, (kind, at) in self._times.items() if kind is clock]
        heapify(self._heaps[clock])
