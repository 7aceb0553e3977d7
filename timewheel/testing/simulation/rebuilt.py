"""I15 and what belongs to it: at a quiet moment the memory of a living scheduler is what its journal says.

A moment is quiet when nothing waits to be written and nothing is being written: then every commit has been told to
everyone. A scheduler that was started now would load the same lanes, limits and pauses, and run the same jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from timewheel import Scheduler
from timewheel.dispatch.claiming import AHEAD_US
from timewheel.model import ClockKind, JobState, SchedulerState
from timewheel.testing.invariants import Dump, demand
from timewheel.testing.simulation import rebuilt_schedules

if TYPE_CHECKING:
    from timewheel.engine import Engine
    from timewheel.testing.simulation.world import World


async def look(world: World, scheduler: Scheduler) -> bool:
    """Compare, if this is a quiet moment; whether it was."""
    engine = scheduler._engine
    if engine is None or scheduler.state is not SchedulerState.RUNNING or not _is_quiet(world, engine):
        return False  # one that drains, say because a handler has stopped it, loads nothing any more
    dump = await world.journal.inner.dump()  # without a turn of the loop: simulated reads do not wait
    world.counts["quiet moments compared"] += 1
    _pauses(engine, dump)
    _limits(world, engine, dump)
    _attempts(engine, dump)
    await _lanes(engine, world.journal.inner, dump)
    rebuilt_schedules.look(world, engine, dump)
    return True


def _is_quiet(world: World, engine: Engine) -> bool:
    return engine.committer.idle and not world.journal.busy and not world.journal.reading


def _pauses(engine: Engine, dump: Dump) -> None:
    for queue, text in dump["queues"].items():
        stored = bool(json.loads(text).get("paused"))
        demand(engine.dispatcher.limits.of(queue).paused == stored, "I15", f"{queue} is paused, or is not", text)


def _limits(world: World, engine: Engine, dump: Dump) -> None:
    """What is stored of a rate is never less strict than what was spent; not of one that is new since `update`."""
    limits = engine.dispatcher.limits
    for name, limit in (("*", limits.whole), *limits._queues.items()):
        if limit.bucket is None or world.limits.was_reshaped(name):
            continue
        spent, stored = limit.bucket.tat, dump["limits"].get(name, 0)
        demand(
            stored >= spent, "I15", f"the rate of {name} would begin anew with tokens that were spent", stored, spent
        )


def _attempts(engine: Engine, dump: Dump) -> None:
    """Every open attempt is at the gate or in a worker's hands, and every slot is one of them."""
    gate, worker = engine.dispatcher.gate, engine.worker
    for job in dump["jobs"].values():
        if job.state is JobState.ACTIVE:
            held = job.job_id in gate.waiting or worker.has(job.job_id) or job.job_id in gate._parked
            demand(held, "I15", "an open attempt that nobody has in hand", job)
    used = engine.dispatcher.limits.whole.used
    held_slots = len(gate.waiting) + worker.busy + len(engine.dispatcher._hinted)
    demand(used == held_slots, "I18", f"{used} slots are used, {held_slots} are held")


async def _lanes(engine: Engine, store: Any, dump: Dump) -> None:
    """Every SCHEDULED job below its lane's frontier is in memory."""
    lanes = {(lane.queue, lane.priority, lane.clock, lane.partition): lane.number for lane in await store.lanes()}
    loader, queued, ticker = engine.loader, engine.dispatcher.queued, engine.ticker
    waiting: Counter[tuple[int, ClockKind]] = Counter()
    for job in dump["jobs"].values():
        if job.state is not JobState.SCHEDULED:
            continue
        partition = "" if job.flow is None else job.flow.partition_key or ""  # there are too few to share lanes
        lane = lanes[job.queue, job.priority, job.due_clock, partition]
        book = loader._books.get(lane)
        if book is None or (job.due_at, job.job_id) > book.frontier:
            continue
        if job.job_id not in queued.known_ids(lane):
            waiting[lane, job.due_clock] += 1
    for (lane, kind), jobs in waiting.items():
        size = ticker.size(kind, lane)
        demand(jobs <= size, "I15", f"{jobs} jobs of lane {lane} are below its frontier, {size} in its wheel", AHEAD_US)
