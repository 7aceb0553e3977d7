"""How many jobs of one task run at once, and who of those that wait goes on when a slot comes free. Pure.

A job holds a slot from the moment it is judged until its handler has ended or its claim came to nothing. A job that
finds none is WAITING (task) in the journal; when slots come free, a TakeOver lets so many of the waiters go on, the
first ones first. They come back as any job that is due, so their slots are kept for them, for `COMING_US`: whoever
comes new meanwhile has to wait, too, and overtakes nobody.

How many wait is known from above: jobs that are cancelled while they wait are not told of, and after a restart nobody
has counted (`unknown`). When a TakeOver finds nobody, only those wait that came since it was asked for.
"""

from __future__ import annotations

import math

from timewheel.model import SECOND_US

COMING_US = 2 * SECOND_US
UNLIMITED = 1_000_000
MOST_ASKED = 1_000  # of one TakeOver


class Slots:
    """The slots of one task. Instants are steady microseconds."""

    __slots__ = ("_asked", "_came", "_coming", "_coming_until_us", "_waiting", "concurrency", "held", "task")

    def __init__(self, task: str, concurrency: int) -> None:
        self.task = task
        self.concurrency = concurrency
        self.held = 0
        self._waiting: float = 0  # at most so many
        self._came = 0  # of those, the ones that came since the oldest TakeOver under way was asked for
        self._asked = 0  # waiters that a TakeOver under way is to let go on
        self._coming = 0  # waiters that were let go on and are not back yet
        self._coming_until_us = 0

    def take(self, now_us: int, *, let_go: bool) -> bool:
        """A job that may start otherwise takes a slot; False: it has to wait. `let_go`: it waited, and was let go."""
        self._expire(now_us)
        free = self.concurrency - self.held
        if not let_go:
            free = 0 if self._waiting else free - self._asked - self._coming
        elif self._coming:
            self._coming -= 1
        if free <= 0:
            self._waiting += 1
            self._came += 1
            return False
        self.held += 1
        return True

    def give_back(self) -> None:
        """A job holds its slot no more."""
        self.held -= 1
        assert self.held >= 0, "more slots of a task came back than were taken"

    def unknown(self) -> None:
        """Nobody knows how many wait."""
        self._waiting = math.inf

    def not_yet(self) -> None:
        """One that was let go turns out to wait for something else first."""
        self._coming = max(0, self._coming - 1)

    def ask(self, now_us: int) -> int:
        """How many waiters the next TakeOver is to let go on, beyond those that were asked for before."""
        self._expire(now_us)
        free = self.concurrency - self.held - self._asked - self._coming
        if free <= 0 or not self._waiting:
            return 0
        asked = int(min(free, self._waiting, MOST_ASKED))
        if not self._asked:
            self._came = 0
        self._waiting -= asked
        self._asked += asked
        return asked

    def answered(self, asked: int, let_go: int, now_us: int) -> None:
        """A TakeOver that was asked for so many has let `let_go` jobs go on, others than ours among them, perhaps."""
        self._asked -= asked
        self._coming += min(asked, let_go)
        self._coming_until_us = now_us + COMING_US
        if not let_go:
            self._waiting = min(self._waiting, self._came)

    def _expire(self, now_us: int) -> None:
        if self._coming and now_us >= self._coming_until_us:
            self._coming = 0
