"""Errors over HTTP: RFC 9457 problem documents for every one of them, and which error of the tree becomes which.

    {"type": "urn:timewheel:problem:job-not-found", "title": "Job not found", "status": 404,
     "detail": "...what was wrong, with which value, and the way out", "instance": "/api/v1/jobs/job-1", ...}

`type` is stable, for programs; `detail` is for people. Further members: `errors` (a list of {field, message}),
`job_id` (of the job that holds an idempotency key, or stands in the way), `retry_after_s` (also as the header
Retry-After), `state`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import Response

from timewheel import errors
from timewheel.serve.inputs import ATTEMPTS, OVERLAP, OVERLAP_NAME
from timewheel.serve.unknown import Models, there_is_no

CONTENT_TYPE = "application/problem+json"
_SHOWN_FAULTS = 100
_NOT_FIELDS = frozenset({"body", "query", "path", "(policy)", ATTEMPTS, OVERLAP, OVERLAP_NAME})
_OBJECT, _NUMBER, _WHOLE = "it must be a JSON object", "it must be a number", "it must be a whole number"
_RETRY = 'it must be a number of attempts, or an object like {"max_attempts": 5, "base_s": 1}'
_OVERLAP = (
    "it must be SKIP, QUEUE_ONE, REPLACE, ALLOW or QUEUE_ALL, or an object like "
    '{"kind": "ALLOW", "limit": 5} or {"kind": "SERIALIZE", "key": "db"}'
)
_PLAINLY = {  # by pydantic's type of fault; {names} are what it tells with it
    "missing": "it is required",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": "it must be a JSON list",
    "string_type": "it must be a text",
    "string_too_short": "it must have {min_length} character or more",
    "string_too_long": "it must have {max_length} characters at most",
    "too_short": "it must have {min_length} or more items, and has {actual_length}",
    "too_long": "it must have {max_length} items at most, and has {actual_length}",
    "bool_type": "it must be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "it must be a finite number",
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than_equal": "it must be {le:.15g} or less",
    "enum": "it must be one of {expected}",
}
_PREFIX = "urn:timewheel:problem:"


class Problem(Exception):
    """An error that is answered as a problem document. `more` are its further members, `headers` the answer's."""

    def __init__(
        self, status: int, name: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """The members of the document; `instance` is the path of the request."""
        title = self.name.replace("-", " ").capitalize()
        kind = _PREFIX + self.name
        if self.name == "http":  # nothing beyond the status itself: RFC 9457 has a type for that
            kind, title = "about:blank", HTTPStatus(self.status).phrase
        members: dict[str, Any] = {"type": kind, "title": title, "status": self.status, "detail": self.detail}
        if instance is not None:
            members["instance"] = instance
        return members | self.more

    def response(self, instance: str) -> Response:
        """The answer."""
        body = orjson.dumps(self.document(instance))
        return Response(body, self.status, self.headers, CONTENT_TYPE)


def instance_of(scope: Mapping[str, Any]) -> str:
    """The path of a request as the client wrote it, to stand in a document."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if raw is None else raw.decode("ascii", "replace")


def invalid(message: str, field: str | None = None) -> Problem:
    """422: the request is well-formed, and something in it cannot be used."""
    return Problem(422, "invalid-request", message, errors=[{"field": field, "message": message}])


def fields_of(faults: Iterable[Mapping[str, Any]], models: Models) -> Problem:
    """422 for what pydantic found: each fault with its field. Values are not repeated: they may be secret.

    `models`: those that the request was to fit.
    """
    faults = list(faults)
    found = [{"field": _path(one["loc"]), "message": _words(one, models)} for one in faults[:_SHOWN_FAULTS]]
    shown = "; ".join(f"{fault['field']}: {fault['message']}" for fault in found[:3])
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return Problem(422, "invalid-request", shown + more, errors=found)


def _words(fault: Mapping[str, Any], models: Models) -> str:
    """What is expected instead."""
    if fault["type"] == "extra_forbidden":
        return there_is_no(fault["loc"], models)
    if ATTEMPTS in fault["loc"] and fault["type"] in ("int_type", "int_from_float"):
        return _RETRY
    if OVERLAP_NAME in fault["loc"]:
        return _OVERLAP
    plainly = _PLAINLY.get(fault["type"])
    return str(fault["msg"]) if plainly is None else plainly.format(**fault.get("ctx", {}))


def _path(location: Sequence[Any]) -> str:
    """`body, retry, (policy), base_s` -> `retry.base_s`: without the part of the request and the branch of a union.

    A query's parameters that are repeated are not counted: `query, state, 0` -> `state`.
    """
    numbered = location[:1] != ("query",)
    steps = [str(step) for step in location if step not in _NOT_FIELDS and (numbered or isinstance(step, str))]
    return ".".join(steps) or "body"


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How answers of these statuses stand in the OpenAPI document."""
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def overloaded(detail: str, retry_after_s: float) -> Problem:
    """429 with Retry-After."""
    return Problem(429, "overloaded", detail, headers=_retry_after(retry_after_s), retry_after_s=retry_after_s)


def unavailable(name: str, detail: str, retry_after_s: float = 1.0, **more: Any) -> Problem:
    """503 with Retry-After."""
    return Problem(503, name, detail, headers=_retry_after(retry_after_s), **more)


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


_INVALID = (
    errors.InvalidTime, errors.InvalidRule, errors.InvalidOption, errors.InvalidTask, errors.NotSerializable,
)  # fmt: skip
_UNAVAILABLE: tuple[tuple[type[errors.TimewheelError], str], ...] = (
    (errors.NotOwner, "standby"),
    (errors.NotStarted, "not-running"),
    (errors.SchedulerFailed, "scheduler-failed"),
    (errors.JournalBusy, "journal-busy"),
)


def problem_of(error: errors.TimewheelError) -> Problem:
    """The problem that an error of the tree becomes. What has no place of its own is a 500."""
    detail = str(error)
    if isinstance(error, _INVALID):
        return invalid(detail, getattr(error, "field", None))
    if isinstance(error, errors.JobNotFound):
        return Problem(404, "job-not-found", detail, job_id=error.job_id)
    if isinstance(error, errors.OperationNotFound):
        return Problem(404, "operation-not-found", detail)
    if isinstance(error, _OF_A_SCHEDULE):
        return _schedule_problem(error)
    if isinstance(error, errors.IdempotencyConflict):
        return Problem(409, "idempotency-conflict", detail, job_id=error.job_id, idempotency_key=error.key)
    if isinstance(error, errors.UniqueConflict):
        return Problem(409, "unique-conflict", detail, job_id=error.job_id)
    if isinstance(error, errors.Overloaded):
        return overloaded(detail, error.retry_after_s)
    if isinstance(error, errors.JournalFull):
        return Problem(507, "journal-full", f"{detail}; nothing was accepted", headers=_retry_after(5))
    if isinstance(error, errors.JournalUnknown):
        text = f"{detail}. The outcome is unknown: retry with the same idempotency key"
        return unavailable("outcome-unknown", text)
    for kind, name in _UNAVAILABLE:
        if isinstance(error, kind):
            return unavailable(name, detail)
    return Problem(500, "internal-error", "the scheduler failed to do this; its log says why")


_OF_A_SCHEDULE = (
    errors.ScheduleNotFound,
    errors.ScheduleExists,
    errors.ScheduleIdRequired,
    errors.VersionConflict,
)


def _schedule_problem(
    error: errors.ScheduleNotFound | errors.ScheduleExists | errors.ScheduleIdRequired | errors.VersionConflict,
) -> Problem:
    """The problem that an error about one schedule becomes."""
    if isinstance(error, errors.ScheduleNotFound):
        return Problem(404, "schedule-not-found", str(error), schedule_id=error.schedule)
    if isinstance(error, errors.VersionConflict):
        return Problem(409, "version-conflict", str(error), schedule_id=error.schedule, version=error.version)
    if isinstance(error, errors.ScheduleExists):
        return Problem(409, "schedule-exists", str(error), schedule_id=error.schedule)
    text = (
        f"{error.schedule} is scheduled a second time, differently, which would replace the first: give this one an id "
        f"of its own, as the field id; the first is changed by PATCH /api/v1/schedules/{quote(error.schedule, safe='')}"
    )
    return Problem(409, "schedule-id-required", text, schedule_id=error.schedule)


def cause_of(error: BaseException) -> Problem:
    """The problem that any exception becomes."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.TimewheelError):
        return problem_of(error)
    return Problem(500, "internal-error", "an unexpected error; the server's log says more")
