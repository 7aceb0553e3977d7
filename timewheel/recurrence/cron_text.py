"""The text of a cron rule, read with care: bounds first, every character accounted for, nothing guessed.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, NoReturn

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.recurrence.cron_days import CronDates, DayRule
from timewheel.recurrence.cron_fields import FIELDS, Values, values_of
from timewheel.recurrence.times import DayTimes

MOST_CHARACTERS = 256
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class CronText(NamedTuple):
    """What a text says. `fields` are the six fields, seconds first, in capitals; `text` is the rule written plainly."""

    text: str
    tz: str | None
    fields: tuple[str, ...]
    dates: CronDates
    times: DayTimes
    wild: bool  # its minute or hour begins with a star: AUTO takes it for a rule of elapsed time


def read(text: object) -> CronText:
    """The rule that `text` writes.

    Raises InvalidRule (`.field` names the field) for a text that is no cron rule, has more than 256 characters, or
    names days that never come, within 10 ms whatever the text is.
    """
    if not isinstance(text, str):
        raise InvalidRule(f"a cron rule is a text like '0 9 * * MON', not {shown(text)}", field="expr")
    if len(text) > MOST_CHARACTERS:
        raise InvalidRule(
            f"a cron rule has at most {MOST_CHARACTERS} characters, this one {len(text):,}: {shown(text, 40)}",
            field="expr",
        )
    return _read(str(text))


@lru_cache(maxsize=1024)
def _read(text: str) -> CronText:
    _check_characters(text)
    tz, words = _zone(text)
    plain = " ".join(words).upper()
    if words and words[0].startswith("@"):
        plain = " ".join(words).lower()
        words = _named(text, plain).split()
    fields = _fields(text, [word.upper() for word in words])
    values = {field.name: values_of(text, field, part) for field, part in zip(FIELDS, fields, strict=True)}
    dates = CronDates(_day_rule(fields, values), values["month"].plain())
    if not dates.possible():
        _refuse_days(text, fields)
    hours, minutes, seconds = (values[name].plain() for name in ("hour", "minute", "second"))
    wild = fields[1].startswith("*") or fields[2].startswith("*")
    return CronText(plain, tz, fields, dates, DayTimes(hours, minutes, seconds), wild)


def _check_characters(text: str) -> None:
    for place, character in enumerate(text, 1):
        if not (character == "\t" or " " <= character <= "~"):
            raise InvalidRule(
                f"{shown(text)}: character {place}, {shown(character)}, is not printable ASCII; "
                f"digits are 0 to 9, and blanks are spaces or tabs",
                field="expr",
            )


def _zone(text: str) -> tuple[str | None, list[str]]:
    words = text.split()
    if not words:
        raise InvalidRule(
            "the cron rule is empty: give five fields, like '0 9 * * MON' (9:00 on Mondays)", field="expr"
        )
    name, equals, value = words[0].partition("=")
    if not equals:
        return None, words
    if name != "CRON_TZ":
        hint = "write CRON_TZ=" if name.upper() in ("TZ", "CRON_TZ") else "only CRON_TZ= may stand before the fields"
        raise InvalidRule(f"{shown(text)}: {shown(name)}= is not understood: {hint}", field="tz")
    return value, words[1:]


def _named(text: str, name: str) -> str:
    if name in NAMED:
        return NAMED[name]
    hint = f"there are {', '.join(NAMED)}"
    if name == "@reboot":
        hint = "it is no time; call now(...) after start()"
    elif name.startswith("@every"):
        hint = "for an interval use Every(seconds)"
    raise InvalidRule(f"{shown(text)}: {shown(name)} is not understood: {hint}", field="expr")


def _fields(text: str, words: list[str]) -> tuple[str, ...]:
    if len(words) == 5:
        return ("0", *words)
    if len(words) == 6:
        return tuple(words)
    hint = "give minute, hour, day of month, month, day of week, or these five with seconds first"
    if len(words) == 7:
        hint = "a year field is not supported; use start= and end= of the schedule"
    raise InvalidRule(f"{shown(text)} has {len(words)} fields, not 5 or 6: {hint}", field="expr")


def _day_rule(fields: tuple[str, ...], values: dict[str, Values]) -> DayRule:
    month_day, weekday = values["day of month"], values["day of week"]
    return DayRule(
        month_days=sum(1 << day for day in month_day.plain()),
        before_last=tuple(sorted(month_day.before_last)),
        near=tuple(sorted(month_day.near)),
        last_workday=month_day.last_workday,
        weekdays=sum(1 << day for day in {day % 7 for day in weekday.plain()}),
        nth=tuple(sorted(weekday.nth)),
        last=tuple(sorted(weekday.last)),
        both=fields[3][0] in "*?" or fields[5][0] in "*?",
    )


def _refuse_days(text: str, fields: tuple[str, ...]) -> NoReturn:
    what = f"day of month {fields[3]} in month {fields[4]}"
    if fields[5] not in ("*", "?"):
        what += f" on day of week {fields[5]} (a field begins with a star, so both must match)"
    raise InvalidRule(f"{shown(text)} never runs: there is no {what}", field="day of month")
