"""The days that the date fields of a cron rule name: sets of bits, one for each shape a month can have.

Pure: no asyncio, clock, randomness, files or sockets. A month's shape is the weekday of its first day and its length:
28 shapes in all, so each is worked out once. Days of the week count from 0, Sunday.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import NamedTuple

from timewheel.recurrence.search import LAST_DAY

_FIRST_YEAR = 1969  # one before the first instant: a day of it may reach into 1970 elsewhere
_LAST_YEAR = date.fromordinal(LAST_DAY).year


class DayRule(NamedTuple):
    """What the two day fields say. Bits 1 to 31 stand for days of the month, bits 0 to 6 for days of the week."""

    month_days: int
    before_last: tuple[int, ...]  # L-n, L is 0
    near: tuple[int, ...]  # nW
    last_workday: bool  # LW
    weekdays: int
    nth: tuple[tuple[int, int], ...]  # (weekday, n): weekday#n
    last: tuple[int, ...]  # weekdayL
    both: bool  # a field begins with a star: both must match; else either

    def of_month(self, first_weekday: int, length: int) -> int:
        """The days of a month of this shape, as bits 1 to 31."""
        by_date = self.month_days & _ones(length)
        for back in self.before_last:
            by_date |= 1 << length - back if back < length else 0
        for day in self.near:
            by_date |= _near(day, first_weekday, length) if day <= length else 0
        if self.last_workday:
            by_date |= _near(length, first_weekday, length)
        by_week = sum(
            _weekday_bits(weekday, first_weekday, length) for weekday in range(7) if self.weekdays >> weekday & 1
        )
        for weekday, number in self.nth:
            day = 1 + (weekday - first_weekday) % 7 + 7 * (number - 1)
            by_week |= 1 << day if day <= length else 0
        for weekday in self.last:
            by_week |= 1 << length - (first_weekday + length - 1 - weekday) % 7
        return by_date & by_week if self.both else by_date | by_week


class CronDates(NamedTuple):
    """The days of some months that a DayRule names; see `search.Dates`."""

    rule: DayRule
    months: tuple[int, ...]

    def next(self, day: int) -> int | None:
        """The first day at or after `day`, None when there is none up to the end of 9999."""
        start = date.fromordinal(min(day, LAST_DAY + 1))
        keep = -1 << start.day
        year, month = start.year, start.month
        while year <= _LAST_YEAR:
            bits = self._bits(year, month) & keep
            if bits:
                return date(year, month, (bits & -bits).bit_length() - 1).toordinal()
            keep = -1
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return None

    def last(self, day: int) -> int | None:
        """The last day at or before `day`, None when there is none since 1969."""
        start = date.fromordinal(min(day, LAST_DAY))
        keep = _ones(start.day)
        year, month = start.year, start.month
        while year >= _FIRST_YEAR:
            bits = self._bits(year, month) & keep
            if bits:
                return date(year, month, bits.bit_length() - 1).toordinal()
            keep = -1
            year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        return None

    def between(self, day: int, end_day: int) -> int:
        """How many days lie in [day, end_day)."""
        total = 0
        while day < end_day:
            first = date.fromordinal(day)
            length = _length(first.year, first.month)
            stop = min(length, first.day + end_day - day - 1)
            bits = self._bits(first.year, first.month) & (-1 << first.day) & _ones(stop)
            total += bits.bit_count()
            day += length - first.day + 1
        return total

    def possible(self) -> bool:
        """Whether there is any such day. The 28 years from 2001 on hold every kind of year there is."""
        return any(self._bits(year, month) for year in range(2001, 2029) for month in self.months)

    def _bits(self, year: int, month: int) -> int:
        if month not in self.months:
            return 0
        return _of_month(self.rule, date(year, month, 1).toordinal() % 7, _length(year, month))


@lru_cache(maxsize=4096)
def _of_month(rule: DayRule, first_weekday: int, length: int) -> int:
    return rule.of_month(first_weekday, length)


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _ones(day: int) -> int:
    """Bits 1 to `day`."""
    return (2 << day) - 2


def _weekday_bits(weekday: int, first_weekday: int, length: int) -> int:
    return sum(1 << day for day in range(1 + (weekday - first_weekday) % 7, length + 1, 7))


def _near(day: int, first_weekday: int, length: int) -> int:
    """The bit of the day from Monday to Friday nearest to `day` in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        day += -1 if day > 1 else 2
    elif weekday == 0:
        day += 1 if day < length else -2
    return 1 << day
