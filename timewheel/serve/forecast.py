"""`/api/v1/forecast`: how many jobs fall due when, and which schedules cause the peaks.

Pending jobs are read from the due index, slots are counted by their rules. Both are bounded, and worked out in slices
so that the event loop is not held.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.planning.forecast import Window, foreseen, shared_key
from timewheel.schedule_records import ScheduleState
from timewheel.serve import schedule_outputs as outputs
from timewheel.serve import schedule_queries as queries
from timewheel.serve.bodies import StrictRoute
from timewheel.serve.making import instant_of
from timewheel.serve.problems import documented, invalid
from timewheel.serve.routes import add
from timewheel.serve.schedules import definition_of
from timewheel.serve.views import json_response
from timewheel.times import rfc3339, when_us

if TYPE_CHECKING:
    from timewheel.schedule import Schedule
    from timewheel.scheduler import Scheduler

PATH = "/api/v1/forecast"
DAY_S = 86_400
MOST_PENDING = 1_000_000  # jobs that are read
MOST_STEPS = 100_000  # counts of slots
CAUSES = 5
PEAKS = 10
ADDED_A_STEP = 30  # adding what was counted before costs so much less
PAGE = 200
TURN_S = 0.005  # of work in one turn of the event loop
MOST_UNKNOWN = 1_000


class ForecastApi:
    """The handler; `router()` says under which path."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def forecast(self, query: Annotated[queries.ForecastQuery, Query()]) -> Response:
        """Jobs falling due per bucket: those that exist, and those that schedules will make, as far as rules tell.

        Counts nominal times, before jitter. What a misfire, an overlap or a retry will do is not known ahead.
        """
        window = self._window(query)
        forecast = Forecast(window, self._scheduler.standing.now())
        await self._count_pending(forecast)
        turn = _Turn()
        async for schedule in self._scheduler.schedules(page_size=PAGE):
            await self._count(forecast, schedule, turn)
        await self._add_alike(forecast, turn)
        return json_response(forecast.view())

    def _window(self, query: queries.ForecastQuery) -> Window:
        given = instant_of("from", query.from_)
        bucket_us = round(query.bucket_s * SECOND_US)
        start = self._scheduler.standing.now().wall_us // bucket_us * bucket_us if given is None else when_us(given)
        end_given = instant_of("to", query.to)
        end = start + DAY_S * SECOND_US if end_given is None else when_us(end_given)
        if end <= start:
            raise invalid("to must lie after from", "to")
        buckets = -((start - end) // bucket_us)
        if buckets > queries.MOST_BUCKETS:
            least = -(-(end - start) // queries.MOST_BUCKETS) / SECOND_US
            text = f"that makes {buckets:,} buckets, and {queries.MOST_BUCKETS:,} is the most: take {least:g} or more"
            raise invalid(text, "bucket_s")
        return Window(start, bucket_us, buckets)

    async def _count_pending(self, forecast: Forecast) -> None:
        async for page in self._scheduler.standing.due_times(forecast.window.end_us):
            forecast.add_pending(page)
            await asyncio.sleep(0)
            if forecast.read >= MOST_PENDING:
                forecast.complete = False
                return

    async def _count(self, forecast: Forecast, schedule: Schedule[Any], turn: _Turn) -> None:
        if schedule.state is ScheduleState.ENDED:
            return
        definition = definition_of(schedule)
        if definition is None or schedule.state is not ScheduleState.ACTIVE or definition.fixed_delay:
            forecast.unknown.append(schedule.id)
        if definition is None or schedule.state is not ScheduleState.ACTIVE:
            return
        now, position = forecast.now, schedule.record.position
        key = shared_key(definition, position, now)
        await turn.step()
        alike = None if key is None else forecast.alike.get(key)
        if alike is not None:
            alike.join(schedule.id)
            return
        found = foreseen(definition, position, now, forecast.window)
        if key is not None:
            alike = forecast.alike[key] = Alike(schedule.id)
            for one in found:
                alike.found.append(one)
                await turn.step()
            return
        at_once = ADDED_A_STEP if position.clock is ClockKind.STEADY else 1  # an interval is only reckoned
        for number, (bucket, slots) in enumerate(found, 1):
            forecast.add(bucket, schedule.id, slots)
            if number % at_once == 0:
                await turn.step()

    async def _add_alike(self, forecast: Forecast, turn: _Turn) -> None:
        for alike in forecast.alike.values():
            for number, (bucket, slots) in enumerate(alike.found, 1):
                forecast.add_alike(bucket, slots, alike)
                if number % ADDED_A_STEP == 0:
                    await turn.step()
            await turn.step()


class _Turn:
    """Counts steps, and lets others run in between. Raises Problem when there are too many."""

    def __init__(self) -> None:
        self._steps = 0
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise invalid("there is too much to count: take a larger bucket_s, or a shorter time", "bucket_s")
        if self._loop.time() - self._began > TURN_S:
            await asyncio.sleep(0)
            self._began = self._loop.time()


class Alike:
    """Schedules with the same slots: how many there are, CAUSES of their names, and what each makes by bucket."""

    def __init__(self, schedule: str) -> None:
        self.schedules = 1
        self.names = [schedule]
        self.found: list[tuple[int, int]] = []

    def join(self, schedule: str) -> None:
        """One more of them."""
        self.schedules += 1
        if len(self.names) < CAUSES:
            heapq.heappush(self.names, schedule)
        elif self.names[0] < schedule:
            heapq.heapreplace(self.names, schedule)


class Forecast:
    """Counts by bucket. Pure. Of the schedules of a bucket, the CAUSES that make the most are kept."""

    def __init__(self, window: Window, now: Now) -> None:
        self.window = window
        self.now = now
        self.alike: dict[Any, Alike] = {}
        self.read = 0
        self.overdue = 0
        self.complete = True
        self.unknown: list[str] = []
        self._pending: Counter[int] = Counter()
        self._made: Counter[int] = Counter()
        self._causes: dict[int, list[tuple[int, str]]] = {}

    def add_pending(self, due_us: Iterable[int]) -> None:
        """Jobs that exist, by when they are due."""
        for instant in due_us:
            self.read += 1
            bucket = self.window.bucket_of(instant)
            if bucket is not None:
                self._pending[bucket] += 1
            elif instant < self.window.start_us:
                self.overdue += 1

    def add(self, bucket: int, schedule: str, slots: int) -> None:
        """Slots of a schedule."""
        self._made[bucket] += slots
        self._cause(bucket, schedule, slots)

    def add_alike(self, bucket: int, slots: int, alike: Alike) -> None:
        """Slots of each of several schedules."""
        self._made[bucket] += slots * alike.schedules
        for schedule in alike.names:
            self._cause(bucket, schedule, slots)

    def _cause(self, bucket: int, schedule: str, slots: int) -> None:
        causes = self._causes.setdefault(bucket, [])
        if len(causes) < CAUSES:
            heapq.heappush(causes, (slots, schedule))
        elif causes[0] < (slots, schedule):
            heapq.heapreplace(causes, (slots, schedule))

    def view(self) -> dict[str, Any]:
        """As `ForecastOut` describes it."""
        numbers = sorted(self._pending.keys() | self._made.keys())
        totals = {number: self._pending[number] + self._made[number] for number in numbers}
        peaks = heapq.nsmallest(PEAKS, numbers, key=lambda number: (-totals[number], number))
        return {
            "start": rfc3339(self.window.start_us),
            "end": rfc3339(self.window.end_us),
            "bucket_s": self.window.bucket_us / SECOND_US,
            "jobs": sum(totals.values()),
            "overdue": self.overdue,
            "buckets": list(self._buckets(numbers, totals)),
            "peaks": list(self._buckets(peaks, totals)),
            "complete": self.complete,
            "unknown": self.unknown[:MOST_UNKNOWN],
        }

    def _buckets(self, numbers: Iterable[int], totals: dict[int, int]) -> Iterator[dict[str, Any]]:
        for number in numbers:
            causes = sorted(self._causes.get(number, ()), key=lambda cause: (-cause[0], cause[1]))
            yield {
                "start": rfc3339(self.window.start_us + number * self.window.bucket_us),
                "jobs": totals[number],
                "pending": self._pending[number],
                "schedules": [{"schedule": schedule, "jobs": slots} for slots, schedule in causes],
            }


def router(scheduler: Scheduler) -> APIRouter:
    """The path."""
    made = APIRouter(tags=["schedules"], route_class=StrictRoute)
    reads = documented(400, 421, 422, 429, 500, 503)
    add(made, "GET", PATH, ForecastApi(scheduler).forecast, outputs.ForecastOut, reads)
    return made
