"""`/api/v1/jobs`: make, list, look at, cancel and move jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from timewheel.errors import InvalidOption
from timewheel.serve import inputs, outputs
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.making import Maker, check_open, time_of
from timewheel.serve.pages import page_response
from timewheel.serve.problems import documented, invalid
from timewheel.serve.views import attempt_view, job_view, json_response

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler

PREFIX = "/api/v1/jobs"
BATCH_BYTES = 8 << 20
SLICE = 100  # jobs of a page that are shown in one turn of the event loop: a few milliseconds


class JobsApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler, maker: Maker) -> None:
        self._scheduler = scheduler
        self._maker = maker

    async def create(self, body: inputs.JobIn) -> Response:
        """Make one durable job. Once this answers, the job survives a crash, and in the default durability a power cut.

        With an `idempotency_key` it is safe to repeat: the same request gives the same job (200, `created` false).
        """
        job = await self._maker.make(body)
        location = {"Location": f"{PREFIX}/{job.id}"}
        return json_response({**job_view(job), "created": job.created}, 201 if job.created else 200, location)

    async def create_many(self, body: inputs.BatchIn) -> Response:
        """Make up to 1,000 jobs. Each is judged by itself: the answer is 200 and has one result for each, in order.

        The whole body may have 8 MiB. A job that was answered 429, 503 or 507 may be accepted when it is sent again.
        """
        return json_response({"results": await self._maker.make_many(body.jobs)})

    async def list(self, query: Annotated[inputs.JobsQuery, Query()]) -> Response:
        """Jobs that match every condition, newest first.

        A page may be shorter than `page_size`, even empty, and still not be the last: only `next_page_token` says so.
        """
        try:
            found = self._scheduler.jobs(
                state=[state.value for state in query.state] or None,
                queue=query.queue,
                task=query.task,
                tag=query.tag,
                idempotency_key=query.idempotency_key,
                schedule=query.schedule,
                page_size=query.page_size,
                page_token=query.page_token,
            )
        except InvalidOption as error:  # the rest was checked on the way in
            raise invalid(str(error), "page_token") from None
        return await page_response(await found, job_view, SLICE)

    async def show(self, job_id: str) -> Response:
        """One job as it stands."""
        return json_response(job_view(await self._scheduler.get_job(job_id)))

    async def attempts(self, job_id: str) -> Response:
        """Every attempt of a job, oldest first, the one that runs included."""
        job = await self._scheduler.get_job(job_id)
        return json_response({"items": [*map(attempt_view, await job.attempts())]})

    async def cancel(self, job_id: str, body: inputs.CancelIn | None = None) -> Response:
        """Cancel a job, and hear the truth: 200 with `cancelled`, `requested` (it runs) or `too_late` (it is final)."""
        check_open(self._scheduler)
        job = await self._scheduler.get_job(job_id)
        answer = await job.cancel(reason=body.reason if body is not None else "")
        return json_response({"answer": answer, "job": job_view(await job.refresh())})

    async def reschedule(self, job_id: str, body: inputs.RescheduleIn) -> Response:
        """Move a job that has not begun: 200 with `moved`, or `too_late` when it runs or is final."""
        check_open(self._scheduler)
        when = time_of(body.scheduled_at, body.delay_s)
        if when is None:
            raise invalid("give scheduled_at or delay_s", "scheduled_at")
        job = await self._scheduler.get_job(job_id)
        answer = await job.reschedule(when)
        return json_response({"answer": answer, "job": job_view(await job.refresh())})

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(prefix=PREFIX, tags=["jobs"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        makes: dict[int | str, dict[str, Any]] = {
            **documented(409),
            200: {"model": outputs.MadeJob, "description": "It existed already."},
            201: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The job's own path."}}},
        }
        add = router.add_api_route
        add(
            "", self.create, methods=["POST"], status_code=201, response_model=outputs.MadeJob, responses=writes | makes
        )
        add("/batch", self.create_many, methods=["POST"], response_model=outputs.BatchOut, responses=writes)
        add("", self.list, methods=["GET"], response_model=outputs.JobsOut, responses=reads)
        add("/{job_id}", self.show, methods=["GET"], response_model=outputs.JobOut, responses=reads)
        add("/{job_id}/attempts", self.attempts, methods=["GET"], response_model=outputs.AttemptsOut, responses=reads)
        # An empty body is taken if it is announced as JSON, which clients do only for a body that they must send.
        body: dict[str, Any] = {"requestBody": {"required": True}}
        cancelled = outputs.CancelOut
        add(
            "/{job_id}/cancel",
            self.cancel,
            methods=["POST"],
            response_model=cancelled,
            responses=writes,
            openapi_extra=body,
        )
        move = outputs.RescheduleOut
        add("/{job_id}/reschedule", self.reschedule, methods=["POST"], response_model=move, responses=writes)
        return router
