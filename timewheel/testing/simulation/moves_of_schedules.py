"""What users do with schedules: each verb is a move. They are drawn from a stream of chance of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.testing.simulation.moves import MoveKind, What
from timewheel.testing.simulation.standing_plans import (
    FASTEST_S,
    SCHEDULES,
    SHARED_KEY,
    draw_options,
    draw_rule,
    draw_script,
)

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World


AS_SEEN = ["", "", "newest", "oldest"]  # the version that an edit insists on: that of a handle which somebody has


class StandingMove(MoveKind):
    """Base of the moves with schedules."""

    stream = "schedules"


class Declare(StandingMove):
    """Declares a schedule, over whatever has its id."""

    weight = 5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        schedule = chance.choice(SCHEDULES)
        rule = draw_rule(chance, change_near=drawing.standing.change_near)
        what: What = {"schedule": schedule, "rule": rule, "options": draw_options(chance, rule)}
        what |= {"task": chance.choices(["act", "work", "guest"], [6, 1, 3])[0], "script": draw_script(chance)}
        if what["task"] == "work":
            what["script"] = {"ends": ["ok"], "takes_s": 0.01}
        if "hangs" in what["script"]["ends"] or chance.random() < 0.15:
            what["options"]["timeout_s"] = chance.choice([0.05, 0.4, 1.5])
        what["queue"] = chance.choice(["default", "default", "default", "narrow", "tight"])
        drawing.standing.declared[schedule] = what
        return what | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.declare(what)


class Redeclare(StandingMove):
    """Declares a schedule once more: as before, or with something changed."""

    weight = 3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        if not drawing.standing.declared:
            return Declare.draw(drawing)
        schedule = chance.choice(sorted(drawing.standing.declared))
        what = {**drawing.standing.declared[schedule]}
        if chance.random() < 0.5:
            what["options"] = draw_options(chance, what["rule"]) | {
                name: value for name, value in what["options"].items() if name == "timeout_s"
            }
        if chance.random() < 0.2:
            what["if_exists"] = chance.choice(["keep", "fail"])
        drawing.standing.declared[schedule] = {name: value for name, value in what.items() if name != "if_exists"}
        return what

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.declare(what)


class Edit(StandingMove):
    """Updates options, or the rule; sometimes only if the schedule has the version that was seen before."""

    weight = 4

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        rule = draw_rule(chance, change_near=drawing.standing.change_near) if chance.random() < 0.4 else None
        drawn = draw_options(chance, rule or {})
        drawn.pop("concurrency_key", None)
        options = {name: drawn[name] for name in drawn if chance.random() < 0.4}
        if rule is not None and rule.get("s") == FASTEST_S:
            options["max_runs"] = drawn["max_runs"]
        what: What = {"schedule": drawing.standing.some(), "rule": rule, "options": options}
        return what | {"as_seen": chance.choice(AS_SEEN)} | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.edit(what)


class Rest(StandingMove):
    """Pauses a schedule, sometimes until a time."""

    weight = 3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        until_s = chance.choice([0.5, 4, 30]) if chance.random() < 0.4 else None
        return {"schedule": drawing.standing.some(), "until_s": until_s} | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.pause(what)


class GoOn(StandingMove):
    """Resumes a schedule."""

    weight = 3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"schedule": drawing.standing.some()} | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.resume(what)


class Trigger(StandingMove):
    """Has a schedule run once now."""

    weight = 3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"schedule": drawing.standing.some(), "force": drawing.standing.chance.random() < 0.3}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.trigger(what)


class Backfill(StandingMove):
    """Makes up for slots of the past, or only counts them."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        what: What = {"schedule": drawing.standing.some(), "from_s": -chance.choice([2, 6, 15])}
        return what | {
            "to_s": chance.choice([-1, 0, 5]),
            "at_once": chance.choice([1, 1, 2]),
            "dry": chance.random() < 0.3,
        }

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.backfill(what)


class Drop(StandingMove):
    """Deletes a schedule."""

    weight = 2

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        return {"schedule": drawing.standing.some(), "as_seen": chance.choice(AS_SEEN)} | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.delete(what)


class Shut(StandingMove):
    """Saves the calendar: today is a day off from now on, or not any more."""

    weight = 0.6

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"shut": drawing.standing.chance.random() < 0.5}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.put_calendar(shut=what["shut"])


class Disturb(StandingMove):
    """Cancels or moves a job that a schedule has made and that is not final."""

    weight = 2

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        what: What = {"schedule": drawing.standing.some(), "verb": chance.choice(["cancel", "cancel", "reschedule"])}
        return what | {"delay_s": chance.choice([0, 0.5, 2]), "which": chance.choice(["oldest", "newest"])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.disturb(what)


class Alone(StandingMove):
    """Makes a job that runs once, and that shares a concurrency key with others."""

    weight = 3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.standing.chance
        tag = drawing.standing.new_alone()
        what: What = {
            "tag": tag,
            "script": draw_script(chance),
            "clock": "after",
            "delay_s": chance.choice([0, 0.3, 2]),
        }
        if "hangs" in what["script"]["ends"]:
            what["timeout_s"] = 0.4
        return what | {"concurrency_key": chance.choice([SHARED_KEY, SHARED_KEY, "own"])} | drawing.standing.haste()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit(what)


class Peep(StandingMove):
    """Reads schedules, their previews and ledgers."""

    weight = 1

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"schedule": drawing.standing.some()}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.standing.look(what)
