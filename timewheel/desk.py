"""The desk: the verbs of jobs and lists, on a store that is open and, for writes, an engine that runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.errors import InvalidOption, JobNotFound, WaitTimeout
from timewheel.handles import Attempt, BreakerNow, BudgetNow, Statistics, attempt_of
from timewheel.job import Job
from timewheel.lists import JobQuery, job_query
from timewheel.model import (
    SECOND_US,
    AttemptState,
    CancelAnswer,
    ClockKind,
    Now,
    RescheduleAnswer,
    SchedulerState,
    job_number,
)
from timewheel.replays import Replays
from timewheel.store.changes import Cancel, Missing, Reschedule
from timewheel.store.port import EntryRow, JobFilter, LetterFilter
from timewheel.submissions import missing
from timewheel.times import delay_us, when_us

if TYPE_CHECKING:
    from timewheel.dispatch.guards import Guards
    from timewheel.engine import Engine

POLL_S = 0.5  # how often a wait looks at the journal that another process writes


class Desk(Replays):
    """See the module."""

    def offset_us(self) -> int:
        """Wall minus steady at present; 0 while another process keeps the steady time."""
        engine = self._engine()
        return 0 if engine is None else engine.timeline.shown_offset_us

    def check_room(self, jobs: int) -> None:
        """Raise Overloaded when the committer has no room for so many: for callers that must not wait."""
        self._running().committer.check_room(jobs)

    # ---- one job -----------------------------------------------------------------------------------------------------

    async def cancel(self, job_id: int, reason: str) -> CancelAnswer:
        """See Job.cancel."""
        if not isinstance(reason, str):
            raise InvalidOption(f"reason={reason!r}: it must be a str")
        engine = self._running()
        outcome = await engine.verbs.cancel(Cancel(job_id, reason[:1000], entered=False))
        if isinstance(outcome, Missing):
            raise missing(job_id)
        return outcome.answer

    async def reschedule(self, job_id: int, when: datetime | float | timedelta) -> RescheduleAnswer:
        """See Job.reschedule."""
        engine = self._running()
        if isinstance(when, timedelta):
            change = Reschedule(job_id, ClockKind.STEADY, engine.now().steady_us + delay_us(when), entered=False)
        else:
            change = Reschedule(
                job_id, ClockKind.WALL, when_us(when, "reschedule(timedelta(seconds={}))"), entered=False
            )
        outcome = await engine.verbs.reschedule(change)
        if isinstance(outcome, Missing):
            raise missing(job_id)
        return outcome.answer

    async def wait(self, job: Job[Any], timeout_s: float | None) -> Job[Any]:
        """See Job.wait."""
        limit = None if timeout_s is None else self._clock.boot_us() + delay_us(timeout_s)
        alarm = Alarm(self._clock)
        engine = self._engine()
        if engine is not None:
            engine.waiters.join(job.number, alarm)
        try:
            while True:
                latest = await self.fetch(job.number)
                if latest.state.final:
                    return latest
                await alarm.wait(self._patience(limit, latest, None if engine is not None else POLL_S))
        finally:
            if engine is not None:
                engine.waiters.leave(job.number, alarm)

    def _patience(self, limit_us: int | None, job: Job[Any], longest: float | None) -> float | None:
        """How long to wait for a sign: a little where none can come, because another process ran the jobs at first."""
        if limit_us is None:
            return longest
        left = (limit_us - self._clock.boot_us()) / SECOND_US
        if left <= 0:
            raise WaitTimeout(f"{job.id} is {job.state}, not final, after the time you gave it to wait", job=job)
        return left if longest is None else min(left, longest)

    async def attempts(self, job_id: int) -> list[Attempt]:
        """See Job.attempts."""
        self._guard(False)
        records = await self._store.attempts(job_id)
        if not records and await self._store.job(job_id) is None:
            raise missing(job_id)
        engine = self._engine()
        told = _overlay(engine, records) if records and engine is not None else None
        offset = self.offset_us()
        past = [attempt_of(record, offset) for record in records[:-1]]
        return [*past, *(attempt_of(record, offset, told) for record in records[-1:])]

    # ---- lists and numbers -------------------------------------------------------------------------------------------

    def query(self, which: JobFilter, page_size: int, page_token: str | None) -> JobQuery:
        """A list of jobs, newest first."""
        return job_query(self, self._store, lambda: self._guard(False), which, (page_size, page_token))

    def running(self) -> Engine:
        """The engine of a scheduler that runs. Raises NotStarted, NotOwner, SchedulerFailed."""
        return self._running()

    async def entries_of(self, kind: str, *, before: int | None = None, limit: int = 100) -> list[EntryRow]:
        """See Store.entries_of."""
        self._guard(False)
        return await self._store.entries_of(kind, before=before, limit=limit)

    async def statistics(self, state: SchedulerState, concurrency: int, now: Now) -> Statistics:
        """Numbers for metrics."""
        self._guard(False)
        engine = self._engine()
        breakers, budgets = ((), ()) if engine is None else _guards_now(engine.guards.guards, now.steady_us)
        due_minute, _ = await self._store.fullest_second(now, 60 * SECOND_US)
        _, fullest = await self._store.fullest_second(now, 3600 * SECOND_US)
        return Statistics(
            now,
            await self._store.depths(now),
            due_minute,
            fullest,
            0 if engine is None else len(engine.ticker),
            0 if engine is None else len(engine.dispatcher.ready),
            0 if engine is None else engine.worker.busy,
            concurrency,
            state,
            await self._store.count_letters(LetterFilter()),
            breakers=breakers,
            retry_budgets=budgets,
        )


def _guards_now(guards: Guards, now_us: int) -> tuple[tuple[BreakerNow, ...], tuple[BudgetNow, ...]]:
    """How the breakers and the retry budgets stand."""
    breakers, budgets = [], []
    for name in guards.in_use():
        breaker, budget = guards.of(name, now_us)
        if breaker is not None:
            breakers.append(BreakerNow(name, breaker.state, breaker.spread.waiting(now_us)))
        if budget is not None:
            budgets.append(BudgetNow(name, "", *budget.counts(now_us), budget.spread.waiting(now_us)))
    for queue, budget in guards.queue_budgets():
        budgets.append(BudgetNow("", queue, *budget.counts(now_us), budget.spread.waiting(now_us)))
    return tuple(breakers), tuple(budgets)


def _overlay(engine: Engine, records: list[Any]) -> str | None:
    """RUNNING and started_at live in memory until the attempt is settled; so does its progress, which is returned."""
    last = records[-1]
    run = engine.worker.running(last.job_id)
    if last.state.open and run is not None and run.job.attempt == last.number:
        last.state = AttemptState.RUNNING
        last.dispatched_at = run.claimant.dispatched_wall_us()
        last.dispatch_lag_us = run.claimant.dispatch_lag_us()
        if run.started is not None:
            last.started_at = run.started.wall_us
            last.start_lag_us = run.started.on(run.job.clock) - run.job.due_at
        return run.context.last_progress
    return None


def number_of(job_id: str) -> int:
    """The number behind a public id. Raises JobNotFound for a text that is none."""
    number = job_number(job_id)
    if number is None:
        raise JobNotFound(f"{job_id!r} is no job id: they look like job-0000100000007", job_id=str(job_id))
    return number
