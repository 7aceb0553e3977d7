"""The review: which schedules want to be looked at although no time of theirs has come.

After a start: those that an earlier process left unreadable, in the midst of a replacement, or planned under other time
zones. After the wall clock was set back: those that are planned from now on again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.model import ClockKind, Now
from timewheel.planning.definition import definition_from_text
from timewheel.planning.policies import OverlapKind
from timewheel.planning.position import SMALL_STEP_US, stepped_back
from timewheel.planning.slots import offset_us
from timewheel.schedule_records import ScheduleRecord, ScheduleState

if TYPE_CHECKING:
    from timewheel.planning.roster import Roster

PORTION_US = 5_000  # of time, in one turn of the loop


class Review:
    """See the module. `boot_us` tells how long a portion takes."""

    def __init__(self, roster: Roster, boot_us: Callable[[], int]) -> None:
        self._roster = roster
        self._boot_us = boot_us
        self._unread: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._unread)

    def add(self, schedule: str) -> None:
        """Look at a schedule that was loaded at the start."""
        self._unread.append(schedule)

    def look_back(self, now: Now) -> None:
        """Have all looked at that may be planned from now on again, because the wall clock was set back."""
        for kept in self._roster:
            if kept.record is not None and _may_have_stepped(kept.record, now):
                self._roster.at_once(kept)

    def read_some(self, now: Now, tzdata: str) -> None:
        """Look at some of those that were loaded."""
        began = self._boot_us()
        while self._unread and self._boot_us() - began < PORTION_US:
            kept = self._roster.find(self._unread.popleft())
            if kept is None or kept.record is None or kept.started:
                continue  # gone, or planned meanwhile
            if self._wants_look(kept.record, now, tzdata):
                self._roster.at_once(kept)

    def _wants_look(self, record: ScheduleRecord, now: Now, tzdata: str) -> bool:
        is_active = record.state is ScheduleState.ACTIVE
        try:
            definition = definition_from_text(record.definition, self._roster.calendars)  # not kept: many are far away
            stepped = _may_have_stepped(record, now) and stepped_back(definition, record.position, now)
        except Exception:  # noqa: BLE001  planning it meets the same, and parks it for it
            return is_active
        renewed = is_active and record.position.clock is ClockKind.WALL and record.position.tzdata != tzdata
        return stepped or renewed or definition.overlap.kind is OverlapKind.REPLACE


def _may_have_stepped(record: ScheduleRecord, now: Now) -> bool:
    """Whether the wall clock was set back since the schedule was planned."""
    position = record.position
    return (
        record.state is ScheduleState.ACTIVE
        and position.clock is ClockKind.WALL
        and offset_us(now) - position.offset_us < -SMALL_STEP_US
    )
