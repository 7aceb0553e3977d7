"""The operations of this process: begun on request, or found unfinished at the start; each is run by an `Errand`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from timewheel.alarm import Alarm
from timewheel.audits import AUDIT, Account
from timewheel.errand import Errand, Surroundings
from timewheel.errors import JournalFull, JournalUnknown, Overloaded
from timewheel.progress import Progress, Terms, operation_text
from timewheel.store.aftermath import to_the_end
from timewheel.store.changes import AddEntry
from timewheel.store.letters import OperationRecord, OperationState, PutOperation

MOST_AT_ONCE = 20
FIRST_LOOK_S = 1.0  # after the start: jobs come first
_PAGE = 100
_log = logging.getLogger("timewheel")


class Spawn(Protocol):
    """The supervisor, as seen from here."""

    def __call__(self, name: str, run: Callable[[], Coroutine[Any, Any, Any]], /) -> None:
        """Run it until it returns."""


class Operations:
    """See the module. `new_id` numbers them as jobs are."""

    def __init__(self, around: Surroundings, new_id: Callable[[], int], spawn: Spawn) -> None:
        self._around = around
        self._new_id = new_id
        self._spawn = spawn
        self._errands: dict[int, Errand] = {}
        self._taken: set[int] = set()  # begun here, or about to be: a read of `resume` may be older than that
        self._ending = False
        self._one_at_a_time = asyncio.Lock()  # of two alike that are asked for at once the second gets the first

    def __len__(self) -> int:
        return len(self._errands)

    def find(self, number: int) -> Errand | None:
        """One that is not over, if it is known here."""
        return self._errands.get(number)

    async def resume(self) -> None:
        """Go on with those that a former process left unfinished."""
        await Alarm(self._around.clock).wait(FIRST_LOOK_S)
        before = None
        while records := await self._around.store.operations(before=before, limit=_PAGE):
            for record in records:
                if record.state is OperationState.RUNNING and record.number not in self._taken:
                    _log.info("%s goes on", operation_text(record.number))
                    self._begin(Errand(record, self._around))
            before = records[-1].number

    async def start(self, kind: str, terms: Terms, matched: int, who: Account) -> OperationRecord:
        """Begin one; when this returns it is durable. The one that runs already, where the same was asked.

        Raises Overloaded, and what the journal raises.
        """
        async with self._one_at_a_time:
            for errand in self._errands.values():
                if errand.record.kind == kind and errand.terms.same_as(terms):
                    return errand.record
            if len(self._errands) >= MOST_AT_ONCE:
                raise Overloaded(f"{MOST_AT_ONCE} operations run already: wait until one is over", retry_after_s=10)
            if isinstance(trouble := self._around.writer.trouble, JournalFull):  # nobody waits for space
                raise trouble
            record = await self._record(kind, terms, matched, who)
            entry = who.entry("start", operation=operation_text(record.number), of=kind, matched=matched)
            self._around.writer.note(AddEntry(AUDIT, entry))
            self._taken.add(record.number)  # it is durable before we hear so
            await to_the_end(self._put(record))
            self._begin(Errand(record, self._around))
            return record

    async def _put(self, record: OperationRecord) -> None:
        """Write a new one. When nobody can say whether that happened, see for oneself: what is there must go on."""
        try:
            await self._around.writer.housekeep(PutOperation(record))
        except JournalUnknown:
            if await self._around.store.operation(record.number) is None:
                raise

    async def _record(self, kind: str, terms: Terms, matched: int, who: Account) -> OperationRecord:
        number, now = self._new_id(), self._around.now().wall_us
        newest = await self._around.store.entries_of(AUDIT, limit=1)
        progress = Progress(matched, number, tried=terms.canary == 0, since_entry=newest[0][0] if newest else 0)
        asked, so_far, state = terms.text(), progress.text(), OperationState.RUNNING
        return OperationRecord(number, kind, state, asked, so_far, who.text(), created_at=now, updated_at=now)

    def end(self) -> None:
        """The scheduler stops: leave them as they stand, for the next start."""
        self._ending = True
        for errand in self._errands.values():
            errand.end()

    def _begin(self, errand: Errand) -> None:
        self._taken.add(errand.number)
        self._errands[errand.number] = errand
        if self._ending:
            errand.end()

        async def run() -> None:
            try:
                await errand.run()
            except asyncio.CancelledError:
                errand.over.set()  # who waits for it looks for himself
                raise
            errand.over.set()
            self._errands.pop(errand.number, None)

        self._spawn(operation_text(errand.number), run)
