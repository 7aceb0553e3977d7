"""What users and operators do with flow control and dead letters. Drawn from a stream of chance of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel.testing.simulation.flow_plans import KEYED
from timewheel.testing.simulation.moves import MoveKind, What

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World


class FlowMove(MoveKind):
    """Base of these moves."""

    stream = "flow"


class Flowing(FlowMove):
    """Makes a job that has limits, rivals, or others to wait for."""

    weight = 12

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return drawing.flow.job()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit(what)


class FlowBurst(FlowMove):
    """Makes several alike at once."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        first = drawing.flow.job()
        more = [drawing.flow.job() for _ in range(drawing.flow.chance.randrange(3, 9))]
        alike = {**first, "script": {"ends": ["ok"], "takes_s": 0.3}}
        return {"jobs": [first, *({**alike, "tag": each["tag"]} for each in more)]}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await asyncio.gather(*(world.users.submit(each) for each in what["jobs"]))


class FlowMany(FlowMove):
    """Makes several in one call."""

    weight = 1

    @staticmethod
    def draw(drawing: Drawing) -> What:
        jobs = [drawing.flow.job() for _ in range(drawing.flow.chance.randrange(2, 6))]
        for each in jobs:
            each.pop("expires_at", None)
            each.pop("deadline", None)
        return {"jobs": jobs}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit_many(what)


class FlowCancel(FlowMove):
    """Cancels one."""

    weight = 2

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"tag": drawing.flow.some()}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.cancel(what["tag"])


class FlowMoved(FlowMove):
    """Moves one."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.flow.chance
        return {"tag": drawing.flow.some(), "clock": chance.choice(["at", "after"]), "delay_s": chance.choice([0, 1])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.reschedule(what["tag"], what["clock"], what["delay_s"])


class Reshape(FlowMove):
    """Gives the queue of keys other limits."""

    weight = 0.6

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.flow.chance
        limits: What = {"weight": chance.choice([1, 5]), "key_concurrency": chance.choice([None, 1, 3])}
        limits["key_rate"] = chance.choice([None, {"count": 5, "per_s": 1, "burst": 2}])
        limits["concurrency"] = chance.choice([None, None, 3])
        return {"queue": KEYED, "limits": limits}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.queue("update", what["queue"], what["limits"])
