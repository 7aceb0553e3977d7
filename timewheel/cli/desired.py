"""The desired set of schedules, as a TOML file says it: text in, bodies of requests out. Pure.

`schedules apply --help` has the format (`timewheel.cli.parser_schedules`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, NamedTuple

from timewheel.checks import shown
from timewheel.recurrence.calendar import Calendar

MANAGED = "file"
WEEKEND = ("sat", "sun")
MOST_BYTES = 4 << 20
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_EVERY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)", re.ASCII)
_TABLES = {"calendar", "schedule"}
_NOT_HERE = {"if_exists": "an existing one is always updated", "dry_run": "apply shows the difference first"}
_NOT_HERE |= {"managed": "a file always says so", "every_s": "write every ="}


class NotDesired(ValueError):
    """A file that says no set of schedules; the message says where and why."""


class Desired(NamedTuple):
    """Calendars by name, and schedules by id, each as its request body."""

    calendars: dict[str, dict[str, Any]]
    schedules: dict[str, dict[str, Any]]


def read(text: str) -> Desired:
    """What a file says. Raises NotDesired."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotDesired(f"it is not TOML: {error}") from None
    except RecursionError:
        raise NotDesired("it has too many levels") from None
    unknown = document.keys() - _TABLES
    if unknown:
        raise NotDesired(f"{shown(min(unknown))} is not known: a file has tables [[schedule]] and [[calendar]]")
    calendars: dict[str, dict[str, Any]] = {}
    for place, table in _tables(document, "calendar"):
        name = _named(table, place, "name", calendars)
        calendars[name] = _calendar(table, place)
    schedules: dict[str, dict[str, Any]] = {}
    for place, table in _tables(document, "schedule"):
        named = _named(table, place, "id", schedules)
        schedules[named] = _schedule(table, place)
    return Desired(calendars, schedules)


def _tables(document: Mapping[str, Any], kind: str) -> list[tuple[str, dict[str, Any]]]:
    """The tables of a kind, and how to speak of each."""
    found = document.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise NotDesired(f"{kind}: write each as a table of its own, under [[{kind}]]")
    return [(f"[[{kind}]] number {number}", table) for number, table in enumerate(found, 1)]


def _named(table: Mapping[str, Any], place: str, key: str, taken: Mapping[str, Any]) -> str:
    name = table.get(key)
    if not isinstance(name, str) or not name:
        raise NotDesired(f"{place}: it needs {key} = a text")
    if name in taken:
        raise NotDesired(f"{place}: {key} = {shown(name)} stands there twice")
    return name


def _calendar(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The calendar as the server shows it, so that the two can be compared."""
    unknown = table.keys() - {"name", "exclude", "weekend"}
    if unknown:
        raise NotDesired(f"{place}: {shown(min(unknown))} is not known: a calendar has name, exclude and weekend")
    exclude = table.get("exclude", [])
    if not isinstance(exclude, list):
        raise NotDesired(f"{place}: exclude is a list of dates and of [first, last] pairs")
    try:
        days: list[Any] = [tuple(map(_day, entry)) if isinstance(entry, list) else _day(entry) for entry in exclude]
        calendar = Calendar(table["name"], days, weekend=table.get("weekend", WEEKEND))
    except (ValueError, TypeError) as error:
        raise NotDesired(f"{place}: {error}") from None
    ranges = [[first.isoformat(), last.isoformat()] for first, last in calendar.exclude]
    return {"exclude": [one[0] if one[0] == one[1] else one for one in ranges], "weekend": list(calendar.weekend)}


def _day(value: Any) -> Any:
    """A date, also one that is written as a text. Raises ValueError for another text."""
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"exclude: {shown(value)} is no date like 2026-12-25") from None


def _schedule(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in table.items():
        if key in _NOT_HERE:
            raise NotDesired(f"{place}: {key} is not for a file: {_NOT_HERE[key]}")
        if key == "every":
            body["every_s"] = _seconds(value, place)
        elif key == "anchor" and isinstance(value, datetime):
            body[key] = value.isoformat()
        elif key in ("start", "end"):
            body[key] = _instant(key, value, place)
        else:
            _check_plain(key, value, place)
            body[key] = value
    return {**body, "managed": MANAGED}


def _seconds(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = _EVERY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise NotDesired(f'{place}: every = {shown(value)}: write seconds, or a text like "90s", "5m", "2h", "1d"')
    return float(found[1]) * _UNITS_S[found[2]]


def _instant(key: str, value: Any, place: str) -> Any:
    if isinstance(value, date) and (not isinstance(value, datetime) or value.tzinfo is None):
        raise NotDesired(f"{place}: {key} = {value} needs a time with an offset, like 2026-01-05T00:00:00Z")
    if isinstance(value, datetime):
        return value.isoformat()
    _check_plain(key, value, place)
    return value


def _check_plain(key: str, value: Any, place: str) -> None:
    """Raise NotDesired for what JSON does not have."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, date | time) or one in (float("inf"), float("-inf")) or one != one:
            raise NotDesired(f"{place}: {key} holds {shown(one)}, which JSON does not have: write it as a text")
