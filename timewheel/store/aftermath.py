"""Who hears of a batch: the surroundings first, then the receiver of each change."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from timewheel.store.backlog import Receiver
    from timewheel.store.changes import Change, Outcome


class Aftermath(Protocol):
    """What the committer tells its surroundings, before any receiver hears of the batch."""

    def committed(self, changes: list[Change], outcomes: list[Outcome]) -> None:
        """The batch is durable."""

    async def journal_unknown(self) -> None:
        """The journal was opened again after an unknown outcome: whatever was derived from it must be re-read."""

    def journal_failed(self, cause: BaseException) -> None:
        """The committer has ended; nothing will be written any more."""


def reply_to(future: asyncio.Future[Any]) -> Receiver:
    """A receiver that completes a future; a future that was cancelled meanwhile is left alone."""

    def receive(outcome: Any) -> None:
        if future.done():
            return
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return receive


def ignore(_: Any) -> None:
    """A receiver for what nobody wants to hear."""


async def to_the_end(commit: Coroutine[Any, Any, list[Outcome]]) -> list[Outcome]:
    """Await a commit even while we are cancelled: its outcome decides what is true. Being cancelled comes after."""
    task = asyncio.ensure_future(commit)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]  # we run in a task; it ends at its next await
    return task.result()
