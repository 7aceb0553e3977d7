"""`/api/v1/dependencies`: how their breakers and retry budgets stand, what became of them, and a person's override."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from timewheel.audits import MOST_REASON
from timewheel.dispatch.breaker import BreakerState
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.inputs import Given
from timewheel.serve.making import check_open
from timewheel.serve.problems import documented
from timewheel.serve.repair_inputs import Actor
from timewheel.serve.repairs import naming
from timewheel.serve.routes import add
from timewheel.serve.views import instant_text, json_response

if TYPE_CHECKING:
    from timewheel.dependencies import BreakerEvent, DependencyHandle, DependencyState
    from timewheel.scheduler import Scheduler

PREFIX = "/api/v1/dependencies"
EVENTS = 100  # of a history


class BreakerIn(Given):
    """What a person wants of a breaker."""

    breaker: Annotated[
        Literal["FORCED_OPEN", "FORCED_CLOSED", "AUTO"],
        Field(description="Let no job start, let all start, or let it go by itself again, beginning closed."),
    ]
    reason: Annotated[str, Field(min_length=1, max_length=MOST_REASON, description="For the history and the audit.")]
    actor: Actor = None


class DependencyOut(BaseModel):
    """A dependency as it stands."""

    name: str
    breaker: Annotated[BreakerState | None, Field(description="null: it has none.")]
    open_until: str | None
    failures: Annotated[int, Field(description="Attempts that failed, of those that count while it is closed.")]
    successes: int
    waiting: Annotated[int, Field(description="Jobs that wait for the breaker, about.")]
    starts: Annotated[int, Field(description="In the window of the retry budget; 0 without one.")]
    retries: int
    retries_waiting: int


class BreakerEventOut(BaseModel):
    """A breaker went from one state to another."""

    at: str
    before: BreakerState
    after: BreakerState
    reason: str
    open_until: str | None


class DependenciesOut(BaseModel):
    """Every dependency that is declared, that a task names, or whose breaker is not closed, by name."""

    items: list[DependencyOut]


class DependencyPageOut(DependencyOut):
    """A dependency, with what became of its breaker, newest first."""

    history: list[BreakerEventOut]


class DependenciesApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def list(self) -> Response:
        """Every dependency that is declared, that a task names, or whose breaker is not closed, by name."""
        return json_response({"items": [_view(each.state()) for each in self._scheduler.dependencies()]})

    async def show(self, dependency: str) -> Response:
        """One dependency, with what became of its breaker; it exists as soon as it is named."""
        return json_response(await _page(self._handle(dependency)))

    async def change(self, dependency: str, body: BreakerIn) -> Response:
        """Force a breaker open or closed, or let it go by itself again. Kept over restarts; the audit tells of it."""
        check_open(self._scheduler)
        handle = self._handle(dependency)
        verbs = {"FORCED_OPEN": handle.force_open, "FORCED_CLOSED": handle.force_closed, "AUTO": handle.auto}
        with naming("breaker"):
            await verbs[body.breaker](body.reason, actor=body.actor)
        return json_response(await _page(handle))

    def _handle(self, dependency: str) -> DependencyHandle:
        with naming("dependency"):
            return self._scheduler.dependency(dependency)

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["dependencies"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        add(router, "GET", PREFIX, self.list, DependenciesOut, reads)
        add(router, "GET", PREFIX + "/{dependency}", self.show, DependencyPageOut, reads)
        add(router, "PATCH", PREFIX + "/{dependency}", self.change, DependencyPageOut, writes)
        return router


def _view(state: DependencyState) -> dict[str, Any]:
    shown = {name: getattr(state, name) for name in DependencyOut.model_fields}
    return {**shown, "open_until": instant_text(state.open_until)}


async def _page(handle: DependencyHandle) -> dict[str, Any]:
    return {**_view(handle.state()), "history": [*map(_event, await handle.history(EVENTS))]}


def _event(event: BreakerEvent) -> dict[str, Any]:
    shown = {name: getattr(event, name) for name in BreakerEventOut.model_fields}
    return {**shown, "at": instant_text(event.at), "open_until": instant_text(event.open_until)}
