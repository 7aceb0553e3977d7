"""Lend a scheduler of an application to a test, and take it back: the same object, on another journal and clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.errors import NotStarted
from timewheel.model import SchedulerState
from timewheel.scheduler import Scheduler

if TYPE_CHECKING:
    from timewheel.system import System

_IDLE = (SchedulerState.NEW, SchedulerState.STOPPED)


def borrow(scheduler: Scheduler, system: System) -> Callable[[], None]:
    """Put the scheduler on a journal in memory and on `system`; returns the way back. It keeps its tasks and limits.

    Tasks that are registered meanwhile stay registered. Raises NotStarted for a scheduler that runs.
    """
    if scheduler.state not in _IDLE:
        raise NotStarted(f"the scheduler is {scheduler.state}: borrow it before it is started")
    kept = dict(vars(scheduler))
    desk, desk_kept = scheduler._desk, dict(vars(scheduler._desk))
    settings, manners = scheduler._settings, scheduler._manners
    Scheduler.__init__(
        scheduler,
        "memory://",
        system=system,
        rate=settings.rate,
        concurrency=settings.concurrency,
        threads=settings.threads,
        queues=settings.queues,
        imports=manners.imports,
        on_failure=manners.on_failure,
    )
    scheduler._registry = kept["_registry"]
    scheduler.blocking = kept["blocking"]
    scheduler.notices = kept["notices"]
    vars(desk).update(vars(scheduler._desk))  # queue handles and drafts that exist hold on to it
    scheduler._desk = desk
    scheduler.submit = desk.submit  # type: ignore[method-assign]  # as Scheduler does

    def give_back() -> None:
        vars(desk).clear()
        vars(desk).update(desk_kept)
        vars(scheduler).clear()
        vars(scheduler).update(kept)

    return give_back
