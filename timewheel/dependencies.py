"""A dependency at run time: how its breaker and its retry budget stand, what became of it, and a person's override."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from timewheel.audits import word
from timewheel.checks import printable, whole
from timewheel.dispatch.breaker import BreakerState
from timewheel.guard_keeper import BY_HAND, ENTRY_KIND
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.desk import Desk

MAX_NAME = 100
PAGE = 500
MOST_PAGES = 20  # of the history, a call


@dataclass(frozen=True, slots=True)
class DependencyState:
    """How a dependency stands. Of the breaker (None: it has none): its state, until when it is open (UTC), the failures
    and successes that count while it is closed, and about how many jobs wait for it. Of its retry budget: the starts
    and retries of the window, and about how many retries wait (0 without one)."""

    name: str
    breaker: BreakerState | None
    open_until: datetime | None
    failures: int
    successes: int
    waiting: int
    starts: int
    retries: int
    retries_waiting: int


@dataclass(frozen=True, slots=True)
class BreakerEvent:
    """A breaker went from one state to another at `at` (UTC), and why."""

    at: datetime
    before: BreakerState
    after: BreakerState
    reason: str
    open_until: datetime | None


class DependencyHandle:
    """What `scheduler.dependency(name)` gives. A dependency exists as soon as it is named."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk = desk
        self.name = printable("dependency", name, MAX_NAME)

    def __repr__(self) -> str:
        return f"<Dependency {self.name}>"

    def state(self) -> DependencyState:
        """How it stands, in this process. Raises NotStarted, NotOwner."""
        engine = self._desk.running()
        now = engine.now()
        breaker, budget = engine.guards.of(self.name)
        failures, successes = (0, 0) if breaker is None else breaker.counts(now.steady_us)
        starts, retries = (0, 0) if budget is None else budget.counts(now.steady_us)
        open_until = None
        if breaker is not None and breaker.state is BreakerState.OPEN:
            open_until = utc_datetime(breaker.until_us - now.steady_us + now.wall_us)
        return DependencyState(
            self.name,
            None if breaker is None else breaker.state,
            open_until,
            failures,
            successes,
            0 if breaker is None else breaker.spread.waiting(now.steady_us),
            starts,
            retries,
            0 if budget is None else budget.spread.waiting(now.steady_us),
        )

    async def history(self, limit: int = 100) -> list[BreakerEvent]:
        """What became of its breaker, newest first; at most `limit` (1 to 1,000), of the newest 10,000 of all breakers.

        Raises InvalidOption.
        """
        whole("limit", limit, 1, 1_000)
        events: list[BreakerEvent] = []
        before: int | None = None
        for _ in range(MOST_PAGES):
            rows = await self._desk.entries_of(ENTRY_KIND, before=before, limit=PAGE)
            for _, wall_us, _, text in rows:
                data = json.loads(text)
                if data["dependency"] == self.name:
                    events.append(_event(wall_us, data))
            if len(rows) < PAGE or len(events) >= limit:
                break
            before = rows[-1][0]
        return events[:limit]

    async def force_open(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let none of its jobs start until `auto` or `force_closed`; what runs goes on. Kept over restarts.

        It holds at once, and is durable when this returns, with its entries in `history` and `scheduler.audit()`, which
        have `reason` (1 to 1,000 printable characters) and, the audit, `actor` (1 to 200). Raises InvalidOption, also
        for a dependency without a breaker.
        """
        await self._force(BreakerState.FORCED_OPEN, reason, actor)

    async def force_closed(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let all of its jobs start, however many fail, until `auto` or `force_open`; otherwise as `force_open`."""
        await self._force(BreakerState.FORCED_CLOSED, reason, actor)

    async def auto(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let its breaker go by itself again, beginning closed. Nothing to one that does; else as `force_open`."""
        await self._force(None, reason, actor)

    async def _force(self, state: BreakerState | None, reason: str, actor: str | None) -> None:
        await self._desk.running().guards.force(self.name, state, word(actor, reason))


def _event(wall_us: int, data: dict[str, str | int | None]) -> BreakerEvent:
    until = data["until"]
    return BreakerEvent(
        utc_datetime(wall_us),
        BreakerState(str(data["from"])),
        BreakerState(str(data["to"])),
        str(data["reason"]),
        utc_datetime(until) if isinstance(until, int) else None,
    )
