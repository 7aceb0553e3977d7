"""`/api/v1/schedules`: make, list, look at, change, pause, run and foresee schedules; and rules that are not saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from timewheel.errors import InvalidOption, TimewheelError
from timewheel.serve import schedule_inputs as inputs
from timewheel.serve import schedule_outputs as outputs
from timewheel.serve import schedule_queries as queries
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.making import Maker, check_open, instant_of
from timewheel.serve.pages import page_response
from timewheel.serve.problems import documented, invalid
from timewheel.serve.routes import Precondition, add, blaming, version_of
from timewheel.serve.schedule_making import ScheduleMaker
from timewheel.serve.schedule_views import occurrence_view, schedule_view, upcoming_view
from timewheel.serve.views import job_view, json_response
from timewheel.times import when_us

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timewheel.occurrences import Upcoming
    from timewheel.planning.definition import Definition
    from timewheel.schedule import Schedule
    from timewheel.scheduler import Scheduler

PREFIX = "/api/v1/schedules"
SLICE = 50  # schedules of a page that are shown in one turn of the event loop: a few milliseconds
IfMatch = Annotated[
    str | None,
    Header(description="The ETag of the version that it is meant for; another one: 412.", max_length=100),
]


class SchedulesApi:
    """The handlers; `router()` says under which paths."""

    def __init__(self, scheduler: Scheduler, maker: Maker) -> None:
        self._scheduler = scheduler
        self._maker = ScheduleMaker(scheduler, maker)

    async def create(self, body: inputs.ScheduleIn) -> Response:
        """Make a schedule, or bring the one with this id to what is said: safe to repeat.

        201 `created`; 200 `updated` or `unchanged`. What is not said is the default, also for one that exists: to
        change a part, PATCH it. With `dry_run` nothing is written.
        """
        made = await self._maker.make(body)
        shown = None if made.schedule is None else view(made.schedule)
        answer = {"change": made.change, "changes": made.changes, "dry_run": body.dry_run, "schedule": shown}
        headers = {} if made.schedule is None else _headers(made.schedule)
        return json_response(answer, 201 if made.change == "created" and not body.dry_run else 200, headers)

    async def list(self, query: Annotated[queries.SchedulesQuery, Query()]) -> Response:
        """Schedules that match every condition, by id."""
        try:
            found = self._scheduler.schedules(
                state=[state.value for state in query.state] or None,
                task=query.task,
                queue=query.queue,
                page_size=query.page_size,
                page_token=query.page_token,
            )
        except InvalidOption as error:  # the rest was checked on the way in
            raise invalid(str(error), "page_token") from None
        return await page_response(await found, view, SLICE)

    async def show(self, schedule_id: str) -> Response:
        """One schedule as it stands."""
        return _answer(await self._scheduler.get_schedule(schedule_id))

    async def change(self, schedule_id: str, body: inputs.ScheduleChangeIn, if_match: IfMatch = None) -> Response:
        """Change its rule, its options, or both; the rest stays. A paused schedule stays paused.

        A new rule counts from now; slots that were due before follow the old one.
        """
        version = version_of(if_match, body.if_version)
        with Precondition(if_match):
            return _answer(await self._maker.change(schedule_id, body, version))

    async def delete(self, schedule_id: str, if_match: IfMatch = None) -> Response:
        """Forget it: it makes no more jobs. Those that it made, and its ledger, stay."""
        check_open(self._scheduler)
        with Precondition(if_match):
            await self._scheduler.standing.delete(schedule_id, version_of(if_match, None))
        return Response(status_code=204)

    async def pause(self, schedule_id: str, body: inputs.PauseIn | None = None, if_match: IfMatch = None) -> Response:
        """Make no jobs until it is resumed, or until an instant. Jobs that were made run on."""
        check_open(self._scheduler)
        wanted = body or inputs.PauseIn()
        until = instant_of("until", wanted.until)
        with Precondition(if_match), blaming("until", "note"):
            version = version_of(if_match, wanted.if_version)
            return _answer(await self._scheduler.standing.pause(schedule_id, wanted.note, until, version))

    async def resume(
        self, schedule_id: str, body: inputs.VersionIn | None = None, if_match: IfMatch = None
    ) -> Response:
        """End a pause: the slots that passed were missed, and the misfire policy says what becomes of them."""
        check_open(self._scheduler)
        with Precondition(if_match):
            version = version_of(if_match, body.if_version if body is not None else None)
            return _answer(await self._scheduler.standing.resume(schedule_id, version))

    async def trigger(self, schedule_id: str, body: inputs.TriggerIn | None = None) -> Response:
        """Run it once now, beside its rule: 201 with the job, or 200 when the overlap policy left it out."""
        check_open(self._scheduler)
        self._scheduler.check_room()
        job = await self._scheduler.standing.trigger(schedule_id, force=body is not None and body.force)
        return json_response({"job": None if job is None else job_view(job)}, 200 if job is None else 201)

    async def backfill(self, schedule_id: str, body: inputs.BackfillIn) -> Response:
        """Run the slots of [start, end) that did not run, the oldest first. A dry run, unless told otherwise."""
        check_open(self._scheduler)
        start, end = instant_of("start", body.start), instant_of("end", body.end)
        assert start is not None, "it is required"
        assert end is not None, "it is required"
        with blaming("end", "most"):
            done = await self._scheduler.standing.backfill(
                schedule_id, start, end, dry_run=body.dry_run, at_once=body.at_once, most=body.most
            )
        answer = {"slots": done.slots, "already_ran": done.already_ran, "made": done.made, "dry_run": done.dry_run}
        return json_response({**answer, "job_ids": [job.id for job in done.jobs]})

    async def preview(self, schedule_id: str, query: Annotated[queries.PreviewQuery, Query()]) -> Response:
        """Its next runs, and what it will leave out among them, and why: as far as the rule tells."""
        schedule = await self._scheduler.get_schedule(schedule_id)
        words = schedule.rule.explain()
        return _preview(words, await schedule.preview(query.n, instant_of("after", query.after)))

    async def occurrences(self, schedule_id: str, query: Annotated[queries.OccurrencesQuery, Query()]) -> Response:
        """What became of its occurrences, the newest first. The ledger of a deleted schedule stays, too."""
        try:
            found = self._scheduler.standing.occurrences(schedule_id, query.page_size, query.page_token)
        except InvalidOption as error:
            raise invalid(str(error), "page_token") from None
        page = await found
        items = [occurrence_view(row) for row in page.items]
        return json_response({"items": items, "next_page_token": page.next_page_token})

    async def imagine(self, body: inputs.PreviewIn) -> Response:
        """What a rule would do that is not saved yet."""
        definition = await self._maker.definition(body)
        after = instant_of("after", body.after)
        after_us = None if after is None else when_us(after)
        runs = self._scheduler.standing.previewed(definition, body.id or "", None, body.n, after_us)
        return _preview(definition.rule.explain(), runs)

    def router(self) -> APIRouter:
        """The paths."""
        router = APIRouter(tags=["schedules"], route_class=StrictRoute)
        reads = documented(400, 404, 421, 422, 429, 500, 503)
        writes = documented(400, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 507)
        edits = writes | documented(409, 412)
        one = PREFIX + "/{schedule_id}"
        shown, body = outputs.ScheduleOut, {"requestBody": {"required": True}}
        add(router, "POST", PREFIX, self.create, outputs.MadeSchedule, writes | documented(409) | _MAKES, code=201)
        add(router, "GET", PREFIX, self.list, outputs.SchedulesOut, reads)
        add(router, "GET", one, self.show, shown, reads)
        add(router, "PATCH", one, self.change, shown, edits)
        router.add_api_route(one, self.delete, methods=["DELETE"], status_code=204, responses=edits)
        add(router, "POST", f"{one}/pause", self.pause, shown, edits, extra=body)
        add(router, "POST", f"{one}/resume", self.resume, shown, edits, extra=body)
        triggers = writes | {200: {"model": outputs.TriggerOut, "description": "The overlap policy left it out."}}
        add(router, "POST", f"{one}/trigger", self.trigger, outputs.TriggerOut, triggers, code=201, extra=body)
        add(router, "POST", f"{one}/backfill", self.backfill, outputs.BackfillOut, writes)
        add(router, "GET", f"{one}/preview", self.preview, outputs.PreviewOut, reads)
        add(router, "GET", f"{one}/occurrences", self.occurrences, outputs.OccurrencesOut, reads)
        add(router, "POST", "/api/v1/preview", self.imagine, outputs.PreviewOut, writes)
        return router


_MAKES: dict[int | str, dict[str, Any]] = {
    200: {"model": outputs.MadeSchedule, "description": "It existed already, or this was a dry run."},
    201: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The schedule's own path."}}},
}


def definition_of(schedule: Schedule[Any]) -> Definition | None:
    """What it declares; None when that cannot be read here: then it is parked, and shown all the same."""
    try:
        return schedule.definition
    except TimewheelError:
        return None


def view(schedule: Schedule[Any]) -> dict[str, Any]:
    """A schedule as `ScheduleOut` describes it."""
    return schedule_view(schedule, definition_of(schedule))


def _headers(schedule: Schedule[Any]) -> dict[str, str]:
    return {"ETag": f'"{schedule.version}"', "Location": f"{PREFIX}/{quote(schedule.id, safe='')}"}


def _answer(schedule: Schedule[Any]) -> Response:
    return json_response(view(schedule), headers={"ETag": f'"{schedule.version}"'})


def _preview(words: str, runs: Iterable[Upcoming]) -> Response:
    return json_response({"in_words": words, "items": [upcoming_view(one) for one in runs]})
