"""Jobs and attempts as JSON for people and programs; what must not be seen is withheld here."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from timewheel.flow import NO_FLOW

if TYPE_CHECKING:
    from timewheel.handles import Attempt
    from timewheel.job import Job
    from timewheel.model import RetryPolicy

WITHHELD = "(withheld)"
UNREADABLE = "(unreadable)"  # of a damaged row: the others of its page are shown all the same
_US = 1_000_000
_SECRET_NAMES = (
    "authorization|proxy.authorization|cookie|set.cookie|password|passwd|secret|client.secret|token|access.token"
    "|refresh.token|auth.token|api.?key|x.api.key|x.auth.token|private.key|credentials"
)
_SOMEWHERE = re.compile(_SECRET_NAMES, re.IGNORECASE | re.ASCII)
# Also as the end of a longer name, which is what variables of an environment are called: MYSQL_PASSWORD.
_SECRET = re.compile(rf"(?:\w+_)?(?:{_SECRET_NAMES})", re.IGNORECASE | re.ASCII)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(orjson.dumps(value), status, headers, "application/json")


def job_view(job: Job[Any]) -> dict[str, Any]:
    """A job as `timewheel.serve.outputs.JobOut` describes it."""
    record = job.record
    args, kwargs = call_view(record.arguments)
    scheduled_at = instant_text(job.scheduled_at)
    # A delay is shown by the clocks' present offset; two readings of it would differ by a microsecond.
    flow = record.flow or NO_FLOW
    as_asked = (record.clock, record.scheduled_at) == (record.due_clock, record.due_at)
    return {
        "id": job.id,
        "task": record.task,
        "args": args,
        "kwargs": kwargs,
        "queue": record.queue,
        "priority": record.priority,
        "state": record.state,
        "reason": record.reason,
        "scheduled_at": scheduled_at,
        "due_at": scheduled_at if as_asked else instant_text(job.due_at),
        "created_at": instant_text(job.created_at),
        "finished_at": instant_text(job.finished_at),
        "discarded_at": instant_text(job.discarded_at),
        "fingerprint": record.fingerprint,
        "tags": record.tags,
        "concurrency_key": record.concurrency_key,
        "rate_key": flow.rate_key,
        "cost": None if flow.rate_key is None else flow.cost,
        "partition_key": flow.partition_key,
        "schedule_id": job.schedule_id,
        "nominal_at": instant_text(job.nominal_at),
        "idempotency_key": record.idempotency_key,
        "retry": retry_view(record.retry),
        "timeout_s": _seconds(record.timeout_us),
        "heartbeat_timeout_s": _seconds(flow.heartbeat_timeout_us),
        "misfire_grace_s": _seconds(record.misfire_grace_us),
        "expires_at": instant_text(job.expires_at),
        "deadline": instant_text(job.deadline),
        "wait_for": job.wait_for,
        "if_dependency_fails": None if flow.wait_for is None else flow.wait_for.if_one_fails,
        "attempt": record.attempt,
        "cancel_requested": record.cancel_requested is not None,
        "result": None if record.result is None else _result_view(record.result),
        "result_omitted": record.result_omitted,
        "error": record.error,
        "last_fault": job.last_fault,
        "first_failed_at": instant_text(job.first_failed_at),
        "next_retry_at": instant_text(job.next_retry_at),
        "version": record.version,
    }


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    """An attempt as `timewheel.serve.outputs.AttemptOut` describes it."""
    return {
        "number": attempt.number,
        "state": attempt.state,
        "scheduled_at": instant_text(attempt.scheduled_at),
        "dispatched_at": instant_text(attempt.dispatched_at),
        "started_at": instant_text(attempt.started_at),
        "finished_at": instant_text(attempt.finished_at),
        "dispatch_lag_ms": _milliseconds(attempt.dispatch_lag_s),
        "start_lag_ms": _milliseconds(attempt.start_lag_s),
        "reason": attempt.reason,
        "error": attempt.error,
        "error_kind": attempt.error_kind,
        "fault": attempt.fault,
        "progress": _withhold(attempt.progress),
    }


def call_view(arguments: str) -> tuple[Any, Any]:
    """The arguments in the codec's JSON, values under telling names withheld."""
    try:
        call = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return [UNREADABLE], {}
    if _SOMEWHERE.search(arguments):
        call = _withhold(call)
    args, kwargs = (call.get("args"), call.get("kwargs")) if isinstance(call, dict) else (call, {})
    return (args, kwargs) if isinstance(args, list) and isinstance(kwargs, dict) else ([UNREADABLE], {})


def _result_view(result: str) -> Any:
    """The result as it was kept: what JSON readers lose, such as digits of large numbers, is not lost here."""
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError:
        return UNREADABLE
    return orjson.Fragment(result)


def _withhold(value: Any) -> Any:
    """`value` without the parts that stand under the name of a secret; at most 254 levels, as orjson read it."""
    if isinstance(value, list):
        return [_withhold(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: WITHHELD if _SECRET.fullmatch(name) else _withhold(item) for name, item in value.items()}


def retry_view(policy: RetryPolicy) -> dict[str, Any]:
    """A policy as `RetryOut` describes it."""
    return {
        "max_attempts": policy.max_attempts,
        "base_s": policy.base_us / _US,
        "factor": policy.factor,
        "cap_s": policy.cap_us / _US,
        "jitter": policy.jitter,
        "give_up_after_s": _seconds(policy.give_up_after_us),
    }


def instant_text(instant: datetime | None) -> str | None:
    """RFC 3339 with microseconds; every instant of a handle is in UTC."""
    return None if instant is None else instant.isoformat(timespec="microseconds")[:-6] + "Z"


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / _US


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
