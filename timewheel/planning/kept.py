"""One schedule in memory: its record as the journal has it, and what the planner knows of it besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import ClockKind
from timewheel.planning.custody import Custody
from timewheel.planning.definition import Definition
from timewheel.schedule_records import ScheduleRecord

if TYPE_CHECKING:
    import asyncio

NOBODY: frozenset[int] = frozenset()
SETTLED: tuple[asyncio.Event, ...] = ()
_NEVER = (ClockKind.WALL, -1)


def edited_at(record: ScheduleRecord | None) -> int:
    """When a schedule was last edited, on the clock of its slots."""
    if record is None:
        return 0
    position = record.position
    return record.updated_at - (position.offset_us if position.clock is ClockKind.STEADY else 0)


class Kept:
    """One schedule in memory, in few objects, for there may be many.

    `record` is None when there is none of this id (any more).
    """

    __slots__ = (
        "attending",
        "custody",
        "definition",
        "edited_at",
        "finished_at",
        "last_manual",
        "look",
        "record",
        "rest_until",
        "retry",
        "stale",
        "started",
        "text",
        "unsettled",
    )

    def __init__(self, record: ScheduleRecord | None) -> None:
        self.record = record
        self.edited_at = edited_at(record)  # on its clock; as it was read last
        self.custody = Custody()
        self.definition: Definition | None = None  # as `text` says; read when it is first needed
        self.text: str | None = None
        self.stale = False
        self.unsettled = SETTLED  # writes whose outcome nobody waits for any more
        self.look = False  # whatever its times say
        self.retry = False  # PARKED: what it lacked may be there
        self.started = False  # what an earlier process may have left half done was looked at
        self.rest_until: int | None = None  # steady
        self.attending = NOBODY  # of a fixed delay: the jobs whose end it waits for
        self.finished_at: int | None = None  # steady; when the last of them ended
        self.last_manual = _NEVER  # what the newest trigger is called

    @property
    def here(self) -> ScheduleRecord:
        """The record of a schedule that exists."""
        assert self.record is not None, "it was looked whether the schedule exists"
        return self.record
