"""What queries about schedules may ask, as pydantic models."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from timewheel.options import MAX_NAME
from timewheel.schedule_records import ScheduleState
from timewheel.serve.inputs import PAGE_JOBS, Given, Instant, TaskName
from timewheel.serve.schedule_inputs import PREVIEWED

MOST_BUCKETS = 10_000


class Asked(Given):
    """A query: its values are text."""

    model_config = ConfigDict(extra="forbid", strict=False)


class SchedulesQuery(Asked):
    """Which schedules a list shows, by id."""

    state: Annotated[list[ScheduleState], Field(description="One or several states; repeat the parameter.")] = Field(
        default_factory=list
    )
    task: TaskName | None = None
    queue: Annotated[str | None, Field(min_length=1, max_length=MAX_NAME)] = None
    page_size: Annotated[int, Field(ge=1, le=PAGE_JOBS)] = 100
    page_token: Annotated[str | None, Field(min_length=1, max_length=1_000, description="From the page before.")] = None


class OccurrencesQuery(Asked):
    """Which page of a ledger."""

    page_size: Annotated[int, Field(ge=1, le=PAGE_JOBS)] = 100
    page_token: Annotated[str | None, Field(min_length=1, max_length=500, description="From the page before.")] = None


class PreviewQuery(Asked):
    """How much of what is to come."""

    n: Annotated[int, Field(ge=1, le=PREVIEWED)] = 10
    after: Annotated[
        Instant | None, Field(description="Runs after this instant, which may be past; without: after now.")
    ] = None


class ForecastQuery(Asked):
    """Which stretch of time, in buckets of how many seconds."""

    from_: Annotated[Instant | None, Field(alias="from", description="Without: the bucket that is now.")] = None
    to: Annotated[Instant | None, Field(description="Without: 24 hours after `from`.")] = None
    bucket_s: Annotated[
        float,
        Field(ge=1, le=366 * 86_400, allow_inf_nan=False, description=f"At most {MOST_BUCKETS:,} buckets in all."),
    ] = 60.0
