"""Dead letters, operations and the audit for other threads: the synchronous verbs of `scheduler.blocking`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from timewheel.blocking_handles import BlockingJob, Call, awaited
from timewheel.handles import Page, Pages
from timewheel.operation import Operation, OperationSnapshot

if TYPE_CHECKING:
    from timewheel.audits import AuditEntry
    from timewheel.job import Job
    from timewheel.letters import DeadLetters, LetterGroup
    from timewheel.policies import Rate

T = TypeVar("T")


class BlockingOperation(OperationSnapshot):
    """An operation with synchronous verbs; each does what the verb of the same name does on Operation."""

    __slots__ = ("_call", "_operation")

    def __init__(self, operation: Operation, call: Call) -> None:
        super().__init__(operation.desk, operation.record, dry_run=operation.dry_run)
        self._operation = operation
        self._call = call

    def refresh(self) -> BlockingOperation:
        """A new snapshot."""
        return BlockingOperation(self._call(self._operation.refresh()), self._call)

    def wait(self, timeout_s: float | None = None) -> BlockingOperation:
        """Wait until it is DONE or STOPPED."""
        return BlockingOperation(self._call(self._operation.wait(timeout_s)), self._call)

    def stop(self, *, actor: str, reason: str) -> BlockingOperation:
        """Have it stop after its present step."""
        return BlockingOperation(self._call(self._operation.stop(actor=actor, reason=reason)), self._call)


class BlockingLetters:
    """Dead letters that have not been read yet: `page()` reads one Page, iterating reads everything."""

    def __init__(self, letters: DeadLetters, call: Call) -> None:
        self._letters = letters
        self._call = call

    def page(self) -> Page[BlockingJob[Any]]:
        """One page."""
        page: Page[Job[Any]] = self._call(awaited(self._letters))
        return Page(tuple(BlockingJob(job, self._call) for job in page), page.next_page_token)

    def __iter__(self) -> Iterator[BlockingJob[Any]]:
        return (BlockingJob(job, self._call) for job in _all(self._letters, self._call))

    def count(self) -> int:
        """How many there are."""
        number: int = self._call(self._letters.count())
        return number

    def groups(self, *, limit: int = 100) -> list[LetterGroup]:
        """Those that failed alike."""
        groups: list[LetterGroup] = self._call(self._letters.groups(limit=limit))
        return groups

    def replay(
        self,
        *,
        actor: str,
        reason: str,
        cause_fixed: str | bool,
        canary: int = 1,
        rate: Rate | None = None,
        dry_run: bool = False,
    ) -> BlockingOperation:
        """Run them again (see DeadLetters.replay)."""
        verb = self._letters.replay
        work = verb(actor=actor, reason=reason, cause_fixed=cause_fixed, canary=canary, rate=rate, dry_run=dry_run)
        return BlockingOperation(self._call(work), self._call)

    def discard(self, *, actor: str, reason: str, dry_run: bool = False) -> BlockingOperation:
        """Take them out of the list (see DeadLetters.discard)."""
        work = self._letters.discard(actor=actor, reason=reason, dry_run=dry_run)
        return BlockingOperation(self._call(work), self._call)


class BlockingRepairs:
    """dead_letters, operation, operations and audit, synchronous."""

    _home: Any
    _call: Call

    def dead_letters(self, **which: Any) -> BlockingLetters:
        """The dead letters that match; takes what Scheduler.dead_letters takes."""
        return BlockingLetters(self._home.dead_letters(**which), self._call)

    def operation(self, operation_id: str) -> BlockingOperation:
        """The operation of this id. Raises OperationNotFound."""
        return BlockingOperation(self._call(self._home.operation(operation_id)), self._call)

    def operations(self) -> Iterator[BlockingOperation]:
        """All operations, newest first."""
        return (BlockingOperation(one, self._call) for one in _all(self._home.operations(), self._call))

    def audit(self) -> Iterator[AuditEntry]:
        """What operators did, newest first."""
        return _all(self._home.audit(), self._call)


def _all(pages: Pages[T], call: Call) -> Iterator[T]:
    while True:
        page: Page[T] = call(awaited(pages))
        yield from page
        if page.next_page_token is None:
            return
        pages = pages.at(page.next_page_token)
