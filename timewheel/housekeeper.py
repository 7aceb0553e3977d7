"""The housekeeper: small, regular work that no job waits for.

About once a second (as the clock says) it looks whether the journal is still the file that was opened, and has handlers
that got no thread given back; about once a minute it forgets old idempotency keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from timewheel.alarm import Alarm
from timewheel.errors import JournalCorrupt, JournalUnavailable
from timewheel.model import SECOND_US, Now
from timewheel.store.changes import PruneKeys

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.port import Store

DAY_S = 86_400.0
PRUNE_US = 60 * SECOND_US
PRUNE_KEYS = 500


class Writer(Protocol):
    """The committer, as seen from here."""

    async def housekeep(self, change: PruneKeys) -> Any:
        """Have a change written when jobs leave room for it."""

    def end(self, cause: BaseException) -> None:
        """Write no more, and tell everyone why."""


class Housekeeper:
    """See the module. `release_unborn` gives handlers back that got no thread."""

    def __init__(
        self, store: Store, writer: Writer, release_unborn: Callable[[], None], now: Callable[[], Now], clock: Clock
    ) -> None:
        self._store = store
        self._writer = writer
        self._release_unborn = release_unborn
        self._now = now
        self._clock = clock

    async def run(self) -> None:
        """Keep house until the journal is gone; ends by cancellation."""
        next_prune = self._now().steady_us + PRUNE_US
        while True:
            await Alarm(self._clock).wait(min(self._clock.longest_sleep_s, DAY_S))
            self._release_unborn()
            try:
                await self._store.check()
            except (JournalUnavailable, JournalCorrupt) as gone:
                self._writer.end(gone)  # writes would seem to succeed and be lost
                return
            if self._now().steady_us >= next_prune:
                next_prune = self._now().steady_us + PRUNE_US
                await self._prune_keys()

    async def _prune_keys(self) -> None:
        """Forget old idempotency keys, a bounded number a batch, so that jobs go on in between."""
        pruned = PRUNE_KEYS
        while pruned >= PRUNE_KEYS:
            pruned = (await self._writer.housekeep(PruneKeys(PRUNE_KEYS))).rows
