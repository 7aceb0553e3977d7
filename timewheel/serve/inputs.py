"""What the HTTP API takes, as pydantic models: the source of `/openapi.json`, and the check of what comes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from timewheel.model import DEFAULT_PRIORITY, JobState
from timewheel.option_values import MAX_COST, MAX_WAITED
from timewheel.options import MAX_KEY, MAX_NAME, MAX_TAGS
from timewheel.policies import MAX_ATTEMPTS, MAX_SECONDS
from timewheel.tasks import MAX_NAME as MAX_TASK_NAME

ATTEMPTS = "(attempts)"  # stands in the place of a fault in a `retry` that is not an object
OVERLAP, OVERLAP_NAME = "(overlap)", "(overlap's name)"  # ... in an `overlap` that is an object, or not
BATCH_JOBS = 1_000
PAGE_JOBS = 1_000


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 4.0 is as whole as 4, and some writers know no other way."""
    return int(value) if type(value) is float and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Instant = Annotated[
    str,
    Field(
        max_length=64,
        examples=["2026-01-05T00:00:00Z", "2026-01-05T01:00:00.5+01:00"],
        description="RFC 3339, with an offset; never before 1970. Counted by the wall clock.",
        json_schema_extra={"format": "date-time"},
    ),
]
Delay = Annotated[
    float,
    Field(
        ge=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="Seconds from now. Counted by elapsed time: a clock that is set does not move it.",
    ),
]


class Given(BaseModel):
    """Whatever comes in: unknown members are refused, and a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)
    not_here: ClassVar[Mapping[str, str]] = {}  # names that one might expect: what is said of them


class RetryIn(Given):
    """How a failed job is tried again: exponential back-off with jitter."""

    max_attempts: Annotated[
        int, Field(ge=1, le=MAX_ATTEMPTS, description="Attempts in all, the first included."), WHOLE
    ] = 5
    base_s: Annotated[Seconds, Field(description="The shortest delay.")] = 1
    factor: Annotated[float, Field(ge=1, allow_inf_nan=False, description="Growth with each failure.")] = 2
    cap_s: Annotated[Seconds, Field(description="The longest delay, at least base_s.")] = 300
    jitter: Annotated[float, Field(ge=0, allow_inf_nan=False, description="Random share added to a delay.")] = 1.0
    give_up_after_s: Annotated[
        float | None,
        Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, description="Seconds after the first failure; null: never."),
    ] = None


def _retry_form(value: Any) -> str:
    return "(policy)" if isinstance(value, (dict, RetryIn)) else ATTEMPTS


RetryOrAttempts = Annotated[
    Annotated[RetryIn, Tag("(policy)")] | Annotated[int, Field(ge=1, le=MAX_ATTEMPTS), WHOLE, Tag(ATTEMPTS)],
    Discriminator(_retry_form),
]
TaskName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_TASK_NAME,
        description="The name of a registered task.",
        examples=["log.message"],
    ),
]


Above0 = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY)]


class FlowIn(Given):
    """What every job may say of when it may start and when it is given up. null: none, or no limit."""

    concurrency_key: Annotated[
        Key | None,
        Field(description="Of the jobs with this key one runs at a time, or as many as its task or queue declares."),
    ] = None
    rate_key: Annotated[
        Key | None, Field(description="The starts with this key have the key_rate of the task and of the queue.")
    ] = None
    cost: Annotated[
        Annotated[int, Field(ge=1, le=MAX_COST), WHOLE] | None,
        Field(description="What a start takes of the rate of its rate_key. Without: 1."),
    ] = None
    partition_key: Annotated[
        Key | None, Field(description="Jobs with different ones, such as tenants, share their queue fairly.")
    ] = None
    heartbeat_timeout_s: Annotated[
        Above0 | None, Field(description="Longest silence of the running handler; null: no limit.")
    ] = None
    expires_after_s: Annotated[
        Above0 | None,
        Field(description="So long after scheduled_at it does not start any more: SKIPPED, unless it began before."),
    ] = None
    deadline_after_s: Annotated[
        Above0 | None, Field(description="So long after scheduled_at it is given up: DEAD, whatever it has begun.")
    ] = None


class UniqueIn(Given):
    """One job of a kind at a time."""

    by: Annotated[
        list[Literal["task", "args", "queue", "key"]],
        Field(max_length=4, description='["task", "args"] or ["key"], with "queue" where that matters.'),
    ] = Field(default_factory=lambda: ["task", "args"])  # type: ignore[arg-type]  # mypy takes it for a list of str
    key: Annotated[Key | None, Field(description='For "key" in `by`.')] = None
    period_s: Annotated[
        Above0 | None, Field(description="Only a job that was made less than this ago stands in the way.")
    ] = None
    states: Annotated[
        list[Literal["SCHEDULED", "WAITING", "ACTIVE", "COMPLETED", "CANCELLED", "DEAD", "SKIPPED"]] | None,
        Field(
            max_length=7,
            description="States in which a job stands in the way. Without: the unfinished ones; with period_s also "
            "COMPLETED.",
        ),
    ] = None
    on_conflict: Annotated[
        Literal["keep", "replace", "reschedule", "fail"],
        Field(description="The job that is there stays (200), is cancelled or moved if it has not begun; or 409."),
    ] = "keep"


class JobIn(FlowIn):
    """A job to make, due at `scheduled_at` or after `delay_s` (one of them at most); at once without either."""

    not_here = dict.fromkeys(("at", "when", "run_at"), "there is no such field; did you mean scheduled_at?")

    task: TaskName
    args: Annotated[list[Any], Field(description="Positional arguments: any JSON.", examples=[["hello"]])] = []
    kwargs: Annotated[dict[str, Any], Field(description="Arguments by name: any JSON.")] = {}
    scheduled_at: Instant | None = None
    delay_s: Delay | None = None
    queue: Annotated[Name | None, Field(description="Without one: the task's, else `default`.")] = None
    priority: Annotated[
        Annotated[int, Field(ge=0, le=9), WHOLE] | None,
        Field(description=f"0 goes first. Without one: the task's, else {DEFAULT_PRIORITY}."),
    ] = None
    retry: Annotated[
        RetryOrAttempts | None,
        Field(description="A policy, or a number of attempts in all; null: one attempt. Without one: the task's."),
    ] = None
    timeout_s: Annotated[
        float | None,
        Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False, description="Limit of one attempt; null: none."),
    ] = None
    tags: Annotated[list[Name] | None, Field(max_length=MAX_TAGS)] = None
    idempotency_key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=MAX_KEY,
            description="The same key and request give the same job again; the same key with another request: 409.",
        ),
    ] = None
    misfire_grace_s: Annotated[
        Seconds | None,
        Field(description="SKIP the job when nobody was there to run it for longer than this after it was due."),
    ] = None
    expires_at: Annotated[
        Instant | None, Field(description="From then on it does not start any more: SKIPPED, unless it began before.")
    ] = None
    deadline: Annotated[Instant | None, Field(description="Then it is given up: DEAD, whatever it has begun.")] = None
    unique: UniqueIn | None = None
    wait_for: Annotated[
        list[Annotated[str, Field(max_length=64)]] | None,
        Field(max_length=MAX_WAITED, description="Ids of jobs: it is WAITING until all of them are final."),
    ] = None
    if_dependency_fails: Annotated[
        Literal["CANCEL", "RUN", "WAIT"] | None,
        Field(description="What becomes of it when one of those did not complete. Without: CANCEL."),
    ] = None


_JOBS_SCHEMA = {  # each is checked by itself: a bad one does not make the batch a bad request
    "type": "array",
    "items": {"$ref": "#/components/schemas/JobIn"},
    "minItems": 1,
    "maxItems": BATCH_JOBS,
}


class BatchIn(Given):
    """Many jobs at once. Each is judged by itself, as `POST /api/v1/jobs` would judge it."""

    jobs: Annotated[list[Any], Field(min_length=1, max_length=BATCH_JOBS), WithJsonSchema(_JOBS_SCHEMA)]


class CancelIn(Given):
    """Why a job is cancelled."""

    reason: Annotated[str, Field(max_length=1_000)] = ""


class RescheduleIn(Given):
    """When a job shall run instead: exactly one of the two."""

    scheduled_at: Instant | None = None
    delay_s: Delay | None = None


class JobsQuery(Given):
    """Which jobs a list shows, newest first."""

    # A query's values are text: pages and states are read from it.
    model_config = ConfigDict(extra="forbid", strict=False)

    state: Annotated[list[JobState], Field(description="One or several states; repeat the parameter.")] = []
    queue: Name | None = None
    task: Annotated[str | None, Field(min_length=1, max_length=MAX_TASK_NAME)] = None
    tag: Name | None = None
    idempotency_key: Annotated[str | None, Field(min_length=1, max_length=MAX_KEY)] = None
    schedule: Annotated[str | None, Field(min_length=1, max_length=200, description="Jobs that it made.")] = None
    page_size: Annotated[int, Field(ge=1, le=PAGE_JOBS)] = 100
    page_token: Annotated[str | None, Field(min_length=1, max_length=500, description="From the page before.")] = None
