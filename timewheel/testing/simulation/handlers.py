"""The handlers of a simulation: they do what their script says, and write down when they began and how they ended.

A script is {"takes_s": seconds, "ends": [how each attempt ends, the last one for all further ones]} and what an ending
needs. `ENDINGS` has them by name; each is a function of (handlers, tag, script) that returns a result or raises.

Tasks: `act` runs on the loop, `work` in a thread (which a virtual machine plays on the loop), and `guest` is one more
on the loop, which some lives do not have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from timewheel import Ambiguous, Permanent, Snooze, Throttled, Transient, current
from timewheel.model import job_number
from timewheel.testing.simulation.facts_flow import Heard

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

TASKS = ("act", "work", "guest")
FINE = "ok"
STOPPING = {"stops", "interrupts"}  # not in peace
HUGE = "x" * 70_000


class Unprintable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Handlers:
    """See the module. `running` is how many run now, by queue; `most` what was allowed when each began."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: Counter[str] = Counter()

    async def act(self, tag: str, script: dict[str, Any]) -> Any:
        """On the loop."""
        return await self._act(tag, script)

    async def guest(self, tag: str, script: dict[str, Any]) -> Any:
        """On the loop, too."""
        return await self._act(tag, script)

    metered = slotted = fragile = brittle = (
        guest  # the tasks of flow control, see `timewheel.testing.simulation.flow_plans`
    )

    async def _act(self, tag: str, script: dict[str, Any]) -> Any:
        queue = script.get("queue", "default")
        self._enter(tag, queue)
        how = self._ending_of(script)
        try:
            await asyncio.sleep(script.get("takes_s", 0))
            self.world.happened("leaving", tag)
            result = await (ENDINGS.get(how) or FLOW_ENDINGS[how])(self, tag, script)
        except BaseException as error:
            self._leave(tag, queue, type(error).__name__)
            raise
        self._leave(tag, queue, FINE)
        return result

    def work(self, tag: str, script: dict[str, Any]) -> Any:
        """In a thread."""
        queue = script.get("queue", "default")
        self._enter(tag, queue)
        try:
            self.world.machine.block(script.get("takes_s", 0))
            self.world.happened("leaving", tag)
            result = PLAIN_ENDINGS[self._ending_of(script)](self, tag, script)
        except BaseException as error:
            self._leave(tag, queue, type(error).__name__)
            raise
        self._leave(tag, queue, FINE)
        return result

    def _enter(self, tag: str, queue: str) -> None:
        context = current()
        self.running[queue] += 1
        self.world.entered(tag, queue, context)
        self._heard()
        self.world.happened("entered", tag)

    def beat(self, number: int = 0) -> None:
        """Say that this handler is alive: every second time by its progress."""
        if number % 2:
            current().progress(number)
        else:
            current().heartbeat()
        self._heard()

    def _heard(self, *, over: bool = False) -> None:
        """It began, said that it is alive, or ends; noted where its silence is limited."""
        job_id, attempt, world = job_number(current().job_id) or 0, current().attempt, self.world
        flow = world.journal.book.flow.flows.get(job_id)
        if world.alive and flow is not None and flow.heartbeat_timeout_us is not None:
            world.add(Heard(world.elapsed_us, job_id, attempt, world.machine.awake_us, over))

    def _ending_of(self, script: dict[str, Any]) -> str:
        ends = script["ends"]
        how: str = ends[min(current().attempt, len(ends)) - 1]
        return FINE if how in STOPPING and self.world.record.peaceful else how

    def _leave(self, tag: str, queue: str, how: str) -> None:
        self.running[queue] -= 1
        self._heard(over=True)
        self.world.left(tag, current(), how)


Plain = Callable[[Handlers, str, dict[str, Any]], Any]


def _raises(make: Callable[[], BaseException]) -> Plain:
    def ending(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
        raise make()

    return ending


PLAIN_ENDINGS: dict[str, Plain] = {
    FINE: lambda handlers, tag, script: tag,
    "unstorable result": lambda handlers, tag, script: object(),
    "huge result": lambda handlers, tag, script: HUGE,
    "fails": _raises(lambda: ValueError("planned")),
    "transient": _raises(lambda: Transient("planned")),
    "permanent": _raises(lambda: Permanent("planned")),
    "throttled": _raises(lambda: Throttled("planned", retry_after_s=1.5)),
    "snoozes": _raises(lambda: Snooze(timedelta(seconds=0.7))),
    "cancelled by itself": _raises(lambda: asyncio.CancelledError("planned")),
    "exits": _raises(lambda: SystemExit(3)),
    "group": _raises(lambda: BaseExceptionGroup("planned", [asyncio.CancelledError(), ValueError("one")])),
    "hopeless group": _raises(lambda: ExceptionGroup("planned", [Permanent("one"), Permanent("two")])),
    "unprintable": _raises(Unprintable),
    "generator exit": _raises(GeneratorExit),
    "interrupts": _raises(KeyboardInterrupt),
}


async def _hangs(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Until it is told to stop."""
    await asyncio.Event().wait()


async def _swallows(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Goes on for a while when it is told to stop, and succeeds."""
    try:
        await asyncio.sleep(script.get("stays_s", 3))
    except asyncio.CancelledError:
        await asyncio.sleep(script.get("swallows_s", 2.5))
    return tag


async def _submits(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Makes two more jobs."""
    for number in (1, 2):
        child = f"{tag}.{current().attempt}.{number}"
        what = {"tag": child, "script": {"ends": [FINE]}, "clock": "after", "delay_s": 0.3 * number}
        await handlers.world.users.submit(what)
    return tag


async def _cancels_itself(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Cancels its own job, and sees it."""
    await handlers.world.users.cancel(tag)
    await asyncio.sleep(0.2)
    return tag


async def _cancels_another(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Cancels another job."""
    await handlers.world.users.cancel(script.get("other", ""))
    return tag


async def _stops(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Stops its scheduler, from inside."""
    handlers.world.note("stop from inside", tag)
    await current().scheduler.stop(grace_s=0.5)
    return tag


def _on_the_loop(plain: Plain) -> Callable[..., Awaitable[Any]]:
    async def ending(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
        return plain(handlers, tag, script)

    return ending


ENDINGS: dict[str, Callable[[Handlers, str, dict[str, Any]], Awaitable[Any]]] = {
    **{name: _on_the_loop(plain) for name, plain in PLAIN_ENDINGS.items()},
    "hangs": _hangs,
    "swallows": _swallows,
    "submits": _submits,
    "cancels itself": _cancels_itself,
    "cancels another": _cancels_another,
    "stops": _stops,
}


async def _beats(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Says that it is alive, for longer than it may be silent."""
    for _ in range(10):
        handlers.beat()
        await asyncio.sleep(0.05)
    return tag


async def _falls_silent(handlers: Handlers, tag: str, script: dict[str, Any]) -> Any:
    """Says that it is alive for a while, and then nothing for a while."""
    for number in range(script["beats"]):
        await asyncio.sleep(script["every_s"])
        handlers.beat(number)
    await asyncio.sleep(script["silent_s"])
    return tag


FLOW_ENDINGS: dict[str, Callable[[Handlers, str, dict[str, Any]], Awaitable[Any]]] = {
    "ambiguous": _on_the_loop(_raises(lambda: Ambiguous("planned"))),
    "lookup": _on_the_loop(_raises(lambda: LookupError("planned"))),
    "arithmetic": _on_the_loop(_raises(lambda: ArithmeticError("planned"))),
    "input": _on_the_loop(_raises(lambda: OSError("planned"))),
    "beats": _beats,
    "falls silent": _falls_silent,
}
SUCCEED = {
    FINE,
    "unstorable result",
    "huge result",
    "submits",
    "cancels another",
    "swallows",
    "stops",
    "cancels itself",
}
