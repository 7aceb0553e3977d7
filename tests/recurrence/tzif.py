"""The changes of offset of a zone, read out of its data file itself (RFC 9636), without asking a tzinfo.

A file lists changes up to the point where a rule takes over: a text in the manner of POSIX, such as
`CET-1CEST,M3.5.0,M10.5.0/3` (from the last Sunday of March, 02:00, to the last Sunday of October, 03:00).
"""

from __future__ import annotations

import calendar
import re
import struct
from datetime import UTC, datetime
from importlib import resources
from typing import NamedTuple

from timewheel import zones

FIRST_S = 0  # 1970
END_S = 2_145_916_800  # 2038-01-01


class Change(NamedTuple):
    """At the instant `at_s` local time minus UTC goes from before_s to after_s."""

    at_s: int
    before_s: int
    after_s: int


def data(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def distinct() -> list[str]:
    """The names of all zones that differ, one of each set of links."""
    seen: dict[bytes, str] = {}
    for name in sorted(zones.known()):
        seen.setdefault(data(name), name)
    return sorted(seen.values())


def changes(name: str) -> list[Change]:
    """All changes of offset from 1970 to 2037, in order."""
    raw = data(name)
    second = 44 + _body(raw, 0, 4)  # the first block is for 32-bit readers
    _, _, _, count, kinds, _ = _header(raw, second)
    place = second + 44
    instants = struct.unpack_from(f">{count}q", raw, place)
    of_instant = raw[place + 8 * count : place + 9 * count]
    offsets = [struct.unpack_from(">l", raw, place + 9 * count + 6 * kind)[0] for kind in range(kinds)]
    before = offsets[0]
    listed = [(instant, offsets[kind]) for instant, kind in zip(instants, of_instant, strict=True)]
    last = instants[-1] if instants else -(10**12)
    footer = raw[place + _body(raw, second, 8) :].strip(b"\n").decode("ascii")
    found = []
    for instant, after in [*listed, *_by_rule(footer, last)]:
        if after != before and FIRST_S <= instant < END_S:
            found.append(Change(instant, before, after))
        before = after
    return found


_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_CLOCK = r"([+-]?\d+(?::\d+){0,2})"
_RULE = re.compile(rf"{_NAME}{_CLOCK}(?:{_NAME}{_CLOCK}?,([^,]+),([^,]+))?")


def _by_rule(footer: str, after_s: int) -> list[tuple[int, int]]:
    """The (instant, new offset) that the rule makes after the last listed change, to 2037."""
    match = _RULE.fullmatch(footer)
    assert match, footer
    standard_text, summer_text, begin, end = match.groups()
    if begin is None:
        return []
    standard = -_clock(standard_text)
    summer = -_clock(summer_text) if summer_text else standard + 3600
    found = []
    for year in range(1970, 2038):
        found.append((_moment(begin, year) - standard, summer))
        found.append((_moment(end, year) - summer, standard))
    return sorted(one for one in found if one[0] > after_s)


def _clock(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    return sign * (parts[0] * 3600 + parts[1] * 60 + parts[2])


def _moment(text: str, year: int) -> int:
    """A date of the rule, in a year, as local seconds since 1970."""
    day_text, _, clock = text.partition("/")
    month, week, weekday = (int(part) for part in day_text.removeprefix("M").split("."))
    days = [day for day in calendar.Calendar().itermonthdates(year, month) if day.month == month]
    chosen = [day for day in days if day.isoweekday() % 7 == weekday]
    day = chosen[-1] if week == 5 else chosen[week - 1]
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return round(midnight.timestamp()) + (_clock(clock) if clock else 7200)


def _header(raw: bytes, place: int) -> tuple[int, ...]:
    assert raw[place : place + 4] == b"TZif"
    return struct.unpack_from(">6l", raw, place + 20)


def _body(raw: bytes, place: int, size: int) -> int:
    ut, standard, leap, count, kinds, letters = _header(raw, place)
    return count * (size + 1) + kinds * 6 + letters + leap * (size + 4) + standard + ut
