"""What users do: each verb of the API is a move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel.testing.simulation.moves import MoveKind, What

if TYPE_CHECKING:
    from timewheel.testing.simulation.drawing import Drawing
    from timewheel.testing.simulation.world import World


class Submit(MoveKind):
    """Makes a job."""

    weight = 14

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return drawing.job() | drawing.impatience()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit(what)


class Keyed(MoveKind):
    """Makes a job under an idempotency key that others use too, with the same body or another."""

    weight = 4

    @staticmethod
    def draw(drawing: Drawing) -> What:
        key = drawing.chance.randrange(4)
        body = drawing.chance.choice([0, 0, 0, 1])
        script = {"ends": ["ok"], "takes_s": 0.05 * body}
        tag = f"key {key}/{body}"
        drawing.note(tag)
        return {
            "tag": tag,
            "key": f"key {key}",
            "script": script,
            "clock": "after",
            "delay_s": key,
        } | drawing.impatience()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit(what)


class Burst(MoveKind):
    """Makes many jobs at once, each in a call of its own, due at the same moment."""

    weight = 0.6

    @staticmethod
    def draw(drawing: Drawing) -> What:
        first = drawing.job()
        jobs = [first, *({**first, "tag": drawing.new_tag()} for _ in range(drawing.chance.randrange(5, 25)))]
        return {"jobs": jobs}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await asyncio.gather(*(world.users.submit(each) for each in what["jobs"]))


class Many(MoveKind):
    """Makes several jobs in one call."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"jobs": [drawing.job() for _ in range(drawing.chance.randrange(1, 9))]} | drawing.impatience()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.submit_many(what)


class Cancel(MoveKind):
    """Cancels a job."""

    weight = 8

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return drawing.some_job() | drawing.impatience()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.cancel(what["tag"], what.get("give_up_s"))


class Reschedule(MoveKind):
    """Moves a job."""

    weight = 8

    @staticmethod
    def draw(drawing: Drawing) -> What:
        clock = drawing.chance.choice(["at", "after"])
        return drawing.some_job() | {"clock": clock, "delay_s": drawing.delay_s()} | drawing.impatience()

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.reschedule(what["tag"], what["clock"], what["delay_s"], what.get("give_up_s"))


class Wait(MoveKind):
    """Waits for a job's end."""

    weight = 1.5

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return drawing.some_job() | {"timeout_s": drawing.chance.choice([0.01, 1, 30])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.wait(what["tag"], what["timeout_s"])


class CancelAll(MoveKind):
    """Cancels every job of a queue."""

    weight = 0.4

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"which": {"queue": drawing.queue(), "state": ["SCHEDULED", "ACTIVE"]}}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.cancel_all(what["which"])


class Pause(MoveKind):
    """Pauses a queue and resumes it after a while, unless something comes between."""

    weight = 1

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"queue": drawing.queue(), "for_s": drawing.chance.choice([0, 0.02, 0.5, 4])}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.queue("pause", what["queue"], {})
        await asyncio.sleep(what["for_s"])
        await world.users.queue("resume", what["queue"], {})


class Update(MoveKind):
    """Gives a queue other limits."""

    weight = 0.8

    @staticmethod
    def draw(drawing: Drawing) -> What:
        rate = {"count": drawing.chance.choice([2, 10]), "per_s": 1, "burst": drawing.chance.choice([1, 3])}
        limits = {"rate": drawing.chance.choice([rate, None]), "concurrency": drawing.chance.choice([1, 3, None])}
        return {"queue": drawing.queue(), "limits": limits}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.queue("update", what["queue"], what["limits"])


class Look(MoveKind):
    """Reads lists and attempts."""

    weight = 0.8

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {}

    @staticmethod
    async def play(world: World, what: What) -> None:
        await world.users.look()


class Register(MoveKind):
    """Makes a task known that this life's program did not have."""

    weight = 0.3

    @staticmethod
    def draw(drawing: Drawing) -> What:
        return {"task": "guest"}

    @staticmethod
    async def play(world: World, what: What) -> None:
        scheduler = world.users.scheduler
        if scheduler is not None:
            world.register(scheduler, what["task"])
