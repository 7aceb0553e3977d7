"""The accountant: what has come of a schedule's slots, written down before somebody changes or drops the schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from timewheel.model import Now
from timewheel.planning.carrier import rule_jobs
from timewheel.planning.carrying import carried, changes_nothing
from timewheel.planning.ends import last_end
from timewheel.planning.policies import Misfire
from timewheel.planning.position import wake_at
from timewheel.schedule_records import ScheduleRecord, ScheduleState, SkipReason, UnfinishedJob
from timewheel.store.changes import PlanOccurrences

if TYPE_CHECKING:
    from timewheel.planning.carrier import Carrier
    from timewheel.planning.definition import Definition
    from timewheel.planning.kept import Kept
    from timewheel.planning.roster import Roster

_PLANS = 50  # of one schedule that an edit waits for; each accounts for a hundred slots, or for a range
_NO_GRACE = -1  # us: a slot of this very microsecond was missed, too
_LEFT_BECAUSE = {
    ScheduleState.ACTIVE: SkipReason.CATCH_UP,
    ScheduleState.PAUSED: SkipReason.PAUSED,
    ScheduleState.PARKED: SkipReason.PARKED,
}


class Accountant:
    """See the module. The schedules that it is given are held by the caller."""

    def __init__(self, roster: Roster, carrier: Carrier) -> None:
        self._roster = roster
        self._carrier = carrier

    def readable(self, kept: Kept) -> Definition | None:
        """What the schedule declares; None when that cannot be read here."""
        try:
            return self._roster.definition(kept)
        except Exception:  # noqa: BLE001  what cannot be read was parked for it, and has no slots to account for
            return None

    async def leave(self, kept: Kept) -> Now:
        """Account for every slot that has come, so that others may follow: what does not run by now never will.

        Up to when: what follows counts from that instant, however long the commits took since.
        """
        accounted = await self.account(kept) if kept.here.state is ScheduleState.ACTIVE else self._roster.now()
        record = kept.here
        reason = _LEFT_BECAUSE.get(record.state)
        is_over = record.position.catch_up_until is None and not _is_due(record, accounted)
        if reason is None or (reason is SkipReason.CATCH_UP and is_over):
            return accounted
        now = self._roster.now()
        return now if await self.pass_over(kept, now) else accounted

    async def pass_over(self, kept: Kept, until: Now) -> bool:
        """Account for the slots up to then: those that have no row yet will not run. False when they cannot be told."""
        definition, reason = self.readable(kept), _LEFT_BECAUSE.get(kept.here.state)
        if definition is None or reason is None:
            return False
        silent = replace(definition, misfire=definition.misfire._replace(kind=Misfire.SKIP, grace_us=_NO_GRACE))
        record, unfinished = kept.here, await self.learn(kept)
        try:
            made = self._carrier.draft(kept, unfinished, reason, silent, until).change
        except Exception:  # noqa: BLE001  a rule that raises tells no slots: nothing can be accounted for
            return True
        if made.rows and not made.jobs:
            now = self._roster.now()
            for row in made.rows:
                row.recorded_at = now.wall_us
            change = PlanOccurrences(record.schedule, record.version, made.position, made.rows, [])
            await self._roster.write(kept, record.schedule, change)
            kept.record = carried(record, change)
        return True

    async def account(self, kept: Kept) -> Now:
        """Carry out what is due of an active schedule; up to when that is done."""
        now = self._roster.now()
        for _ in range(_PLANS):
            record = kept.here
            if not _is_due(record, now):
                break
            now = self._roster.now()
            drafted = self._carrier.draft_or_park(kept, await self.unfinished(record.schedule), now)
            if changes_nothing(record, drafted.change):
                break
            await self._roster.write(kept, record.schedule, drafted.change)
            self._carrier.done(kept, drafted)
        return now

    async def learn(self, kept: Kept) -> list[UnfinishedJob]:
        """The jobs that are not final; and, of a fixed delay that goes on from the last of them, when that ended."""
        record = kept.here
        unfinished = await self.unfinished(record.schedule)
        if wake_at(record.position) is None and kept.finished_at is None and not rule_jobs(unfinished):
            kept.finished_at = await last_end(self._roster.store, record.schedule, self._roster.now())
        return unfinished

    async def unfinished(self, schedule: str) -> list[UnfinishedJob]:
        """The jobs of a schedule that are not final."""
        return (await self._roster.store.unfinished([schedule])).get(schedule, [])


def _is_due(record: ScheduleRecord, now: Now) -> bool:
    """Whether an active schedule has something to plan."""
    wake = wake_at(record.position)
    return record.state is ScheduleState.ACTIVE and wake is not None and wake.at <= now.on(wake.clock)
