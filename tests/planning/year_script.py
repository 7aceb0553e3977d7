"""What happens in a year of schedules: drawn from a seed, before anything runs.

Times are microseconds of elapsed time since the beginning, suspends included. Each schedule is an id and a list of ops.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from tests.planning.year_rules import DAY, HOUR, SECOND, ZONES, Book, Days, SteadyRule, Times, WallRule
from timewheel.testing.virtual import T0

MINUTE = 60 * SECOND
BEGIN_US = round(T0.timestamp()) * SECOND  # what the wall clock shows at the beginning
YEAR = 365 * DAY
QUICK = 310_007  # us: how long most runs take
EVENTS = 40
HOLIDAYS = [datetime(2026, month, day).date() for month, day in ((1, 1), (4, 3), (5, 1), (6, 30), (7, 31), (12, 25))]


@dataclass(frozen=True)
class Definition:
    """A schedule as it is declared: the rule, its options as timewheel takes them, how long a run takes."""

    rule: WallRule | SteadyRule
    misfire: str = "LATEST"
    grace_us: int = 10 * SECOND
    catch_up_max: int = 100
    catch_up_per_s: float | None = 1.0
    overlap: str = "SKIP"
    limit: int | None = None
    key: str | None = None
    jitter_us: int = 0
    start_us: int | None = None
    end_us: int | None = None
    max_runs: int | None = None
    run_us: int = QUICK
    fails: bool = False


class Op(NamedTuple):
    """Something that somebody does to a schedule. `what`: declare, again, edit, pause, resume, trigger, drop, book."""

    at: int
    what: str
    value: object = None


class Event(NamedTuple):
    """Something that happens to the machine: crash, stop, reboot (`length` down, then up), suspend; and step.

    `step`: by how much the wall clock is set then, or while it is down.
    """

    at: int
    what: str
    length: int = 0
    step: int = 0


@dataclass
class Script:
    """`books`: when somebody saves a calendar anew. `length`: of the whole."""

    events: list[Event]
    length: int
    books: list[tuple[int, Book]] = field(default_factory=list)
    ops: dict[str, list[Op]] = field(default_factory=dict)

    def current(self, definition, at):
        """The definition with its calendar as it is then."""
        book = definition.rule.book
        if book is None:
            return definition
        newest = [new for since, new in self.books if since <= at and new.name == book.name]
        return replace(definition, rule=definition.rule.with_book(newest[-1])) if newest else definition


def draw_script(seed, schedules, length=YEAR):
    rng = random.Random(seed)
    events = draw_events(rng, length)
    script = Script(events, length)
    for name in "pq":
        exclude = tuple(day for day in HOLIDAYS if rng.random() < 0.7)
        at = _moment(rng, events, length, None)
        script.books.append((at, Book(f"book-{name}", exclude)))
    script.books.sort(key=lambda one: one[0])
    for number in range(schedules):
        script.ops[f"s{number:04}"] = draw_life(random.Random(f"{seed} {number}"), number, events, length)
    return script


def draw_events(rng, length):
    count = max(2, EVENTS * length // YEAR)
    space = length // (count + 1)
    kinds = ["crash", "stop", "step", "reboot", "suspend", "crash", "stop", "step"]
    events = []
    for number in range(count):
        what = kinds[number % len(kinds)]
        at = round((number + 0.4 + 0.3 * rng.random()) * space)
        # from seconds to days, each as likely
        down = round(SECOND * 10 ** rng.uniform(0.8, 5.3)) if what != "step" else 0
        step = 0
        if what == "step" or (what in ("crash", "stop") and rng.random() < 0.4):
            size = rng.choice([5 * SECOND, 100 * SECOND, 40 * MINUTE, 2 * HOUR, 5 * HOUR, 26 * HOUR])
            step = rng.choice([-1, -1, 1]) * round(size * rng.uniform(0.8, 1.2))
        events.append(Event(at, what, down, step))
    return events


# ---- one schedule ----------------------------------------------------------------------------------------------------


def draw_life(rng, number, events, length):
    definition, dense = draw_definition(rng, number, events, length)
    moments = sorted(
        _moment(rng, events, length, definition if dense else None) for _ in range(rng.choice([0, 1, 3, 6]))
    )
    ops = [Op(rng.randrange(MINUTE, 6 * HOUR), "declare", definition)]
    paused = False
    for at in moments:
        if at <= ops[-1].at + SECOND:
            continue
        if ops[-1].what == "drop":
            what = "declare"
        elif paused and rng.random() < 0.7:
            what = "resume"
        else:
            what = rng.choice(["pause", "pause", "edit", "edit", "again", "trigger", "trigger", "drop"])
            if what == "pause" and definition.rule.fixed_delay:
                what = "again"  # the journal knows the end of a run by the wall clock, which may be set meanwhile
        paused = {"pause": True, "resume": False, "drop": False}.get(what, paused)
        value = None
        if what == "edit":
            value = definition = _edited(rng, number, definition, events, length)
        elif what in ("declare", "again"):
            value = definition
        elif what == "trigger":
            value = rng.random() < 0.3  # force
        elif what == "pause" and rng.random() < 0.3:
            value = round(rng.uniform(0, 20 * DAY))
        ops.append(Op(at, what, value))
    return ops


def _moment(rng, events, length, dense):
    """When somebody does something: while the process runs."""
    if dense is not None and dense.start_us is not None and rng.random() < 0.8:
        at = dense.start_us - BEGIN_US + rng.randrange(dense.end_us - dense.start_us)
    else:
        at = rng.randrange(length)
    at = min(max(at, 7 * HOUR), length - DAY)
    for event in events:
        if event.at - MINUTE <= at <= event.at + event.length + MINUTE:
            at = event.at + event.length + rng.randrange(2 * MINUTE, 6 * HOUR)
    return at


def _edited(rng, number, old, events, length):
    other, dense = draw_definition(rng, number, events, length)
    if rng.random() < 0.4 and not dense and old.key is None and other.key is None:
        return other
    changes = {"misfire": other.misfire, "catch_up_max": other.catch_up_max}
    if other.key is None:
        changes |= {"overlap": other.overlap, "limit": other.limit}
    return replace(old, **(changes if rng.random() < 0.7 and old.key is None else {"jitter_us": other.jitter_us}))


def draw_definition(rng, number, events, length):
    """(a definition, whether its slots lie so near to one another that it lives for some hours only)"""
    rule, apart = draw_rule(rng, number)
    bounds = {}
    dense = apart <= HOUR
    if dense:
        event = rng.choice(events)
        width = min(apart * 80, 3 * DAY)
        at = event.at + rng.randrange(-width, max(1, event.length)) if rng.random() < 0.6 else rng.randrange(length)
        start = BEGIN_US + max(8 * HOUR, at)
        bounds = {"start_us": start, "end_us": start + width}
        if isinstance(rule, SteadyRule):
            bounds = {"end_us": BEGIN_US + 6 * HOUR + width}
    elif rng.random() < 0.1:
        bounds = {"end_us": BEGIN_US + rng.randrange(30 * DAY, length)}
    overlap = rng.choice(["SKIP"] * 6 + ["QUEUE_ONE", "QUEUE_ALL", "ALLOW", "REPLACE", "SERIALIZE"])
    if rule.fixed_delay and overlap == "SERIALIZE":
        overlap = "SKIP"  # only the model does not know when its runs end
    definition = Definition(
        rule,
        misfire=rng.choice(["SKIP", "LATEST", "COALESCE", "ALL"]),
        grace_us=rng.choice([2, 10, 10, 10, 3600]) * SECOND,
        catch_up_max=rng.choice([1, 3, 10, 100]),
        catch_up_per_s=rng.choice([None, 0.5, 1.0, 20.0]),
        overlap=overlap,
        limit=rng.randint(1, 4) if overlap in ("QUEUE_ALL", "ALLOW") else None,
        key=rng.choice("ab") if overlap == "SERIALIZE" else None,
        jitter_us=rng.choice([0, 0, 0, 20 * SECOND, HOUR]),
        max_runs=rng.choice([None] * 12 + [1, 40]),
        run_us=QUICK if overlap == "SERIALIZE" else _run_us(rng, apart),
        fails=rng.random() < 0.05,
        **bounds,
    )
    return definition, dense


def _run_us(rng, apart):
    if rng.random() < 0.7:
        return QUICK
    return min(round(apart * rng.uniform(0.2, 3)), 5 * DAY) | 1


# ---- rules -----------------------------------------------------------------------------------------------------------


def draw_rule(rng, number):
    """(a rule, about how far its slots lie apart)"""
    kind = rng.choices(
        ["daily", "weekly", "monthly", "few hours", "hourly", "minutes", "seconds", "civil", "every", "short", "delay"],
        [4, 28, 24, 1, 5, 5, 3, 12, 10, 4, 4],
    )[0]
    if kind in ("every", "short", "delay"):
        seconds = rng.choice([20, 90, 600]) if kind == "short" else rng.choice([86_400, 200_000, 604_800, 1_000_000])
        return SteadyRule(round((seconds + rng.random()) * SECOND), kind == "delay"), seconds * SECOND
    tz = ZONES[number % len(ZONES)]
    more = {"gap": rng.choice(["AUTO", "AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"])}
    more |= {"fold": rng.choice(["AUTO", "AUTO", "FIRST", "SECOND", "BOTH"])}
    if kind in ("monthly", "weekly") and rng.random() < 0.25:
        name = rng.choice("pq")
        book = Book(f"book-{name}", tuple(HOLIDAYS[::2] if name == "p" else HOLIDAYS[1::2]))
        more |= {"book": book, "roll": rng.choice(["following", "preceding", "modified_following"])}
    if kind == "civil":
        anchor = datetime(2026, 1, rng.randint(1, 28), rng.choice([0, 1, 2, 3, 9]), rng.choice([0, 30]))
        times = Times((None, "", ""), (anchor.hour,), (anchor.minute,))
        days = rng.choice([1, 3, 7, 14, 14, 30])
        return WallRule(tz, times, None, days, anchor, **more), days * DAY
    days, apart = _days(rng, kind)
    times, in_a_day = _times(rng, kind)
    return WallRule(tz, times, days, **more), apart if in_a_day is None else in_a_day


def _days(rng, kind):
    if kind == "monthly":
        return Days(
            rng.choice(["1", "1,15", "31", "L", "L-3", "15W", "LW"]), rng.choice(["*", "*", "1-12/3"])
        ), 30 * DAY
    if kind == "weekly":
        if rng.random() < 0.2:
            return Days(
                *rng.choice(
                    [("1", "*", "1"), ("*/10", "*", "1"), ("?", "mar,APR,10,11", "mon-fri"), ("28-30", "*", "*")]
                )
            ), 7 * DAY
        return Days(of_week=rng.choice(["SAT", "0", "7,3", "1", "5L", "fri#2"])), 7 * DAY
    return Days(), DAY


def _times(rng, kind):
    """(times, how far they lie apart when a day has several)"""
    if kind == "few hours":
        return Times((None, "0", "*/6"), (0, 6, 12, 18), (0,)), 6 * HOUR
    if kind == "hourly":
        return Times((None, "15", "*"), tuple(range(24)), (15,)), HOUR
    if kind == "minutes":
        return Times((None, "*/20", "*"), tuple(range(24)), (0, 20, 40)), 20 * MINUTE
    if kind == "seconds":
        return Times(("*/20", "*", "*"), tuple(range(24)), tuple(range(60)), (0, 20, 40)), 20 * SECOND
    hour, minute = rng.choice([0, 1, 1, 2, 2, 2, 3, 9, 23]), rng.choice([0, 5, 30, 59])
    if rng.random() < 0.15:
        return Times((None, "0,30", f"{hour},12"), tuple(sorted({hour, 12})), (0, 30)), 12 * HOUR
    if rng.random() < 0.15:
        return Times(("7", str(minute), str(hour)), (hour,), (minute,), (7,)), None
    return Times((None, str(minute), str(hour)), (hour,), (minute,)), None
