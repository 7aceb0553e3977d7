"""The review: which schedules want to be looked at although no time of theirs has come.

After a start: those that an earlier process left unreadable, in the midst of a replacement, or planned under other time
zones. After the wall clock was set back: those that are planned from now on again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.model import ClockKind, Now
from timewheel.planning.definition import definition_from_text
from timewheel.planning.policies import OverlapKind
from timewheel.planning.position import SMALL_STEP_US, stepped_back
from timewheel.planning.slots import offset_us
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.store.changes import AddEntry

if TYPE_CHECKING:
    from timewheel.planning.roster import Roster

_log = logging.getLogger("timewheel")
PORTION_US = 5_000  # of time, in one turn of the loop


class Review:
    """See the module. `boot_us` tells how long a portion takes."""

    def __init__(self, roster: Roster, boot_us: Callable[[], int]) -> None:
        self._roster = roster
        self._boot_us = boot_us
        self._unread: deque[str] = deque()
        self._of_other_zones: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._unread)

    def add(self, record: ScheduleRecord, tzdata: str) -> None:
        """Look at a schedule that was loaded at the start."""
        self._unread.append(record.schedule)
        if _is_of_other_zones(record, tzdata):
            self._of_other_zones[record.position.tzdata] += 1

    def tell_of_zones(self, tzdata: str) -> None:
        """Say in the journal that schedules are planned anew because the time zones are others than before."""
        if self._of_other_zones:
            _log.info("time zones are %s now: the next times of %s change", tzdata, dict(self._of_other_zones))
            data = {"to": tzdata, "schedules": dict(self._of_other_zones)}
            self._roster.writer.note(AddEntry("tzdata", json.dumps(data)))

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
        dated = is_active and definition.calendar is not None  # who changed it may have died before it was planned anew
        return stepped or dated or _is_of_other_zones(record, tzdata) or definition.overlap.kind is OverlapKind.REPLACE


def _is_of_other_zones(record: ScheduleRecord, tzdata: str) -> bool:
    """Whether its next time was worked out with other time zones."""
    position = record.position
    return record.state is ScheduleState.ACTIVE and position.clock is ClockKind.WALL and position.tzdata != tzdata


def _may_have_stepped(record: ScheduleRecord, now: Now) -> bool:
    """Whether the wall clock was set back since the schedule was planned."""
    position = record.position
    return (
        record.state is ScheduleState.ACTIVE
        and position.clock is ClockKind.WALL
        and offset_us(now) - position.offset_us < -SMALL_STEP_US
    )
