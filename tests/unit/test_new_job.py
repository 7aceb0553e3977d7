"""A new job is what was asked for: no field of the request is left behind."""

import dataclasses

from timewheel.flow import Flow
from timewheel.model import ClockKind, JobRecord, JobRequest, JobState, Origin, RetryPolicy, new_job

REQUEST = JobRequest(
    7, "task", "[]", "queue", 3, ClockKind.STEADY, 5, RetryPolicy(max_attempts=2), timeout_us=1, misfire_grace_us=2,
    tags=("a",), idempotency_key="key", digest="d", origin=Origin("s", ClockKind.STEADY, 4), concurrency_key="c",
    flow=Flow(rate_key="r"),
)  # fmt: skip


def test_a_new_job_has_every_field_of_its_request():
    fields = [field.name for field in dataclasses.fields(JobRequest)]
    defaults = {field.name: field.default for field in dataclasses.fields(JobRequest)}
    assert [name for name in fields if getattr(REQUEST, name) == defaults[name]] == [], "give each a value of its own"
    job = new_job(REQUEST, 9)
    kept = {field.name for field in dataclasses.fields(JobRecord)}
    assert set(fields) - kept == {"digest"}
    assert {name: getattr(job, name) for name in fields if name in kept} == {
        name: getattr(REQUEST, name) for name in fields if name in kept
    }
    assert (job.due_clock, job.due_at, job.created_at, job.state) == (ClockKind.STEADY, 5, 9, JobState.SCHEDULED)
