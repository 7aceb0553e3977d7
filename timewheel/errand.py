"""One operation on many dead letters: done step by step, each of which is durable before the next.

A step is a commit of replays or discards, each with its audit entry, and then one of the progress. If the process dies
between the two, the audit says which of the jobs were done: they are counted, and none is done again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from timewheel.alarm import Alarm
from timewheel.audits import AUDIT, Account, account_of
from timewheel.errors import JournalError
from timewheel.model import SECOND_US, JobState, Now, job_number, job_text
from timewheel.progress import REPLAY, Progress, Terms, operation_text
from timewheel.store.aftermath import reply_to
from timewheel.store.changes import DONE, AddEntry
from timewheel.store.letters import Discard, OperationRecord, OperationState, PutOperation, Replay, Replayed

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.port import Store
    from timewheel.waiters import Waiters

_log = logging.getLogger("timewheel")
REST_S = 1.0  # after a commit that failed
_PAGE = 500  # entries of the audit that are read at once


class Writer(Protocol):
    """The committer, as seen from here."""

    @property
    def trouble(self) -> Exception | None:
        """Why the journal takes nothing at present; None when it does."""

    def verb(self, change: Replay | Discard, receive: Callable[[Any], None]) -> None:
        """Queue a change of a job."""

    async def housekeep(self, change: PutOperation) -> Any:
        """Have a change written when jobs leave room for it."""

    def note(self, change: AddEntry) -> None:
        """Queue a journal entry."""


class Surroundings(NamedTuple):
    """What an operation needs. `busy`: whether a handler of this job still runs, though the job has ended."""

    store: Store
    writer: Writer
    waiters: Waiters
    now: Callable[[], Now]
    clock: Clock
    busy: Callable[[int], bool]


class Errand:
    """See the module. `record` is the operation as it was last written."""

    def __init__(self, record: OperationRecord, around: Surroundings) -> None:
        self.record = record
        self.terms = Terms.of(record.request)
        self.over = asyncio.Event()
        self._around = around
        self._who = account_of(record.audit)
        self._progress = Progress.of(record.progress)
        self._alarm = Alarm(around.clock)
        self._stopped_by: Account | None = None
        self._ending = False

    @property
    def number(self) -> int:
        """Its number."""
        return self.record.number

    def stop(self, who: Account) -> None:
        """Have it stop after its present step. The first who asks is named."""
        self._stopped_by = self._stopped_by or who
        self._alarm.ring()

    def end(self) -> None:
        """The scheduler stops: go on after the next start."""
        self._ending = True
        self._alarm.ring()

    async def run(self) -> None:
        """Work until it is done, stopped, or the scheduler stops. May be called again after it raised."""
        await self._take_stock()
        while self.record.state is OperationState.RUNNING and not self._ending:
            await self._go_on()

    async def _go_on(self) -> None:
        progress, terms = self._progress, self.terms
        steady_us = self._around.now().steady_us
        if (who := self._stopped_by) is not None:
            await self._finish(f"stopped by {who.actor}: {who.reason}", who)
        elif not progress.tried and (len(progress.canaries) >= terms.canary or not progress.before):
            await self._watch_canaries()
        elif not progress.before:
            await self._finish(None)
        elif room := progress.room(terms, steady_us):
            await self._step(room)
        else:
            await self._alarm.wait(progress.patience_us(terms, steady_us) / SECOND_US)

    # ---- a step ------------------------------------------------------------------------------------------------------

    async def _step(self, room: int) -> None:
        progress = self._progress
        page = await self._around.store.letters(self.terms.letters, before=progress.before, limit=room)
        jobs = [job.job_id for job in page.jobs if job.job_id not in progress.written]
        idle = [job_id for job_id in jobs if not self._around.busy(job_id)]
        outcomes = await asyncio.gather(*map(self._written_of, idle), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, JournalError):
                    raise outcome
                await self._alarm.wait(REST_S)
                await self._take_stock()
                return
        done = [job_id for job_id, outcome in zip(idle, outcomes, strict=True) if _is_done(outcome)]
        progress.done += len(done)
        progress.skipped += len(jobs) - len(done)
        if not progress.tried:
            progress.canaries += done
        progress.before = page.next_before or 0
        progress.written = [job_id for job_id in progress.written if job_id < progress.before]
        await self._save()

    def _written_of(self, job_id: int) -> asyncio.Future[Any]:
        """The outcome of a job's change, which is queued at once."""
        future = asyncio.get_running_loop().create_future()
        entry = self._who.entry(self.record.kind, job=job_text(job_id), operation=operation_text(self.number))
        change: Replay | Discard = Discard(job_id, entry)
        if self.record.kind == REPLAY:
            change = Replay(job_id, self._progress.next_due(self.terms, self._around.now().steady_us), entry)
        try:
            self._around.writer.verb(change, reply_to(future))
        except JournalError as refused:
            future.set_exception(refused)
        return future

    async def _take_stock(self) -> None:
        """Go on from what was written last, and count what was done since: the audit knows."""
        self._progress = progress = Progress.of(self.record.progress)
        found: list[int] = []
        before = None
        while rows := await self._around.store.entries_of(AUDIT, before=before, limit=_PAGE):
            for number, _, _, text in rows:
                job_id = self._own_job(text)
                if number <= progress.since_entry or (job_id is not None and job_id >= progress.before):
                    rows = []  # what is older was counted
                    break
                found += [] if job_id is None or job_id in progress.written else [job_id]
            if len(rows) < _PAGE:
                break
            before = rows[-1][0]
        progress.written += found
        progress.done += len(found)
        for _ in found:  # they have had their places in the rate
            progress.next_due(self.terms, self._around.now().steady_us)
        if not progress.tried:
            progress.canaries += found

    def _own_job(self, text: str) -> int | None:
        """The job that an entry of the audit says this operation did."""
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("operation") != operation_text(self.number):
            return None
        return job_number(data.get("job"))  # type: ignore[arg-type]  # anything else than a text is no id

    # ---- canaries ----------------------------------------------------------------------------------------------------

    async def _watch_canaries(self) -> None:
        """Wait until all have completed, or one has ended otherwise: then the operation stops."""
        around, canaries = self._around, self._progress.canaries
        for job_id in canaries:
            around.waiters.join(job_id, self._alarm)
        try:
            while True:
                failed, unfinished = await self._look_at(canaries)
                if failed or not unfinished or self._ending or self._stopped_by is not None:
                    break
                await self._alarm.wait()
        finally:
            for job_id in canaries:
                around.waiters.leave(job_id, self._alarm)
        self._progress.failed = len(failed)
        if failed:
            await self._finish(f"{len(failed)} of {len(canaries)} canaries did not complete: {failed[0]}")
        elif not unfinished:
            self._progress.tried = True
            await self._save()

    async def _look_at(self, canaries: Sequence[int]) -> tuple[list[str], bool]:
        """How those ended that did not complete; and whether some have not ended."""
        failed: list[str] = []
        unfinished = False
        for job_id in canaries:
            job = await self._around.store.job(job_id)
            if job is None:
                failed.append(f"{job_text(job_id)} was forgotten before anybody saw how it ended")
            elif not job.state.final:
                unfinished = True
            elif job.state is not JobState.COMPLETED:
                why = (job.error or job.reason or "").partition("\n")[0]
                failed.append(f"{job_text(job_id)} is {job.state}" + (f": {why}" if why else ""))
        return failed, unfinished

    # ---- writing -----------------------------------------------------------------------------------------------------

    async def _finish(self, stopped: str | None, by: Account | None = None) -> None:
        text = operation_text(self.number)
        state = OperationState.DONE if stopped is None else OperationState.STOPPED
        if by is not None:
            self._around.writer.note(AddEntry(AUDIT, by.entry("stop", operation=text)))
        await self._save(state, stopped)
        done = self._progress
        _log.info(
            "%s (%s of dead letters) is %s after %d of %d%s",
            *(text, self.record.kind, state, done.done, done.matched, "" if stopped is None else f": {stopped}"),
        )

    async def _save(self, state: OperationState = OperationState.RUNNING, reason: str | None = None) -> None:
        progress, now = self._progress.text(), self._around.now().wall_us
        record = replace(self.record, state=state, progress=progress, updated_at=now, reason=reason)
        await self._around.writer.housekeep(PutOperation(record))
        self.record = record


def _is_done(outcome: Any) -> bool:
    return isinstance(outcome, Replayed) or outcome == DONE
