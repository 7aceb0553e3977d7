"""The slots of a definition, on the schedule's own clock, without those at or after its end.

Pure: no asyncio, clock, randomness, files or sockets. No call visits slots one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from timewheel.model import SECOND_US, Now
from timewheel.planning.definition import Definition
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule, Skipped
from timewheel.recurrence.zonal import Zonal
from timewheel.schedule_records import Position


def offset_us(now: Now) -> int:
    """What the wall clock is ahead of steady time."""
    return now.wall_us - now.steady_us


@dataclass(frozen=True, slots=True)
class Slots:
    """Nominal instants in microseconds on one clock; `end` is the first instant that has none."""

    rule: Rule
    end: int | None

    def first(self, after: int) -> int | None:
        """The first slot after the instant."""
        found = _following(self.rule, after)
        return None if found is None or (self.end is not None and found >= self.end) else found

    def last(self, after: int, until: int) -> int | None:
        """The last slot in (after, until]."""
        found = self.rule.latest(after, self.within(until))
        return None if found is None else found.instant_us

    def count(self, after: int, until: int) -> int:
        """How many slots lie in (after, until]."""
        return self.rule.count(after, self.within(until))

    def lost(self, after: int, until: int) -> list[Skipped]:
        """What the rule lost in gaps at changes of the clocks in (after, until]."""
        return self.rule.skipped(after, self.within(until))

    def within(self, until: int) -> int:
        """`until`, or the last instant before the end."""
        return until if self.end is None else min(until, self.end - 1)


def slots_of(definition: Definition, position: Position, now: Now) -> Slots:
    """The slots of a definition.

    An interval has the phase of the position: its slots are position.at + k * interval, whatever the clocks did since
    it was made. Its `end`, a wall instant, is taken to steady time as the clocks stand now.
    """
    if isinstance(definition.rule, Every):
        end = None if definition.end_us is None else definition.end_us - offset_us(now)
        return Slots(Every(timedelta(microseconds=definition.rule.interval_us)).anchored(position.at), end)
    return Slots(definition.rule, definition.end_us)


def _following(rule: Rule, after: int) -> int | None:
    if isinstance(rule, Zonal) and rule.calendar is None:
        return _shared(rule, after // SECOND_US)
    found = rule.following(after)
    return None if found is None else found.instant_us


@lru_cache(maxsize=2_048)
def _shared(rule: Zonal, after_s: int) -> int | None:
    """The slot of wall time after a second. Many schedules with one rule come up together, and ask the same."""
    found = rule.following(after_s * SECOND_US)
    return None if found is None else found.instant_us
