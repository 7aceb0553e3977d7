"""What the HTTP API takes about schedules, as pydantic models: the source of `/openapi.json`, and a first check.

What a rule or an option may be is judged where they are made; here stand the shapes, and limits against sheer size.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from timewheel.model import DEFAULT_PRIORITY
from timewheel.options import MAX_KEY, MAX_TAGS
from timewheel.planning.options import MOST_ID, MOST_JITTER_S
from timewheel.policies import MAX_SECONDS
from timewheel.recurrence.calendar import MOST_DAYS, MOST_NAME
from timewheel.serve.inputs import (
    OVERLAP,
    OVERLAP_NAME,
    WHOLE,
    FlowIn,
    Given,
    Instant,
    Name,
    RetryOrAttempts,
    Seconds,
    TaskName,
)

PREVIEWED = 1_000
Id = Annotated[str, Field(min_length=1, max_length=MOST_ID, examples=["payroll"])]
Jitter = Annotated[float, Field(ge=0, le=MOST_JITTER_S, allow_inf_nan=False)]
Version = Annotated[
    int | None,
    Field(ge=1, le=1 << 53, description="Do it only to this version of the schedule; else 409."),
    WHOLE,
]
WeekdayName = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ZoneName = Annotated[str, Field(max_length=64, examples=["Europe/Berlin"])]


def _weekend() -> list[WeekdayName]:
    return ["sat", "sun"]


class RuleIn(Given):
    """When it recurs: exactly one of `cron`, `every_s`, `days` and `weeks`, with what belongs to it."""

    cron: Annotated[
        str | None, Field(max_length=256, examples=["0 9 * * mon"], description="Five fields, or six with seconds.")
    ] = None
    every_s: Annotated[
        float | None,
        Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, description="Seconds of elapsed time between two slots."),
    ] = None
    after_completion: Annotated[
        bool | None, Field(description="Of every_s: count from the end of each run instead.")
    ] = None
    days: Annotated[Annotated[int, WHOLE] | None, Field(description="Every so many days, at the anchor's time.")] = None
    weeks: Annotated[Annotated[int, WHOLE] | None, Field(description="Every so many weeks.")] = None
    anchor: Annotated[
        str | None,
        Field(
            max_length=64,
            examples=["2026-01-09T09:00:00"],
            description="The first slot: of days and weeks a local time without offset, of every_s an instant.",
        ),
    ] = None
    tz: Annotated[ZoneName | None, Field(description="The zone of a wall time; without one: the scheduler's.")] = None
    gap: Annotated[
        Literal["AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"] | None,
        Field(description="What becomes of a time that the clocks skip."),
    ] = None
    fold: Annotated[
        Literal["AUTO", "FIRST", "SECOND", "BOTH"] | None, Field(description="... of a time that occurs twice.")
    ] = None
    calendar: Annotated[
        str | None, Field(min_length=1, max_length=MOST_NAME, description="The name of a saved calendar.")
    ] = None
    roll: Annotated[
        Literal["following", "preceding", "modified_following"] | None,
        Field(description="Where a day goes that is no business day; without: it is left out."),
    ] = None


class OverlapIn(Given):
    """An overlap policy with its limit (ALLOW, QUEUE_ALL) or key (SERIALIZE)."""

    kind: Literal["SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL", "SERIALIZE"]
    limit: Annotated[int | None, Field(ge=1, le=100_000), WHOLE] = None
    key: Annotated[str | None, Field(min_length=1, max_length=MAX_KEY)] = None


def _overlap_form(value: Any) -> str:
    return OVERLAP if isinstance(value, (dict, OverlapIn)) else OVERLAP_NAME


OverlapOrName = Annotated[
    Annotated[OverlapIn, Tag(OVERLAP)]
    | Annotated[Literal["SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL"], Tag(OVERLAP_NAME)],
    Discriminator(_overlap_form),
]


class ChoicesIn(RuleIn, FlowIn):
    """A rule and the options of a schedule. null means: none, or no limit, where that has a meaning."""

    queue: Name | None = None
    priority: Annotated[
        Annotated[int, Field(ge=0, le=9), WHOLE] | None,
        Field(description=f"0 goes first. Without one: the task's, else {DEFAULT_PRIORITY}."),
    ] = None
    retry: Annotated[
        RetryOrAttempts | None, Field(description="A policy, or a number of attempts in all; null: one attempt.")
    ] = None
    timeout_s: Annotated[
        float | None, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, description="Limit of one attempt; null: none.")
    ] = None
    tags: Annotated[list[Name] | None, Field(max_length=MAX_TAGS)] = None
    misfire: Annotated[
        Literal["SKIP", "LATEST", "COALESCE", "ALL"] | None,
        Field(description="What becomes of slots that were missed. Without: LATEST."),
    ] = None
    misfire_grace_s: Annotated[
        Seconds | None, Field(description="A slot that is reached later was missed. Without: 10.")
    ] = None
    catch_up_max: Annotated[
        Annotated[int, Field(ge=1, le=1_000), WHOLE] | None, Field(description="Of ALL: at most so many. Without: 100.")
    ] = None
    catch_up_per_s: Annotated[
        float | None,
        Field(gt=0, le=1_000, allow_inf_nan=False, description="Of ALL: so many a second (1); null: at once."),
    ] = None
    overlap: Annotated[
        OverlapOrName | None,
        Field(description="What becomes of a slot while a job of the schedule is not final. Without: SKIP."),
    ] = None
    jitter_s: Annotated[Jitter | None, Field(description="Jobs are due so much later, at most. Without: 0.")] = None
    start: Annotated[Instant | None, Field(description="The first instant that may be a slot; null: none.")] = None
    end: Annotated[Instant | None, Field(description="The first instant that is none any more; null: none.")] = None
    max_runs: Annotated[
        Annotated[int, Field(ge=1, le=10**12), WHOLE] | None,
        Field(description="Jobs that the rule makes in all; null: no limit."),
    ] = None


class ScheduleIn(ChoicesIn):
    """A schedule to make, or to bring to what is said here: what is not said is the default, even if it exists."""

    id: Annotated[Id | None, Field(description="Without one: the task's name.")] = None
    task: TaskName
    args: Annotated[list[Any], Field(description="Positional arguments: any JSON.", examples=[["hello"]])] = Field(
        default_factory=list
    )
    kwargs: Annotated[dict[str, Any], Field(description="Arguments by name: any JSON.")] = Field(default_factory=dict)
    if_exists: Annotated[
        Literal["update", "keep", "fail"], Field(description="When there is another one: change it, leave it, or 409.")
    ] = "update"
    managed: Annotated[
        Literal["file"] | None,
        Field(description='"file": it belongs to a file that says which schedules there shall be.'),
    ] = None
    dry_run: Annotated[bool, Field(description="Only say what would change.")] = False


_AGAIN = "it cannot be changed here: POST the whole schedule with this id to /api/v1/schedules, which replaces it"


class ScheduleChangeIn(ChoicesIn):
    """What shall change of a schedule: the rule, options, or both. The rest stays, and a paused one stays paused."""

    not_here = dict.fromkeys(("task", "args", "kwargs", "managed"), _AGAIN) | {
        "id": "it cannot be changed: make another schedule, and DELETE this one",
        "state": "POST to the schedule's /pause or /resume",
        "if_exists": "it belongs to POST /api/v1/schedules",
        "dry_run": "it belongs to POST /api/v1/schedules",
    }

    if_version: Version = None


class VersionIn(Given):
    """Which version it is meant for."""

    if_version: Version = None


class PauseIn(VersionIn):
    """Why and until when a schedule is paused."""

    note: Annotated[str | None, Field(min_length=1, max_length=1_000)] = None
    until: Annotated[Instant | None, Field(description="When it resumes by itself.")] = None


class TriggerIn(Given):
    """How to run it once now."""

    force: Annotated[bool, Field(description="Run it whatever the overlap policy says.")] = False


class BackfillIn(Given):
    """Which slots to make up for: those in [start, end) that did not run. A dry run, unless told otherwise."""

    start: Instant
    end: Instant
    dry_run: bool = True
    at_once: Annotated[Annotated[int, Field(ge=1, le=1_000), WHOLE], Field(description="How many run at a time.")] = 1
    most: Annotated[
        Annotated[int, Field(ge=1, le=1_000), WHOLE], Field(description="Refuse when there are more jobs to make.")
    ] = 1_000


class PreviewIn(RuleIn):
    """A rule that is not saved yet, and the options that move or limit its runs."""

    jitter_s: Jitter | None = None
    start: Instant | None = None
    end: Instant | None = None
    max_runs: Annotated[Annotated[int, Field(ge=1, le=10**12), WHOLE] | None, Field()] = None
    id: Annotated[Id | None, Field(description="The schedule that it is for: jitter depends on its id.")] = None
    n: Annotated[Annotated[int, Field(ge=1, le=PREVIEWED), WHOLE], Field(description="How many runs to show.")] = 10
    after: Annotated[Instant | None, Field(description="Those after this instant; without: after now.")] = None


class CalendarIn(Given):
    """The days of a calendar on which nothing runs."""

    exclude: Annotated[
        list[Annotated[str, Field(max_length=10)] | Annotated[list[str], Field(min_length=2, max_length=2)]],
        Field(
            max_length=MOST_DAYS,
            description="Dates, and [first, last] ranges of dates, both included.",
            examples=[["2026-12-25", ["2026-12-28", "2026-12-31"]]],
        ),
    ] = Field(default_factory=list)
    weekend: Annotated[list[WeekdayName], Field(max_length=7, description="[]: none.")] = Field(
        default_factory=_weekend
    )
