"""One field of a cron rule: what its elements may be, and the values they name.

Pure: no asyncio, clock, randomness, files or sockets. An element is plain (`*`, 5, MON, 1-5, 10-50/20, 5/15) or one of
the marks that count days in a month (L, L-3, LW, 15W; FRIL, L5, MON#2). croniter expands the plain ones, always in the
place of its minutes: there neither aliases nor wrap-round of it apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, NoReturn

from croniter import croniter  # type: ignore[import-untyped]

from timewheel.checks import shown
from timewheel.errors import InvalidRule

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MOST_DIGITS = 4


class Field(NamedTuple):
    """What a field may hold: values from least to most, or names; a step is at most `steps`."""

    name: str
    least: int
    most: int
    steps: int
    names: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """The values it may hold, in words."""
        names = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{names}"


MONTH_DAY = Field("day of month", 1, 31, 31)
WEEKDAY = Field("day of week", 0, 7, 7, WEEKDAYS)
FIELDS = (
    Field("second", 0, 59, 60),
    Field("minute", 0, 59, 60),
    Field("hour", 0, 23, 24),
    MONTH_DAY,
    Field("month", 1, 12, 12, MONTHS),
    WEEKDAY,
)


@dataclass(slots=True)
class Values:
    """What a field names: `ranges` (first, last, step) in every field, the others in the two day fields only."""

    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    before_last: set[int] = field(default_factory=set)  # L-n, L is 0
    near: set[int] = field(default_factory=set)  # nW
    last_workday: bool = False  # LW
    nth: set[tuple[int, int]] = field(default_factory=set)  # weekday#n
    last: set[int] = field(default_factory=set)  # weekdayL

    def plain(self) -> tuple[int, ...]:
        """The values of the ranges, in order, each once."""
        return _expanded(tuple(self.ranges)) if self.ranges else ()


def values_of(rule: str, kind: Field, text: str) -> Values:
    """What the text of a field, in capitals, names. Raises InvalidRule for anything that is not understood."""
    reader = _Reader(rule, kind)
    result = Values()
    if text == "?":
        if kind not in (MONTH_DAY, WEEKDAY):
            reader.refuse(text, "? may stand only for the day of month or the day of week; write *")
        text = "*"
    for element in text.split(","):
        if not (kind is MONTH_DAY and reader.month_day(element, result)) and not (
            kind is WEEKDAY and reader.weekday(element, result)
        ):
            result.ranges.append(reader.plain(element))
    return result


@lru_cache(maxsize=1024)
def _expanded(ranges: tuple[tuple[int, int, int], ...]) -> tuple[int, ...]:
    written = []
    for first, last, step in ranges:
        if step > last - first:
            written.append(str(first))
        else:
            written.append(f"{first}-{last}" if step == 1 else f"{first}-{last}/{step}")
    found = croniter.expand(",".join(written) + " * * * *")[0][0]
    return tuple(range(60)) if found == ["*"] else tuple(sorted({int(one) for one in found}))


class _Reader:
    """Reads the elements of one field of one rule; whatever it does not understand it refuses by name."""

    def __init__(self, rule: str, kind: Field) -> None:
        self.rule = rule
        self.kind = kind

    def refuse(self, element: str, hint: str) -> NoReturn:
        raise InvalidRule(f"{shown(self.rule)}: {self.kind.name} {shown(element, 40)}: {hint}", field=self.kind.name)

    def number(self, element: str, digits: str, least: int, most: int) -> int:
        """The number from least to most that the digits write."""
        value = int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else -1
        if not least <= value <= most:
            self.refuse(element, f"{shown(digits, 20)} is not a number from {least} to {most}")
        return value

    def value(self, element: str, text: str) -> int:
        """The value that a number or a name stands for."""
        if text in self.kind.names:
            return self.kind.names.index(text) + (self.kind.least if self.kind.name == "month" else 0)
        if not (text.isdigit() and len(text) <= _MOST_DIGITS and self.kind.least <= int(text) <= self.kind.most):
            self.refuse(element, f"{shown(text, 20)} is not one of {self.kind.range}" if text else self._empty(element))
        return int(text)

    def _empty(self, element: str) -> str:
        return f"a value is missing; it may be {self.kind.range}" if element else "an element of the list is empty"

    def plain(self, element: str) -> tuple[int, int, int]:
        """(first, last, step) of a number, a name, a range or a star, each with or without a step."""
        base, slash, digits = element.partition("/")
        step = self.step(element, digits) if slash else 1
        if base == "*":
            return self.kind.least, min(self.kind.most, 6) if self.kind is WEEKDAY else self.kind.most, step
        if "?" in element:
            self.refuse(element, "? must stand alone")
        first_text, dash, last_text = base.partition("-")
        first = self.value(element, first_text)
        if not dash:
            return first, self.kind.most if slash else first, step
        last = self.value(element, last_text)
        if last_text == "SUN" and first > 0:
            last = 7
        if last < first:
            most, least = self.kind.most - (self.kind is WEEKDAY), self.kind.least
            both = f"{first}-7" if self.kind is WEEKDAY and last == 0 else f"{first}-{most},{least}-{last}"
            self.refuse(element, f"it runs backwards; write {both}")
        return first, last, step

    def step(self, element: str, digits: str) -> int:
        """The number after a slash."""
        if digits == "0":
            self.refuse(element, "a step of 0 goes nowhere; the least is 1")
        return self.number(element, digits, 1, self.kind.steps)

    def month_day(self, element: str, result: Values) -> bool:
        """Read L, L-n, LW or nW into the result; False when the element is none of them."""
        if element in ("L", "LW"):
            if element == "L":
                result.before_last.add(0)
            else:
                result.last_workday = True
        elif element.startswith("L-"):
            result.before_last.add(self.number(element, element[2:], 1, 30))
        elif element.endswith("W") and element[:-1].isdigit():
            result.near.add(self.number(element, element[:-1], 1, 31))
        elif "L" in element or "W" in element:
            self.refuse(
                element, "the forms are L (last day), L-3, LW (last Monday to Friday) and 15W (nearest to the 15th)"
            )
        else:
            return False
        return True

    def weekday(self, element: str, result: Values) -> bool:
        """Read 5L, L5, FRIL or 5#2 into the result; False when the element is none of them."""
        day, hash_mark, number = element.partition("#")
        if hash_mark:
            result.nth.add((self.value(element, day) % 7, self.number(element, number, 1, 5)))
        elif element == "L" or "W" in element.replace("WED", ""):
            self.refuse(element, "the forms are 5L or FRIL (the last Friday) and 5#2 or FRI#2 (the second Friday)")
        elif element.endswith("L") or element.startswith("L"):
            result.last.add(self.value(element, element[:-1] if element.endswith("L") else element[1:]) % 7)
        else:
            return False
        return True
