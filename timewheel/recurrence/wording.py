"""Rules in words, for previews and for whoever has to check what a text means.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.choices import Fold, Gap, Roll
from timewheel.recurrence.cron_fields import FIELDS, Field, Values, values_of

if TYPE_CHECKING:
    from timewheel.recurrence.zonal import Zonal

_SECOND, _MINUTE, _HOUR, _MONTH_DAY, _MONTH, _WEEKDAY = FIELDS
_MOST_TIMES = 6
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_GAP_WORDS = {
    Gap.SKIP: "does not run",
    Gap.FIRE_AFTER: "runs once, at the first instant after the gap",
    Gap.KEEP_OFFSET: "runs as if they had not changed yet",
}
_FOLD_WORDS = {Fold.FIRST: "the first time", Fold.SECOND: "the second time", Fold.BOTH: "both times"}
_ROLL_WORDS = {
    Roll.FOLLOWING: "the next business day",
    Roll.PRECEDING: "the business day before",
    Roll.MODIFIED_FOLLOWING: "the next business day, or the one before if that is in another month",
}


def cron_words(fields: tuple[str, ...]) -> str:
    """The times and days that the six fields of a cron rule name."""
    second, minute, hour, month_day, month, weekday = fields
    words = _times(second, minute, hour) + _days(month_day, weekday)
    if month != "*":
        words += f", in {_list(values_of('', _MONTH, month).plain(), _MONTHS)}"
    return words


def civil_words(anchor: datetime, period_days: int, *, weekly: bool) -> str:
    """The times and days of a Civil rule."""
    number, unit = (period_days // 7, _DAYS[anchor.isoweekday() % 7]) if weekly else (period_days, "day")
    often = f"every {unit}" if number == 1 else f"every {_nth(number)} {unit}"
    return f"at {_clock(anchor.hour, anchor.minute, anchor.second)} on {often}, from {anchor.date().isoformat()} on"


def zonal_words(rule: Zonal, *, wild: bool) -> str:
    """The zone, the policies and the calendar, as the end of a sentence."""
    zone = rule.tz or "UTC"
    words = f", in {zone}"
    gap = (Gap.SKIP if wild else Gap.FIRE_AFTER) if rule.gap is Gap.AUTO else rule.gap
    fold = (Fold.BOTH if wild else Fold.FIRST) if rule.fold is Fold.AUTO else rule.fold
    if zone != "UTC":
        words += f"; a time that the clocks skip {_GAP_WORDS[gap]}; a time that occurs twice runs {_FOLD_WORDS[fold]}"
    if rule.calendar is None:
        return words
    name = rule.calendar.name if isinstance(rule.calendar, Calendar) else rule.calendar
    closed = f"a date that is no business day of the calendar {name!r}"
    return f"{words}; {closed} " + (f"moves to {_ROLL_WORDS[rule.roll]}" if rule.roll else "is left out")


def delay_words(interval_us: int) -> str:
    """An interval as people say it: "1 hour", "90 seconds", "0.25 seconds"."""
    seconds, rest = divmod(interval_us, SECOND_US)
    if rest:
        return f"{interval_us / SECOND_US:.6f}".rstrip("0") + " seconds"
    for size, unit in _UNITS:
        if seconds % size == 0:
            count = seconds // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return ""


def _times(second: str, minute: str, hour: str) -> str:
    clocks = [values_of("", kind, text).plain() for kind, text in ((_HOUR, hour), (_MINUTE, minute), (_SECOND, second))]
    if len(clocks[0]) * len(clocks[1]) * len(clocks[2]) <= _MOST_TIMES:
        return f"at {_and(_clock(h, m, s) for h in clocks[0] for m in clocks[1] for s in clocks[2])}"
    parts = [] if second == "0" else [_often(_SECOND, second)]
    if minute != "*" or second == "0":
        parts.append(_often(_MINUTE, minute))
    if hour != "*":
        parts.append(_often(_HOUR, hour))
    elif not parts[-1].startswith("every"):
        parts[-1] += " of every hour"
    return ", ".join(parts)


def _often(kind: Field, text: str) -> str:
    """A time field that is too long for a list of times."""
    step = text.removeprefix("*/")
    if text == "*" or step == "1":
        return f"every {kind.name}"
    if step != text and (kind.most + 1) % int(step) == 0:
        return f"every {step} {kind.name}s"
    return f"at {kind.name} {_list(values_of('', kind, text).plain())}"


def _days(month_day: str, weekday: str) -> str:
    by_date = [] if month_day in ("*", "?") else _dates(values_of("", _MONTH_DAY, month_day))
    by_week = [] if weekday in ("*", "?") else _weekdays(values_of("", _WEEKDAY, weekday))
    dates, weekdays = _and(by_date), _and(by_week)
    if by_date and by_week and (month_day[0] in "*?" or weekday[0] in "*?"):
        return f", on {dates} if it falls on {weekdays}"
    return (f", on {dates}" if dates else "") + (f"{' and' if dates else ','} on {weekdays}" if weekdays else "")


def _dates(values: Values) -> list[str]:
    plain = values.plain()
    words = [f"day {_list(plain)} of the month"] if plain else []
    for back in sorted(values.before_last):
        before = f"{back} day{'s' if back > 1 else ''} before " if back else ""
        words.append(f"{before}the last day of the month")
    words += [f"the day from Monday to Friday nearest to day {day} of the month" for day in sorted(values.near)]
    return words + (["the last day from Monday to Friday of the month"] if values.last_workday else [])


def _weekdays(values: Values) -> list[str]:
    plain = tuple(sorted({day or 7 for day in values.plain()}))  # Monday first
    words = [_list(plain, _DAYS)] if plain else []
    words += [f"the {_ORDINALS[number]} {_DAYS[day]} of the month" for day, number in sorted(values.nth)]
    return words + [f"the last {_DAYS[day]} of the month" for day in sorted(values.last)]


def _list(values: tuple[int, ...], names: tuple[str, ...] = ()) -> str:
    """Values in words; three or more in a row as "a to b"."""
    words: list[str] = []
    place = 0
    while place < len(values):
        end = place
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        if end - place >= 2:
            words.append(f"{_name(values[place], names)} to {_name(values[end], names)}")
        else:
            words += [_name(value, names) for value in values[place : end + 1]]
        place = end + 1
    return _and(words)


def _name(value: int, names: tuple[str, ...]) -> str:
    return names[value] if names else str(value)


def _and(words: Iterable[str]) -> str:
    every = list(words)
    return every[0] if len(every) == 1 else " and ".join(filter(None, [", ".join(every[:-1]), *every[-1:]]))


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _nth(number: int) -> str:
    if number == 2:
        return "second"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
