"""Dates seen through a calendar: closed ones left out, or rolled to a business day.

Pure: no asyncio, clock, randomness, files or sockets. Every roll keeps the order of dates, so that the dates which may
roll to a given day stand together: between the business day before it and the one after it.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.choices import Roll
from timewheel.recurrence.search import LAST_DAY, Dates

_FIRST_DAY = date(1969, 1, 1).toordinal()
_SAMPLE_FROM = date(2001, 1, 1).toordinal()
_SAMPLE_DAYS = 28 * 365 + 7  # every kind of year there is


class OpenDates(NamedTuple):
    """Those of some dates that are business days; see `search.Dates`."""

    dates: Dates
    calendar: Calendar

    def next(self, day: int) -> int | None:
        """The first day at or after `day`."""
        found = self.dates.next(day)
        while found is not None:
            opened = self.calendar.next_open(found)
            if opened == found:
                return found
            found = self.dates.next(opened) if opened <= LAST_DAY else None
        return None

    def last(self, day: int) -> int | None:
        """The last day at or before `day`."""
        found = self.dates.last(day)
        while found is not None:
            opened = self.calendar.last_open(found)
            if opened == found:
                return found
            found = self.dates.last(opened) if opened >= _FIRST_DAY else None
        return None

    def between(self, day: int, end_day: int) -> int:
        """How many days lie in [day, end_day)."""
        return _count(self, day, end_day)

    def nominal(self, day: int) -> int:
        """The date that became this one: itself."""
        return day

    def possible(self) -> bool:
        """Whether any of the dates is no weekend day."""
        weekdays = Calendar(self.calendar.name, weekend=self.calendar.weekend)
        found = first = self.dates.next(_SAMPLE_FROM)
        while found is not None and first is not None and found <= first + _SAMPLE_DAYS:
            if weekdays.is_open(found):
                return True
            found = self.dates.next(found + 1)
        return False


class RolledDates(NamedTuple):
    """Some dates, each moved to a business day; see `search.Dates`. Several that become one day are one."""

    dates: Dates
    calendar: Calendar
    roll: Roll

    def next(self, day: int) -> int | None:
        """The first day at or after `day` that a date is rolled to."""
        nominal = self.dates.next(day if self.roll is Roll.PRECEDING else self.calendar.last_open(day - 1) + 1)
        while nominal is not None:
            rolled = self._rolled(nominal)
            if rolled >= day:
                return rolled
            nominal = self.dates.next(nominal + 1)
        return None

    def last(self, day: int) -> int | None:
        """The last day at or before `day` that a date is rolled to."""
        start = day if self.roll is Roll.FOLLOWING else self.calendar.next_open(day + 1) - 1
        nominal = self.dates.last(min(start, LAST_DAY))
        while nominal is not None:
            rolled = self._rolled(nominal)
            if rolled <= day:
                return rolled
            nominal = self.dates.last(nominal - 1)
        return None

    def between(self, day: int, end_day: int) -> int:
        """How many days lie in [day, end_day)."""
        return _count(self, day, end_day)

    def nominal(self, day: int) -> int:
        """The date that was rolled to this day: the day itself if it is one, else the first of them."""
        if self.dates.next(day) == day:
            return day
        nominal = self.dates.next(self.calendar.last_open(day - 1) + 1)
        while nominal is not None and self._rolled(nominal) < day:
            nominal = self.dates.next(nominal + 1)
        return day if nominal is None else nominal

    def _rolled(self, day: int) -> int:
        if self.roll is Roll.PRECEDING:
            return self.calendar.last_open(day)
        following = self.calendar.next_open(day)
        if self.roll is Roll.FOLLOWING or _month(following) == _month(day):
            return following
        return self.calendar.last_open(day)


def _month(day: int) -> tuple[int, int]:
    moment = date.fromordinal(min(day, date.max.toordinal()))
    return moment.year, moment.month


def _count(dates: Dates, day: int, end_day: int) -> int:
    total = 0
    found = dates.next(day)
    while found is not None and found < end_day:
        total += 1
        found = dates.next(found + 1)
    return total
