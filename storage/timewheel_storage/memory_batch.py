"""How a batch is applied to a journal in memory: `timewheel.store.changes`, sentence by sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import JobState
from timewheel.store import changes as ch
from timewheel.store import letters as lt
from timewheel_storage.memory_claims import Claims
from timewheel_storage.memory_flow import Submits
from timewheel_storage.memory_journal import ensure
from timewheel_storage.memory_letters import Letters
from timewheel_storage.memory_schedules import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.store.port import Stamp
    from timewheel_storage.memory_journal import Journal

_ONE_A_JOB = (ch.Settle, ch.Cancel, ch.Reschedule, lt.Replay, lt.Discard)
_NAMING = (ch.Settle, ch.Cancel, ch.Reschedule)


class Batch(Submits, Claims, Letters, Standing):
    """The changes of one commit, applied one by one."""

    def __init__(self, journal: Journal, stamp: Stamp) -> None:
        super().__init__(journal, stamp)
        self._touched: set[int] = set()  # by what may be done to a job once a batch

    def apply(self, change: ch.Change) -> ch.Outcome:
        """Write one change. Raises AssertionError when a batch or the journal is not as it must be."""
        if isinstance(change, _ONE_A_JOB):
            ensure(change.job_id not in self._touched, "two changes of one job in one batch", change.job_id)
            self._touched.add(change.job_id)
        if isinstance(change, _NAMING):
            self._named.add(change.job_id)
        outcome: ch.Outcome = _VERBS[type(change)](self, change)
        return outcome

    def _unhold(self, unhold: ch.Unhold) -> ch.Outcome:
        places: list[tuple[int, int, int]] = []
        for job_id in sorted(self._journal.held[JobState.WAITING]):
            if len(places) >= unhold.limit:
                break
            old = self._journal.jobs[job_id]
            if old.reason != unhold.reason or (unhold.tasks is not None and old.task not in unhold.tasks):
                continue
            if unhold.job_ids is not None and job_id not in unhold.job_ids:
                continue
            places.append(self._release(old))
            self._named.add(job_id)
        return ch.Unheld(places)

    def _save_limits(self, save: ch.SaveLimits) -> ch.Outcome:
        limits = self._journal.limits
        for name, value in save.values.items():
            if value is not None:
                self._journal.put(limits, name, value)
            elif name in limits:
                self._journal.drop(limits, name)
        return ch.Done(len(save.values))

    def _put_queue(self, put: ch.PutQueue) -> ch.Outcome:
        self._journal.put(self._journal.queues, put.queue, put.settings)
        if put.audit is not None:
            self._add_entry("audit", put.audit)
        return ch.DONE

    def _prune_keys(self, prune: ch.PruneKeys) -> ch.Outcome:
        """The keys of the jobs that ended first go first."""
        before = self._stamp.now.wall_us - ch.KEY_KEEPING_US
        jobs = self._journal.jobs
        old = [
            (ended, job_id, key)
            for key, (job_id, _) in self._journal.keys.items()
            if (ended := jobs[job_id].finished_at) is not None and ended < before
        ]
        forgotten = sorted(old)[: max(prune.limit, 0)]
        for _, _, key in forgotten:
            self._journal.drop(self._journal.keys, key)
        return ch.Done(len(forgotten))


_VERBS: dict[type, Callable[[Batch, Any], ch.Outcome]] = {
    ch.Settle: Batch.settle,
    ch.Cancel: Batch.cancel,
    ch.Reschedule: Batch.reschedule,
    lt.Replay: Batch.replay,
    lt.Discard: Batch.discard,
    ch.Submit: Batch.submit,
    ch.PutSchedule: Batch.put_schedule,
    ch.DropSchedule: Batch.drop_schedule,
    ch.PutCalendar: Batch.put_calendar,
    ch.PlanOccurrences: Batch.plan_occurrences,
    ch.Claim: Batch.claim,
    ch.Unhold: Batch._unhold,
    ch.Defer: Batch.defer,
    ch.SaveLimits: Batch._save_limits,
    ch.PutQueue: Batch._put_queue,
    ch.AddEntry: Batch.add_entry,
    ch.PruneKeys: Batch._prune_keys,
    lt.Prune: Batch.prune,
    lt.PutOperation: Batch.put_operation,
    ch.TakeOver: Batch.take_over,
}
