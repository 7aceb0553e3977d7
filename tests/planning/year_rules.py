"""Rules for a year of schedules: each as timewheel takes it, and as a list of instants that is worked out here, day by
day from the words of the design, with the standard library's zoneinfo and nothing of timewheel's.
"""

from __future__ import annotations

import calendar
from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from timewheel import Calendar, Civil, Cron, Every

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
FIRST_DAY, LAST_DAY = date(2025, 12, 1), date(2027, 2, 20)
DAYS = [FIRST_DAY + timedelta(days=number) for number in range((LAST_DAY - FIRST_DAY).days)]
ZONES = [
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Moscow", "Europe/Athens", "Europe/Chisinau",
    "Atlantic/Azores", "America/New_York", "America/Los_Angeles", "America/Chicago", "America/Denver",
    "America/St_Johns", "America/Halifax", "America/Havana", "America/Santiago", "America/Asuncion",
    "America/Sao_Paulo", "America/Nuuk", "America/Adak", "America/Miquelon", "Asia/Tokyo", "Asia/Kolkata",
    "Asia/Kathmandu", "Asia/Beirut", "Asia/Jerusalem", "Asia/Gaza", "Asia/Tehran", "Africa/Cairo", "Africa/Casablanca",
    "Africa/Lagos", "Africa/Johannesburg", "Antarctica/Troll", "Australia/Sydney", "Australia/Adelaide",
    "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Kiritimati",
]  # fmt: skip
EPOCH = datetime(1970, 1, 1)


@cache
def zone(name):
    if name == "UTC":
        return UTC
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file)


# ---- one wall time -> instants ---------------------------------------------------------------------------------------


def seconds_of(naive):
    return (naive - EPOCH) // timedelta(seconds=1)


def offset_of(tz, naive, fold):
    return naive.replace(tzinfo=tz, fold=fold).utcoffset() // timedelta(seconds=1)


def change_between(tz, low, high):
    """The instant in (low, high] at which the offset changes."""
    before = datetime.fromtimestamp(low, tz).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, tz).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def instants(tz, naive, gap, fold):
    """(the instants of a wall time, in seconds; the change of the clocks in which it is lost, or None)"""
    first, second = offset_of(tz, naive, 0), offset_of(tz, naive, 1)
    local = seconds_of(naive)
    if first == second:
        return [local - first], None
    if first > second:
        twice = [local - first, local - second]
        return {"FIRST": twice[:1], "SECOND": twice[1:], "BOTH": twice}[fold], None
    if gap == "KEEP_OFFSET":
        return [local - first], None
    change = change_between(tz, local - second, local - first)
    return ([change], None) if gap == "FIRE_AFTER" else ([], change)


# ---- days ------------------------------------------------------------------------------------------------------------


def last_of(day):
    return calendar.monthrange(day.year, day.month)[1]


def nearest_weekday(day, number):
    """The day of month that `number`W means."""
    wanted = day.replace(day=min(number, last_of(day)))
    moves = {5: (-1, 2), 6: (1, -2)}.get(wanted.weekday(), (0,))
    for move in moves:
        found = wanted + timedelta(days=move)
        if found.month == day.month:
            return found.day
    raise AssertionError(day)


def last_weekday(day):
    return max(number for number in range(1, last_of(day) + 1) if day.replace(day=number).weekday() < 5)


DAYS_OF_MONTH = {
    "*": lambda day: True,
    "?": lambda day: True,
    "*/10": lambda day: day.day in (1, 11, 21, 31),
    "1": lambda day: day.day == 1,
    "1,15": lambda day: day.day in (1, 15),
    "31": lambda day: day.day == 31,
    "28-30": lambda day: 28 <= day.day <= 30,
    "L": lambda day: day.day == last_of(day),
    "L-3": lambda day: day.day == last_of(day) - 3,
    "15W": lambda day: day.day == nearest_weekday(day, 15),
    "LW": lambda day: day.day == last_weekday(day),
}
DAYS_OF_WEEK = {
    "*": lambda day: True,
    "mon-fri": lambda day: day.weekday() < 5,
    "SAT": lambda day: day.weekday() == 5,
    "0": lambda day: day.weekday() == 6,
    "7,3": lambda day: day.weekday() in (6, 2),
    "1": lambda day: day.weekday() == 0,
    "5L": lambda day: day.weekday() == 4 and day.day > last_of(day) - 7,
    "fri#2": lambda day: day.weekday() == 4 and 8 <= day.day <= 14,
}
MONTHS = {
    "*": lambda day: True,
    "1-12/3": lambda day: day.month in (1, 4, 7, 10),
    "mar,APR,10,11": lambda day: day.month in (3, 4, 10, 11),
}


@dataclass(frozen=True)
class Days:
    """The three fields of a cron rule that name days."""

    of_month: str = "*"
    month: str = "*"
    of_week: str = "*"

    def all(self):
        both = self.of_month[0] in "*?" or self.of_week[0] in "*?"
        join = (lambda one, other: one and other) if both else (lambda one, other: one or other)
        by_month, by_week, in_month = DAYS_OF_MONTH[self.of_month], DAYS_OF_WEEK[self.of_week], MONTHS[self.month]
        return [day for day in DAYS if in_month(day) and join(by_month(day), by_week(day))]


@dataclass(frozen=True)
class Book:
    """A calendar: its name, and the dates that it excludes beside weekends."""

    name: str
    exclude: tuple[date, ...]

    def given(self):
        return Calendar(self.name, self.exclude)

    def is_open(self, day):
        return day.weekday() < 5 and day not in self.exclude

    def move(self, day, roll):
        step = timedelta(days=-1 if roll == "preceding" else 1)
        found = day
        while not self.is_open(found):
            found += step
        if roll == "modified_following" and found.month != day.month:
            return self.move(day, "preceding")
        return found

    def days(self, days, roll):
        if roll is None:
            return [day for day in days if self.is_open(day)]
        return sorted({self.move(day, roll) for day in days})


# ---- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """The times of a day: the texts of second (or None), minute and hour, and what they mean."""

    texts: tuple[str | None, str, str]
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...] = (0,)

    @property
    def wild(self):
        return self.texts[1][0] == "*" or self.texts[2][0] == "*"


@dataclass(frozen=True)
class WallRule:
    """A rule of wall time: cron fields, or days counted from an anchor."""

    tz: str
    times: Times
    days: Days | None
    every_days: int = 0
    anchor: datetime | None = None
    gap: str = "AUTO"
    fold: str = "AUTO"
    book: Book | None = None
    roll: str | None = None

    interval_us = None
    fixed_delay = False

    @property
    def wild(self):
        """Whether it goes on at once when the clock is set back."""
        return self.days is not None and self.times.wild and self.fold in ("AUTO", "BOTH")

    def with_book(self, book):
        return replace(self, book=book)

    def given(self):
        options = {"tz": self.tz, "gap": self.gap, "fold": self.fold}
        if self.book is not None:
            options |= {"calendar": self.book.given(), "roll": self.roll}
        if self.days is None:
            return Civil(days=self.every_days, anchor=self.anchor, **options)
        fields = [*self.times.texts, self.days.of_month, self.days.month, self.days.of_week]
        return Cron(" ".join(field for field in fields if field is not None), **options)

    def _days(self):
        if self.days is not None:
            days = self.days.all()
        else:
            days = [day for day in DAYS if day >= self.anchor.date() and self._from_anchor(day) == 0]
        return days if self.book is None else self.book.days(days, self.roll)

    def _from_anchor(self, day):
        return (day - self.anchor.date()).days % self.every_days

    def timeline(self, from_us, until_us):
        """(slots in [from, until), {the instant at which the clocks skip some of its times: how many}), in us."""
        wild = self.days is not None and self.times.wild
        gap = self.gap if self.gap != "AUTO" else "SKIP" if wild else "FIRE_AFTER"
        fold = self.fold if self.fold != "AUTO" else "BOTH" if wild else "FIRST"
        tz, slots, lost = zone(self.tz), set(), {}
        first, last = (datetime.fromtimestamp(us / SECOND, UTC).date() for us in (from_us, until_us))
        for day in self._days():
            if not first - timedelta(days=2) <= day <= last + timedelta(days=2):
                continue
            for hour, minute, second in self._times():
                found, change = instants(tz, datetime(day.year, day.month, day.day, hour, minute, second), gap, fold)
                slots.update(found)
                if change is not None and self.gap == "SKIP":
                    lost[change * SECOND] = lost.get(change * SECOND, 0) + 1
        return sorted(one * SECOND for one in slots if from_us <= one * SECOND < until_us), lost

    def _times(self):
        times = self.times
        return [(hour, minute, second) for hour in times.hours for minute in times.minutes for second in times.seconds]


@dataclass(frozen=True)
class SteadyRule:
    """An interval, or a fixed delay."""

    interval_us: int
    fixed_delay: bool = False

    wild = False
    book = None

    def given(self):
        return Every(timedelta(microseconds=self.interval_us), after_completion=self.fixed_delay)


def between(slots, after, until):
    """Those of a sorted list in (after, until]."""
    return slots[bisect_right(slots, after) : bisect_right(slots, until)]
