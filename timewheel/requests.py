"""From a call to a request: which task, which arguments, which options. What can be refused is refused here."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from timewheel.codec import dumps_call
from timewheel.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, ClockKind, JobRequest, RetryPolicy
from timewheel.options import Options
from timewheel.store.changes import Submit
from timewheel.task import Task
from timewheel.tasks import TaskRegistry, check_call

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_OPTIONS = Options()
_DEFAULT_RETRY = RetryPolicy()


def make_submit(
    registry: TaskRegistry,
    asked: tuple[ClockKind, int],
    fn: Callable[..., Any] | str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options | None,
) -> Submit:
    """A submission without an id, and with what was asked as its time: an instant (WALL) or a delay (STEADY).

    Raises InvalidTask or NotSerializable. `place` completes it.
    """
    task, more_args, more_kwargs = registry.resolve(fn)
    if more_args or more_kwargs:
        args, kwargs = (*more_args, *args), {**more_kwargs, **kwargs}
    check_call(task, args, kwargs)
    given = options or _NO_OPTIONS
    request = JobRequest(
        0,
        task.name,
        dumps_call(args, kwargs),
        given.queue or task.queue or DEFAULT_QUEUE,
        _priority(given, task),
        asked[0],
        asked[1],
        given.retry if given.retry_given else task.retry or _DEFAULT_RETRY,  # type: ignore[arg-type]  # given: not None
        given.timeout_us if given.timeout_given else task.timeout_us,
        given.misfire_grace_us,
        given.tags or task.tags,
        given.idempotency_key,
        concurrency_key=given.concurrency_key,
    )
    if request.idempotency_key is not None:
        request.digest = _digest(request)
    return Submit(request, registry.is_adopted(task))


def place(submit: Submit, job_id: int, steady_now_us: int) -> Submit:
    """Give a submission its id, and its delay an instant."""
    request = submit.request
    request.job_id = job_id
    if request.clock is ClockKind.STEADY:
        request.scheduled_at += steady_now_us
    return submit


def take_back(submit: Submit, steady_us: int) -> None:
    """Undo `place` (given the same instant): the submission was refused and may be placed again."""
    request = submit.request
    request.job_id = 0
    if request.clock is ClockKind.STEADY:
        request.scheduled_at -= steady_us


def _priority(given: Options, task: Task) -> int:
    if given.priority is not None:
        return given.priority
    return DEFAULT_PRIORITY if task.priority is None else task.priority


def _digest(request: JobRequest) -> str:
    """The request as it was given: the delay, not the instant that was computed from it."""
    body = [
        request.task,
        request.arguments,
        request.queue,
        request.priority,
        int(request.clock),
        request.scheduled_at,
        list(request.retry),
        request.timeout_us,
        request.misfire_grace_us,
        sorted(request.tags),
    ]
    if request.concurrency_key is not None:  # only then: the digests of requests made before there were keys stay
        body.append(request.concurrency_key)
    return hashlib.sha256(orjson.dumps(body)).hexdigest()
