"""Business days: a named set of dates on which nothing runs, and the weekend.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, NoReturn, final

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.misfits import told
from timewheel.recurrence.immutable import Immutable

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MOST_DAYS = 10_000  # excluded in all, 27 years: what a search may have to walk over
MOST_NAME = 200
_VERSION = 1
_NEEDS = {"name": 'a name, by which it is saved: write Calendar("bank", exclude=[date(2026, 12, 25)])'}
_ELSEWHERE = dict.fromkeys(("holidays", "dates", "days"), "did you mean exclude?")
_ELSEWHERE["name"] = "give it first, by position"


@final
class Calendar(Immutable):
    """The days on which a rule does not run: the dates of `exclude`, and the weekend. All others are business days.

    exclude: dates, and (first, last) pairs of dates, both included; at most 10,000 days in all. weekend: names of
    weekdays, () for none. With a Calendar and no roll, a rule leaves its excluded days out; with a roll it moves them.
    Two calendars are equal when their names and days are. Raises InvalidRule naming the field and the value.
    """

    __slots__ = ("_ends", "_firsts", "exclude", "name", "weekend")

    name: str
    exclude: tuple[tuple[date, date], ...]  # in order, disjoint, not adjacent
    weekend: tuple[str, ...]
    _firsts: tuple[int, ...]  # of the excluded ranges, as ordinals
    _ends: tuple[int, ...]

    @told("Calendar", InvalidRule, _NEEDS, _ELSEWHERE)
    def __init__(
        self,
        name: str,
        /,
        exclude: Iterable[date | tuple[date, date]] = (),
        *,
        weekend: Iterable[str] = ("sat", "sun"),
    ) -> None:
        ranges = _ranges(exclude)
        self._set(
            name=calendar_name(name),
            exclude=tuple((date.fromordinal(first), date.fromordinal(end - 1)) for first, end in ranges),
            weekend=_weekend(weekend),
            _firsts=tuple(first for first, _ in ranges),
            _ends=tuple(end for _, end in ranges),
        )

    def _key(self) -> tuple[object, ...]:
        return self.name, self.exclude, self.weekend

    def __repr__(self) -> str:
        return f"Calendar({self.name!r}, {len(self.exclude)} ranges, weekend={self.weekend!r})"

    def is_open(self, day: int) -> bool:
        """Whether the day, a number as of `date.toordinal`, is a business day."""
        return self.next_open(day) == day

    def next_open(self, day: int) -> int:
        """The first business day at or after `day`."""
        while True:
            place = bisect_right(self._firsts, day) - 1
            if place >= 0 and day < self._ends[place]:
                day = self._ends[place]
            elif WEEKDAYS[(day - 1) % 7] in self.weekend:
                day += 1
            else:
                return day

    def last_open(self, day: int) -> int:
        """The last business day at or before `day`."""
        while True:
            place = bisect_right(self._firsts, day) - 1
            if place >= 0 and day < self._ends[place]:
                day = self._firsts[place] - 1
            elif WEEKDAYS[(day - 1) % 7] in self.weekend:
                day -= 1
            else:
                return day

    def to_data(self) -> dict[str, Any]:
        """The calendar as plain data: kind, version, fields."""
        days = [[first.isoformat(), last.isoformat()] for first, last in self.exclude]
        return {
            "kind": "calendar", "version": _VERSION, "name": self.name, "exclude": days, "weekend": list(self.weekend),
        }  # fmt: skip

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Calendar:
        """The calendar that `to_data` wrote. Raises InvalidRule for any other data."""
        if data.get("kind") != "calendar" or data.get("version") != _VERSION:
            raise InvalidRule(f"{shown(dict(data))} is no calendar of version {_VERSION}", field="kind")
        try:
            days = [(date.fromisoformat(first), date.fromisoformat(last)) for first, last in data["exclude"]]
            return cls(data["name"], days, weekend=data["weekend"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRule(f"{shown(dict(data))} is no calendar: {error!r}", field="calendar") from error


def calendar_name(name: object) -> str:
    """`name` when a calendar may be called so: 1 to 200 printable characters. Raises InvalidRule."""
    if not isinstance(name, str) or not 1 <= len(name) <= MOST_NAME or not name.isprintable():
        raise InvalidRule(
            f"a calendar's name is a str of 1 to {MOST_NAME} printable characters, not {shown(name)}", field="calendar"
        )
    return str(name)


def _weekend(names: Iterable[str]) -> tuple[str, ...]:
    given = None if isinstance(names, str) else list(names)
    if given is None or any(name not in WEEKDAYS for name in given):
        raise InvalidRule(
            f'weekend={shown(names)}: it must be a tuple of {", ".join(WEEKDAYS)}, like ("fri", "sat")', field="weekend"
        )
    if len(set(given)) == len(WEEKDAYS):
        raise InvalidRule(f"weekend={shown(names)} leaves no business day at all", field="weekend")
    return tuple(name for name in WEEKDAYS if name in given)


def _ranges(exclude: Iterable[date | tuple[date, date]]) -> list[tuple[int, int]]:
    """The excluded days as (first, end) ordinals, in order and joined where they touch."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(_bounded(exclude)):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    total = sum(end - first for first, end in joined)
    if total > MOST_DAYS:
        raise InvalidRule(f"exclude names {total:,} days; a calendar takes at most {MOST_DAYS:,}", field="exclude")
    return joined


def _bounded(exclude: Iterable[date | tuple[date, date]]) -> Iterator[tuple[int, int]]:
    if _is_text(exclude):  # it would be taken letter by letter
        _refuse_day(exclude)
    for number, one in enumerate(exclude):
        if number >= MOST_DAYS:
            raise InvalidRule(f"exclude has more than {MOST_DAYS:,} entries; write ranges", field="exclude")
        first, last = one if isinstance(one, tuple) and len(one) == 2 else (one, one)
        if not (_is_date(first) and _is_date(last)):
            _refuse_day(one)
        if last < first:
            raise InvalidRule(f"exclude: {shown(one)} ends before it begins", field="exclude")
        yield first.toordinal(), last.toordinal() + 1


def _is_date(value: object) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _refuse_day(given: object) -> NoReturn:
    text = _is_text(given) or (isinstance(given, tuple) and any(map(_is_text, given)))
    hint = ": write date.fromisoformat(...)" if text else ""
    raise InvalidRule(
        f"exclude: {shown(given)} is neither a date nor a (first, last) pair of dates{hint}", field="exclude"
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)
