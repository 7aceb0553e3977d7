"""The limits of a simulated scheduler, as the plan has them: what may run at once, and how many may start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from timewheel.events import BreakerChanged, Notices
from timewheel.testing.simulation.facts import Token
from timewheel.testing.simulation.facts_flow import Passed, Went
from timewheel.testing.simulation.flow_plans import dependencies_of, queue_of, rate_of, retention_of, task_options

WHOLE = "*"
NO_LIMIT = 1_000_000


class LimitsBook:
    """`limits`: {"concurrency": n, "rate": {count, per_s, burst} or None, "queues": {name: as `queue_options` reads}}.

    Also "tasks" and "retention", see `timewheel.testing.simulation.flow_plans`. What `queue.update` changes holds in
    all later lives. `shaped(queue, key_concurrency)` is called at each change.
    """

    def __init__(self, limits: Mapping[str, Any], shaped: Callable[..., None]) -> None:
        self._limits = limits
        self._shaped = shaped
        self.begin({})

    def begin(self, kept: Mapping[str, str]) -> None:
        """A new scheduler: the limits are those of the plan again, but for what the journal keeps of queues."""
        queues = {**self._limits.get("queues", {})}
        updates = {name: what for name, text in kept.items() if (what := json.loads(text).get("update"))}
        self._may: dict[str, list[Mapping[str, Any]]] = {name: [what] for name, what in (queues | updates).items()}
        self._may[WHOLE] = [self._limits]
        self._reshaped = {*updates}
        self._shaped(WHOLE)
        for name, what in updates.items():
            self._shaped(name, what["key_concurrency"])

    def options(self) -> dict[str, Any]:
        """For the scheduler."""
        queues = {name: queue_of(what) for name, what in self._limits.get("queues", {}).items()}
        retention = retention_of(self._limits.get("retention"))
        rate, concurrency = rate_of(self._limits.get("rate")), self._limits.get("concurrency", 100)
        return {"concurrency": concurrency, "rate": rate, "queues": queues, "retention": retention} | self._guards()

    def _guards(self) -> dict[str, Any]:
        guards = self._limits.get("dependencies")
        return {"dependencies": dependencies_of(guards)} if guards else {}

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """The tasks of flow control, and how they are declared."""
        tasks: Mapping[str, Mapping[str, Any]] = self._limits.get("tasks", {})
        return tasks

    def task(self, name: str) -> dict[str, Any]:
        """The options that a task is declared with."""
        return task_options(self.tasks.get(name, {}))

    def most(self, queue: str) -> int:
        """How many of a queue may run now."""
        may = self._may.get(queue, [{}])
        return max(what.get("concurrency") or NO_LIMIT for what in may)

    def was_reshaped(self, queue: str) -> bool:
        """Whether it has, or may have, other limits than the plan says."""
        return queue in self._reshaped

    def reshape(self, queue: str, what: Mapping[str, Any]) -> None:
        """`queue.update` is about to be called: from now on either may hold."""
        self._may.setdefault(queue, [{}]).append(what)
        self._reshaped.add(queue)
        self._shaped(queue, what.get("key_concurrency"))

    def reshaped(self, queue: str, what: Mapping[str, Any]) -> None:
        """It has returned. Who has passed the gate already may still begin."""
        loop, may = asyncio.get_running_loop(), self._may[queue]

        def later(turns: int) -> None:
            if turns:
                loop.call_soon(later, turns - 1)
            else:
                del may[: next((place for place, each in enumerate(may) if each is what), 0)]

        later(5)


def note_starts(dispatcher: Any, elapsed_us: Callable[[], int], add: Callable[[Any], None], *, flow: bool) -> None:
    """Note the moments at which tokens are taken; a handler's first line may run later, when the loop is busy."""
    enter, enters = dispatcher.limits.enter, dispatcher._enters

    def noted(queue: str, now_us: int) -> bool:
        entered: bool = enter(queue, now_us)
        if entered:
            add(Token(elapsed_us(), queue, now_us))
        return entered

    def passed(claimant: Any, now_us: int) -> bool:
        entered: bool = enters(claimant, now_us)
        if entered:
            add(Passed(elapsed_us(), claimant.job.job_id, now_us, claimant.job.failures > 0))
        return entered

    dispatcher.limits.enter = noted
    if flow:
        dispatcher._enters = passed


def note_breakers(notices: Notices, elapsed_us: Callable[[], int], add: Callable[[Any], None]) -> None:
    """Note what becomes of breakers."""

    def noted(notice: object) -> None:
        if isinstance(notice, BreakerChanged):
            add(Went(elapsed_us(), *notice))

    notices.subscribe(noted)
