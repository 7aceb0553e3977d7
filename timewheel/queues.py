"""A queue at run time: pause it, resume it, give it other limits."""

from __future__ import annotations

from timewheel.checks import printable
from timewheel.desk import Desk
from timewheel.policies import Queue, Rate
from timewheel.safeguards import RetryBudget

MAX_NAME = 100


class QueueHandle:
    """What `scheduler.queue(name)` gives. A queue exists as soon as it is named."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self.name = printable("queue", name, MAX_NAME)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    async def pause(self) -> None:
        """Start no more of its jobs until `resume`; what runs goes on. Kept over restarts."""
        await self._desk.set_queue(self.name, paused=True)

    async def resume(self) -> None:
        """Start its jobs again; what fell due meanwhile runs now."""
        await self._desk.set_queue(self.name, paused=False)

    def retries_waiting(self) -> int:
        """About how many retries wait for its retry budget; 0 without one. Raises NotStarted, NotOwner."""
        engine = self._desk.running()
        budget = engine.guards.guards.budget_of(self.name)
        return 0 if budget is None else budget.spread.waiting(engine.now().steady_us)

    async def update(
        self,
        *,
        rate: Rate | None = None,
        concurrency: int | None = None,
        weight: int = 1,
        key_rate: Rate | None = None,
        key_concurrency: int | None = None,
        retry_budget: RetryBudget | None = None,
    ) -> None:
        """Replace its limits, all of them (see Queue; None: no limit of its own).

        Kept over restarts, for as long as the code declares the same of the queue (`Scheduler(queues=...)`) as it does
        now: a start with another declaration takes that, says so in the log, and forgets what was set here. Jobs that
        run go on, also where there are more of them than the new limits let run. Raises InvalidOption; JournalFull,
        and then nothing has changed.
        """
        limits = Queue(
            rate=rate,
            concurrency=concurrency,
            weight=weight,
            key_rate=key_rate,
            key_concurrency=key_concurrency,
            retry_budget=retry_budget,
        )
        await self._desk.set_queue(self.name, limits=limits)
