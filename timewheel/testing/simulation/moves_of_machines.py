"""What machines and strangers do: clocks that are set, sleep, blocked loops, tasks that others cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.testing.ordered_loop import tasks_of_here
from timewheel.testing.simulation.moves import MoveKind, What

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World


class Step(MoveKind):
    """Somebody sets the wall clock."""

    weight = 2

    @staticmethod
    def draw(drawing: Drawing) -> What:
        size = drawing.chance.choices([0.2, 0.3, 1, 20, 3600, 315_000_000], [1, 1, 1, 2, 2, 0.6])[0]
        return {"s": size * drawing.chance.choice([-1, 1])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        world.step(what["s"])


class Drift(MoveKind):
    """The wall clock runs too fast or too slow from now on."""

    weight = 0.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"parts": drawing.chance.choice([-0.05, -0.001, 0.0, 0.001, 0.05])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        world.drift = what["parts"]


class Suspend(MoveKind):
    """The machine sleeps."""

    weight = 1

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"s": drawing.chance.choice([0.1, 1, 20, 4000]) * drawing.chance.random()}

    @staticmethod
    async def play(world: World, what: What) -> None:
        world.machine.suspend(what["s"])
        world.note("suspended", what["s"])


class Block(MoveKind):
    """Something blocks the event loop."""

    weight = 1

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"s": drawing.chance.choice([0.02, 0.3, 2]) * drawing.chance.random()}

    @staticmethod
    async def play(world: World, what: What) -> None:
        world.machine.block(what["s"])


class Meddle(MoveKind):
    """A stranger cancels tasks that are not his: one of the scheduler's own doers."""

    weight = 0.2

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"name": drawing.chance.choice(["ticker", "loader", "committer", "housekeeper", "planner"])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        world.record.meddled = True
        for task in tasks_of_here():
            if task.get_name() == f"timewheel {what['name']}":
                task.cancel()
