"""How often a journal may fail before it is given up. Pure; instants are microseconds since boot."""

from __future__ import annotations

from collections import deque

from timewheel.model import SECOND_US

BUSY_PATIENCE_US = 120 * SECOND_US
UNKNOWN_LIMIT = 3
UNKNOWN_WINDOW_US = 60 * SECOND_US
SAY_EVERY_US = 60 * SECOND_US


class Patience:
    """Counts the failures of commits."""

    def __init__(self) -> None:
        self._unknowns: deque[int] = deque()
        self._busy_since: int | None = None
        self._said_at: int | None = None
        self.trouble: Exception | None = None  # why the last commit wrote nothing, or may not have

    def committed(self) -> None:
        """A commit succeeded."""
        self._busy_since = None
        self.trouble = None

    def with_full(self, error: Exception) -> None:
        """There is no space: that may last, and is not given up."""
        self.trouble = error

    def with_busy(self, error: Exception, now_us: int) -> bool:
        """Another program holds the write lock: whether to go on trying (for `BUSY_PATIENCE_US`)."""
        self.trouble = error
        if self._busy_since is None:
            self._busy_since = now_us
        return now_us - self._busy_since < BUSY_PATIENCE_US

    def is_news(self, now_us: int) -> bool:
        """Whether to tell people of a failure: of the first, and then once in `SAY_EVERY_US`."""
        if self._said_at is not None and now_us - self._said_at < SAY_EVERY_US:
            return False
        self._said_at = now_us
        return True

    def with_unknown(self, error: Exception, now_us: int) -> bool:
        """The outcome of a commit is unknown: whether to open the journal again (twice in `UNKNOWN_WINDOW_US`)."""
        self.trouble = error
        self._unknowns.append(now_us)
        while now_us - self._unknowns[0] > UNKNOWN_WINDOW_US:
            self._unknowns.popleft()
        return len(self._unknowns) < UNKNOWN_LIMIT
