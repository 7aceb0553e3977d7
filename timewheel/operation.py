"""Operation: work on many dead letters that goes on in the background. A frozen snapshot, with its verbs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from timewheel.audits import account_of
from timewheel.progress import Progress, Terms, operation_text
from timewheel.store.letters import OperationRecord, OperationState
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.store.port import LetterFilter


class OperationDesk(Protocol):
    """What a handle asks of its scheduler; each as the verb of Operation."""

    async def fetch(self, number: int) -> Operation:
        """See Operation.refresh."""

    async def wait(self, operation: Operation, timeout_s: float | None) -> Operation:
        """See Operation.wait."""

    async def stop(self, number: int, actor: str, reason: str) -> Operation:
        """See Operation.stop."""


class OperationSnapshot:
    """A replay or a discard of many dead letters, as far as it was when this snapshot was made. Instants are in UTC.

    It goes on after a restart. `matched` is how many dead letters it was asked for; of those that it has come to,
    `done` were replayed or discarded, and `skipped` were no dead letters any more (or a handler of theirs still ran).
    `failed` of its canaries did not complete. Of a dry run only `matched` means anything: it is kept nowhere.
    """

    __slots__ = ("_progress", "desk", "dry_run", "record")

    def __init__(self, desk: OperationDesk, record: OperationRecord, *, dry_run: bool = False) -> None:
        self.desk = desk
        self._progress = Progress.of(record.progress)
        self.record = record
        self.dry_run = dry_run

    def __repr__(self) -> str:
        what = "dry run" if self.dry_run else self.id
        return f"<{type(self).__name__} {what} {self.kind} {self.state} {self.done} of {self.matched}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperationSnapshot) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record.number)

    @property
    def id(self) -> str:
        """The public id; "" of a dry run."""
        return "" if self.dry_run else operation_text(self.record.number)

    @property
    def kind(self) -> str:
        """What is done: "replay" or "discard"."""
        return self.record.kind

    @property
    def state(self) -> OperationState:
        """RUNNING, DONE or STOPPED."""
        return self.record.state

    @property
    def reason(self) -> str | None:
        """Why it was stopped."""
        return self.record.reason

    @property
    def matched(self) -> int:
        """How many dead letters matched when it was asked for."""
        return self._progress.matched

    @property
    def done(self) -> int:
        """How many were replayed or discarded."""
        return self._progress.done

    @property
    def skipped(self) -> int:
        """How many were no dead letters any more when their turn came."""
        return self._progress.skipped

    @property
    def failed(self) -> int:
        """How many canaries did not complete."""
        return self._progress.failed

    @property
    def trying(self) -> bool:
        """Whether it waits for its canaries: the others are not touched before these have completed."""
        return self.state is OperationState.RUNNING and not self._progress.tried

    @property
    def which(self) -> LetterFilter:
        """What it was asked for (instants in microseconds)."""
        return Terms.of(self.record.request).which

    @property
    def canary(self) -> int:
        """How many are tried first."""
        return Terms.of(self.record.request).canary

    @property
    def actor(self) -> str:
        """Who asked for it."""
        return account_of(self.record.audit).actor

    @property
    def asked_because(self) -> str:
        """The reason that was given."""
        return account_of(self.record.audit).reason

    @property
    def cause_fixed(self) -> str | bool | None:
        """What was said of the cause; of replays only."""
        return account_of(self.record.audit).cause_fixed

    @property
    def created_at(self) -> datetime:
        """When it was asked for."""
        return utc_datetime(self.record.created_at)

    @property
    def updated_at(self) -> datetime:
        """When its progress was last written."""
        return utc_datetime(self.record.updated_at)


class Operation(OperationSnapshot):
    """A replay or a discard of many dead letters, as far as it was when this snapshot was made, and its verbs.

    These are coroutines of the scheduler's own event loop; other threads use the operations of `scheduler.blocking`.
    """

    __slots__ = ()

    async def refresh(self) -> Operation:
        """A new snapshot."""
        return self if self.dry_run else await self.desk.fetch(self.record.number)

    async def wait(self, timeout_s: float | None = None) -> Operation:
        """Wait until it is DONE or STOPPED and return that snapshot; None waits for ever. Raises WaitTimeout."""
        return self if self.dry_run else await self.desk.wait(self, timeout_s)

    async def stop(self, *, actor: str, reason: str) -> Operation:
        """Have it stop after its present step, which is seconds away at most; what it has done stays done.

        Once this returns, that is durable. Harmless when it is over already. Raises InvalidOption, JournalUnknown.
        """
        return self if self.dry_run else await self.desk.stop(self.record.number, actor, reason)
