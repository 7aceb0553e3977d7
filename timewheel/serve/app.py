"""The HTTP application: a scheduler's jobs, its health and its metrics.

`create_app` neither starts nor stops the scheduler: `timewheel.serve.runner` does, or the application that mounts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from timewheel.model import SchedulerState
from timewheel.serve import calendars, dependencies, forecast, jobs, queues, repairs, schedules
from timewheel.serve.guard import Guard
from timewheel.serve.making import Maker
from timewheel.serve.metrics import CONTENT_TYPE, Metrics
from timewheel.serve.outputs import ProblemOut
from timewheel.serve.problems import Problem, documented, fields_of, instance_of
from timewheel.serve.unknown import models_of
from timewheel.serve.views import json_response

if TYPE_CHECKING:
    from starlette.requests import Request

    from timewheel.scheduler import Scheduler
    from timewheel.serve.making import Fault

_SAID = {404: "there is nothing at this path; /openapi.json lists what there is", 405: "this path has other methods"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
DESCRIPTION = """
A durable job scheduler. A job is accepted once it is on disk, never starts early, runs at least once unless it was
cancelled or skipped, and keeps a record of every attempt.

Times are RFC 3339, ids are text. Every error is a problem document (RFC 9457, `application/problem+json`). Writes need
`Content-Type: application/json`. Repeat a request whose answer was lost with the same `idempotency_key`.
"""


def create_app(
    scheduler: Scheduler,
    *,
    hosts: Collection[str] = (),
    faults: Mapping[str, Fault] | None = None,
    absent: Mapping[str, str] | None = None,
) -> FastAPI:
    """The application over a scheduler. Serve it to this machine only: it knows no users.

    `hosts`: what the Host header may name beside the loopback names. `faults`: for tasks whose arguments can be judged
    when a job is made, a function of (args, kwargs) that says what is wrong with them, or None. `absent`: names of
    tasks that could be here and are not, with how to have them.
    """
    app = FastAPI(
        title="timewheel",
        version="1",
        description=DESCRIPTION,
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _answer_http, RequestValidationError: _answer_invalid},
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    maker = Maker(scheduler, faults or {}, absent)
    app.include_router(jobs.JobsApi(scheduler, maker).router())
    app.include_router(schedules.SchedulesApi(scheduler, maker).router())
    app.include_router(calendars.CalendarsApi(scheduler).router())
    app.include_router(forecast.router(scheduler))
    app.include_router(queues.QueuesApi(scheduler).router())
    app.include_router(dependencies.DependenciesApi(scheduler).router())
    app.include_router(repairs.RepairsApi(scheduler, maker).router())
    app.include_router(_Health(scheduler).router())
    app.add_middleware(Guard, hosts=hosts, limits={f"{jobs.PREFIX}/batch": jobs.BATCH_BYTES})
    app.openapi()  # takes tenths of a second, which no request shall cost the event loop later
    return app


_DOCUMENTS: list[dict[str, Any]] = []  # the one of this process, once it is made: it is the same for every scheduler


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the problem documents that `documented` refers to."""
    if not _DOCUMENTS:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        problem = ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")
        components = schema["components"]["schemas"]
        components |= {**problem.pop("$defs"), "ProblemOut": problem}
        _DOCUMENTS.append(schema)
    app.openapi_schema = _DOCUMENTS[0]
    return _DOCUMENTS[0]


class _Health:
    """What machines ask."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._metrics = Metrics(scheduler)

    async def live(self) -> Response:
        """Whether this process answers at all; says nothing else."""
        return json_response({"status": "alive"})

    async def ready(self) -> Response:
        """200 when jobs are accepted and fired; else 503 with the state, and what is wrong with the journal."""
        state, trouble = self._scheduler.state, self._scheduler.trouble
        if trouble is not None:
            raise Problem(503, "not-ready", f"the journal takes nothing at present: {trouble}", state=state)
        if state is SchedulerState.RUNNING:
            return json_response({"status": "ready", "state": state})
        raise Problem(503, "not-ready", f"the scheduler is {state}", state=state)

    async def metrics(self) -> Response:
        """Metrics in Prometheus' text format."""
        return Response(await self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["health"])
        doors = documented(421, 429, 500)
        ready: dict[int | str, dict[str, Any]] = doors | documented(503)
        text: dict[int | str, dict[str, Any]] = doors | {200: {"content": {"text/plain": {}}}}
        router.add_api_route("/livez", self.live, methods=["GET"], responses=doors)
        router.add_api_route("/readyz", self.ready, methods=["GET"], responses=ready)
        router.add_api_route("/metrics", self.metrics, methods=["GET"], response_class=Response, responses=text)
        return router


async def _answer_http(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: an unknown path, a method that is not there."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
    detail = _SAID.get(error.status_code, str(error.detail))
    return Problem(error.status_code, "http", detail, headers=headers).response(instance_of(request.scope))


def _methods(request: Request) -> list[str]:
    """What a path can do; the framework names only the methods of the first route that has it.

    A path that is documented as it stands (`.../batch`) is not also one with a parameter (`.../{job_id}`).
    """
    documented_as_it_stands = request.app.openapi()["paths"].get(request.scope["path"])
    if documented_as_it_stands is not None:
        return [name for name in _METHODS if name.lower() in documented_as_it_stands]
    routes = request.app.router.routes
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return [name for name, scope in scopes.items() if any(each.matches(scope)[0] is Match.FULL for each in routes)]


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """A request that does not fit the models."""
    assert isinstance(error, RequestValidationError)
    models = models_of(request.scope["endpoint"])
    return fields_of(error.errors(), models).response(instance_of(request.scope))
