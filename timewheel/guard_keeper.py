"""The keeper of breakers: what becomes of them is written, told, and said to people; and people may force them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.audits import AUDIT, Word
from timewheel.dispatch.breaker import BreakerState, Transition
from timewheel.dispatch.guards import is_forced
from timewheel.errors import InvalidOption
from timewheel.events import BreakerChanged, Notices
from timewheel.store.changes import AddEntry

if TYPE_CHECKING:
    from timewheel.dispatch.breaker import CircuitBreaker
    from timewheel.dispatch.dispatcher import Dispatcher
    from timewheel.dispatch.guards import Guarded
    from timewheel.model import Now
    from timewheel.store.committer import Committer

ENTRY_KIND = "breaker"  # of the journal entries that tell a breaker's history
BY_HAND = "by hand"
_ACTIONS = {BreakerState.FORCED_OPEN: "force_open", BreakerState.FORCED_CLOSED: "force_closed", None: "auto"}
_log = logging.getLogger("timewheel")


class GuardKeeper:
    """See the module."""

    def __init__(self, dispatcher: Dispatcher, committer: Committer, notices: Notices, now: Callable[[], Now]) -> None:
        self._dispatcher = dispatcher
        self._committer = committer
        self._notices = notices
        self._now = now
        self.guards = dispatcher.admission.guards
        self.guards.told = self._went
        self._forced: list[AddEntry] | None = None  # what a person's word leads to, until it is written

    def of(self, dependency: str) -> Guarded:
        """What protects this dependency."""
        return self.guards.of(dependency, self._now().steady_us)

    async def force(self, dependency: str, state: BreakerState | None, who: Word) -> None:
        """A person says FORCED_OPEN, FORCED_CLOSED, or None: it goes by itself again, beginning closed.

        That holds at once, and is durable when this returns, with its entries of the history and the audit. Raises
        InvalidOption for a dependency without a breaker.
        """
        breaker = self._breaker(dependency)
        if state is None and not is_forced(breaker.state):
            return
        entries: list[AddEntry] = []
        self._forced = entries
        breaker.force(state or BreakerState.CLOSED, who.reason or BY_HAND)
        self._forced = None
        for entry in entries:
            self._committer.note(entry)
        await self._committer.housekeep(AddEntry(AUDIT, who.entry(_ACTIONS[state], dependency=dependency)))

    def _breaker(self, dependency: str) -> CircuitBreaker:
        breaker = self.of(dependency).breaker
        if breaker is None:
            raise InvalidOption(f"{dependency!r} has no breaker: declare it with Dependency(breaker=Breaker())")
        return breaker

    def _went(self, dependency: str, transition: Transition) -> None:
        now = self._now()
        until_us = None if transition.until_us is None else transition.until_us - now.steady_us + now.wall_us
        data = {
            "dependency": dependency,
            "from": transition.before.value,
            "to": transition.after.value,
            "reason": transition.reason,
            "until": until_us,
        }
        self._dispatcher.save_limits()
        entry = AddEntry(ENTRY_KIND, json.dumps(data))
        if self._forced is None:
            self._committer.note(entry)
        else:
            self._forced.append(entry)
        self._notices.emit(BreakerChanged(dependency, transition.before.value, transition.after.value))
        if transition.after is not BreakerState.HALF_OPEN:
            worse = not transition.after.lets_all
            level = logging.WARNING if worse else logging.INFO
            _log.log(level, "the breaker of %s is %s: %s", dependency, transition.after.value, transition.reason)
        self._dispatcher.kick()
