"""What plans say of schedules: rules and options as data, drawn, and made into real ones when a move is played.

Times are told from the moment of the move (`in_s`), so that fixed times of day fall into the lives that are led.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from timewheel import Calendar, Civil, Cron, Every, Overlap, Schedule
from timewheel.model import SECOND_US
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.zonal import Zonal
from timewheel.testing.laws import demand
from timewheel.testing.simulation.handlers import FINE
from timewheel.testing.simulation.moves import What

if TYPE_CHECKING:
    from timewheel.planning.definition import Definition

SCHEDULES = [f"schedule {number}" for number in range(1, 6)]
SHARED_KEY = "shared"  # a concurrency key that one-shot jobs have, too
CALENDAR = "closed"
FASTEST_S = 0.05  # of an interval; such a schedule has few runs
ZONE = "Europe/Berlin"
WILD = ["* * * * * *", "*/2 * * * * *", "*/3 * * * * *", "1-59/4 * * * * *", "*/2 */1 * * * *"]
NEAR_CHANGES = ["0-50/5 30 2 * * *", "0 0,30 2,3 * * *", "*/10 * 1-3 * * *", "30 59 1,2 * * *"]
ENDINGS = [FINE, FINE, FINE, "fails", "permanent", "snoozes", "cancelled by itself", "hangs", "swallows"]
# moments of wall time at which a plan may begin: a little before Berlin's clocks change
CHANGES = ["2026-03-29T00:59:50+00:00", "2026-10-25T00:59:50+00:00", "2026-10-24T23:59:55+00:00"]


# ---- drawing ---------------------------------------------------------------------------------------------------------


def draw_rule(chance: random.Random, *, change_near: bool) -> What:
    """A rule; `change_near`: the clocks of ZONE are about to change."""
    if change_near and chance.random() < 0.5:
        gap, fold = chance.choice(["AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"]), chance.choice(["AUTO", "BOTH"])
        return {"kind": "cron", "expr": chance.choice(NEAR_CHANGES), "tz": ZONE, "gap": gap, "fold": fold}
    kind = chance.choices(["cron", "fixed", "every", "delay", "civil", "calendar"], [4, 3, 5, 2, 1, 1])[0]
    if kind == "cron":
        return {"kind": kind, "expr": chance.choice(WILD), "tz": chance.choice(["UTC", ZONE])}
    if kind == "every":
        rule: What = {"kind": kind, "s": chance.choice([FASTEST_S, 0.3, 1, 1, 2.5, 5])}
        return rule | ({"anchor_s": chance.choice([-7.3, 1.5, 6])} if chance.random() < 0.25 else {})
    if kind == "delay":
        return {"kind": kind, "s": chance.choice([0.3, 1, 3])}
    if kind == "calendar":
        return {"kind": kind, "expr": WILD[1], "shut": chance.choice([False, False, True])}
    in_s = sorted(chance.sample([0.6, 1.2, 2, 3.4, 5, 8, 13], chance.choice([1, 3, 5])))
    return {"kind": kind, "in_s": in_s[:1] if kind == "civil" else in_s}


def draw_options(chance: random.Random, rule: What) -> What:
    """Options of a schedule, each sometimes."""
    options: What = {"overlap": _draw_overlap(chance)}
    draws: dict[str, tuple[float, list[Any]]] = {
        "misfire": (0.75, ["SKIP", "LATEST", "COALESCE", "ALL", "ALL"]),
        "misfire_grace_s": (0.6, [0, 0.5, 3]),
        "catch_up_max": (1, [1, 3, 12]),
        "catch_up_per_s": (0.8, [None, 0.7, 5, 30]),
        "jitter_s": (0.3, [0.2, 1.5, 8]),
        "max_runs": (0.2, [1, 3, 8]),
        "end_in_s": (0.15, [1.5, 6, 700]),
        "start_in_s": (0.1, [1, 4]),
        "retry": (0.4, ["none", "flat"]),
        "priority": (0.2, [0, 9]),
        "concurrency_key": (0.15, [SHARED_KEY]),
    }
    for name, (share, values) in draws.items():
        if chance.random() < share:
            options[name] = chance.choice(values)
    if rule.get("s") == FASTEST_S:
        options["max_runs"] = chance.choice([5, 30])
    if options["overlap"][0] == "SERIALIZE":
        options.pop("concurrency_key", None)
    return options


def _draw_overlap(chance: random.Random) -> list[Any]:
    kind = chance.choices(
        ["SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL", "SERIALIZE"], [3, 2, 2.5, 1.5, 1.5, 1.5]
    )[0]
    if kind == "SERIALIZE":
        return [kind, chance.choice([SHARED_KEY, "own"])]
    return [kind, chance.choice([1, 2, 3])] if kind in ("ALLOW", "QUEUE_ALL") else [kind]


def draw_script(chance: random.Random) -> What:
    """What its jobs do. They stop no scheduler and make no jobs: both would happen again and again."""
    ends = [FINE] if chance.random() < 0.5 else [*chance.choices(ENDINGS, k=chance.choice([1, 2])), FINE]
    script: What = {"ends": ends, "takes_s": round(chance.choice([0, 0, 0.05, 0.5, 3]) * chance.random(), 4)}
    if "swallows" in ends:
        script |= {"stays_s": chance.choice([0.1, 3]), "swallows_s": chance.choice([0.1, 1.5])}
    return script


# ---- making ----------------------------------------------------------------------------------------------------------


def rule_of(what: What, now: datetime) -> Rule:
    """The rule that a move means when it is made now."""
    kind = what["kind"]
    if kind == "every":
        anchor = now + timedelta(seconds=what["anchor_s"]) if "anchor_s" in what else None
        return Every(what["s"], anchor=anchor)
    if kind == "delay":
        return Every(what["s"], after_completion=True)
    if kind == "civil":
        return Civil(days=1, anchor=_second(now, what["in_s"][0]).replace(tzinfo=None), tz="UTC")
    if kind == "fixed":
        return Cron(_fixed(now, what["in_s"]), tz="UTC")
    if kind == "calendar":
        return Cron(what["expr"], tz="UTC", calendar=calendar_of(now, shut=what["shut"]))
    return Cron(what["expr"], tz=what["tz"], gap=what.get("gap", "AUTO"), fold=what.get("fold", "AUTO"))


def calendar_of(now: datetime, *, shut: bool) -> Calendar:
    """The calendar of a simulation: no weekends; today is a day off, or next week is."""
    day = now.date() if shut else now.date() + timedelta(days=7)
    return Calendar(CALENDAR, [day], weekend=())


def options_of(options: What, retries: dict[str, Any], now: datetime) -> What:
    """The options as `recurring` takes them."""
    given = {name: value for name, value in options.items() if not name.endswith("_in_s")}
    if "overlap" in options:
        given["overlap"] = overlap_of(options["overlap"])
    if "retry" in options:
        given["retry"] = retries[options["retry"]]
    for name in ("start", "end"):
        if f"{name}_in_s" in options:
            given[name] = now + timedelta(seconds=options[f"{name}_in_s"])
    return given


def overlap_of(data: list[Any]) -> Overlap:
    """An overlap policy from [kind, limit or key]."""
    kind, *more = data
    if kind == "SERIALIZE":
        return Overlap.SERIALIZE(more[0])
    policy: Overlap = getattr(Overlap, kind)
    return policy(limit=more[0]) if more else policy


def _second(now: datetime, in_s: float) -> datetime:
    return (now + timedelta(seconds=in_s)).astimezone(ZoneInfo("UTC")).replace(microsecond=0)


def _fixed(now: datetime, in_s: list[float]) -> str:
    """A time of day a few seconds ahead, once or at several seconds of that minute."""
    first = _second(now, in_s[0])
    seconds = {each.second for each in (_second(now, s) for s in in_s) if each.minute == first.minute}
    return f"{','.join(map(str, sorted(seconds)))} {first.minute} {first.hour} * * *"


def compare(schedule: Schedule[Any], given: What, rule: Any) -> None:
    """I3: a schedule is what was asked for."""
    found: Definition = schedule.definition
    if rule is not None:
        wanted = rule.with_zone("UTC") if isinstance(rule, Zonal) else rule
        demand(found.rule.to_data() == wanted.to_data(), "I3", f"another rule than {wanted!r}", schedule.record)
    told = {
        "misfire": found.misfire.kind,
        "misfire_grace_s": found.misfire.grace_us / SECOND_US,
        "catch_up_max": found.misfire.catch_up_max,
        "catch_up_per_s": found.misfire.catch_up_per_s,
        "jitter_s": found.jitter_us / SECOND_US,
        "max_runs": found.max_runs,
        "priority": found.priority,
        "queue": found.queue,
        "concurrency_key": found.concurrency_key,
        "timeout_s": None if found.timeout_us is None else found.timeout_us / SECOND_US,
    }
    for name, value in told.items():
        demand(name not in given or given[name] == value, "I3", f"{name} is {value}", given, schedule.record)
    if "overlap" in given:
        demand(found.overlap == given["overlap"].policy, "I3", "another overlap policy", given, schedule.record)
