"""A machine that is not there: virtual time, one thread, seeded chance. For tests of timewheel and of what uses it.

    machine = VirtualMachine(seed=7)

    async def main():
        async with Scheduler("memory://", system=machine.system) as scheduler:
            job = await scheduler.after(3600, remind, 42)
            await machine.sleep(3600)  # returns at once; an hour has passed
            assert (await job.refresh()).state == "COMPLETED"

    machine.run(main())

Time moves only when nothing is ready to run, and then jumps to the next timer. A deadlock is noticed: nothing is ready
and no timer is set. So is a livelock: turn after turn of the loop, and time stands still. Threads are refused; sync
handlers run on the loop instead. With `shuffle`, callbacks that are ready at the same moment run in an order drawn from
the seed: the same seed, the same run.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

from timewheel.model import SECOND_US
from timewheel.ports import Timer
from timewheel.system import System
from timewheel.testing.ordered_loop import OrderedLoop
from timewheel.timeline import Reading

T = TypeVar("T")
T0 = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
MOST_TURNS = 300_000  # of a loop while its time stands still; bulk work takes some thousands


class Deadlock(AssertionError):
    """Nothing is ready to run and no timer is set: whatever is waited for will never come."""


class Livelock(AssertionError):
    """The loop turns and turns without any time passing: somebody waits by asking again and again."""


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: a wish to wait moves the clock."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        self._jump = jump

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, -1, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        if timeout > 0:
            self._jump(timeout)
        return []

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(OrderedLoop):
    """An event loop on a virtual machine's time."""

    def __init__(self, machine: VirtualMachine, shuffle: random.Random | None) -> None:
        self._machine = machine
        self._shuffle = shuffle
        self.turns, self._turned_at = 0, -1  # since time moved last
        super().__init__(_JumpingSelector(machine.jump))
        self._clock_resolution = 0.5 / SECOND_US  # asyncio's nanosecond vanishes in a float of more than 194 days

    def time(self) -> float:
        """Awake seconds of the machine."""
        return self._machine.awake_us / SECOND_US

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]  # there is one thread
        """As call_soon: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Refused: threads do not live in virtual time."""
        raise AssertionError(f"threads are refused on a virtual machine: {func!r}")

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]  # asyncio has no public way to reorder what is ready
        if self._shuffle is not None and len(ready) > 1:
            order = list(ready)
            self._shuffle.shuffle(order)
            ready.clear()
            ready.extend(order)
        self._count_turn()
        super()._run_once()  # type: ignore[misc]  # see above

    def _count_turn(self) -> None:
        self.turns = self.turns + 1 if self._machine.awake_us == self._turned_at else 0
        self._turned_at = self._machine.awake_us
        if self.turns > MOST_TURNS:
            spinning = [task for task in asyncio.all_tasks(self) if getattr(task, "_fut_waiter", None) is None]
            raise Livelock(f"{MOST_TURNS} turns of the loop at one instant; these do not wait: {spinning}")


class VirtualClock:
    """The clocks of a virtual machine; implements `timewheel.ports.Clock`."""

    def __init__(self, machine: VirtualMachine) -> None:
        self._machine = machine
        self._watchers: list[Callable[[], None]] = []

    @property
    def longest_sleep_s(self) -> float:
        """A second, as on a real machine; without end on a quiet one, which tells when its clocks were set."""
        return math.inf if self._machine.quiet else 1.0

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Tell of steps and suspends, if the machine is quiet."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def changed(self) -> None:
        """Tell the watchers; called by the machine."""
        if self._machine.quiet:
            for changed in list(self._watchers):
                changed()

    @property
    def boot_id(self) -> str:
        """Names the present boot."""
        return f"boot-{self._machine.boots}"

    def wall_us(self) -> int:
        """The wall clock."""
        return self.boot_us() + self._machine.wall_offset_us

    def boot_us(self) -> int:
        """Elapsed since the machine was made, suspends included."""
        return self._machine.awake_us + self._machine.asleep_us

    def read(self) -> Reading:
        """All clocks."""
        return Reading(self.wall_us(), self.boot_us(), self._machine.awake_us)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        """A timer of the running virtual loop."""
        return asyncio.get_running_loop().call_later(delay_s, callback)


class LoopThreads:
    """Runs sync handlers on the virtual loop, one turn each: implements `timewheel.ports.Threads`."""

    def __init__(self, limit: int) -> None:  # noqa: ARG002  one thread is all there is
        self._closed = False

    def start(self, call: Callable[[], Any]) -> None:
        """Run the call in a later turn of the loop."""
        asyncio.get_running_loop().call_soon(call)

    def close(self) -> None:
        """Nothing to end."""
        self._closed = True


class VirtualMachine:
    """See the module. `wall` is what the wall clock shows at first; `seed` decides chance, and order if `shuffle`.

    `quiet`: the machine tells its schedulers when its clocks are set or it sleeps, so that they need not look every
    second; a year in which nothing happens then passes at once.
    """

    def __init__(self, *, seed: int = 0, wall: datetime = T0, shuffle: bool = False, quiet: bool = False) -> None:
        self.random = random.Random(seed)
        self.quiet, self.boots = quiet, 1
        self.awake_us = self.asleep_us = 0
        self.blocks: list[tuple[int, int, int]] = []  # of its loop: from when until when, awake; asleep until then
        self.wall_offset_us = round(wall.timestamp() * SECOND_US)
        self._shuffle = random.Random(f"{seed} order") if shuffle else None
        self.clock = VirtualClock(self)
        self.system = System(self.clock, self.random.random, LoopThreads, lambda: None)

    def jump(self, seconds: float) -> None:
        """Let time pass; called by the loop when nothing is ready."""
        self.awake_us += max(1, round(seconds * SECOND_US))

    def now(self) -> datetime:
        """What the wall clock shows."""
        return datetime.fromtimestamp(self.clock.wall_us() / SECOND_US, UTC)

    def step(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall_offset_us += round(seconds * SECOND_US)
        self.clock.changed()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps and wakes: wall and boot time went on, awake time (the loop's timers) stood still."""
        self.asleep_us += round(seconds * SECOND_US)
        self.clock.changed()

    def block(self, seconds: float) -> None:
        """A handler blocks the loop: time passes and nothing runs."""
        self.blocks.append((self.awake_us, self.awake_us + round(seconds * SECOND_US), self.asleep_us))
        self.awake_us = self.blocks[-1][1]

    def reboot(self, down_s: float = 0) -> None:
        """The machine was off for a while: another boot id, and steady time is not known for sure."""
        self.boots += 1
        self.awake_us += round(down_s * SECOND_US)

    async def sleep(self, seconds: float) -> None:
        """Let awake time pass for the caller; everything that is due meanwhile runs."""
        await asyncio.sleep(seconds)

    def run(self, main: Coroutine[Any, Any, T], *, leave: bool = False) -> T:
        """Run a coroutine to its end on a new loop of this machine.

        `leave`: then drop the loop as a crash would, without ending the tasks that still run on it.
        """
        loop = VirtualLoop(self, self._shuffle)
        try:
            return loop.run_until_complete(main)
        finally:
            if leave or loop.turns > MOST_TURNS:  # what spins would spin on while it is ended
                _forget(loop)
            else:
                _end_tasks(loop)
            loop.close()


def _end_tasks(loop: VirtualLoop) -> None:
    for task in (tasks := loop.tasks()):
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


def _forget(loop: asyncio.AbstractEventLoop) -> None:
    """Leave the tasks where they stand: their code never runs again, not even to clean up."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a crash is silent
        _GRAVEYARD.append(task)  # a collected task would close its coroutine, and so run its `finally`


_GRAVEYARD: list[Any] = []
