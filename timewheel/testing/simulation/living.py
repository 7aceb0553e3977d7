"""How one life of a plan is led: started, used, and ended as planned or by a fault."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from timewheel import NotOwner, Scheduler
from timewheel.errors import TimewheelError
from timewheel.events import Recovered
from timewheel.model import SECOND_US, SchedulerState
from timewheel.store.changes import AddEntry
from timewheel.testing.invariants import Violated, demand
from timewheel.testing.simulation import rebuilt
from timewheel.testing.simulation.facts import LifeRecord
from timewheel.testing.simulation.moves import play_move
from timewheel.testing.simulation.patience import LAST_WORD_S, PEACE_S, STOP_S, ends_within
from timewheel.testing.simulation.peace import make_peace
from timewheel.testing.simulation.plan import Life
from timewheel.testing.simulation.world import EMPTY, STOP, World, zones_called

LOOK_S = 0.25
TAKE_OVER_S = 1.3  # a look a second, and what follows
DRIFT_EVERY_S = 0.2


def lead_life(world: World, life: Life, *, peaceful: bool = False) -> list[LifeRecord]:
    """Lead a life; what it left behind is in the records: two, if an heir took over. `peaceful`: the last one."""
    first = begin(world, life)
    first.peaceful = peaceful
    leave = True
    try:
        with zones_called(life.zones):
            leave = world.machine.run(_until_death(world), leave=life.end != "cut")
    except (AssertionError, TimewheelError) as error:
        world.violate(error if isinstance(error, Violated) else Violated("I29", f"the life broke: {error!r}"))
    world.alive = False
    if leave:
        world.journal.crash()
    world.machine.run(close(world))
    _left_behind(world, world.record)
    _pass_the_night(world, life)
    return world.lives[first.number - 1 :]


def begin(world: World, life: Life) -> LifeRecord:
    """A record of a life that begins."""
    before = world.lives[-1].after if world.lives else EMPTY
    record = LifeRecord(len(world.lives) + 1, life, len(world.log), before)
    world.lives.append(record)
    world.journal.begin(life.faults, life.commit_s, life.read_s)
    world.handlers.running.clear()
    world.limits.begin(before["queues"])
    world.forget_moves()
    world.alive = True
    world.note("life began", record.number)
    return record


async def close(world: World) -> None:
    """Complete the record of a life that has ended."""
    record, journal = world.record, world.journal
    record.longest_commit_us, record.faulted = journal.longest_commit_us, journal.faulted
    record.acknowledged = dict(world.users.acknowledged)
    record.schedules = dict(journal.book.schedules)
    world.note("life ended", record.how)
    world.counts[f"life ended: {record.how}"] += 1
    record.after = journal.book.flow.whole(await journal.inner.dump())
    record.end = len(world.log)
    seen = max((number for each in world.lives for number, *_ in each.entries), default=0)
    record.entries = await journal.inner.entries(after=seen, limit=10_000)


def _left_behind(world: World, record: LifeRecord) -> None:
    """A scheduler that has ended in order leaves no task on its loop."""
    if record.how in ("stopped", "failed", "cut") and world.loop is not None:
        left = [task.get_name() for task in asyncio.all_tasks(world.loop) if task.get_name().startswith("timewheel")]
        if left:
            world.violate(Violated("I29", f"{record.how}, and these tasks were left behind: {sorted(left)}"))


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
    world.loop = loop = asyncio.get_running_loop()
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
    scheduler = world.scheduler(world.journal, record.notices)
    world.users.begin(scheduler)
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
    heir = await Heir.stand_by(world) if life.heir else None
    world.arm(life.moves, play_move)
    drifting = asyncio.get_running_loop().create_task(_drift(world))
    await _until(world, scheduler, life)
    drifting.cancel()
    if scheduler.state is SchedulerState.RUNNING:
        await rebuilt.look(world, scheduler)
        if world.record.peaceful:
            await ends_within(PEACE_S, make_peace(world, scheduler), "peace")
    if life.end == "crash" and scheduler.state is SchedulerState.RUNNING:
        world.counts["fault: killed"] += 1
        record.how = "killed"
        return True
    if life.end == "cut" and scheduler.state is SchedulerState.RUNNING:
        record.how = "cut"
        return False
    await stop(world, scheduler, life.grace_s)
    if heir is not None:
        await heir.take_over(world)
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


async def stop(world: World, scheduler: Scheduler, grace_s: float) -> None:
    """Stop a scheduler; if it failed, a fault of its life must explain that."""
    record = world.record
    failed = scheduler.state is SchedulerState.FAILED
    if failed and not world.may_fail():
        raise Violated("I29", f"the scheduler failed, and no fault of this life explains it: {scheduler._cause!r}")
    world.note(STOP)
    record.stopped_us = world.machine.awake_us
    await ends_within(grace_s + STOP_S, scheduler.stop(grace_s), "a stop")
    failed = scheduler.state is SchedulerState.FAILED
    if failed and not world.may_fail():
        raise Violated("I29", f"the scheduler failed while it stopped: {scheduler._cause!r}")
    record.how = "failed" if failed else "stopped"
    await asyncio.sleep(LAST_WORD_S)
    if left := sorted(world.users.waiting.values()):
        raise Violated("I29", f"{record.how}, and these callers were not told: {left}")
    await world.rest()


class Heir:
    """A scheduler that stands by while another one owns the journal, and takes over when that has stopped."""

    def __init__(self, world: World) -> None:
        self.journal = world.journal.another()
        self.notices: list[Any] = []
        self.scheduler = world.scheduler(self.journal, self.notices, when_owned="wait")
        self.scheduler.notices.subscribe(lambda notice: self._heard(world, notice))

    def _heard(self, world: World, notice: object) -> None:
        """Its recovery is complete: jobs are about to start."""
        if isinstance(notice, Recovered):
            world.watch(self.scheduler)

    @classmethod
    async def stand_by(cls, world: World) -> Heir:
        """Begin to wait; reads work, writes do not."""
        heir = cls(world)
        await heir.scheduler.start()
        state = heir.scheduler.state
        demand(state is SchedulerState.STANDBY, "I22", f"{state} while another owns the journal")
        await heir.scheduler.jobs().count()
        try:
            await heir.scheduler.now("act", "nothing", {})
        except NotOwner:
            return heir
        raise Violated("I22", "who stands by has written")

    async def take_over(self, world: World) -> None:
        """Take over within a second of the other's end, and live as long again."""
        life = world.life
        await close(world)
        world.journal = self.journal
        record = begin(world, replace(life, moves=[], faults=[], heir=False))
        record.notices = self.notices
        world.users.begin(self.scheduler)
        self.journal.may_own = True
        await asyncio.sleep(TAKE_OVER_S + 20 * life.commit_s)
        state = self.scheduler.state  # a handler may have stopped it by now
        demand(record.epoch > 0, "I29", f"{state} long after the other has stopped")
        world.counts["taken over"] += 1
        record.ran = True
        await _until(world, self.scheduler, life)
        await rebuilt.look(world, self.scheduler)
        await stop(world, self.scheduler, life.grace_s)


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
