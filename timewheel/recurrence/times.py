"""The times of a day that a rule names, numbered in order, so that the next, the last and the count are arithmetic.

Pure: no asyncio, clock, randomness, files or sockets. A time is a number of seconds since local midnight.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

_HOUR_S = 3600
_MINUTE_S = 60


class DayTimes(NamedTuple):
    """Every combination of an hour, a minute and a second; each is sorted, without doubles and not empty."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many times a day has."""
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def at(self, number: int) -> int:
        """The time with this number, 0 to total - 1."""
        rest, second = divmod(number, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * _HOUR_S + self.minutes[minute] * _MINUTE_S + self.seconds[second]

    def below(self, time_s: int) -> int:
        """How many times are less than time_s, which may be any int."""
        hour, rest = divmod(time_s, _HOUR_S)
        minute, second = divmod(rest, _MINUTE_S)
        number = bisect_left(self.hours, hour)
        if number == len(self.hours) or self.hours[number] != hour:
            return number * len(self.minutes) * len(self.seconds)
        later = bisect_left(self.minutes, minute)
        number = number * len(self.minutes) + later
        if later == len(self.minutes) or self.minutes[later] != minute:
            return number * len(self.seconds)
        return number * len(self.seconds) + bisect_left(self.seconds, second)

    def first(self, from_s: int, end_s: int) -> int | None:
        """The least time in [from_s, end_s)."""
        number = self.below(from_s)
        if number >= self.total:
            return None
        time_s = self.at(number)
        return time_s if time_s < end_s else None

    def last(self, from_s: int, end_s: int) -> int | None:
        """The greatest time in [from_s, end_s)."""
        number = self.below(end_s) - 1
        if number < 0:
            return None
        time_s = self.at(number)
        return time_s if time_s >= from_s else None

    def between(self, from_s: int, end_s: int) -> int:
        """How many times lie in [from_s, end_s)."""
        return max(0, self.below(end_s) - self.below(from_s))
