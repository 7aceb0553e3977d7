"""The committer: the only writer of the journal.

It takes what gathered while the last commit ran, writes it in one transaction, and wakes the waiters when that is
durable. Idle, a single job commits at once. What it promises:

- a change whose caller was cancelled while waiting is written all the same;
- nobody is told of an outcome before the batch that holds it is durable;
- its queue is bounded: submissions beyond `intake.QUEUE_LIMIT` wait (or are refused, for callers that must not wait).

When a commit fails: full or busy, nothing was written and it tries again. While the journal is full, what would begin
something (submissions, verbs, schedules, claims) is refused and only endings are written, with what these set free: for
them stores keep some space back. Unknown: callers are told so, the journal is opened again, settlements are repeated
(their preconditions make that harmless) and `Aftermath.journal_unknown` has the rest re-read. Anything else, and the
third unknown within a minute, ends the committer: `Aftermath.journal_failed`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from timewheel.alarm import Alarm
from timewheel.errors import JournalBusy, JournalFull, JournalUnavailable, JournalUnknown
from timewheel.events import Committed, Notices, StorageTrouble
from timewheel.store.aftermath import Aftermath, tell_outcomes, to_the_end
from timewheel.store.backlog import BEGINNINGS, REFUSED_WHILE_FULL, Entry, claims_of, tell
from timewheel.store.changes import AddEntry, Change
from timewheel.store.intake import RETRY_S, Intake
from timewheel.store.patience import Patience

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.port import Stamp, Store

_log = logging.getLogger("timewheel")
FLUSH_LOOK_S = 0.5


class Committer(Intake):
    """See the module. Use it from one event loop only."""

    def __init__(
        self, store: Store, stamp: Callable[[], Stamp], aftermath: Aftermath, clock: Clock, notices: Notices
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._stamp = stamp
        self._aftermath = aftermath
        self._clock = clock
        self._notices = notices
        self._written = Alarm(clock)
        self._patience = Patience()
        self.starting = False  # while a scheduler starts, a journal that takes nothing is an error, not a time to wait

    # ---- how it stands -----------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether the last commit found no space; dispatching pauses meanwhile."""
        return self._full is not None

    @property
    def trouble(self) -> Exception | None:
        """Why the journal takes nothing at present; None when it does."""
        return self._full or self._patience.trouble

    @property
    def idle(self) -> bool:
        """Whether everything is written (of a full journal: every outcome), or the committer has ended."""
        return self._idle.is_set()

    async def flush(self, patience_s: float | None = None) -> bool:
        """Wait until everything queued so far and meanwhile is written, or the committer has ended.

        With `patience_s`: no longer than that while the journal is full or locked; False when that was too short.
        """
        waited = 0.0
        while not self._idle.is_set():
            waited = waited + FLUSH_LOOK_S if self.trouble is not None else 0.0
            if patience_s is not None and waited > patience_s:
                return False
            await self._written.wait(FLUSH_LOOK_S)
        return True

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write batches for ever. Ends by cancellation, or after `journal_failed`."""
        while self._failed is None:
            batch = self._backlog.take(endings_only=self._full is not None)
            if batch or self.heirs.asks or self._full is not None:  # a full journal is probed with an empty batch
                self._room.admit()
                await self._write(batch)
            else:
                self._rest()
                await self._alarm.wait()
        tell(self._backlog.empty(), self._failed)  # what the last batch put back

    async def _write(self, batch: list[Entry]) -> None:
        if batch or self._full is None:
            self.heirs.remember(batch)
        changes: list[Change] = [change for change, _ in batch]
        began = self._clock.boot_us()
        try:
            outcomes = await to_the_end(self._store.commit(changes, self._stamp()))
        except asyncio.CancelledError:
            message = "somebody cancelled a commit: it may or may not have happened; retry with the same key"
            await self._after_error(batch, JournalUnknown(message, path=self._store.path))
            return
        except Exception as error:  # noqa: BLE001  whatever an adapter raises decides what becomes of the batch
            await self._after_error(batch, error)
            return
        if self._failed is not None:  # ended meanwhile: the journal may be one that nobody will read
            tell(batch, self._failed)
            return
        if self._full is None or not batch:  # endings say nothing of the space that there is for others
            self._full = None
            self._patience.committed()
        if self._notices.wanted and batch:
            self._notices.emit(Committed(len(batch), self._clock.boot_us() - began))
        self.heirs.learn(outcomes)
        trouble = await tell_outcomes(self._aftermath, batch, outcomes)
        if trouble is not None:
            self.end(*trouble)

    # ---- when a commit fails -----------------------------------------------------------------------------------------

    async def _after_error(self, batch: list[Entry], error: Exception) -> None:
        self._notices.emit(StorageTrouble(f"{type(error).__name__}: {error}"))
        if self._patience.is_news(self._clock.boot_us()):
            _log.error("a commit failed: %s: %s", type(error).__name__, error)
        if self.starting and isinstance(error, JournalFull | JournalBusy):
            self.end(error, batch)
        elif isinstance(error, JournalFull):
            self._full = error
            self._patience.with_full(error)
            told = self._backlog.put_back(batch, REFUSED_WHILE_FULL)
            tell([*told, *self._backlog.drop_beginnings()], error)
            if not self._backlog.settles:
                self._rest()
            await self._alarm.wait(RETRY_S)  # or until something ends: for that there may be space
        elif isinstance(error, JournalBusy) and self._patience.with_busy(error, self._clock.boot_us()):
            self._backlog.put_back(batch, ())
            await Alarm(self._clock).wait(RETRY_S)
        elif isinstance(error, JournalUnknown) and self._patience.with_unknown(error, self._clock.boot_us()):
            await self._reopen(batch, error)
        else:
            self.end(error, batch)

    def _rest(self) -> None:
        """Everything is written."""
        self._idle.set()
        self._written.ring()

    async def _reopen(self, batch: list[Entry], error: JournalUnknown) -> None:
        told = self._backlog.put_back(batch, (*BEGINNINGS, AddEntry))
        try:
            await to_the_end(self._store.reopen())
            await to_the_end(self._aftermath.journal_unknown(claims_of(told)))
        except asyncio.CancelledError:  # of the work itself; told to callers it would look like their own
            message = "somebody cancelled the opening of the journal after a commit that may or may not have happened"
            self.end(JournalUnavailable(message, path=self._store.path), told)
            return
        except Exception as worse:  # noqa: BLE001  nobody else knows of this batch
            self.end(worse, told)
            return
        tell(told, error)

    def end(self, cause: BaseException, batch: Iterable[Entry] = ()) -> None:
        """Write nothing any more, and tell everyone who waits the cause."""
        self._failed = cause
        self._aftermath.journal_failed(cause)
        tell([*batch, *self._backlog.empty()], cause)
        self._room.close()
        self._idle.set()
        self._written.ring()
