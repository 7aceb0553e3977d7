"""A queue at run time: pause it, resume it, give it other limits."""

from __future__ import annotations

from timewheel.audits import word
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

    async def pause(self, *, actor: str | None = None, reason: str | None = None) -> None:
        """Start no more of its jobs until `resume`; what runs goes on. Kept over restarts.

        It holds at once, and is durable when this returns, together with its entry in `scheduler.audit()`, which has
        `actor` (1 to 200 printable characters) and `reason` (1 to 1,000). Raises InvalidOption; JournalFull, and then
        nothing has changed.
        """
        await self._desk.running().queues.set(self.name, paused=True, who=word(actor, reason))

    async def resume(self, *, actor: str | None = None, reason: str | None = None) -> None:
        """Start its jobs again; what fell due meanwhile runs now. Holds once it is durable; otherwise as `pause`."""
        await self._desk.running().queues.set(self.name, paused=False, who=word(actor, reason))

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
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Replace its limits, all of them (see Queue; None: no limit of its own).

        Kept over restarts, for as long as the code declares the same of the queue (`Scheduler(queues=...)`) as it does
        now: a start with another declaration takes that, says so in the log, and forgets what was set here. Jobs that
        run go on, also where there are more of them than the new limits let run. The audit tells of it, as of `pause`.
        Raises InvalidOption; JournalFull, and then nothing has changed.
        """
        limits = Queue(
            rate=rate,
            concurrency=concurrency,
            weight=weight,
            key_rate=key_rate,
            key_concurrency=key_concurrency,
            retry_budget=retry_budget,
        )
        await self._desk.running().queues.set(self.name, limits=limits, who=word(actor, reason))
