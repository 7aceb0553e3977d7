"""One schedule in memory: its record as the journal has it, and what the planner knows of it besides."""

from __future__ import annotations

from timewheel.model import ClockKind
from timewheel.planning.custody import Custody
from timewheel.planning.definition import Definition
from timewheel.schedule_records import ScheduleRecord


class Kept:
    """One schedule in memory. `record` is None when there is none of this id (any more)."""

    __slots__ = (
        "attending",
        "custody",
        "definition",
        "finished_at",
        "found",
        "last_manual",
        "look",
        "record",
        "rest_until",
        "retry",
        "stale",
        "started",
        "text",
    )

    def __init__(self, record: ScheduleRecord | None) -> None:
        self.record = record
        self.found = record  # as the journal had it when it was read last
        self.custody = Custody()
        self.definition: Definition | None = None  # as `text` says; read when it is first needed
        self.text: str | None = None
        self.stale = False
        self.look = False  # whatever its times say
        self.retry = False  # PARKED: what it lacked may be there
        self.started = False  # what an earlier process may have left half done was looked at
        self.rest_until: int | None = None  # steady
        self.attending: set[int] = set()  # of a fixed delay: the jobs whose end it waits for
        self.finished_at: int | None = None  # steady; when the last of them ended
        self.last_manual = ClockKind.WALL, -1  # what the newest trigger is called

    @property
    def here(self) -> ScheduleRecord:
        """The record of a schedule that exists."""
        assert self.record is not None, "it was looked whether the schedule exists"
        return self.record
