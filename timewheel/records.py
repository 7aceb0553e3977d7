"""The record of a job that was just submitted, made without asking the journal."""

from __future__ import annotations

from timewheel.model import JobRecord, JobRequest, JobState


def fresh_record(request: JobRequest, created_us: int) -> JobRecord:
    """The record of a job that was just submitted."""
    return JobRecord(
        job_id=request.job_id,
        task=request.task,
        arguments=request.arguments,
        queue=request.queue,
        priority=request.priority,
        clock=request.clock,
        scheduled_at=request.scheduled_at,
        due_clock=request.clock,
        due_at=request.scheduled_at,
        state=JobState.SCHEDULED,
        created_at=created_us,
        retry=request.retry,
        timeout_us=request.timeout_us,
        misfire_grace_us=request.misfire_grace_us,
        tags=request.tags,
        idempotency_key=request.idempotency_key,
    )
