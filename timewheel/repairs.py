"""The desk of repairs: lists of dead letters, the operations on them, and the audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.audits import AUDIT, Account, AuditEntry, account, audit_entry
from timewheel.errors import NotStarted, OperationNotFound, WaitTimeout
from timewheel.handles import Page, Pages
from timewheel.letters import DeadLetters, LetterGroup, letter_group
from timewheel.lists import check_page_size, number_token, read_number_token, reader
from timewheel.model import SECOND_US
from timewheel.operation import Operation
from timewheel.progress import Progress, Terms, operation_number, operation_text
from timewheel.store.letters import OperationRecord, OperationState
from timewheel.times import delay_us

if TYPE_CHECKING:
    from timewheel.job import Desk
    from timewheel.operations import Operations
    from timewheel.ports import Clock
    from timewheel.store.port import JobPage, LetterFilter, Store

POLL_S = 0.5  # how often a wait looks at what another process does


class Repairs:
    """See the module. `guard(write)` raises when the scheduler is in no state for a read or a write.

    `operations` are those of the running engine; None while there is none.
    """

    operations: Operations | None = None

    def __init__(self, desk: Desk, store: Store, clock: Clock, guard: Callable[[bool], None]) -> None:
        self._desk = desk
        self._store = store
        self._clock = clock
        self._guard = guard

    # ---- dead letters ------------------------------------------------------------------------------------------------

    def letters(self, which: LetterFilter, page_size: int, page_token: str | None) -> DeadLetters:
        """The dead letters that match. Raises InvalidOption."""
        check_page_size(page_size)
        if page_token is not None:
            read_number_token(page_token)

        async def find(before: int | None, limit: int) -> JobPage:
            return await self._store.letters(which, before=before, limit=limit)

        async def count() -> int:
            self._guard(False)
            return await self._store.count_letters(which)

        read = reader(self._desk, lambda: self._guard(False), find, page_size)
        return DeadLetters(read, count, page_token, self, which)

    async def groups(self, which: LetterFilter, limit: int) -> list[LetterGroup]:
        """See DeadLetters.groups."""
        self._guard(False)
        return [letter_group(found) for found in await self._store.letter_groups(which, limit=limit)]

    async def operate(self, kind: str, terms: Terms, who: Account, *, dry_run: bool) -> Operation:
        """Begin an operation; in a dry run only count."""
        self._guard(not dry_run)
        now_us = self._clock.wall_us()
        terms = replace(terms, asked_at=now_us)
        matched = await self._store.count_letters(terms.letters)
        if dry_run:
            progress, state = Progress(matched, 0).text(), OperationState.DONE
            record = OperationRecord(0, kind, state, terms.text(), progress, who.text(), now_us, now_us)
            return Operation(self, record, dry_run=True)
        return Operation(self, await self._doer().start(kind, terms, matched, who))

    def _doer(self) -> Operations:
        self._guard(True)
        if self.operations is None:
            raise NotStarted("the scheduler is about to start: wait until start() has returned")
        return self.operations

    # ---- operations --------------------------------------------------------------------------------------------------

    async def by_id(self, operation_id: str) -> Operation:
        """The operation of a public id. Raises OperationNotFound."""
        number = operation_number(operation_id)
        if number is None:
            example = operation_text(1 << 40 | 7)
            raise OperationNotFound(f"{operation_id!r} is no id of an operation: they look like {example}")
        return await self.fetch(number)

    async def fetch(self, number: int) -> Operation:
        """A new snapshot."""
        self._guard(False)
        record = await self._store.operation(number)
        if record is None:
            raise OperationNotFound(f"there is no {operation_text(number)} in this journal")
        return Operation(self, record)

    def all(self, page_size: int, page_token: str | None) -> Pages[Operation]:
        """All operations, newest first. Raises InvalidOption."""

        async def rows(before: int | None) -> list[OperationRecord]:
            return await self._store.operations(before=before, limit=page_size)

        return self._pages(rows, lambda row: row.number, lambda row: Operation(self, row), (page_size, page_token))

    async def stop(self, number: int, actor: str, reason: str) -> Operation:
        """See Operation.stop."""
        who = account(actor, reason)
        errand = self._doer().find(number)
        if errand is not None:
            errand.stop(who)
            await errand.over.wait()
        return await self.fetch(number)

    async def wait(self, operation: Operation, timeout_s: float | None) -> Operation:
        """See Operation.wait."""
        number = operation.record.number
        limit = None if timeout_s is None else self._clock.boot_us() + delay_us(timeout_s)
        while True:
            latest = await self.fetch(number)
            if latest.state is not OperationState.RUNNING:
                return latest
            left = POLL_S if limit is None else min(POLL_S, (limit - self._clock.boot_us()) / SECOND_US)
            if left <= 0:
                raise WaitTimeout(f"{latest.id} is still RUNNING after the time you gave it to wait", job=None)
            await Alarm(self._clock).wait(left)

    # ---- the audit ---------------------------------------------------------------------------------------------------

    def audit(self, page_size: int, page_token: str | None) -> Pages[AuditEntry]:
        """What operators did, newest first. Raises InvalidOption."""

        async def rows(before: int | None) -> list[Any]:
            return await self._store.entries_of(AUDIT, before=before, limit=page_size)

        return self._pages(rows, lambda row: row[0], audit_entry, (page_size, page_token))

    def _pages(
        self,
        rows: Callable[[int | None], Awaitable[list[Any]]],
        number_of: Callable[[Any], int],
        view: Callable[[Any], Any],
        page: tuple[int, str | None],
    ) -> Pages[Any]:
        page_size, page_token = page
        check_page_size(page_size)
        if page_token is not None:
            read_number_token(page_token)

        async def read(token: str | None) -> Page[Any]:
            self._guard(False)
            found = await rows(None if token is None else read_number_token(token))
            more = len(found) == page_size
            return Page(tuple(map(view, found)), number_token(number_of(found[-1])) if more else None)

        return Pages(read, page_token)
