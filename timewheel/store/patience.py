"""How often a journal may fail before it is given up. Pure; instants are microseconds since boot."""

from __future__ import annotations

from collections import deque

from timewheel.model import SECOND_US

BUSY_PATIENCE_US = 120 * SECOND_US
UNKNOWN_LIMIT = 3
UNKNOWN_WINDOW_US = 60 * SECOND_US


class Patience:
    """Counts the failures of commits."""

    def __init__(self) -> None:
        self._unknowns: deque[int] = deque()
        self._busy_since: int | None = None

        self.troubled = False  # the last commit wrote nothing

    def committed(self) -> None:
        """A commit succeeded."""
        self._busy_since = None
        self.troubled = False

    def with_full(self) -> None:
        """There is no space: that may last, and is not given up."""
        self.troubled = True

    def with_busy(self, now_us: int) -> bool:
        """Another program holds the write lock: whether to go on trying (for `BUSY_PATIENCE_US`)."""
        self.troubled = True
        if self._busy_since is None:
            self._busy_since = now_us
        return now_us - self._busy_since < BUSY_PATIENCE_US

    def with_unknown(self, now_us: int) -> bool:
        """The outcome of a commit is unknown: whether to open the journal again (twice in `UNKNOWN_WINDOW_US`)."""
        self._unknowns.append(now_us)
        while now_us - self._unknowns[0] > UNKNOWN_WINDOW_US:
            self._unknowns.popleft()
        return len(self._unknowns) < UNKNOWN_LIMIT
