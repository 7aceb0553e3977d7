"""What the HTTP API answers about dead letters, operations and the audit: models for `/openapi.json`, and the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from timewheel.serve.outputs import JobOut
from timewheel.serve.views import call_view, instant_text
from timewheel.store.letters import OperationState
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.audits import AuditEntry
    from timewheel.letters import LetterGroup
    from timewheel.operation import Operation


class ReplayOut(BaseModel):
    """The truth about a replay. `too_late`: it is in no state to be replayed (any more), or its handler still runs."""

    answer: Literal["replayed", "too_late"]
    job: JobOut


class DiscardOut(BaseModel):
    """The truth about a discard. `too_late`: it is no dead letter (any more)."""

    answer: Literal["discarded", "too_late"]
    job: JobOut


class GroupOut(BaseModel):
    """Dead letters that failed alike."""

    fingerprint: Annotated[str | None, Field(description="Names the type of the error, and where it was raised.")]
    task: str
    letters: Annotated[int, Field(description="How many.")]
    error: Annotated[str | None, Field(description="Of the newest.")]
    newest: Annotated[str, Field(examples=["job-0000100000007"])]
    first_at: str
    last_at: str


class GroupsOut(BaseModel):
    """The largest groups first."""

    items: list[GroupOut]


class WhichOut(BaseModel):
    """Which dead letters were meant."""

    queue: str | None
    task: str | None
    tag: str | None
    fingerprint: str | None
    since: str | None
    until: str | None


class OperationOut(BaseModel):
    """A replay or a discard of many dead letters, and how far it is."""

    id: Annotated[str | None, Field(examples=["operation-0000100000007"], description="null: it was a dry run.")]
    kind: Literal["replay", "discard"]
    state: OperationState
    reason: Annotated[str | None, Field(description="Of STOPPED.")]
    dry_run: bool
    matched: Annotated[int, Field(description="Dead letters that matched when it was asked for.")]
    done: Annotated[int, Field(description="How many were replayed or discarded.")]
    skipped: Annotated[int, Field(description="How many were no dead letters any more when their turn came.")]
    failed: Annotated[int, Field(description="How many canaries did not complete.")]
    trying: Annotated[bool, Field(description="It waits for its canaries.")]
    canary: int
    which: WhichOut
    actor: str
    asked_because: str
    cause_fixed: str | bool | None
    created_at: str
    updated_at: str


class OperationsOut(BaseModel):
    """A page of operations, newest first."""

    items: list[OperationOut]
    next_page_token: str | None


class AuditOut(BaseModel):
    """One act of an operator."""

    number: int
    at: str
    action: Annotated[str, Field(examples=["replay", "discard", "start", "stop", "pause", "force_open"])]
    actor: str | None
    reason: str | None
    cause_fixed: str | bool | None
    job_id: str | None
    operation_id: str | None
    queue: str | None
    dependency: str | None
    details: Annotated[dict[str, Any], Field(description="What else was noted, such as arguments that were replaced.")]


class AuditsOut(BaseModel):
    """A page of the audit, newest first."""

    items: list[AuditOut]
    next_page_token: str | None


def group_view(group: LetterGroup) -> dict[str, Any]:
    """A group as `GroupOut` describes it."""
    return {
        "fingerprint": group.fingerprint,
        "task": group.task,
        "letters": group.letters,
        "error": group.error,
        "newest": group.newest,
        "first_at": instant_text(group.first_at),
        "last_at": instant_text(group.last_at),
    }


def operation_view(operation: Operation) -> dict[str, Any]:
    """An operation as `OperationOut` describes it."""
    which = operation.which
    texts = {name: getattr(which, name) for name in ("queue", "task", "tag", "fingerprint")}
    times = {"since": which.since, "until": which.until}
    instants = {name: None if at is None else instant_text(utc_datetime(at)) for name, at in times.items()}
    return {
        "id": operation.id or None,
        "kind": operation.kind,
        "state": operation.state,
        "reason": operation.reason,
        "dry_run": operation.dry_run,
        "matched": operation.matched,
        "done": operation.done,
        "skipped": operation.skipped,
        "failed": operation.failed,
        "trying": operation.trying,
        "canary": operation.canary,
        "which": texts | instants,
        "actor": operation.actor,
        "asked_because": operation.asked_because,
        "cause_fixed": operation.cause_fixed,
        "created_at": instant_text(operation.created_at),
        "updated_at": instant_text(operation.updated_at),
    }


def audit_view(entry: AuditEntry) -> dict[str, Any]:
    """An entry as `AuditOut` describes it; secrets in arguments that were replaced are withheld."""
    details = dict(entry.details)
    if isinstance(replaced := details.get("replaced"), str):
        args, kwargs = call_view(replaced)
        details["replaced"] = {"args": args, "kwargs": kwargs}
    return {
        "number": entry.number,
        "at": instant_text(entry.at),
        "action": entry.action,
        "actor": entry.actor,
        "reason": entry.reason,
        "cause_fixed": entry.cause_fixed,
        "job_id": entry.job_id,
        "operation_id": entry.operation_id,
        "queue": entry.queue,
        "dependency": entry.dependency,
        "details": details,
    }
