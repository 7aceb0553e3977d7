"""`/api/v1/dead-letters`, `/api/v1/operations`, `/api/v1/audit`, and the replay or discard of one job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from timewheel.errors import InvalidOption, InvalidTask, NotSerializable
from timewheel.policies import Rate
from timewheel.serve import outputs
from timewheel.serve import repair_inputs as inputs
from timewheel.serve import repair_outputs as answers
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.making import Maker, check_open, instant_of
from timewheel.serve.pages import page_response
from timewheel.serve.problems import documented, invalid
from timewheel.serve.routes import add
from timewheel.serve.views import job_view, json_response

if TYPE_CHECKING:
    from timewheel.letters import DeadLetters
    from timewheel.operation import Operation
    from timewheel.scheduler import Scheduler

LETTERS, OPERATIONS = "/api/v1/dead-letters", "/api/v1/operations"
SLICE = 100  # items of a page that are shown in one turn of the event loop: a few milliseconds


class RepairsApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler, maker: Maker) -> None:
        self._scheduler = scheduler
        self._maker = maker

    # ---- dead letters ------------------------------------------------------------------------------------------------

    async def list(self, query: Annotated[inputs.LettersQuery, Query()]) -> Response:
        """Dead letters that match every condition, newest first: jobs that are DEAD and were not discarded."""
        letters = self._letters(query, page_size=query.page_size, page_token=query.page_token)
        return await page_response(await letters, job_view, SLICE)

    async def groups(self, query: Annotated[inputs.GroupsQuery, Query()]) -> Response:
        """Dead letters that match, by what failed and where: the largest groups first."""
        groups = await self._letters(query).groups(limit=query.limit)
        return json_response({"items": [*map(answers.group_view, groups)]})

    async def replay_all(self, body: inputs.LettersReplayIn) -> Response:
        """Run the dead letters that match again: first canaries, and when these have COMPLETED the others, at a rate.

        A dry run, unless told otherwise: 200 and the number. Else 202, and an operation to watch, which goes on after a
        restart. Asked again for the same while it runs, the answer is that operation.
        """
        check_open(self._scheduler)
        with naming():
            rate = None if body.rate is None else rate_of("rate", body.rate)
            operation = await self._letters(body).replay(
                actor=body.actor,
                reason=body.reason,
                cause_fixed=body.cause_fixed,
                canary=body.canary,
                rate=rate,
                dry_run=body.dry_run,
            )
        return _accepted(operation)

    async def discard_all(self, body: inputs.LettersDiscardIn) -> Response:
        """Take the dead letters that match out of the list: they stay DEAD. Dry run and answers as of a replay."""
        check_open(self._scheduler)
        with naming():
            letters = self._letters(body)
            operation = await letters.discard(actor=body.actor, reason=body.reason, dry_run=body.dry_run)
        return _accepted(operation)

    def _letters(self, which: inputs.Letters, **page: Any) -> DeadLetters:
        since, until = instant_of("since", which.since), instant_of("until", which.until)
        names = {name: getattr(which, name) for name in ("queue", "task", "tag", "fingerprint")}
        with naming("page_token"):
            return self._scheduler.dead_letters(**names, since=since, until=until, **page)

    # ---- one job -----------------------------------------------------------------------------------------------------

    async def replay(self, job_id: str, body: inputs.ReplayIn) -> Response:
        """Run a job again that is DEAD, SKIPPED or CANCELLED: 200 with `replayed`, or `too_late`.

        `args` and `kwargs` replace its arguments; those that it had are kept in the audit.
        """
        check_open(self._scheduler)
        job = await self._scheduler.get_job(job_id)
        args = job.args if body.args is None else body.args
        kwargs = job.kwargs if body.kwargs is None else body.kwargs
        if body.args is not None or body.kwargs is not None:
            self._maker.check_arguments(job.task, args, kwargs)
        with naming():
            answer = await job.replay(
                actor=body.actor,
                reason=body.reason,
                cause_fixed=body.cause_fixed,
                args=body.args,
                kwargs=body.kwargs,
            )
        return json_response({"answer": answer, "job": job_view(await job.refresh())})

    async def discard(self, job_id: str, body: inputs.WhoIn) -> Response:
        """Take a dead letter out of the list: 200 with `discarded`, or `too_late`. It stays DEAD."""
        check_open(self._scheduler)
        job = await self._scheduler.get_job(job_id)
        with naming():
            answer = await job.discard(actor=body.actor, reason=body.reason)
        return json_response({"answer": answer, "job": job_view(await job.refresh())})

    # ---- operations and the audit ------------------------------------------------------------------------------------

    async def operations(self, query: Annotated[inputs.PagesQuery, Query()]) -> Response:
        """All operations, newest first."""
        with naming("page_token"):
            found = self._scheduler.operations(page_size=query.page_size, page_token=query.page_token)
        return await page_response(await found, answers.operation_view, SLICE)

    async def operation(self, operation_id: str) -> Response:
        """One operation, and how far it is."""
        return json_response(answers.operation_view(await self._scheduler.operation(operation_id)))

    async def stop(self, operation_id: str, body: inputs.WhoIn) -> Response:
        """Have an operation stop after its present step; what it has done stays done. Harmless when it is over."""
        check_open(self._scheduler)
        operation = await self._scheduler.operation(operation_id)
        with naming():
            stopped = await operation.stop(actor=body.actor, reason=body.reason)
        return json_response(answers.operation_view(stopped))

    async def audit(self, query: Annotated[inputs.PagesQuery, Query()]) -> Response:
        """What operators did, and why, newest first."""
        with naming("page_token"):
            found = self._scheduler.audit(page_size=query.page_size, page_token=query.page_token)
        return await page_response(await found, answers.audit_view, SLICE)

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["repairs"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        starts: dict[int | str, dict[str, Any]] = {
            **writes,
            200: {"model": answers.OperationOut, "description": "It was a dry run."},
            202: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The operation's path."}}},
        }
        operation = answers.OperationOut
        job = "/api/v1/jobs/{job_id}"
        add(router, "GET", LETTERS, self.list, outputs.JobsOut, reads)
        add(router, "GET", f"{LETTERS}/groups", self.groups, answers.GroupsOut, reads)
        add(router, "POST", f"{LETTERS}/replay", self.replay_all, operation, starts, code=202)
        add(router, "POST", f"{LETTERS}/discard", self.discard_all, operation, starts, code=202)
        add(router, "POST", f"{job}/replay", self.replay, answers.ReplayOut, writes)
        add(router, "POST", f"{job}/discard", self.discard, answers.DiscardOut, writes)
        add(router, "GET", OPERATIONS, self.operations, answers.OperationsOut, reads)
        add(router, "GET", OPERATIONS + "/{operation_id}", self.operation, operation, reads)
        add(router, "POST", OPERATIONS + "/{operation_id}/stop", self.stop, operation, writes)
        add(router, "GET", "/api/v1/audit", self.audit, answers.AuditsOut, reads)
        return router


@contextmanager
def naming(otherwise: str | None = None) -> Iterator[None]:
    """Answer 422 with the field that an error is about; `otherwise` where it names none."""
    try:
        yield
    except InvalidOption as error:
        raise invalid(str(error), error.field or otherwise) from None
    except (InvalidTask, NotSerializable) as error:
        raise invalid(str(error), "args") from None


def rate_of(field: str, wanted: inputs.RateIn) -> Rate:
    """The Rate that was given. Raises Problem naming the field."""
    try:
        return Rate(wanted.count, wanted.per_s, wanted.burst)
    except InvalidOption as error:
        raise invalid(str(error), field) from None


def _accepted(operation: Operation) -> Response:
    view = answers.operation_view(operation)
    if operation.dry_run:
        return json_response(view)
    return json_response(view, 202, {"Location": f"{OPERATIONS}/{operation.id}"})
