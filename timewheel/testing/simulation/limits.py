"""The limits of a simulated scheduler, as the plan has them: what may run at once, and how many may start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from timewheel import Queue, Rate

WHOLE = "*"
NO_LIMIT = 1_000_000


class LimitsBook:
    """`limits`: {"concurrency": n, "rate": {count, per_s, burst} or None, "queues": {name: {"rate", "concurrency"}}}.

    What `queue.update` changes holds until the scheduler ends. `shaped(queue)` is called at each change.
    """

    def __init__(self, limits: Mapping[str, Any], shaped: Callable[[str], None]) -> None:
        self._limits = limits
        self._shaped = shaped
        self.begin()

    def begin(self) -> None:
        """A new scheduler: the limits are those of the plan again."""
        queues = self._limits.get("queues", {})
        self._now: dict[str, Mapping[str, Any]] = {WHOLE: self._limits, **queues}
        self._lately: dict[str, int] = {}
        self._reshaped: set[str] = set()
        self._shaped(WHOLE)

    def options(self) -> dict[str, Any]:
        """For the scheduler."""
        queues = {name: self._queue(what) for name, what in self._limits.get("queues", {}).items()}
        rate = self._limits.get("rate")
        concurrency = self._limits.get("concurrency", 100)
        return {"concurrency": concurrency, "rate": Rate(**rate) if rate else None, "queues": queues}

    def most(self, queue: str) -> int:
        """How many of a queue may run now, or might a turn of the loop ago."""
        return max(self._concurrency(queue), self._lately.get(queue, 0))

    def rate(self, queue: str) -> Rate | None:
        """How many may start."""
        rate = self._now.get(queue, {}).get("rate")
        return Rate(**rate) if rate else None

    def was_reshaped(self, queue: str) -> bool:
        """Whether it has other limits than at the scheduler's start."""
        return queue in self._reshaped

    def reshape(self, queue: str, what: Mapping[str, Any]) -> None:
        """`queue.update` is about to be called. Who has passed the gate already may still begin."""
        self._lately[queue] = self._concurrency(queue)
        self._reshaped.add(queue)
        self._now[queue] = what
        self._shaped(queue)
        loop = asyncio.get_running_loop()

        def later(turns: int) -> None:
            if turns:
                loop.call_soon(later, turns - 1)
            else:
                self._lately.pop(queue, None)

        later(5)

    def _concurrency(self, queue: str) -> int:
        concurrency: int = self._now.get(queue, {}).get("concurrency") or NO_LIMIT
        return concurrency

    @staticmethod
    def _queue(what: Mapping[str, Any]) -> Queue:
        rate = what.get("rate")
        return Queue(rate=Rate(**rate) if rate else None, concurrency=what.get("concurrency"))
