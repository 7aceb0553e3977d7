"""`/api/v1/calendars`: named sets of days on which nothing runs, shared by schedules."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.recurrence.calendar import Calendar
from timewheel.serve import schedule_inputs as inputs
from timewheel.serve import schedule_outputs as outputs
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.making import check_open
from timewheel.serve.problems import Problem, documented, invalid
from timewheel.serve.routes import add
from timewheel.serve.schedule_views import calendar_view
from timewheel.serve.views import json_response

if TYPE_CHECKING:
    from timewheel.scheduler import Scheduler

PREFIX = "/api/v1/calendars"


class CalendarsApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def list(self) -> Response:
        """Every saved calendar, by name."""
        saved = await self._scheduler.standing.calendars()
        return json_response({"items": [calendar_view(saved[name]) for name in sorted(saved)]})

    async def show(self, name: str) -> Response:
        """One calendar."""
        saved = await self._scheduler.standing.calendars()
        if name not in saved:
            raise Problem(404, "calendar-not-found", f"no calendar is saved as {shown(name)}")
        return json_response(calendar_view(saved[name]))

    async def put(self, name: str, body: inputs.CalendarIn) -> Response:
        """Save a calendar under its name, in the place of the one there is. Schedules that name it follow at once."""
        check_open(self._scheduler)
        calendar = _calendar(name, body)
        self._scheduler.check_room()
        await self._scheduler.standing.put_calendar(calendar)
        return json_response(calendar_view(calendar))

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["calendars"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        one = PREFIX + "/{name}"
        add(router, "GET", PREFIX, self.list, outputs.CalendarsOut, reads)
        add(router, "GET", one, self.show, outputs.CalendarOut, reads)
        add(router, "PUT", one, self.put, outputs.CalendarOut, writes)
        return router


def _calendar(name: str, body: inputs.CalendarIn) -> Calendar:
    days: list[Any] = []
    for place, entry in enumerate(body.exclude):
        texts = [entry] if isinstance(entry, str) else entry
        try:
            dates = [date.fromisoformat(text) for text in texts]
        except ValueError:
            raise invalid(f"{shown(texts)} is no date like 2026-12-25", f"exclude.{place}") from None
        days.append(tuple(dates) if len(dates) == 2 else dates[0])
    try:
        return Calendar(name, days, weekend=body.weekend)
    except InvalidRule as error:
        field = error.field if error.field in inputs.CalendarIn.model_fields else "name"
        raise invalid(str(error), field) from None
