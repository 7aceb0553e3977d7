"""What the HTTP API answers, as pydantic models: the source of `/openapi.json`.

Answers are not built from them (a page of 1,000 jobs is written by orjson directly); tests hold them to it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from timewheel.model import AttemptState, JobState

Fault = Literal["TRANSIENT", "THROTTLED", "PERMANENT", "AMBIGUOUS"] | None


class RetryOut(BaseModel):
    """The policy a job has, all written out."""

    max_attempts: int
    base_s: float
    factor: float
    cap_s: float
    jitter: float
    give_up_after_s: float | None


class JobOut(BaseModel):
    """A job as it stands."""

    id: Annotated[str, Field(examples=["job-0000100000007"])]
    task: str
    args: Annotated[
        list[Any],
        Field(
            description="As JSON. Values that JSON lacks (made in Python) are shown as tagged objects, such as "
            '{"$tw:datetime": ...}. Values under names like password, token, authorization are withheld.'
        ),
    ]
    kwargs: dict[str, Any]
    queue: str
    priority: int
    state: JobState
    reason: Annotated[str | None, Field(description="Of WAITING, DEAD, SKIPPED and CANCELLED.")]
    scheduled_at: Annotated[str, Field(description="What was asked; only a reschedule moves it.")]
    due_at: Annotated[str, Field(description="When it is next eligible.")]
    created_at: str
    finished_at: str | None
    discarded_at: Annotated[str | None, Field(description="Of DEAD: it is no dead letter any more.")]
    fingerprint: Annotated[str | None, Field(description="Of the last failure; equal ones failed alike.")]
    tags: list[str]
    concurrency_key: str | None
    rate_key: str | None
    cost: Annotated[int | None, Field(description="What a start takes of the rate of its rate_key.")]
    partition_key: str | None
    schedule_id: Annotated[str | None, Field(description="The schedule that made it.")]
    nominal_at: Annotated[str | None, Field(description="The slot of its schedule that it stands for.")]
    idempotency_key: str | None
    retry: RetryOut
    timeout_s: float | None
    heartbeat_timeout_s: float | None
    misfire_grace_s: float | None
    expires_at: Annotated[str | None, Field(description="From then on it does not start any more.")]
    deadline: Annotated[str | None, Field(description="Then it is given up.")]
    wait_for: Annotated[list[str], Field(description="The jobs that it waits for, or waited for.")]
    if_dependency_fails: Literal["CANCEL", "RUN", "WAIT"] | None
    attempt: Annotated[int, Field(description="Number of the newest attempt; 0 before the first.")]
    cancel_requested: Annotated[bool, Field(description="It runs, and was asked to stop.")]
    result: Annotated[Any, Field(description="What the handler returned, when COMPLETED.")]
    result_omitted: Annotated[str | None, Field(description="Why the result was not kept.")]
    error: Annotated[str | None, Field(description="The last error.")]
    last_fault: Annotated[Fault, Field(description="The class of the last failure.")]
    first_failed_at: str | None
    next_retry_at: Annotated[str | None, Field(description="When it is tried again, once it has failed.")]
    version: Annotated[int, Field(description="Grows with every edit.")]


class MadeJob(JobOut):
    """A job that was asked for."""

    created: Annotated[bool, Field(description="False: it existed already, under its key or as a unique one.")]


class AttemptOut(BaseModel):
    """One run of a job. Lags are measured by the job's own clock."""

    number: int
    state: AttemptState
    scheduled_at: Annotated[str, Field(description="The due_at it was claimed with.")]
    dispatched_at: str | None
    started_at: str | None
    finished_at: str | None
    dispatch_lag_ms: float | None
    start_lag_ms: float | None
    reason: str | None
    error: str | None
    error_kind: Annotated[str | None, Field(description="The exception's type.")]
    fault: Annotated[Fault, Field(description="Of a failure: its class.")]
    progress: Annotated[Any, Field(description="Of the one that runs now: what its handler told last, in JSON.")]


class AttemptsOut(BaseModel):
    """The attempts of a job, oldest first."""

    items: list[AttemptOut]


class JobsOut(BaseModel):
    """A page of jobs, newest first."""

    items: list[JobOut]
    next_page_token: Annotated[str | None, Field(description="Ask with it for the next page; null: there is none.")]


class BatchItem(BaseModel):
    """What became of one job of a batch; the status is the one that POST /api/v1/jobs would have answered."""

    status: Annotated[int, Field(examples=[201])]
    id: str | None = None
    created: bool | None = None
    problem: dict[str, Any] | None = None


class BatchOut(BaseModel):
    """One result for each job, in the order they were given."""

    results: list[BatchItem]


class CancelOut(BaseModel):
    """The truth about a cancel. `cancelled`: it will never start. `requested`: it runs, and was asked to stop."""

    answer: Literal["cancelled", "requested", "too_late"]
    job: JobOut


class RescheduleOut(BaseModel):
    """The truth about a reschedule. `too_late`: it runs or is final."""

    answer: Literal["moved", "too_late"]
    job: JobOut


class FieldError(BaseModel):
    """One thing that is wrong with a request."""

    field: Annotated[str | None, Field(examples=["jobs.3.delay_s"])]
    message: str


class ProblemOut(BaseModel):
    """RFC 9457. `type` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(examples=["urn:timewheel:problem:job-not-found"])]
    title: str
    status: int
    detail: str
    instance: str | None = None
    errors: list[FieldError] | None = None
    job_id: str | None = None
    schedule_id: str | None = None
