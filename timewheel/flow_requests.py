"""The flow control that a call asks for: what its options and its task say, put into the request. Pure."""

from __future__ import annotations

from typing import Any

from timewheel.errors import InvalidOption
from timewheel.flow import NO_FLOW, Dependencies, DependencyFails, Flow, Terms
from timewheel.model import MAX_TIME_US, ClockKind, JobRequest
from timewheel.options import Options, check_cost
from timewheel.task import Task
from timewheel.times import rfc3339


def add_flow(request: JobRequest, given: Options, task: Task) -> Terms | None:
    """Put the flow control into the request; None there when there is none.

    The terms come back whose instants count from the instant of a delay, which is known when the job is placed. Raises
    InvalidOption for a job that would end before it is due, or that costs more than its key's burst.
    """
    check_cost(given.cost, given.rate_key, task.key_rate, f"the task {task.name}")
    terms = Terms(
        rate_key=given.rate_key,
        cost=1 if given.cost is None else given.cost,
        heartbeat_timeout_us=given.heartbeat_timeout_us if given.heartbeat_given else task.heartbeat_timeout_us,
        expires_after_us=given.expires_after_us,
        deadline_after_us=given.deadline_after_us,
        idempotent=task.idempotent,
        partition_key=given.partition_key,
    )
    flow = terms.flow()._replace(
        expires_at=given.expires_at,
        deadline=given.deadline,
        unique=None if given.unique is None else given.unique.of(task.name, request.arguments, request.queue),
        wait_for=_dependencies(given),
    )
    waits = terms.expires_after_us is not None or terms.deadline_after_us is not None
    if request.clock is ClockKind.WALL:
        _check_time("expires_at", given.expires_at, request.scheduled_at)
        _check_time("deadline", given.deadline, request.scheduled_at)
        flow = terms.put(flow, request.scheduled_at, MAX_TIME_US)
    elif waits:
        request.flow = flow
        return terms
    request.flow = None if flow == NO_FLOW else flow
    return None


def _dependencies(given: Options) -> Dependencies | None:
    if not given.wait_for:
        return None
    return Dependencies(given.wait_for, given.if_dependency_fails or DependencyFails.CANCEL)


def _check_time(name: str, instant: int | None, scheduled_at: int) -> None:
    if instant is not None and instant <= scheduled_at:
        raise InvalidOption(
            f"{name}={rfc3339(instant)} is not after {rfc3339(scheduled_at)}, when the job is due: it would never run; "
            f"give a later {name}, or an earlier time",
            field=name,
        )


def flow_body(flow: Flow | None, terms: Terms | None) -> list[Any] | None:
    """What a request asked of flow control, as JSON for its digest; None for nothing.

    What only the task says is no part of it: a task may learn that it is not idempotent.
    """
    if flow is None or flow._replace(idempotent=True) == NO_FLOW:
        asked: list[Any] = []
    else:
        unique, wait_for = flow.unique, flow.wait_for
        asked = [
            flow.rate_key,
            flow.cost,
            flow.heartbeat_timeout_us,
            flow.expires_at,
            flow.deadline,
            flow.partition_key,
            None if unique is None else [*unique],
            None if wait_for is None else [sorted(wait_for.job_ids), wait_for.if_one_fails],
        ]
    after = [] if terms is None else [terms.expires_after_us, terms.deadline_after_us]
    return [asked, after] if asked or after else None
