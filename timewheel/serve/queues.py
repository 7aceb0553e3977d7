"""`/api/v1/queues`: how each queue stands; pause it, resume it, give it other limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from timewheel.audits import MOST_REASON, word
from timewheel.policies import MAX_CONCURRENCY, MAX_WEIGHT, Rate
from timewheel.queue_states import NO_LIMITS, QueueState
from timewheel.safeguards import DAY_S, MOST, RetryBudget
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.inputs import WHOLE, Given
from timewheel.serve.making import check_open
from timewheel.serve.problems import documented
from timewheel.serve.repair_inputs import Actor, RateIn
from timewheel.serve.repairs import naming, rate_of
from timewheel.serve.routes import add
from timewheel.serve.views import instant_text, json_response

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler

PREFIX = "/api/v1/queues"
Limit = Annotated[int, Field(ge=1, le=MAX_CONCURRENCY), WHOLE]
_LIMITS = ("rate", "concurrency", "weight", "key_rate", "key_concurrency", "retry_budget")


class RetryBudgetIn(Given):
    """How many of a queue's starts may be retries: in any `window_s` that share of them, and `at_least` more."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    window_s: Annotated[float, Field(gt=0, le=DAY_S)] = 60
    at_least: Annotated[int, Field(ge=0, le=MOST, description="With share 0 at least 1."), WHOLE] = 10


class QueueIn(Given):
    """What is to change of a queue; what is not said stays. null takes a limit off."""

    paused: Annotated[bool | None, Field(description="true: start none of its jobs; false: start them again.")] = None
    rate: Annotated[RateIn | None, Field(description="Of its starts.")] = None
    concurrency: Annotated[Limit | None, Field(description="Jobs that run at once.")] = None
    weight: Annotated[
        int | None, Field(ge=1, le=MAX_WEIGHT, description="Its share of starts among queues; null: 1."), WHOLE
    ] = None
    key_rate: Annotated[RateIn | None, Field(description="Of the starts with one rate_key.")] = None
    key_concurrency: Annotated[Limit | None, Field(description="Jobs with one concurrency_key at once.")] = None
    retry_budget: Annotated[RetryBudgetIn | None, Field(description="Of its starts, how many may be retries.")] = None
    actor: Actor = None
    reason: Annotated[str | None, Field(min_length=1, max_length=MOST_REASON, description="Why, for the audit.")] = None


class RateOut(BaseModel):
    """So many starts in so many seconds, of which some may be at once."""

    count: int
    per_s: float
    burst: int


class RetryBudgetOut(BaseModel):
    """In any `window_s` at most that share of the starts may be retries, and `at_least` more."""

    share: float
    window_s: float
    at_least: int


class QueueOut(BaseModel):
    """A queue as it stands."""

    name: str
    paused: bool
    scheduled: Annotated[int, Field(description="Jobs that wait for their time or their turn.")]
    due: Annotated[int, Field(description="Those of them that could start.")]
    oldest_due_at: str | None
    running: int
    rate: RateOut | None
    concurrency: int | None
    weight: int
    key_rate: RateOut | None
    key_concurrency: int | None
    retry_budget: RetryBudgetOut | None


class QueuesOut(BaseModel):
    """Every queue that is declared, was changed or has jobs, by name."""

    items: list[QueueOut]


def queue_view(state: QueueState) -> dict[str, Any]:
    """A queue as `QueueOut` describes it."""
    limits = {name: getattr(state.limits, name) for name in _LIMITS}
    return {
        "name": state.name,
        "paused": state.paused,
        "scheduled": state.scheduled,
        "due": state.due,
        "oldest_due_at": instant_text(state.oldest_due_at),
        "running": state.running,
        **{name: asdict(value) if isinstance(value, Rate | RetryBudget) else value for name, value in limits.items()},
    }


class QueuesApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def list(self) -> Response:
        """Every queue that is declared, was changed or has jobs, by name."""
        return json_response({"items": [*map(queue_view, await self._scheduler.queues())]})

    async def show(self, queue: str) -> Response:
        """One queue; it exists as soon as it is named."""
        with naming("queue"):
            self._scheduler.queue(queue)
        return json_response(queue_view(await self._state(queue)))

    async def change(self, queue: str, body: QueueIn) -> Response:
        """Pause or resume a queue, or change its limits. Kept over restarts, until the code declares other limits.

        The audit tells of it, with `actor` and `reason`.
        """
        check_open(self._scheduler)
        with naming("queue"):
            handle = self._scheduler.queue(queue)
        with naming():
            who = word(body.actor, body.reason)
        given = body.model_fields_set & {*_LIMITS}
        if given:
            present = (await self._state(queue)).limits
            limits = {name: getattr(present, name) for name in present.__slots__}
            limits |= {name: _value(name, getattr(body, name)) for name in sorted(given)}
            with naming(sorted(given)[0]):
                await handle.update(**limits, actor=who.actor, reason=who.reason)
        if body.paused is not None:
            verb = handle.pause if body.paused else handle.resume
            await verb(actor=who.actor, reason=who.reason)
        return json_response(queue_view(await self._state(queue)))

    async def _state(self, queue: str) -> QueueState:
        for state in await self._scheduler.queues():
            if state.name == queue:
                return state
        return QueueState(queue, False, NO_LIMITS, 0, 0, None, 0)

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["queues"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        add(router, "GET", PREFIX, self.list, QueuesOut, reads)
        add(router, "GET", PREFIX + "/{queue}", self.show, QueueOut, reads)
        add(router, "PATCH", PREFIX + "/{queue}", self.change, QueueOut, writes)
        return router


def _value(name: str, value: Any) -> Any:
    """A limit as the scheduler takes it."""
    if isinstance(value, RateIn):
        return rate_of(name, value)
    if isinstance(value, RetryBudgetIn):
        with naming(name):
            return RetryBudget(**value.model_dump())
    return 1 if name == "weight" and value is None else value
