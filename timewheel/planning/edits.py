"""Edits: what people do to a schedule. Each holds it from the first look to the outcome of the commit.

Before the slots of a schedule change, those that have come are accounted for by the definition under which they came;
so no edit makes an occurrence vanish. An edit that fails leaves the schedule as the journal has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from timewheel.errors import ScheduleExists
from timewheel.model import ClockKind, OriginKind
from timewheel.planning.carrier import Drafted
from timewheel.planning.definition import Definition
from timewheel.planning.kept import NOBODY
from timewheel.planning.position import first_position, renewed, wake_at
from timewheel.schedule_records import OccurrenceRecord, Position, ScheduleRecord, ScheduleState, SkipReason
from timewheel.store.changes import DropSchedule, PutSchedule

if TYPE_CHECKING:
    from timewheel.planning.accountant import Accountant
    from timewheel.planning.carrier import Carrier
    from timewheel.planning.kept import Kept
    from timewheel.planning.roster import Roster

_LEDGER_PAGE = 100


class Edits:
    """See the module."""

    def __init__(self, roster: Roster, carrier: Carrier, accountant: Accountant) -> None:
        self._roster = roster
        self._carrier = carrier
        self._accountant = accountant

    # ---- declaring ---------------------------------------------------------------------------------------------------

    async def declare(self, schedule: str, definition: Definition, if_exists: str, importable: bool) -> ScheduleRecord:
        """Make a schedule, or bring it to what is declared."""
        async with self._roster.reserved(schedule) as kept:
            record = kept.record
            if record is None:
                return await self._create(kept, schedule, definition, importable)
            if if_exists == "fail":
                raise ScheduleExists(f"there is a schedule {schedule!r} already", schedule=schedule)
            if record.state is ScheduleState.PARKED:
                kept.retry = True
            revive = record.state is ScheduleState.ENDED and record.reason is not None  # see `end`
            if not revive and (if_exists == "keep" or record.definition == definition.to_text()):
                return record
            return await self._change(kept, definition, importable=importable)

    async def _create(self, kept: Kept, schedule: str, definition: Definition, importable: bool) -> ScheduleRecord:
        now = self._roster.now()
        position = first_position(definition, now, self._carrier.tzdata)
        position = position._replace(turn=await self._free_turn(schedule, position))
        state = _state_at(position, definition)
        record = ScheduleRecord(
            schedule, definition.task, definition.queue, definition.to_text(), state, 1, position, now.wall_us,
            now.wall_us,
        )  # fmt: skip
        return await self._roster.put(kept, record, definition, importable=importable)

    async def _free_turn(self, schedule: str, position: Position) -> int:
        """A turn in which no slot from now on was served, nor in those after it, if one of this id was dropped before.

        That is the turn of the last one's end; or the next, if the clock was set back to before its last slots.
        """
        last = await self._newest(schedule, lambda row: row.kind is not OriginKind.BACKFILL)
        if last is None or position.clock is ClockKind.STEADY:
            return 0 if last is None else last.turn
        is_slot = (ClockKind.WALL, OriginKind.RULE)
        later = await self._newest(schedule, lambda row: (row.clock, row.kind) == is_slot, since=position.at + 1)
        return last.turn + (later is not None)

    async def _newest(
        self, schedule: str, wanted: Callable[[OccurrenceRecord], bool], since: int = 0
    ) -> OccurrenceRecord | None:
        """The newest row of the ledger that is wanted, of those that reach beyond `since`."""
        before = None
        while True:
            page = await self._roster.store.ledger(
                schedule, since=since, until=1 << 62, before=before, limit=_LEDGER_PAGE
            )
            found = next((entry.occurrence for entry in page.entries if wanted(entry.occurrence)), None)
            if found is not None or page.next_before is None:
                return found
            before = page.next_before

    async def edit(
        self, schedule: str, change: Callable[[Definition], Definition], if_version: int | None
    ) -> ScheduleRecord:
        """Change what is declared; the state of a pause stays."""
        async with self._roster.held(schedule, if_version) as kept:
            definition = change(self._roster.definition(kept))
            if definition.to_text() == kept.here.definition:
                return kept.here
            return await self._change(kept, definition)

    async def _change(self, kept: Kept, new: Definition, *, importable: bool = False) -> ScheduleRecord:
        old = self._accountant.readable(kept)
        same = old is not None and old.same_slots(new) and kept.here.state is not ScheduleState.ENDED
        now = self._roster.now() if same or old is None else await self._accountant.leave(kept)
        record = kept.here
        if same:
            position = renewed(new, record.position, now, self._carrier.tzdata)
        else:
            position = first_position(new, now, self._carrier.tzdata, record.position)
        state = record.state if record.state is ScheduleState.PAUSED else _state_at(position, new)
        kept.attending = NOBODY
        record = replace(
            record, task=new.task, queue=new.queue, definition=new.to_text(), state=state, position=position,
            version=record.version + 1, updated_at=now.wall_us,
            reason=record.reason if state is ScheduleState.PAUSED else None,
        )  # fmt: skip
        return await self._roster.put(kept, record, new, importable=importable)

    # ---- pause, resume, drop -----------------------------------------------------------------------------------------

    async def pause(
        self, schedule: str, note: str | None, until_us: int | None, if_version: int | None
    ) -> ScheduleRecord:
        """Make nothing until it is resumed. One that has ended stays so."""
        async with self._roster.held(schedule, if_version) as kept:
            await self._accountant.account(kept)
            record = kept.here
            if record.state is ScheduleState.ENDED:
                return record
            return await self._roster.put(kept, self._edited(record, ScheduleState.PAUSED, note, until_us))

    async def resume(self, schedule: str, if_version: int | None) -> ScheduleRecord:
        """Go on; the slots of the pause are missed, and accounted for along with it. Not paused: nothing happens."""
        async with self._roster.held(schedule, if_version) as kept:
            record = kept.here
            if record.state is not ScheduleState.PAUSED:
                return record
            unfinished = await self._accountant.learn(kept)
            edited = self._edited(record, ScheduleState.ACTIVE, None, None)
            kept.record = edited
            try:
                drafted = self._carrier.draft(kept, unfinished, SkipReason.PAUSED)
            except Exception:  # noqa: BLE001  the planner meets it again at once, and parks the schedule for it
                drafted = None
            finally:
                kept.record = record
            return await self._write_resumed(kept, edited, drafted)

    async def _write_resumed(self, kept: Kept, edited: ScheduleRecord, drafted: Drafted | None) -> ScheduleRecord:
        """Both go into one batch, where there is room; else a crash in between only changes the reason of a skip."""
        putting = PutSchedule(edited, kept.here.version)
        await self._roster.write_all(kept, [putting] if drafted is None else [putting, drafted.change])
        kept.record = edited
        if drafted is not None:
            self._carrier.done(kept, drafted)
        return kept.here

    async def end(self, schedule: str, reason: str) -> ScheduleRecord:
        """Have it make nothing more, for a reason, until it is declared again; what has come is accounted for."""
        async with self._roster.held(schedule) as kept:
            await self._accountant.leave(kept)
            record = kept.here
            if record.state is ScheduleState.ENDED:
                return record
            return await self._roster.put(kept, self._edited(record, ScheduleState.ENDED, reason, None))

    async def drop(self, schedule: str, if_version: int | None) -> None:
        """Forget a schedule; its jobs and its ledger stay."""
        async with self._roster.held(schedule, if_version) as kept:
            await self._accountant.leave(kept)
            await self._roster.write(kept, schedule, DropSchedule(schedule, kept.here.version))
            kept.record = None

    def _edited(
        self, record: ScheduleRecord, state: ScheduleState, reason: str | None, until_us: int | None
    ) -> ScheduleRecord:
        now = self._roster.now()
        return replace(
            record, state=state, reason=reason, until=until_us, version=record.version + 1, updated_at=now.wall_us
        )


def _state_at(position: Position, definition: Definition) -> ScheduleState:
    """ACTIVE, unless nothing will ever come."""
    if wake_at(position) is None and not definition.fixed_delay:
        return ScheduleState.ENDED
    return ScheduleState.ACTIVE
