"""Retention: forgets jobs that ended long enough ago, in small steps, whatever else the journal has to do.

A pass looks at every job of the journal by id, `STEP` of them a change; jobs go on in between. The next pass begins
`PAUSE_S` later, or `SHARE` times as long after a pass as that took, whichever is later: so it takes a twentieth of the
time at most, however large the journal is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from timewheel.alarm import Alarm
from timewheel.events import JobsForgotten, Notices
from timewheel.model import SECOND_US, Now
from timewheel.retention_rules import Horizon, Retention, prune_rules
from timewheel.store.letters import Prune, Pruned

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.port import Store

STEP = 500
BREATH_S = 0.01  # between two steps
PAUSE_S = 60.0
FIRST_PASS_S = 5.0  # after the start
SHARE = 20
_log = logging.getLogger("timewheel")


class Writer(Protocol):
    """The committer, as seen from here."""

    async def housekeep(self, change: Prune) -> Any:
        """Have a change written when jobs leave room for it."""


class Pruner:
    """See the module."""

    def __init__(
        self,
        retention: Retention,
        store: Store,
        writer: Writer,
        now: Callable[[], Now],
        clock: Clock,
        notices: Notices,
    ) -> None:
        self._retention = retention
        self._store = store
        self._writer = writer
        self._now = now
        self._clock = clock
        self._notices = notices
        self._horizon = Horizon()
        self._horizon.now_us(now())  # a step of the clock before the first pass is noticed, too
        self._after = 0  # where the pass under way stands

    async def run(self) -> None:
        """Pass after pass, for ever; ends by cancellation. Called again after a fault it goes on where it was."""
        wait_s = 0.0 if self._after else FIRST_PASS_S
        while True:
            await Alarm(self._clock).wait(wait_s)
            began = self._now().steady_us
            forgotten = await self._pass()
            took_s = (self._now().steady_us - began) / SECOND_US
            if forgotten:
                _log.info("retention forgot %d jobs in %.1f s", forgotten, took_s)
            wait_s = max(PAUSE_S, SHARE * took_s)

    async def _pass(self) -> int:
        queues = {lane.queue for lane in await self._store.lanes()} if self._retention.queues else set()
        rules = prune_rules(self._retention, sorted(queues), self._horizon.now_us(self._now()))
        forgotten = 0
        while True:
            pruned: Pruned = await self._writer.housekeep(Prune(rules, self._after, STEP))
            forgotten += pruned.rows
            self._after = pruned.last or 0
            if pruned.rows and self._notices.wanted:
                self._notices.emit(JobsForgotten(pruned.rows))
            if pruned.last is None:
                return forgotten
            await Alarm(self._clock).wait(BREATH_S)
