"""Recovery: what a new owner does before anything starts.

Attempts that a former owner left open become LOST and spend the crash budget; jobs that waited for an overrunning
handler, those whose task is known again, and those that waited for what has ended, become SCHEDULED. Every step is an
ordinary change with its own precondition (state, attempt and epoch as read), so a crash at any point, and doing it
again, gives the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from timewheel.events import Recovered
from timewheel.model import AttemptRecord, AttemptState, JobRecord, JobState, Now, WaitingReason
from timewheel.store.changes import AddEntry, Settle, TakeOver, Unheld, Unhold
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyLimits
from timewheel.store.port import JobFilter
from timewheel.work.fingerprint import fingerprint_of
from timewheel.work.lifecycle import NOT_ENTERED, Counters, Terms, decide_lost

if TYPE_CHECKING:
    from timewheel.store.port import Store

PAGE = 500
FOR_ANOTHER = (WaitingReason.OVERLAP, WaitingReason.KEY, WaitingReason.DEPENDENCY, WaitingReason.TASK)


class Writer(Protocol):
    """The committer, as recovery sees it."""

    def settle(self, change: Settle, receive: Callable[[Any], None]) -> None:
        """Queue a settlement."""

    async def housekeep(self, change: Unhold | AddEntry | TakeOver) -> Any:
        """Write one of the rest and return its outcome."""

    async def flush(self) -> bool:
        """Wait until everything queued is written."""


def _ignore(_: Any) -> None:
    return None


class Recovery:
    """See the module. `told(job)` hears of every job whose settlement is going to be written."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        now: Callable[[], Now],
        epoch: int,
        told: Callable[[JobRecord], None] = _ignore,
    ) -> None:
        self._store = store
        self._writer = writer
        self._now = now
        self._epoch = epoch
        self._told = told

    async def recover(self, tasks: tuple[str, ...], key_limits: KeyLimits = ONE_OF_A_KEY) -> Recovered:
        """Take the journal over. `tasks`: the names that are known here. Returns what was found."""
        lost = await self._lose_open_attempts()
        released = await self.unhold(WaitingReason.OVERRUN, None)
        released += await self.unhold(WaitingReason.UNRESOLVABLE, tasks)
        if await self.any_waits():  # for what ended with nobody to tell them
            taken_over: Unheld = await self._writer.housekeep(TakeOver(everything=True, key_limits=key_limits))
            released += len(taken_over.places)
        data = {"epoch": self._epoch, "lost": lost, "released": released}
        await self._writer.housekeep(AddEntry("recovery", json.dumps(data)))
        return Recovered(self._epoch, lost, released)

    async def any_waits(self) -> bool:
        """Whether a job of the journal waits for another to end (overlap, key, dependency, task)."""
        before = None
        while True:
            page = await self._store.jobs(JobFilter(states=(JobState.WAITING,)), before=before, limit=PAGE)
            if any(job.reason in FOR_ANOTHER for job in page.jobs):
                return True
            if page.next_before is None:
                return False
            before = page.next_before

    async def unhold(self, reason: WaitingReason, tasks: tuple[str, ...] | None) -> int:
        """Make WAITING jobs SCHEDULED again, page by page; how many."""
        total = 0
        while tasks is None or tasks:
            outcome: Unheld = await self._writer.housekeep(Unhold(reason, PAGE, tasks))
            total += len(outcome.places)
            if len(outcome.places) < PAGE:
                break
        return total

    async def release(self, job_ids: list[int]) -> None:
        """After a claim of unknown outcome: give those back that were claimed; nobody here runs any of these jobs."""
        for job_id in job_ids:
            job = await self._store.job(job_id)
            if job is None or job.state is not JobState.ACTIVE:
                continue
            change = Settle(job_id, job.attempt, self._epoch, AttemptState.RELEASED, JobState.SCHEDULED)
            change.failures, change.losses, change.first_failed_at = job.failures, job.losses, job.first_failed_at
            change.reason = NOT_ENTERED
            change.finished_at = self._now().wall_us
            self._told(job)
            self._writer.settle(change, _ignore)

    async def _lose_open_attempts(self) -> int:
        after = -1
        lost = 0
        while True:
            page = await self._store.open_attempts(below_epoch=self._epoch, after=after, limit=PAGE)
            for job, attempt in page:
                self._told(job)
                self._writer.settle(self._loss(job, attempt), _ignore)
            await self._writer.flush()
            lost += len(page)
            if len(page) < PAGE:
                return lost
            after = page[-1][0].job_id

    def _loss(self, job: JobRecord, attempt: AttemptRecord) -> Settle:
        now = self._now()
        counters = Counters(job.failures, job.losses, job.first_failed_at)
        decision = decide_lost(counters, now.steady_us, Terms.of(job.flow, now))
        return Settle(
            job.job_id,
            attempt.number,
            attempt.epoch,
            decision.attempt_state,
            decision.job_state,
            decision.due_at,
            decision.failures,
            decision.losses,
            decision.first_failed_at,
            decision.reason,
            finished_at=now.wall_us,
            error="its owner disappeared while it ran",
            error_kind="Lost",
            fault=None if decision.fault is None else decision.fault.value,
            fingerprint=fingerprint_of("Lost", job.task),
        )
