"""What users do with jobs that are watched. Drawn by `timewheel.testing.simulation.drawing_watched`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel.testing.simulation.moves import MoveKind, What

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World


class WatchedMove(MoveKind):
    """Base of these moves."""

    stream = "watched"


class Pulse(WatchedMove):
    """Makes a job whose handler says that it is alive."""

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit(what)


class Spend(WatchedMove):
    """Makes jobs at once that fail at first, in a queue that counts retries."""

    @staticmethod
    async def play(world: World, what: What) -> None:
        await asyncio.gather(*(world.users.submit(each) for each in what["jobs"]))
