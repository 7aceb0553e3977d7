"""Rules drawn at random, each with the predicate that says what it means; no text is parsed to know it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from timewheel.errors import InvalidRule
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.zonal import Zonal

Day = Callable[[date], bool]
DAY = timedelta(days=1)


class Drawn(NamedTuple):
    """A rule, but for its zone and policies."""

    make: Callable[..., Zonal]  # tz=, gap=, fold=
    match: Callable[[datetime], bool]
    wild: bool
    text: str


def plain(rng: random.Random, low: int, high: int, wanted: int, star: float) -> tuple[str, set[int]]:
    """A field of numbers, more often than not holding `wanted`."""
    everything = set(range(low, high + 1))
    if rng.random() < star:
        step = rng.choice([1, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30])
        if step <= high - low:
            return ("*", everything) if step == 1 else (f"*/{step}", set(range(low, high + 1, step)))
        return "*", everything
    parts, values = [], set()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        first = wanted if rng.random() < 0.6 else rng.randint(low, high)
        form = rng.choice(["one", "one", "range", "step", "from"])
        last = rng.randint(first, high)
        step = rng.randint(1, max(1, (high - low) // 2))
        if form == "one":
            parts.append(f"{first}")
            values.add(first)
        elif form == "range":
            parts.append(f"{first}-{last}")
            values.update(range(first, last + 1))
        elif form == "step":
            parts.append(f"{first}-{last}/{step}")
            values.update(range(first, last + 1, step))
        else:
            parts.append(f"{first}/{step}")
            values.update(range(first, high + 1, step))
    return ",".join(parts), values


def length(day: date) -> int:
    return ((day.replace(day=1) + 31 * DAY).replace(day=1) - DAY).day


def nearest_weekday(number: int, day: date) -> bool:
    """Whether `day` is the day from Monday to Friday nearest to the number-th of its month."""
    if number > length(day):
        return False
    near = [candidate for candidate in range(1, length(day) + 1) if day.replace(day=candidate).weekday() < 5]
    return day.day == min(near, key=lambda candidate: (abs(candidate - number), candidate))


def month_day(rng: random.Random, wanted: date) -> tuple[str, Day]:
    form = rng.choice(["*", "*", "*", "plain", "plain", "L", "L-", "W", "LW", "?"])
    number = rng.choice([wanted.day, rng.randint(1, 31)])
    back = rng.choice([max(1, length(wanted) - wanted.day), rng.randint(1, 27)])
    if form in "*?":
        return form, lambda day: True
    if form == "L":
        return form, lambda day: day.day == length(day)
    if form == "L-":
        return f"L-{back}", lambda day: day.day == length(day) - back
    if form == "W":
        return f"{number}W", lambda day: nearest_weekday(number, day)
    if form == "LW":
        return form, lambda day: nearest_weekday(length(day), day)
    text, values = plain(rng, 1, 31, wanted.day, 0.3)
    return text, lambda day: day.day in values


def week_day(rng: random.Random, wanted: date) -> tuple[str, Day]:
    form = rng.choice(["*", "*", "*", "plain", "plain", "last", "nth"])
    number = rng.choice([wanted.isoweekday() % 7, rng.randint(0, 7)])
    if form == "*":
        return form, lambda day: True
    if form == "last":
        text = rng.choice([f"{number}L", f"L{number}"])
        return text, lambda day: day.isoweekday() % 7 == number % 7 and day.day > length(day) - 7
    if form == "nth":
        nth = rng.choice([(wanted.day - 1) // 7 + 1, rng.randint(1, 5)])
        return f"{number}#{nth}", lambda day: day.isoweekday() % 7 == number % 7 and (day.day - 1) // 7 + 1 == nth
    text, values = plain(rng, 0, 7, wanted.isoweekday(), 0.3)
    days = {value % 7 for value in values}
    return text, lambda day: day.isoweekday() % 7 in days


def days(rng: random.Random, wanted: date) -> tuple[str, Day]:
    """The three date fields of a cron text."""
    dom_text, dom = month_day(rng, wanted)
    month_text, months = plain(rng, 1, 12, wanted.month, 0.7)
    dow_text, dow = week_day(rng, wanted)
    both = dom_text[0] in "*?" or dow_text[0] in "*?"

    def match(day: date) -> bool:
        chosen = dom(day) and dow(day) if both else dom(day) or dow(day)
        return chosen and day.month in months

    return f"{dom_text} {month_text} {dow_text}", match


def business(rng: random.Random, wanted: date, match: Day) -> tuple[dict[str, Any], Day]:
    """A calendar, perhaps a roll, and the days that come of `match` with them."""
    closed = {wanted + rng.randint(-4, 4) * DAY for _ in range(rng.randint(0, 4))}
    weekend = rng.choice([("sat", "sun"), ("fri", "sat"), ("sun",), ()])
    roll = rng.choice([None, "following", "preceding", "modified_following"])
    names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

    def is_open(day: date) -> bool:
        return day not in closed and names[day.weekday()] not in weekend

    def walk(day: date, step: timedelta) -> date:
        while not is_open(day):
            day += step
        return day

    def rolled(day: date) -> date:
        later = walk(day, DAY)
        if roll == "preceding" or (roll == "modified_following" and later.month != day.month):
            return walk(day, -DAY)
        return later

    def days_of(day: date) -> bool:
        if roll is None:
            return match(day) and is_open(day)
        around = (day + number * DAY for number in range(-12, 13))
        return any(match(one) and rolled(one) == day for one in around)

    return {"calendar": Calendar("drawn", closed, weekend=weekend), "roll": roll}, days_of


def draw_cron(rng: random.Random, wanted: datetime, *, seconds: bool = False) -> Drawn:
    """A cron rule that often runs near the wanted wall time."""
    date_text, match_day = days(rng, wanted.date())
    hour_text, hours = plain(rng, 0, 23, wanted.hour, 0.4)
    minute_text, minutes = plain(rng, 0, 59, wanted.minute, 0.4)
    second_text, second_values = plain(rng, 0, 59, 0, 0.4) if seconds else ("0", {0})
    text = f"{second_text + ' ' if seconds else ''}{minute_text} {hour_text} {date_text}"
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options, match_day = business(rng, wanted.date(), match_day)
    known: dict[date, bool] = {}

    def match(naive: datetime) -> bool:
        if naive.hour not in hours or naive.minute not in minutes or naive.second not in second_values:
            return False
        day = naive.date()
        if day not in known:
            known[day] = match_day(day)
        return known[day]

    wild = minute_text.startswith("*") or hour_text.startswith("*")
    return Drawn(lambda **given: Cron(text, **options, **given), match, wild, f"{text} {options}")


def draw_civil(rng: random.Random, wanted: datetime) -> Drawn:
    """A Civil rule that runs near the wanted wall time."""
    period = rng.choice([1, 1, 2, 3, 7, 14])
    anchor = wanted - rng.randint(0, 40) * period * DAY + rng.choice([0, 0, 1]) * DAY
    anchor += timedelta(minutes=rng.randint(-90, 90))

    def match(naive: datetime) -> bool:
        return naive >= anchor and naive.time() == anchor.time() and (naive.date() - anchor.date()).days % period == 0

    return Drawn(lambda **given: Civil(days=period, anchor=anchor, **given), match, False, f"{period} {anchor}")


def draw(rng: random.Random, wanted: datetime) -> Drawn:
    """Any rule of wall time to the minute that is possible."""
    while True:
        drawn = draw_civil(rng, wanted) if rng.random() < 0.15 else draw_cron(rng, wanted)
        try:
            drawn.make(tz="UTC")
        except InvalidRule:
            continue
        return drawn
