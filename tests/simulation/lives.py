"""The lives that schedulers lead, one by one, on one virtual machine and one journal; and a journal that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from helpers import SlowStore, crash

from timewheel import Scheduler
from timewheel.model import AttemptState
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

T = TypeVar("T")
Tasks = Mapping[str, Callable[..., Any]]
LONGEST_S = 2 * 3600  # of virtual time: a scene that hangs fails
Scene = Callable[[Scheduler], Awaitable[T]]


class Lives:
    """`live` plays a scene on a scheduler that is stopped in order afterwards; `die` on one that is killed."""

    def __init__(self, *, seed: int = 0, shuffle: bool = False, store: Any = None) -> None:
        self.machine = VirtualMachine(seed=seed, shuffle=shuffle)
        self.store = MemoryStore() if store is None else store

    def scheduler(self, tasks: Tasks | None = None, **options: Any) -> Scheduler:
        """A scheduler of this machine and journal that knows these tasks by name."""
        scheduler = Scheduler(self.store, system=self.machine.system, **options)
        for name, fn in (tasks or {}).items():
            scheduler.task(name=name)(fn)
        return scheduler

    def live(self, scene: Scene[T], tasks: Tasks | None = None, **options: Any) -> T:
        """What the scene returns."""

        async def life() -> T:
            async with asyncio.timeout(LONGEST_S), self.scheduler(tasks, **options) as scheduler:
                return await scene(scheduler)

        return self.machine.run(life())

    def die(self, scene: Scene[T], tasks: Tasks | None = None, **options: Any) -> T:
        """As `live`, but the process is killed when the scene ends: what was not committed is gone."""

        async def life() -> T:
            scheduler = self.scheduler(tasks, **options)
            async with asyncio.timeout(LONGEST_S):
                await scheduler.start()
                return await scene(scheduler)

        result = self.machine.run(life(), leave=True)
        self.store = crash(self.store)
        return result


class FaultyStore(SlowStore):
    """A journal in memory whose commits take virtual time and fail as told.

    `before` and `after` are awaited around each commit, with the changes; what they raise comes out of the commit, and
    only what `before` raises keeps the batch from being written.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(MemoryStore(), **options)
        self.before: Callable[[list[Any]], Coroutine[Any, Any, None]] = nothing
        self.after: Callable[[list[Any]], Coroutine[Any, Any, None]] = nothing

    async def commit(self, changes: list[Any], stamp: Any) -> list[Any]:
        """See the class."""
        await self.before(changes)
        outcomes: list[Any] = await super().commit(changes, stamp)
        await self.after(changes)
        return outcomes


async def nothing(changes: list[Any]) -> None:
    """For FaultyStore: nothing happens."""


async def states(job: Any) -> list[AttemptState]:
    """The states of a job's attempts, in order."""
    return [attempt.state for attempt in await job.attempts()]
