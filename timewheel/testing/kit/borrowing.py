"""Lend a scheduler of an application to a test, and take it back: the same object, on another journal and clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
    desks: list[Any] = [scheduler._desk, scheduler.standing]
    desks_kept = [dict(vars(desk)) for desk in desks]
    settings, manners = scheduler._settings, scheduler._manners
    Scheduler.__init__(
        scheduler,
        "memory://",
        system=system,
        rate=settings.rate,
        concurrency=settings.concurrency,
        threads=settings.threads,
        queues=settings.queues,
        tz=scheduler._declarations.tz,
        prune=scheduler._prune,
        imports=manners.imports,
        on_failure=manners.on_failure,
    )
    for name in ("_registry", "_declarations", "_periodic", "blocking", "notices"):
        setattr(scheduler, name, kept[name])
    scheduler.standing._declarations = scheduler._declarations
    # What exists already holds on to the desks: handles of queues and schedules, drafts.
    for desk, new in zip(desks, (scheduler._desk, scheduler.standing), strict=True):
        vars(desk).update(vars(new))
    scheduler._desk, scheduler.standing = desks
    scheduler.standing._desk = scheduler._desk
    scheduler.submit = scheduler._desk.submit  # type: ignore[method-assign]  # as Scheduler does

    def give_back() -> None:
        for desk, before in zip(desks, desks_kept, strict=True):
            vars(desk).clear()
            vars(desk).update(before)
        vars(scheduler).clear()
        vars(scheduler).update(kept)

    return give_back
