"""What a rule of wall time must do, found by looking at every instant of a window: slow, and plain to see.

A window is scanned in steps of a minute (or second). Each instant has the local time that a clock in the zone shows. A
local time that shows at several instants is repeated; where the clock jumps, the local times in between are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

EPOCH = datetime(1970, 1, 1)
HOUR_S = 3600
MARGIN_S = 26 * HOUR_S  # more than any jump


class Window:
    """Instants and local times around an instant; answers hold for the inner part, MARGIN_S away from both ends."""

    def __init__(self, zone: tzinfo, middle_s: int, reach_s: int, step_s: int = 60, margin_s: int = MARGIN_S) -> None:
        middle_s -= middle_s % step_s
        self.start_s, self.end_s = middle_s - reach_s, middle_s + reach_s
        self.shows: dict[int, list[int]] = {}  # local time -> the instants at which it shows
        self.skips: list[tuple[int, list[int]]] = []  # the first instant after a jump, and the local times left out
        before: int | None = None
        for instant in range(self.start_s - margin_s, self.end_s + margin_s + 1, step_s):
            offset = datetime.fromtimestamp(instant, zone).utcoffset()
            assert offset is not None
            local = instant + round(offset.total_seconds())
            self.shows.setdefault(local, []).append(instant)
            if before is not None and local > before + step_s:
                self.skips.append((instant, list(range(before + step_s, local, step_s))))
            before = local
        self.step_s = step_s
        every = [*self.shows, *(local for _, skipped in self.skips for local in skipped)]
        self.naive = {local: EPOCH + timedelta(seconds=local) for local in every}

    def instants(self, match: Callable[[datetime], bool], gap: str, fold: str) -> list[int]:
        """The instants in (start_s, end_s] at which the rule runs, under explicit policies."""
        named = {local for local, naive in self.naive.items() if match(naive)}
        found: set[int] = set()
        for local, instants in self.shows.items():
            if local in named:
                found.update({"FIRST": instants[:1], "SECOND": instants[-1:], "BOTH": instants}[fold])
        for after, skipped in self.skips:
            for number, local in enumerate(skipped):
                if local in named and gap == "FIRE_AFTER":
                    found.add(after)
                elif local in named and gap == "KEEP_OFFSET":
                    found.add(after + number * self.step_s)  # as late after the jump as that time is into the gap
        return sorted(instant for instant in found if self.start_s < instant <= self.end_s)
