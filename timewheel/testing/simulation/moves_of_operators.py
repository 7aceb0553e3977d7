"""What operators do with what has ended. Drawn from the stream of chance of flow control."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel.testing.simulation.flow_plans import KEYED
from timewheel.testing.simulation.moves import What
from timewheel.testing.simulation.moves_of_flow import FlowMove

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World

WHICH: list[What] = [{}, {}, {"task": "fragile"}, {"queue": KEYED}, {"queue": "default"}]


class Replay(FlowMove):
    """Has one run again."""

    weight = 5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.flow.chance
        what: What = {"tag": drawing.flow.some(), "edits": chance.random() < 0.2}
        what |= {"newest": chance.random() < 0.6, "times": chance.choice([1, 1, 2])}
        return what | ({"give_up_s": 0.004} if chance.random() < 0.1 else {})

    @staticmethod
    async def play(world: World, what: What) -> None:
        tag = await world.operators.newest() if what["newest"] else what["tag"]
        await asyncio.gather(*(world.operators.replay({**what, "tag": tag}) for _ in range(what["times"])))


class Discard(FlowMove):
    """Discards one."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"tag": drawing.flow.some()}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.discard(what)


class ReplayAll(FlowMove):
    """Has all run again that match: first some canaries, then the others at a rate."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        chance = drawing.flow.chance
        rate = chance.choice([{"count": 2, "per_s": 1, "burst": 1}, {"count": 10, "per_s": 1, "burst": 3}])
        return {"which": chance.choice(WHICH), "canary": chance.choice([0, 1, 1, 2]), "rate": rate}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.replay_all(what)


class DiscardAll(FlowMove):
    """Discards all that match."""

    weight = 0.3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"which": drawing.flow.chance.choice(WHICH)}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.discard_all(what)


class Halt(FlowMove):
    """Stops an operation."""

    weight = 0.3

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.halt()


class Force(FlowMove):
    """Opens a breaker by hand, closes it, or lets it go by itself again. Drawn with the breakers."""

    weight = 0

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.force(what["how"])


class LookAtLetters(FlowMove):
    """Reads dead letters."""

    weight = 0.5

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.operators.look()
