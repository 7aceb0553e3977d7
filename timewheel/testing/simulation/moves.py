"""The moves of a simulation: what users, machines and strangers do, each a class of its own.

To add one, write a class in `moves_of_users` or `moves_of_machines`: `weight` says how often it is drawn, `draw` fills
in its fields (plain data: the plan is kept as JSON), and `play` does it. It is registered by its name in lower case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from timewheel.testing.simulation.plan import Move

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World

What = dict[str, Any]


class MoveKind:
    """Base of all moves."""

    kinds: ClassVar[dict[str, type[MoveKind]]] = {}
    weight: ClassVar[float] = 1.0

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.__name__.lower()] = cls

    @staticmethod
    def draw(drawing: Drawing) -> What:
        """The fields of one."""
        return {}

    @staticmethod
    async def play(world: World, what: What) -> None:
        """Do it."""


async def play_move(world: World, move: Move) -> None:
    """Do what a move of a plan says."""
    await MoveKind.kinds[move.kind].play(world, move.what)
