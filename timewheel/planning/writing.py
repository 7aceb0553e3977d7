"""Asks the committer for a change of what is planned, and knows of a write whose asker was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from timewheel.store import changes

if TYPE_CHECKING:
    from timewheel.planning.kept import Kept


class Writer(Protocol):
    """The committer, as planning sees it."""

    @property
    def full(self) -> bool:
        """Whether there is no space for anything new."""

    def standing(self, change: changes.Standing, receive: Callable[[Any], None]) -> None:
        """Queue what a schedule or a calendar is to be."""

    def plan(self, change: changes.PlanOccurrences, receive: Callable[[Any], None]) -> None:
        """Queue what becomes of a schedule's slots."""

    def note(self, change: changes.Rest) -> None:
        """Queue a journal entry."""


async def ask(writer: Writer, change: changes.Standing | changes.PlanOccurrences, kept: Kept | None) -> Any:
    """Write a change, of this schedule if of any, and return its outcome.

    When the caller is cancelled the write goes on, and until its outcome is known the schedule has it `unsettled`.
    """
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    settled = asyncio.Event()

    def receive(outcome: Any) -> None:
        settled.set()
        if future.done():
            return
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    if isinstance(change, changes.PlanOccurrences):
        writer.plan(change, receive)
    else:
        writer.standing(change, receive)
    try:
        return await future
    except asyncio.CancelledError:
        if kept is not None and not settled.is_set():
            kept.unsettled = (*kept.unsettled, settled)
        raise
