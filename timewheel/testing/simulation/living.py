"""How one life of a plan is led: started, used, and ended as planned or by a fault."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from timewheel import NotOwner, Scheduler
from timewheel.errors import TimewheelError
from timewheel.model import SECOND_US, SchedulerState
from timewheel.store.changes import AddEntry
from timewheel.testing.invariants import Violated
from timewheel.testing.simulation import rebuilt
from timewheel.testing.simulation.facts import LifeRecord
from timewheel.testing.simulation.moves import play_move
from timewheel.testing.simulation.peace import make_peace
from timewheel.testing.simulation.plan import Life
from timewheel.testing.simulation.world import EMPTY, STOP, World

LOOK_S = 0.25
DRIFT_EVERY_S = 0.2
LAST_WORD_S = 1  # whoever waited for a scheduler that has stopped has been told by then


def lead_life(world: World, life: Life, *, peaceful: bool = False) -> LifeRecord:
    """Lead a life; what it left behind is in the record, also when its process died. `peaceful`: the last one."""
    record = _begin(world, life)
    record.peaceful = peaceful
    leave = True
    try:
        leave = world.machine.run(_until_death(world), leave=life.end != "cut")
    except (AssertionError, TimewheelError) as error:
        world.violate(error if isinstance(error, Violated) else Violated("I29", f"the life broke: {error!r}"))
    _end(world, record, killed=leave)
    return record


def _begin(world: World, life: Life) -> LifeRecord:
    before = world.lives[-1].after if world.lives else EMPTY
    record = LifeRecord(len(world.lives) + 1, life, len(world.log), before)
    world.lives.append(record)
    world.journal.begin(life.faults, life.commit_s, life.read_s)
    world.handlers.running.clear()
    world.forget_moves()
    world.alive = True
    world.note("life began", record.number)
    return record


def _end(world: World, record: LifeRecord, *, killed: bool) -> None:
    world.alive = False
    journal = world.journal
    record.longest_commit_us = journal.longest_commit_us
    record.faulted = journal.faulted
    record.ended_us = world.elapsed_us
    if killed:
        journal.crash()
    world.note("life ended", record.how)
    _left_behind(world, record)
    world.counts[f"life ended: {record.how}"] += 1
    record.after = world.machine.run(journal.inner.dump())
    record.end = len(world.log)
    record.entries = world.machine.run(_new_entries(world))
    _pass_the_night(world, record.life)


def _left_behind(world: World, record: LifeRecord) -> None:
    """A scheduler that has ended in order leaves no task on its loop."""
    if record.how in ("stopped", "failed", "cut") and world.loop is not None:
        left = [task.get_name() for task in asyncio.all_tasks(world.loop) if task.get_name().startswith("timewheel")]
        if left:
            world.violate(Violated("I29", f"{record.how}, and these tasks were left behind: {sorted(left)}"))


async def _new_entries(world: World) -> list[Any]:
    seen = max((number for record in world.lives for number, *_ in record.entries), default=0)
    entries: list[Any] = await world.journal.inner.entries(after=seen, limit=10_000)
    return entries


def _pass_the_night(world: World, life: Life) -> None:
    machine = world.machine
    if life.reboot:
        machine.reboot(life.down_s)
        world.counts["fault: reboot"] += 1
    else:
        machine.block(life.down_s)
    if life.step_s:
        world.counts["fault: clock set while down"] += 1
        world.step(life.step_s)
    world.latest_wall_us = max(world.latest_wall_us, machine.clock.wall_us())


async def _until_death(world: World) -> bool:
    """Live until the end; whether the process died of it."""
    loop = asyncio.get_running_loop()
    world.loop = loop
    loop.set_exception_handler(lambda _, context: _heard(world, context))
    death = loop.create_task(world.journal.died.wait())
    life = loop.create_task(_live(world))
    await asyncio.wait([death, life], return_when=asyncio.FIRST_COMPLETED)
    if not life.done():
        world.record.how = "died in a commit"
        return True
    return life.result()


def _heard(world: World, context: dict[str, Any]) -> None:
    """An exception that nobody caught came to the loop."""
    if world.alive and "was destroyed" not in context["message"]:  # that is told whenever garbage is collected
        world.violate(Violated("I29", f"the event loop heard of {context!r}"))


async def _live(world: World) -> bool:
    life, record = world.life, world.record
    scheduler = world.scheduler(life.without)
    try:
        await scheduler.start()
    except TimewheelError as error:
        if not world.journal.faulted:
            raise
        world.note("start refused", type(error).__name__)
        record.how = "start refused"
        return False
    record.ran = True
    world.watch(scheduler)
    tags = {move.what["tag"] for move in life.moves if "tag" in move.what}
    with suppress(TimewheelError):  # a read may fail: those are then not known in this life
        await world.users.recall(tags)
    world.arm(life.moves, play_move)
    drifting = asyncio.get_running_loop().create_task(_drift(world))
    await _until(world, scheduler, life)
    drifting.cancel()
    if scheduler.state is SchedulerState.RUNNING:
        await rebuilt.look(world, scheduler)
        if world.record.peaceful:
            await make_peace(world, scheduler)
    if life.end == "crash" and scheduler.state is SchedulerState.RUNNING:
        world.counts["fault: killed"] += 1
        record.how = "killed"
        return True
    if life.end == "cut" and scheduler.state is SchedulerState.RUNNING:
        record.how = "cut"
        return False
    await _stop(world, scheduler, life.grace_s)
    return False


async def _until(world: World, scheduler: Scheduler, life: Life) -> None:
    """Until the time of this life is over, or its scheduler has ended by itself."""
    ends_us = world.machine.awake_us + round(life.length_s * SECOND_US)
    await stale_write(world, scheduler)
    while scheduler.state is SchedulerState.RUNNING and world.first_violation is None:
        left_s = (ends_us - world.machine.awake_us) / SECOND_US
        if left_s <= 0:
            return
        await asyncio.sleep(min(LOOK_S, left_s))


async def _drift(world: World) -> None:
    """The wall clock does not run quite as fast as it should, while a move says so."""
    while True:
        await asyncio.sleep(DRIFT_EVERY_S)
        world.machine.wall_offset_us += round(world.drift * DRIFT_EVERY_S * SECOND_US)


async def _stop(world: World, scheduler: Scheduler, grace_s: float) -> None:
    record = world.record
    failed = scheduler.state is SchedulerState.FAILED
    if failed and not world.may_fail():
        raise Violated("I29", f"the scheduler failed, and no fault of this life explains it: {scheduler._cause!r}")
    world.note(STOP)
    await scheduler.stop(grace_s)
    failed = scheduler.state is SchedulerState.FAILED
    if failed and not world.may_fail():
        raise Violated("I29", f"the scheduler failed while it stopped: {scheduler._cause!r}")
    record.how = "failed" if failed else "stopped"
    await asyncio.sleep(LAST_WORD_S)
    if world.users.waiting:
        raise Violated("I29", f"{record.how}, and these callers were not told: {sorted(world.users.waiting.values())}")
    await world.rest()


async def stale_write(world: World, scheduler: Scheduler) -> None:
    """I22: what is written under a former owner's epoch is refused."""
    engine = scheduler._engine
    if engine is None or engine.epoch < 2:
        return
    stamp = engine.stamp()
    try:
        await world.journal.inner.commit([AddEntry("stale")], stamp._replace(epoch=engine.epoch - 1))
    except NotOwner:
        world.counts["stale writes refused"] += 1
        return
    raise Violated("I22", f"a batch under epoch {engine.epoch - 1} was written while {engine.epoch} owns the journal")
