"""The moves of a simulation: what users, machines and strangers do, each a class of its own.

To add one, write a class in `moves_of_users`, `moves_of_schedules` or `moves_of_machines`: `weight` says how often it
is drawn, `draw` fills in its fields (plain data: the plan is kept as JSON), and `play` does it. It is registered by its
name in lower case.
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
    stream: ClassVar[str] = "users"  # of chance, from which it is drawn: "users" or "schedules"

    def __init_subclass__(cls) -> None:
        if "play" in vars(cls):
            cls.kinds[cls.__name__.lower()] = cls

    @staticmethod
    def draw(drawing: Drawing) -> What:
        """The fields of one."""
        return {}

    @staticmethod
    async def play(world: World, what: What) -> None:
        """Do it."""


def kinds_of(stream: str) -> dict[str, type[MoveKind]]:
    """The kinds that are drawn from a stream of chance, by name."""
    return {name: MoveKind.kinds[name] for name in sorted(MoveKind.kinds) if MoveKind.kinds[name].stream == stream}


async def play_move(world: World, move: Move) -> None:
    """Do what a move of a plan says."""
    await MoveKind.kinds[move.kind].play(world, move.what)
