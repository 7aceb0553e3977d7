"""What the journal holds of the rates: a promise that no claimed job starts later than a certain instant.

The value that is saved of a rate counts the claimed jobs as started, as late as that instant, so that a crash errs on
the strict side. A job that would start later, because its claim took long to commit or the machine slept, waits at the
gate until what is saved holds for it: otherwise a crash could give the rate tokens back that it spent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from timewheel.dispatch.gate import PATIENCE_US
from timewheel.model import SECOND_US, Now
from timewheel.store.changes import SaveLimits

if TYPE_CHECKING:
    from timewheel.dispatch.limits import Limits
    from timewheel.dispatch.neighbours import Claims

PROMISE_US = PATIENCE_US + SECOND_US  # by then a claimed job has started, or was given back: a commit takes a second


class Promises:
    """See the module. `now` reads the clocks; `kept` is called when more may enter."""

    def __init__(self, limits: Limits, claims: Claims, now: Callable[[], Now], kept: Callable[[], None]) -> None:
        self._limits = limits
        self._claims = claims
        self._now = now
        self._kept = kept
        self._until_us = 0  # steady; up to here starts are covered by what is durable
        self._span_us = PROMISE_US
        self._asked = False

    def save(self, now: Now) -> None:
        """Have the rates saved with the next batch."""
        until_us = now.steady_us + self._span_us
        if values := self._limits.to_save(until_us, now.steady_us):
            self._asked = True
            self._claims.save_limits(SaveLimits(values), partial(self._saved, now.steady_us, until_us))

    def hold(self, queue: str, now: Now, *, rated: bool = False) -> bool:
        """Whether a job of the queue must wait until what is saved holds for its start; that is then asked for.

        `rated`: a rate concerns the job, whatever its queue.
        """
        if now.steady_us <= self._until_us or not (rated or self._limits.rated(queue)):
            return False
        if not self._asked:
            self.save(now)
        return True

    def void(self) -> None:
        """A job that had taken its tokens is to take them again: what is durable does not count that."""
        self._until_us = 0

    def _saved(self, asked_us: int, until_us: int, outcome: Any) -> None:
        self._asked = False
        if isinstance(outcome, BaseException):
            return
        self._until_us = until_us
        self._span_us = PROMISE_US + 2 * (self._now().steady_us - asked_us)  # a slow journal is promised more time
        self._kept()
