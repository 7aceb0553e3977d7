"""From a call to a request: which task, which arguments, which options. What can be refused is refused here."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from timewheel.codec import dumps_call
from timewheel.flow_requests import add_flow, flow_body
from timewheel.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, MAX_TIME_US, ClockKind, JobRequest, Now, RetryPolicy
from timewheel.options import Options
from timewheel.store.changes import Submit
from timewheel.task import Task
from timewheel.tasks import TaskRegistry, check_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from timewheel.flow import Terms

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

    Raises InvalidTask, NotSerializable; InvalidOption where an option does not fit the time or the task. `place`
    completes it.
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
    terms = None
    if given.asks_flow or not task.idempotent or task.heartbeat_timeout_us is not None:
        terms = add_flow(request, given, task)
    if request.idempotency_key is not None:
        request.digest = _digest(request, terms)
    return Submit(request, registry.is_adopted(task), terms)


def place(submit: Submit, job_id: int, now: Now) -> Submit:
    """Give a submission its id, and its delay an instant; what counts from that is put on the wall scale of now."""
    request = submit.request
    request.job_id = job_id
    if request.clock is ClockKind.STEADY:
        if submit.terms is not None and request.flow is not None:
            request.flow = submit.terms.put(request.flow, now.wall_us + request.scheduled_at, MAX_TIME_US)
        request.scheduled_at += now.steady_us
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


def _digest(request: JobRequest, terms: Terms | None) -> str:
    """The request as it was given: the delay, not the instant that was computed from it."""
    body = [
        request.task,
        request.arguments,
        request.queue,
        request.priority,
        int(request.clock),
        request.scheduled_at,
        [*request.retry[:-1], 1],  # a request names no version: it is the same when a later one judges its job
        request.timeout_us,
        request.misfire_grace_us,
        sorted(request.tags),
    ]
    if request.concurrency_key is not None:  # only then: the digests of requests made before there were keys stay
        body.append(request.concurrency_key)
    if (flow := flow_body(request.flow, terms)) is not None:  # likewise
        body.append(flow)
    return hashlib.sha256(orjson.dumps(body)).hexdigest()
