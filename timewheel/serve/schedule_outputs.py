"""What the HTTP API answers about schedules, as pydantic models: the source of `/openapi.json`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from timewheel.model import JobState, OriginKind
from timewheel.planning.policies import Misfire, OverlapKind
from timewheel.recurrence.choices import Fold, Gap, Roll
from timewheel.schedule_records import Fate, ScheduleState
from timewheel.serve.outputs import JobOut, RetryOut


class RuleOut(BaseModel):
    """A rule, as it can be given again: `cron`, `every_s`, `days` or `weeks`, and what belongs to it."""

    cron: str | None = None
    every_s: float | None = None
    after_completion: bool | None = None
    days: int | None = None
    weeks: int | None = None
    anchor: str | None = None
    tz: str | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    calendar: str | None = None
    roll: Roll | None = None


class OverlapOut(BaseModel):
    """An overlap policy."""

    kind: OverlapKind
    limit: int | None
    key: str | None


class OptionsOut(BaseModel):
    """The options of a schedule, all written out."""

    priority: int
    retry: RetryOut
    timeout_s: float | None
    heartbeat_timeout_s: float | None
    expires_after_s: float | None
    deadline_after_s: float | None
    tags: list[str]
    concurrency_key: str | None
    rate_key: str | None
    cost: int | None
    partition_key: str | None
    misfire: Misfire
    misfire_grace_s: float
    catch_up_max: int
    catch_up_per_s: float | None
    overlap: OverlapOut
    jitter_s: float
    start: str | None
    end: str | None
    max_runs: int | None


class ScheduleOut(BaseModel):
    """A schedule as it stands. What was declared is null when it cannot be read."""

    id: str
    task: str
    args: list[Any] | None
    kwargs: dict[str, Any] | None
    queue: str
    state: ScheduleState
    reason: Annotated[str | None, Field(description="Of PARKED and ENDED; of PAUSED its note.")]
    rule: RuleOut | None
    in_words: Annotated[str | None, Field(description="The rule in words.")]
    options: OptionsOut | None
    idempotent: Annotated[bool | None, Field(description="What its task said when the schedule was declared.")]
    next_at: Annotated[str | None, Field(description="The next slot, before jitter; null when it is not ACTIVE.")]
    paused_until: str | None
    runs: Annotated[int, Field(description="Jobs that the rule has made.")]
    managed: Annotated[str | None, Field(description='"code" or "file": where it is declared, when that is kept.')]
    created_at: str
    updated_at: str
    version: Annotated[int, Field(description="Grows with every edit, pause and resume; also the ETag.")]


class ChangeOut(BaseModel):
    """From what to what."""

    before: Any
    after: Any


class MadeSchedule(BaseModel):
    """What became of a request for a schedule, or would become of it (`dry_run`)."""

    change: Literal["created", "updated", "unchanged"]
    changes: Annotated[dict[str, ChangeOut], Field(description="Of an update: what changed, by name.")]
    dry_run: bool
    schedule: Annotated[ScheduleOut | None, Field(description="As it stands now; null: there is none yet.")]


class SchedulesOut(BaseModel):
    """A page of schedules, by id."""

    items: list[ScheduleOut]
    next_page_token: Annotated[str | None, Field(description="Ask with it for the next page; null: there is none.")]


class TriggerOut(BaseModel):
    """The job that was made; null: the overlap policy left it out, and the ledger says so."""

    job: JobOut | None


class BackfillOut(BaseModel):
    """What a backfill came to; of a dry run, what it would."""

    slots: Annotated[int, Field(description="Slots of the rule in the range.")]
    already_ran: Annotated[int, Field(description="Those of them whose job has completed.")]
    made: Annotated[int, Field(description="Jobs that were made, or would be.")]
    job_ids: list[str]
    dry_run: bool


class UpcomingOut(BaseModel):
    """A run to come; or, with a `reason`, times of which no job will be made, the first of which is shown."""

    at: Annotated[str, Field(description="The nominal instant.")]
    local: Annotated[str, Field(description="What clocks in the rule's zone show then, with their offset from UTC.")]
    nominal: Annotated[str, Field(description="The local time that the rule names, before a gap or a roll moved it.")]
    notes: Annotated[list[str], Field(description="gap, fold_first, fold_second, roll.")]
    scheduled_at: Annotated[str | None, Field(description="When its job will be due, jitter included.")]
    reason: Annotated[
        str | None, Field(description="Why no job will be made: gap, calendar; past: it has come already.")
    ]
    count: Annotated[int, Field(description="How many times will be left out.")]


class PreviewOut(BaseModel):
    """What a rule will do, as far as it tells."""

    in_words: str
    items: list[UpcomingOut]


class OccurrenceOut(BaseModel):
    """A row of the ledger: one occurrence, or a range of `count` of them with one fate."""

    nominal_at: str
    last_at: str
    count: int
    kind: OriginKind
    fate: Fate
    reason: str | None
    job_id: str | None
    job_state: JobState | None
    recorded_at: str
    turn: int


class OccurrencesOut(BaseModel):
    """A page of a ledger, the newest row first."""

    items: list[OccurrenceOut]
    next_page_token: str | None


class CalendarOut(BaseModel):
    """A saved calendar."""

    name: str
    exclude: Annotated[list[str | list[str]], Field(description="Dates, and [first, last] ranges of dates.")]
    weekend: list[str]


class CalendarsOut(BaseModel):
    """Every saved calendar."""

    items: list[CalendarOut]


class CauseOut(BaseModel):
    """A schedule, and how many jobs it makes in a bucket."""

    schedule: str
    jobs: int


class BucketOut(BaseModel):
    """The jobs that fall due from `start` on, until the next bucket begins."""

    start: str
    jobs: int
    pending: Annotated[int, Field(description="Those of them that exist already.")]
    schedules: Annotated[list[CauseOut], Field(description="Those that make the most of the others.")]


class ForecastOut(BaseModel):
    """What falls due when. Buckets without jobs are left out."""

    start: str
    end: str
    bucket_s: float
    jobs: int
    overdue: Annotated[int, Field(description="Jobs that were due before `start`; in no bucket.")]
    buckets: list[BucketOut]
    peaks: Annotated[list[BucketOut], Field(description="The fullest buckets, the fullest first.")]
    complete: Annotated[bool, Field(description="False: there are more pending jobs than were counted.")]
    unknown: Annotated[
        list[str],
        Field(description="Schedules that cannot be foreseen: paused, parked, or counted from each run's end."),
    ]
