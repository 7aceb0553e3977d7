"""The desk: the verbs of jobs and lists, on a store that is open and, for writes, an engine that runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from timewheel.errors import IdempotencyConflict, InvalidOption, JobNotFound, PartlyScheduled, WaitTimeout
from timewheel.handles import Attempt, Draft, Query, Statistics, attempt_of
from timewheel.job import Job
from timewheel.lists import job_query
from timewheel.model import (
    SECOND_US,
    AttemptState,
    CancelAnswer,
    ClockKind,
    Now,
    RescheduleAnswer,
    SchedulerState,
    job_number,
    job_text,
)
from timewheel.policies import Queue
from timewheel.requests import place
from timewheel.store.changes import Cancel, KeyConflict, Missing, PutQueue, Reschedule, Submit
from timewheel.store.port import JobFilter, Store
from timewheel.times import delay_us, when_us

if TYPE_CHECKING:
    from timewheel.engine import Engine

POLL_S = 0.5  # how often a wait looks at the journal that another process writes


class Desk:
    """See the module. `guard(write)` raises when the scheduler is in no state for it; `engine()` is the running one."""

    def __init__(self, store: Store, guard: Callable[[bool], None], engine: Callable[[], Engine | None]) -> None:
        self._store = store
        self._guard = guard
        self._engine = engine

    def _running(self) -> Engine:
        self._guard(True)
        engine = self._engine()
        assert engine is not None, "the guard let a write through without an engine"
        return engine

    def offset_us(self) -> int:
        """Wall minus steady at present; 0 while another process keeps the steady time."""
        engine = self._engine()
        if engine is None:
            return 0
        now = engine.now()
        return now.wall_us - now.steady_us

    # ---- scheduling --------------------------------------------------------------------------------------------------

    async def submit(self, submit: Submit) -> Job[Any]:
        """Make one job durable."""
        engine = self._running()
        now = engine.now()
        place(submit, engine.new_id(), now.steady_us)
        outcome = await engine.committer.submit(submit)
        if type(outcome) is KeyConflict:
            raise _conflict(submit, outcome)
        if outcome.created:
            return Job(self, (submit.request, now.wall_us), created=True)
        return await self.fetch(outcome.job_id)

    async def submit_many(self, drafts: Iterable[Draft[Any]]) -> list[Job[Any]]:
        """Make many jobs durable, over as many commits as it takes."""
        results = await self.submit_each(_submits(drafts))
        jobs = [job for job in results if isinstance(job, Job)]
        causes = [cause for cause in results if isinstance(cause, BaseException)]
        if not causes:
            return [job if job.created else await self.fetch(job.number) for job in jobs]
        if len(causes) == len(results) == 1:
            raise causes[0]
        message = f"{len(jobs)} of {len(results)} jobs are acknowledged (see .jobs); the first failure: {causes[0]}"
        raise PartlyScheduled(message, jobs=jobs, cause=causes[0]) from causes[0]

    async def submit_each(self, submits: Iterable[Submit]) -> list[Job[Any] | BaseException]:
        """Make many jobs durable; a job or an exception for each, in order."""
        engine = self._running()
        results: list[Job[Any] | BaseException] = []
        positions: dict[int, int] = {}

        def placed() -> Iterable[Submit]:
            for submit in submits:
                now = engine.now()
                place(submit, engine.new_id(), now.steady_us)
                positions[submit.request.job_id] = len(results)
                results.append(Job(self, (submit.request, now.wall_us), created=True))
                yield submit

        def each(submit: Submit, outcome: Any) -> None:
            position = positions[submit.request.job_id]
            if isinstance(outcome, BaseException):
                results[position] = outcome
            elif type(outcome) is KeyConflict:
                results[position] = _conflict(submit, outcome)
            elif not outcome.created:
                submit.request.job_id = outcome.job_id
                results[position] = Job(self, (submit.request, 0))

        await engine.committer.submit_many(placed(), each)
        return results

    def check_room(self, jobs: int) -> None:
        """Raise Overloaded when the committer has no room for so many: for callers that must not wait."""
        self._running().committer.check_room(jobs)

    # ---- one job -----------------------------------------------------------------------------------------------------

    async def fetch(self, job_id: int) -> Job[Any]:
        """A new snapshot."""
        self._guard(False)
        record = await self._store.job(job_id)
        if record is None:
            raise _missing(job_id)
        return Job(self, record)

    async def cancel(self, job_id: int, reason: str) -> CancelAnswer:
        """See Job.cancel."""
        if not isinstance(reason, str):
            raise InvalidOption(f"reason={reason!r}: it must be a str")
        engine = self._running()
        outcome = await engine.verbs.cancel(Cancel(job_id, reason[:1000], entered=False))
        if isinstance(outcome, Missing):
            raise _missing(job_id)
        return outcome.answer

    async def reschedule(self, job_id: int, when: datetime | float | timedelta) -> RescheduleAnswer:
        """See Job.reschedule."""
        engine = self._running()
        if isinstance(when, timedelta):
            change = Reschedule(job_id, ClockKind.STEADY, engine.now().steady_us + delay_us(when), entered=False)
        else:
            change = Reschedule(job_id, ClockKind.WALL, when_us(when), entered=False)
        outcome = await engine.verbs.reschedule(change)
        if isinstance(outcome, Missing):
            raise _missing(job_id)
        return outcome.answer

    async def wait(self, job: Job[Any], timeout_s: float | None) -> Job[Any]:
        """See Job.wait."""
        limit = None if timeout_s is None else asyncio.get_running_loop().time() + delay_us(timeout_s) / SECOND_US
        while True:
            engine = self._engine()
            future = engine.waiters.join(job.number) if engine is not None else None
            try:
                latest = await self.fetch(job.number)
                if latest.state.final:
                    return latest
                await self._until(future, limit, latest)
            finally:
                if engine is not None and future is not None:
                    engine.waiters.leave(job.number, future)

    async def _until(self, future: asyncio.Future[None] | None, limit: float | None, job: Job[Any]) -> None:
        """Wait for a sign, or a little where none can come (another process runs the jobs), or for the limit."""
        left = None if limit is None else limit - asyncio.get_running_loop().time()
        if left is not None and left <= 0:
            raise WaitTimeout(f"{job.id} is {job.state}, not final, after the time you gave it to wait", job=job)
        if future is None:
            await asyncio.sleep(POLL_S if left is None else min(left, POLL_S))
        else:
            await asyncio.wait((future,), timeout=left)

    async def attempts(self, job_id: int) -> list[Attempt]:
        """See Job.attempts."""
        self._guard(False)
        records = await self._store.attempts(job_id)
        if not records and await self._store.job(job_id) is None:
            raise _missing(job_id)
        engine = self._engine()
        if records and engine is not None:
            _overlay(engine, records)
        offset = self.offset_us()
        return [attempt_of(record, offset) for record in records]

    # ---- lists and numbers -------------------------------------------------------------------------------------------

    def query(self, which: JobFilter, page_size: int, page_token: str | None) -> Query[Job[Any]]:
        """A list of jobs, newest first."""
        return job_query(self, self._store, lambda: self._guard(False), which, (page_size, page_token))

    async def set_queue(self, queue: str, *, paused: bool | None = None, limits: Queue | None = None) -> None:
        """Pause, resume or resize a queue; `paused` is kept in the journal."""
        engine = self._running()
        limit = engine.dispatcher.limits.of(queue)
        if limits is not None:
            engine.dispatcher.limits.shape(queue, limits, engine.now().steady_us)
        if paused is not None:
            limit.paused = paused
            if paused:
                engine.dispatcher.give_back("paused", queue=queue)
            await engine.committer.housekeep(PutQueue(queue, json.dumps({"paused": paused})))
        engine.dispatcher.kick()

    async def statistics(self, state: SchedulerState, concurrency: int, now: Now) -> Statistics:
        """Numbers for metrics."""
        self._guard(False)
        engine = self._engine()
        due_minute, _ = await self._store.fullest_second(now, 60 * SECOND_US)
        _, fullest = await self._store.fullest_second(now, 3600 * SECOND_US)
        return Statistics(
            await self._store.depths(now),
            due_minute,
            fullest,
            0 if engine is None else len(engine.ticker),
            0 if engine is None else len(engine.dispatcher.ready),
            0 if engine is None else engine.worker.busy,
            concurrency,
            state,
        )


def _submits(drafts: Iterable[Draft[Any]]) -> Iterable[Submit]:
    for draft in drafts:
        if not isinstance(draft, Draft):
            raise InvalidOption(f"at_many takes what scheduler.new(...) makes, not {draft!r}")
        if draft.submit.request.job_id:
            raise InvalidOption("a Draft makes one job: it was scheduled already; call scheduler.new(...) again")
        yield draft.submit


def _overlay(engine: Engine, records: list[Any]) -> None:
    """RUNNING and started_at live in memory until the attempt is settled."""
    last = records[-1]
    run = engine.worker.running(last.job_id)
    if last.state.open and run is not None and run.job.attempt == last.number:
        last.state = AttemptState.RUNNING
        last.dispatched_at = run.claimant.dispatched_wall_us()
        last.dispatch_lag_us = run.claimant.dispatch_lag_us()
        if run.started is not None:
            last.started_at = run.started.wall_us
            last.start_lag_us = run.started.on(run.job.clock) - run.job.due_at


def _missing(job_id: int) -> JobNotFound:
    text = job_text(job_id)
    return JobNotFound(f"there is no job {text} in this journal", job_id=text)


def _conflict(submit: Submit, outcome: KeyConflict) -> IdempotencyConflict:
    key, holder = submit.request.idempotency_key or "", job_text(outcome.job_id)
    message = (
        f"the idempotency key {key!r} of task {submit.request.task!r} belongs to {holder}, which was made by a "
        f"different request; use another key, or send the very same request to get that job"
    )
    return IdempotencyConflict(message, key=key, job_id=holder)


def number_of(job_id: str) -> int:
    """The number behind a public id. Raises JobNotFound for a text that is none."""
    number = job_number(job_id)
    if number is None:
        raise JobNotFound(f"{job_id!r} is no job id: they look like job-0000100000007", job_id=str(job_id))
    return number
