"""The operators of a simulation: they replay and discard what has ended, one by one and many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from timewheel import Operation, Rate
from timewheel.errors import InvalidOption, Overloaded, TimewheelError
from timewheel.store.letters import OperationState
from timewheel.testing.simulation.flow_plans import BANK

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

What = dict[str, Any]
REPLAY, DISCARD, REPLAY_ALL, DISCARD_ALL = "replay", "discard", "replay all", "discard all"


class Said(TypedDict):
    """What every operator says."""

    actor: str
    reason: str


SAID: Said = {"actor": "planned", "reason": "planned"}


class Operators:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def replay(self, what: What) -> None:
        """Have a job run again, with other arguments if it `edits`."""
        users, tag = self.world.users, what["tag"]
        job = users.jobs.get(tag)
        if job is None:
            return
        args = None
        if what.get("edits"):
            args = [tag, {"ends": ["ok"], "queue": job.record.queue}]

        async def go() -> str:
            return f"{await job.replay(**SAID, cause_fixed=True, args=args)}"

        await users.ask(REPLAY, tag, go, what.get("give_up_s"), job_id=job.id)

    async def newest(self) -> str:
        """The tag of the newest dead letter."""
        found: list[str] = []

        async def go() -> str:
            page = await self.world.users.the_scheduler.dead_letters(page_size=1)
            for job in page.items:
                tag = str(job.args[0])
                self.world.users.jobs[tag] = job
                found.append(tag)
            return f"{len(page.items)}"

        await self.world.users.ask("newest letter", "", go, None)
        return found[0] if found else ""

    async def discard(self, what: What) -> None:
        """Discard a dead letter."""
        users, tag = self.world.users, what["tag"]
        if job := users.jobs.get(tag):

            async def go() -> str:
                return f"{await job.discard(**SAID)}"

            await users.ask(DISCARD, tag, go, None, job_id=job.id)

    async def replay_all(self, what: What) -> None:
        """Have many run again."""

        async def go() -> str:
            letters = self.world.users.the_scheduler.dead_letters(**what["which"])
            return _told(
                await letters.replay(**SAID, cause_fixed="it is", canary=what["canary"], rate=Rate(**what["rate"]))
            )

        await self.world.users.ask(REPLAY_ALL, "", go, None, explains=_busy)

    async def discard_all(self, what: What) -> None:
        """Discard many."""

        async def go() -> str:
            letters = self.world.users.the_scheduler.dead_letters(**what["which"])
            return _told(await letters.discard(**SAID))

        await self.world.users.ask(DISCARD_ALL, "", go, None, explains=_busy)

    async def halt(self) -> None:
        """Stop the newest operation that runs."""

        async def go() -> str:
            page = await self.world.users.the_scheduler.operations(page_size=5)
            for each in page.items:
                if each.state is OperationState.RUNNING:
                    return _told(await each.stop(**SAID))
            return "none runs"

        await self.world.users.ask("halt", "", go, None)

    async def force(self, how: str) -> None:
        """Say how the breaker is to be: "open", "closed", or "auto"."""

        async def go() -> str:
            handle = self.world.users.the_scheduler.dependency(BANK)
            verbs = {"open": handle.force_open, "closed": handle.force_closed, "auto": handle.auto}
            await verbs[how]("planned")
            return f"{handle.state().breaker}"

        await self.world.users.ask(f"force {how}", BANK, go, None)

    async def look(self) -> None:
        """Read what there is to read."""

        async def go() -> str:
            letters = self.world.users.the_scheduler.dead_letters(page_size=5)
            page, groups = await letters, await letters.groups()
            audit = await self.world.users.the_scheduler.audit(page_size=5)
            return f"{bool(page.items)} {bool(groups)} {bool(audit.items)}"

        await self.world.users.ask("look at letters", "", go, None)


def _told(operation: Operation) -> str:
    return f"{operation.state}"


def _busy(error: TimewheelError) -> bool:
    return isinstance(error, Overloaded | InvalidOption)
