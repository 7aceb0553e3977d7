"""Hooks: user's code, and webhooks, that hear of too many dead letters. Nothing that they do hurts the scheduler.

Each looks every five seconds, by the journal, so that a restart forgets no letter: but an alarm that was raised before
is raised again by a process that finds the number at its bound still.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.alerting import WINDOW_US, DeadLetterAlert, Hysteresis, Watched
from timewheel.errors import JournalError
from timewheel.store.port import LetterFilter
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.ports import Clock
    from timewheel.store.port import Store

LOOK_S = 5.0
Hook = Callable[[DeadLetterAlert], Any]
_log = logging.getLogger("timewheel")


class LetterWatch:
    """What one call of `on_dead_letters` set up. `hooks` are called with each alert, one after the other."""

    def __init__(self, hooks: list[Hook], *, rate_per_min: int | None, size: int | None) -> None:
        self._hooks = hooks
        self._rate = None if rate_per_min is None else Hysteresis(rate_per_min)
        self._size = None if size is None else Hysteresis(size)
        self.ended = False

    def end(self) -> None:
        """Call nobody any more."""
        self.ended = True

    async def run(self, store: Store, clock: Clock) -> None:
        """Look again and again, until `end`; ends by cancellation, too."""
        while not self.ended:
            await Alarm(clock).wait(LOOK_S)
            try:
                alerts = await self._look(store, clock.wall_us())
            except JournalError as error:  # whom it concerns is told by others
                _log.debug("dead letters could not be counted: %s", error)
                continue
            for alert in alerts:
                _log.warning("%s", alert.text)
                for hook in () if self.ended else self._hooks:
                    await call_hook(hook, alert)

    async def _look(self, store: Store, wall_us: int) -> list[DeadLetterAlert]:
        alerts = []
        watched: tuple[tuple[Watched, Hysteresis | None, LetterFilter], ...] = (
            ("rate", self._rate, LetterFilter(since=max(0, wall_us - WINDOW_US), until=wall_us)),
            ("size", self._size, LetterFilter()),
        )
        for what, bound, which in watched:
            if bound is None:
                continue
            value = await store.count_letters(which)
            raised = bound.look(value)
            if raised is not None:
                alerts.append(DeadLetterAlert(what, raised, value, bound.bound, utc_datetime(wall_us)))
        return alerts


async def call_hook(hook: Callable[[Any], Any], value: Any) -> None:
    """Call a hook, sync or async, and wait until it is done; what it raises goes into the log."""
    try:
        answer = hook(value)
    except (Exception, asyncio.CancelledError):  # noqa: BLE001  whatever a stranger's code raises
        _log.exception("a hook raised: %r", hook)
        return
    if isawaitable(answer):
        await _await_hook(hook, answer)


async def _await_hook(hook: Callable[[Any], Any], answer: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(_whole(answer))
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:  # it is we who are to end
        task.cancel()
        raise
    if task.cancelled() or task.exception() is not None:
        cause = None if task.cancelled() else task.exception()
        _log.error("a hook raised: %r", hook, exc_info=cause)


async def _whole(answer: Awaitable[Any]) -> Any:
    return await answer
