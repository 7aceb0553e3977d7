"""A task: a registered callable and what is declared of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timewheel.model import RetryPolicy
from timewheel.names import runs_on_loop
from timewheel.options import Options
from timewheel.signatures import CallShape, shape_of

if TYPE_CHECKING:
    from timewheel.policies import Rate
    from timewheel.work.classify import Classifier


@dataclass(slots=True, frozen=True, eq=False)
class Task:
    """A callable with a stable name, and the defaults of its jobs (None or empty: the scheduler's).

    is_async: it runs on the event loop, not in a thread. signature: what a call may look like; None when the callable
    does not tell. Durations are microseconds. idempotent, classify, dependency and the limits are the task's alone: a
    job cannot have others.
    """

    name: str
    fn: Callable[..., Any]
    is_async: bool
    signature: CallShape | None
    queue: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    timeout_us: int | None = None
    tags: tuple[str, ...] = ()
    heartbeat_timeout_us: int | None = None
    cancel_grace_us: int = 0
    idempotent: bool = True
    dependency: str | None = None
    classify: Classifier | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    key_rate: Rate | None = None
    key_concurrency: int | None = None


def make_task(name: str, fn: Callable[..., Any], options: Options | None = None) -> Task:
    """A Task of these parts, its nature found out."""
    given = options or Options()
    return Task(
        name=name,
        fn=fn,
        is_async=runs_on_loop(fn),
        signature=shape_of(fn),
        queue=given.queue,
        priority=given.priority,
        retry=given.retry,
        timeout_us=given.timeout_us,
        tags=given.tags,
        heartbeat_timeout_us=given.heartbeat_timeout_us,
        cancel_grace_us=given.cancel_grace_us,
        idempotent=given.idempotent,
        dependency=given.dependency,
        classify=given.classify,
        rate=given.rate,
        concurrency=given.concurrency,
        key_rate=given.key_rate,
        key_concurrency=given.key_concurrency,
    )
