"""I15 and I29 of schedules: at a quiet moment the planner's memory is what the journal says, and nothing is overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, ClockKind
from timewheel.planning.position import wake_at
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.testing.invariants import Dump
from timewheel.testing.invariants_schedules import nobody_waits_in_vain
from timewheel.testing.laws import demand
from timewheel.testing.simulation.facts import Note
from timewheel.testing.simulation.peace_schedules import is_overdue

if TYPE_CHECKING:
    from timewheel.engine import Engine
    from timewheel.testing.simulation.world import World

WEATHER = ("life began", "clock set", "suspended")
LATE_US = 4 * SECOND_US  # a step is noticed within a second; a plan that was refused is made again after another


def look(world: World, engine: Engine, dump: Dump) -> None:
    """Compare, at a moment that is quiet. What somebody has in hand at the moment is not looked at."""
    roster = engine.planner._roster
    names = {kept.record.schedule for kept in roster if kept.record is not None}
    held = {name for name, kept in roster._all.items() if kept.custody._taken or kept.stale}
    for name in names ^ dump["schedules"].keys():
        demand(name in held, "I15", f"the planner knows {name}, or the journal does", dump["schedules"].get(name))
    for kept in roster:
        if kept.record is None or kept.record.schedule in held:
            continue
        record: ScheduleRecord = dump["schedules"][kept.record.schedule]
        demand(kept.record == record, "I15", "the planner thinks otherwise of a schedule", kept.record, record)
        _agenda(engine, record)
        if not engine.planner._review and record.position.clock is ClockKind.WALL and record.state == "ACTIVE":
            zones = engine.planner._carrier.tzdata
            demand(record.position.tzdata == zones, "I15", f"planned with other zones than {zones}", record)
    if not world.journal.faulted and not world.record.meddled:
        _on_time(world, dump, held)
        nobody_waits_in_vain(dump, {holder.key for holder in engine.committer.heirs._overran.values()})


def _agenda(engine: Engine, record: ScheduleRecord) -> None:
    """A schedule comes up when its position says."""
    roster = engine.planner._roster
    kept, wake = roster.find(record.schedule), wake_at(record.position)
    if kept is None or kept.rest_until is not None or kept.retry or record.state is not ScheduleState.ACTIVE:
        return
    time = roster.agenda._times.get(record.schedule)
    if wake is None:
        demand(bool(kept.attending) or time is not None, "I15", "a fixed delay that waits for nothing", record)
    else:
        soon = time is not None and (time == (wake.clock, wake.at) or time[0] is ClockKind.STEADY)
        demand(soon, "I15", f"comes up at {time}, not at {wake}", record)


def _on_time(world: World, dump: Dump, held: set[str]) -> None:
    """I7: no active schedule is overdue."""
    record, now = world.record, world.now()
    disturbed = [
        fact.elapsed_us for fact in world.log[record.begin :] if isinstance(fact, Note) and fact.what in WEATHER
    ]
    if world.elapsed_us - disturbed[-1] < LATE_US:
        return
    late_us = LATE_US + 6 * record.longest_commit_us + round(4 * record.life.read_s * SECOND_US)
    for name, schedule in dump["schedules"].items():
        overdue = name not in held and is_overdue(schedule, now, late_us)
        demand(not overdue, "I7", f"due for longer than {late_us} us, and not planned", schedule, now)
