"""Who waits for which job to become final, in this process."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timewheel.alarm import Alarm


class Waiters:
    """Alarms by job id. A waiter looks at the journal itself once it is rung: this only says when to look."""

    def __init__(self) -> None:
        self._alarms: dict[int, list[Alarm]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._alarms)

    def join(self, job_id: int, alarm: Alarm) -> None:
        """Ring `alarm` when the job may have become final, until `leave`."""
        self._alarms[job_id].append(alarm)

    def leave(self, job_id: int, alarm: Alarm) -> None:
        """Wait no more."""
        alarms = self._alarms.get(job_id, [])
        if alarm in alarms:
            alarms.remove(alarm)
        if not alarms:
            self._alarms.pop(job_id, None)

    def final(self, job_id: int) -> None:
        """The job is final: wake who waits for it."""
        for alarm in self._alarms.get(job_id, ()):
            alarm.ring()

    def wake_all(self) -> None:
        """Have everybody look again: the scheduler stopped, failed, or re-read its journal."""
        for alarms in self._alarms.values():
            for alarm in alarms:
                alarm.ring()
