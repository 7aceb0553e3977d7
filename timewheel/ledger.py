"""The ledger: where the worker's endings go, as changes for the committer and free slots for the dispatcher."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.events import LateResult, Notices
from timewheel.model import JobRecord, WaitingReason, job_text
from timewheel.store.aftermath import ignore
from timewheel.store.changes import AddEntry, Settle, Unhold
from timewheel.store.key_limits import KeyHolder

if TYPE_CHECKING:
    from timewheel.aftermath import Consequences
    from timewheel.dispatch.dispatcher import Dispatcher
    from timewheel.dispatch.gate import Claimant
    from timewheel.store.committer import Committer
    from timewheel.work.lifecycle import Decision


class Ledger:
    """See the module. Once `closed`, nothing can be recorded any more."""

    def __init__(
        self,
        epoch: int,
        committer: Committer,
        dispatcher: Dispatcher,
        consequences: Consequences,
        notices: Notices,
        interrupted: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        self.closed = False
        self.interrupted = interrupted
        self.slot_free = dispatcher.ended
        self._committer = committer
        self._dispatcher = dispatcher
        self._consequences = consequences
        self._notices = notices

    def settle(self, change: Settle, claimant: Claimant, *, retry_after_us: int = 0, catch_up: bool = False) -> None:
        """Have a settlement written. `retry_after_us`: how long a throttled attempt was told to wait; `catch_up`: its
        lags say nothing of how punctual this process is."""
        if self.closed:
            return
        if self._notices.wanted:
            dependency = self._dispatcher.declared.dependencies.get(claimant.job.task, "")
            self._consequences.told[change.job_id] = (claimant.queue, dependency, retry_after_us, catch_up)
        self._committer.settle(change, ignore)

    def recovers(self, job: JobRecord) -> None:
        """A settlement of this job is written by recovery."""
        if self._notices.wanted:
            dependency = self._dispatcher.declared.dependencies.get(job.task, "")
            self._consequences.told[job.job_id] = (job.queue, dependency, 0, False)

    def ended(self, claimant: Claimant, decision: Decision, retry_after_us: int) -> None:
        """An attempt has ended so; `retry_after_us`: how long a throttled one was told to wait."""
        if not self.closed and self._dispatcher.declared.dependencies:
            self._dispatcher.attempt_ended(claimant, decision, retry_after_us)

    def came_early(self, claimant: Claimant) -> None:
        """The wall clock was set back while a job waited for a thread."""
        self._dispatcher.came_early(claimant)

    def overruns(self, claimant: Claimant) -> None:
        """A handler has timed out and does not stop: its concurrency key stays held until `overran`."""
        job = claimant.job
        if job.concurrency_key is not None:
            self._committer.overruns(job.job_id, KeyHolder(job.concurrency_key, job.task, claimant.queue))

    def overran(self, job_id: int, attempt: int, waiting: bool) -> None:
        """A handler that had timed out ended at last; `waiting`: its job waits for that."""
        self._notices.emit(LateResult(job_id, attempt))
        if self.closed:
            return
        self._committer.overrun_ended(job_id)
        data = json.dumps({"job": job_text(job_id), "attempt": attempt})
        self._committer.note(AddEntry("late_result", data))
        if waiting:
            self._committer.note(Unhold(WaitingReason.OVERRUN, 1, None, (job_id,)))
