"""Jobs that have to wait for better times are told instants one after the other, so that they do not all come back at
once. Pure; instants are steady microseconds."""

from __future__ import annotations

from timewheel.model import SECOND_US

GAP_US = 10_000
ABSENT_US = 10 * SECOND_US
MOST_REMEMBERED = 100_000


class Spread:
    """Tells instants, and remembers who waits: MOST_REMEMBERED of them at least, the last."""

    __slots__ = ("_next_us", "_told")

    def __init__(self) -> None:
        self._next_us = 0
        self._told: dict[int, int] = {}  # job id -> when it comes again

    def tell(self, job_id: int, from_us: int, span_us: int, gap_us: int = GAP_US) -> int:
        """The next instant that is free from `from_us` on; when they are taken for `span_us`, from the front again.

        The following one is free `gap_us` later.
        """
        instant = max(from_us, self._next_us)
        if instant > from_us + span_us:
            instant = from_us
        self._next_us = instant + gap_us
        if len(self._told) >= 2 * MOST_REMEMBERED:
            self._told = dict(list(self._told.items())[MOST_REMEMBERED:])
        self._told.pop(job_id, None)
        self._told[job_id] = instant
        return instant

    def came(self, job_id: int) -> None:
        """This job waits no more."""
        if self._told:
            self._told.pop(job_id, None)

    def waiting(self, now_us: int) -> int:
        """How many wait. Those that did not come at their instant have been cancelled, or moved."""
        if self._told:
            self._told = {job: at for job, at in self._told.items() if at > now_us - ABSENT_US}
        return len(self._told)
