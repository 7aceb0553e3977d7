"""Queues and dependencies for other threads: the synchronous verbs of `scheduler.blocking`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from timewheel.blocking_handles import Call
from timewheel.guard_keeper import BY_HAND

if TYPE_CHECKING:
    from timewheel.dependencies import BreakerEvent, DependencyHandle, DependencyState
    from timewheel.policies import Rate
    from timewheel.queue_states import QueueState
    from timewheel.queues import QueueHandle
    from timewheel.safeguards import RetryBudget

T = TypeVar("T")


class BlockingQueue:
    """A queue with synchronous verbs; each does and raises what the verb of the same name does on QueueHandle."""

    def __init__(self, queue: QueueHandle, call: Call) -> None:
        self._queue = queue
        self._call = call
        self.name = queue.name

    def pause(self, *, actor: str | None = None, reason: str | None = None) -> None:
        """Start no more of its jobs."""
        self._call(self._queue.pause(actor=actor, reason=reason))

    def resume(self, *, actor: str | None = None, reason: str | None = None) -> None:
        """Start its jobs again."""
        self._call(self._queue.resume(actor=actor, reason=reason))

    def retries_waiting(self) -> int:
        """About how many retries wait for its retry budget."""
        number: int = self._call(_on_the_loop(self._queue.retries_waiting))
        return number

    def update(
        self,
        *,
        rate: Rate | None = None,
        concurrency: int | None = None,
        weight: int = 1,
        key_rate: Rate | None = None,
        key_concurrency: int | None = None,
        retry_budget: RetryBudget | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Replace its limits, all of them."""
        self._call(
            self._queue.update(
                rate=rate,
                concurrency=concurrency,
                weight=weight,
                key_rate=key_rate,
                key_concurrency=key_concurrency,
                retry_budget=retry_budget,
                actor=actor,
                reason=reason,
            )
        )


class BlockingDependency:
    """A dependency with synchronous verbs; each does and raises what the verb of the same name does on
    DependencyHandle."""

    def __init__(self, dependency: DependencyHandle, call: Call) -> None:
        self._dependency = dependency
        self._call = call
        self.name = dependency.name

    def state(self) -> DependencyState:
        """How it stands."""
        state: DependencyState = self._call(_on_the_loop(self._dependency.state))
        return state

    def history(self, limit: int = 100) -> list[BreakerEvent]:
        """What became of its breaker, newest first."""
        events: list[BreakerEvent] = self._call(self._dependency.history(limit))
        return events

    def force_open(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let none of its jobs start."""
        self._call(self._dependency.force_open(reason, actor=actor))

    def force_closed(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let all of its jobs start."""
        self._call(self._dependency.force_closed(reason, actor=actor))

    def auto(self, reason: str = BY_HAND, *, actor: str | None = None) -> None:
        """Let its breaker go by itself again."""
        self._call(self._dependency.auto(reason, actor=actor))


class BlockingFlow:
    """queue, queues, dependency and dependencies, synchronous."""

    _home: Any
    _call: Call

    def queue(self, name: str) -> BlockingQueue:
        """A queue, to pause, resume and resize it. Raises InvalidOption."""
        return BlockingQueue(self._home.queue(name), self._call)

    def queues(self) -> list[QueueState]:
        """Every queue, by name, and how it stands (see Scheduler.queues)."""
        states: list[QueueState] = self._call(self._home.queues())
        return states

    def dependency(self, name: str) -> BlockingDependency:
        """A dependency: how it stands, and a person's override. Raises InvalidOption."""
        return BlockingDependency(self._home.dependency(name), self._call)

    def dependencies(self) -> list[BlockingDependency]:
        """Every dependency that is declared, that a task names, or whose breaker is not closed, by name."""
        found: list[DependencyHandle] = self._call(_on_the_loop(self._home.dependencies))
        return [BlockingDependency(one, self._call) for one in found]


async def _on_the_loop(read: Callable[[], T]) -> T:
    """What `read` gives there: what it reads is changed by that loop only."""
    return read()
