"""The verbs on a job that may be starting at this very moment: cancel and reschedule, and the truth about them.

A verb first marks the job withdrawn in memory, so that the gate refuses it, then commits; the change carries whether
the handler had been entered at that moment, which the gate makes final. When the outcome is known the mark is lifted:
in the callback of the commit, so that a caller who stopped waiting changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timewheel.errors import JournalUnknown
from timewheel.model import CancelAnswer
from timewheel.store.changes import Cancel, Cancelled, Missing, Reschedule, Rescheduled

if TYPE_CHECKING:
    from timewheel.dispatch.dispatcher import Dispatcher
    from timewheel.store.committer import Committer
    from timewheel.work.worker import Worker


class Verbs:
    """See the module."""

    def __init__(self, dispatcher: Dispatcher, worker: Worker, committer: Committer) -> None:
        self._dispatcher = dispatcher
        self._worker = worker
        self._committer = committer

    async def cancel(self, change: Cancel) -> Cancelled | Missing:
        """Commit a cancel; `change.entered` is filled in. An entered handler then sees it."""
        change.entered = self._withdraw(change.job_id)
        return await self._commit(change)  # type: ignore[no-any-return]  # a Cancel has these outcomes

    async def reschedule(self, change: Reschedule) -> Rescheduled | Missing:
        """Commit a reschedule; `change.entered` is filled in."""
        change.entered = self._withdraw(change.job_id)
        return await self._commit(change)  # type: ignore[no-any-return]  # a Reschedule has these outcomes

    def _withdraw(self, job_id: int) -> bool:
        """Mark a job as withdrawn unless its handler has been entered; whether it has."""
        claimant = self._worker.withdraw(job_id)  # it may wait for a thread, which is not yet entered
        if claimant is None and self._worker.running(job_id) is not None:
            return True
        self._dispatcher.gate.withdraw(job_id)
        if claimant is not None:
            self._dispatcher.take_back(claimant)
        return False

    async def _commit(self, change: Cancel | Reschedule) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def receive(outcome: Any) -> None:
            self._known(change, outcome)
            if future.done():
                return
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        try:
            self._committer.verb(change, receive)
        except BaseException as refused:
            self._known(change, refused)
            raise
        return await future

    def _known(self, change: Cancel | Reschedule, outcome: Any) -> None:
        ended = outcome.ended_attempt if isinstance(outcome, Cancelled | Rescheduled) else None
        if not change.entered:
            self._dispatcher.resolve(change.job_id, ended, unsure=isinstance(outcome, JournalUnknown))
        elif isinstance(outcome, Cancelled) and outcome.answer is CancelAnswer.REQUESTED:
            self._stop(change.job_id)

    def _stop(self, job_id: int) -> None:
        """A cancel request is durable: stop the handler. The attempt that ran when it was asked for may have failed and
        its retry been claimed while it was written: that one does not enter, and given back, it ends the job."""
        if self._worker.running(job_id) is not None:
            self._worker.cancel(job_id)
            return
        if (waiting := self._worker.withdraw(job_id)) is not None:
            self._dispatcher.take_back(waiting)
        if (claimant := self._dispatcher.gate.take(job_id)) is not None:
            self._dispatcher.release(claimant, "cancelled")
