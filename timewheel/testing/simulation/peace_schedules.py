"""I29 for schedules: once the faults are over, what is due is planned, catch-ups end, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, Now, OriginKind
from timewheel.planning.definition import Definition
from timewheel.planning.position import wake_at
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.testing.invariants_schedules import nobody_waits_in_vain
from timewheel.testing.laws import demand
from timewheel.testing.simulation.facts import Carried

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SETTLE_S = 60  # twelve slots, at 0.7 a second, with as many that came meanwhile
FASTER_THAN_SLOTS = 4  # a second; a slower catch-up may never reach a rule of many slots
NOTICED_S = 4  # until a step of the clock has been noticed, and what follows from it is written
LATE_US = 2_000_000
PROBE = "probe of schedules"
AGAIN_S = 2.6  # a step is noticed within a second; the next second's slot follows


async def settle(world: World) -> None:
    """Have every schedule go on, and see that each gets to where the clocks are; then let nothing new come."""
    book = world.journal.book
    for name in sorted(book.schedules):
        if book.schedules[name].state is ScheduleState.PAUSED:
            await world.standing.resume({"schedule": name})
    await asyncio.sleep(NOTICED_S)
    for _ in range(SETTLE_S):
        await asyncio.sleep(1)
        if not any(map(_catches_up, book.schedules.values())):
            break
    now = world.now()
    for name, record in book.schedules.items():
        definition = book.definition(record.definition)
        if _catches_up(record) and (per_s := definition.misfire.catch_up_per_s) is not None:
            demand(
                per_s < _faster_than_slots(definition),
                "I29",
                f"still catching up after {SETTLE_S} s of peace",
                name,
                record,
            )
    for record in book.schedules.values():
        demand(record.state in (ScheduleState.ACTIVE, ScheduleState.ENDED), "I29", "does not go on in peace", record)
        demand(not is_overdue(record, now, LATE_US), "I29", "is not planned in peace", record, now)
    for name in sorted(book.schedules):
        await world.standing.delete({"schedule": name})
    demand(not book.schedules, "I29", "cannot be deleted in peace", book.schedules)


def _faster_than_slots(definition: Definition) -> float:
    """A rate of jobs, a second, at which a catch-up gets to where the slots of any rule, or of this interval, are."""
    if not isinstance(definition.rule, Every):
        return FASTER_THAN_SLOTS
    return max(FASTER_THAN_SLOTS, 1.2 * SECOND_US / definition.rule.interval_us)


def _catches_up(record: ScheduleRecord) -> bool:
    return record.state is ScheduleState.ACTIVE and record.position.catch_up_until is not None


def is_overdue(record: ScheduleRecord, now: Now, late_us: int) -> bool:
    """Whether something of an active schedule, or the end of a pause, has been due for longer than `late_us`."""
    if record.state is ScheduleState.PAUSED:
        return record.until is not None and record.until + late_us < now.wall_us
    wake = wake_at(record.position)
    return record.state is ScheduleState.ACTIVE and wake is not None and wake.at + late_us < now.on(wake.clock)


async def drained(world: World) -> None:
    """Every job is final: so every waiter has been let go on."""
    nobody_waits_in_vain(await world.journal.inner.dump())


async def on_time(world: World) -> None:
    """A schedule that is made now goes on in any weather: plainly, after steps, after a suspend."""
    rule = {"kind": "cron", "expr": "* * * * * *", "tz": "UTC"}
    options = {"overlap": ["ALLOW", 3], "misfire": "LATEST", "misfire_grace_s": 0.5}
    await world.standing.declare(
        {"schedule": PROBE, "rule": rule, "options": options, "script": {"ends": ["ok"], "takes_s": 0.01}}
    )
    await _goes_on(world, "plainly")
    world.step(100)
    await _goes_on(world, "after a forward step")
    world.machine.suspend(50)
    world.note("suspended", 50)
    await _goes_on(world, "after a suspend")
    world.step(-5)
    await _goes_on(world, "after a backward step")
    await world.standing.delete({"schedule": PROBE})
    await asyncio.sleep(1)


async def _goes_on(world: World, when: str) -> None:
    begin = len(world.log)
    await asyncio.sleep(AGAIN_S)
    made = [
        job
        for fact in world.log[begin:]
        if isinstance(fact, Carried) and fact.schedule == PROBE
        for job in fact.change.jobs
        if job.origin is not None and job.origin.kind is OriginKind.RULE
    ]
    demand(bool(made), "I29", f"a schedule of every second makes no jobs {when}", world.journal.book.schedules)
