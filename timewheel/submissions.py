"""Making jobs durable, one or many, on an engine that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from timewheel.errors import (
    IdempotencyConflict,
    InvalidOption,
    JobNotFound,
    PartlyScheduled,
    TimewheelError,
    UniqueConflict,
)
from timewheel.handles import Draft
from timewheel.job import Job
from timewheel.model import job_text
from timewheel.requests import place, take_back
from timewheel.store.changes import KeyConflict, Missing, Submit, Submitted, UniqueMet
from timewheel.store.port import Store

if TYPE_CHECKING:
    from timewheel.engine import Engine
    from timewheel.ports import Clock


class Submissions:
    """The part of the desk that makes jobs.

    `guard(write)` raises when the scheduler is in no state for a read or a write; `engine()` is the running one.
    """

    def __init__(
        self, store: Store, clock: Clock, guard: Callable[[bool], None], engine: Callable[[], Engine | None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._guard = guard
        self._engine = engine

    def wall_us(self) -> int:
        """What the wall clock shows."""
        return self._clock.wall_us()

    def _as_desk(self) -> Any:
        return self  # a Desk is this class and the verbs of a job

    def _running(self) -> Engine:
        self._guard(True)
        engine = self._engine()
        assert engine is not None, "the guard let a write through without an engine"
        return engine

    async def fetch(self, job_id: int) -> Job[Any]:
        """A new snapshot."""
        return await self._fetch(job_id, created=False)

    async def _fetch(self, job_id: int, *, created: bool) -> Job[Any]:
        self._guard(False)
        record = await self._store.job(job_id)
        if record is None:
            raise missing(job_id)
        return Job(self._as_desk(), record, created=created)

    async def submit(self, submit: Submit) -> Job[Any]:
        """Make one job durable."""
        engine = self._running()
        now = engine.now()
        place(submit, engine.new_id(), now)
        outcome = await engine.committer.submit(submit)
        if type(outcome) is Submitted and outcome.created:
            if outcome.lane >= 0:
                return Job(self._as_desk(), (submit.request, now.wall_us), created=True)
            return await self._fetch(outcome.job_id, created=True)  # it waits for others, or ended with them
        if (refusal := _refusal(submit, outcome)) is not None:
            raise refusal
        return await self.fetch(outcome.job_id)

    async def submit_many(self, drafts: Iterable[Draft[Any]]) -> list[Job[Any]]:
        """Make many jobs durable, over as many commits as it takes."""
        results: list[Job[Any] | BaseException] = []
        try:
            await self._submit_into(results, _submits(drafts))
        except Exception as error:  # noqa: BLE001  whatever the caller's iterable raised: it learns what is durable
            results.append(error)
        jobs = [job for job in results if isinstance(job, Job)]
        causes = [cause for cause in results if isinstance(cause, BaseException)]
        if not causes:
            return [await self._true(job) for job in jobs]
        if not jobs:
            raise causes[0]
        message = f"{len(jobs)} of {len(results)} jobs are acknowledged (see .jobs); the first failure: {causes[0]}"
        raise PartlyScheduled(message, jobs=jobs, cause=causes[0]) from causes[0]

    async def _true(self, job: Job[Any]) -> Job[Any]:
        """The job as it stands: it may have been there before, and one that waits for others may be anything."""
        source = job.source
        flow = source[0].flow if isinstance(source, tuple) else source.flow
        if job.created and (flow is None or flow.wait_for is None):
            return job
        return await self._fetch(job.number, created=job.created)

    async def submit_each(self, submits: Iterable[Submit]) -> list[Job[Any] | BaseException]:
        """Make many jobs durable; a job or an exception for each, in order."""
        results: list[Job[Any] | BaseException] = []
        await self._submit_into(results, submits)
        return results

    async def _submit_into(self, results: list[Job[Any] | BaseException], submits: Iterable[Submit]) -> None:
        engine = self._running()
        positions: dict[int, tuple[int, int]] = {}

        def placed() -> Iterable[Submit]:
            for submit in submits:
                now = engine.now()
                place(submit, engine.new_id(), now)
                positions[submit.request.job_id] = len(results), now.steady_us
                results.append(Job(self._as_desk(), (submit.request, now.wall_us), created=True))
                yield submit

        def each(submit: Submit, outcome: Any) -> None:
            if type(outcome) is Submitted and outcome.created:
                return
            position, steady_us = positions[submit.request.job_id]
            if isinstance(outcome, BaseException):
                results[position] = outcome
                take_back(submit, steady_us)
            elif (refusal := _refusal(submit, outcome)) is not None:
                results[position] = refusal
                take_back(submit, steady_us)
            else:
                submit.request.job_id = outcome.job_id
                results[position] = Job(self._as_desk(), (submit.request, 0))

        await engine.committer.submit_many(placed(), each)


def _submits(drafts: Iterable[Draft[Any]]) -> Iterable[Submit]:
    for draft in drafts:
        if not isinstance(draft, Draft):
            raise InvalidOption(f"at_many takes what scheduler.new(...) makes, not {draft!r}")
        if draft.submit.request.job_id:
            raise InvalidOption("a Draft makes one job: it was scheduled already; call scheduler.new(...) again")
        yield draft.submit


def _refusal(submit: Submit, outcome: Any) -> TimewheelError | None:
    """The error that an outcome is to the caller, if it is one."""
    if type(outcome) is KeyConflict:
        return _conflict(submit, outcome)
    if type(outcome) is UniqueMet and outcome.conflict:
        holder = job_text(outcome.job_id)
        message = (
            f"{holder} stands in the way of a unique job of task {submit.request.task!r}: wait until it has ended, or "
            f'write on_conflict="keep", "replace" or "reschedule"'
        )
        return UniqueConflict(message, job_id=holder)
    if type(outcome) is Missing:
        text = job_text(outcome.job_id)
        return JobNotFound(f"wait_for names {text}, which is no job of this journal; nothing was made", job_id=text)
    return None


def _conflict(submit: Submit, outcome: KeyConflict) -> IdempotencyConflict:
    key, holder = submit.request.idempotency_key or "", job_text(outcome.job_id)
    message = (
        f"the idempotency key {key!r} of task {submit.request.task!r} belongs to {holder}, which was made by a "
        f"different request; use another key, or send the very same request to get that job"
    )
    return IdempotencyConflict(message, key=key, job_id=holder)


def missing(job_id: int) -> JobNotFound:
    """The error of an id that no job has."""
    text = job_text(job_id)
    return JobNotFound(f"there is no job {text} in this journal", job_id=text)
