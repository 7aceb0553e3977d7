"""The last life: no more faults. Everything must come to an end within a bound, every loop must tick, and starts must
be on time again.
"""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING

from timewheel import Job, JobState, Scheduler
from timewheel.model import SECOND_US
from timewheel.testing.invariants import demand
from timewheel.testing.ordered_loop import tasks_of_here
from timewheel.testing.simulation import peace_flow, peace_schedules
from timewheel.testing.simulation.facts import Began
from timewheel.testing.simulation.handlers import SUCCEED

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

DRAIN_S = 400  # steps of 2 s; the slowest rate lets 4 a second start
BETWEEN_S = 1  # two that run one by one: writing the end, telling the next, its rate
OPEN = (JobState.SCHEDULED, JobState.WAITING, JobState.ACTIVE)
TICKS_S = 35  # more than the loader sweeps every
BOUND_S = 1.3  # a look at the clocks a second, and what follows from it


async def make_peace(world: World, scheduler: Scheduler) -> None:
    """Let everything end, and see that the scheduler is as good as new."""
    for queue in ("default", *world.plan.limits.get("queues", {})):
        await world.users.queue("resume", queue, {})
        await world.users.queue("update", queue, {**world.plan.limits.get("queues", {}).get(queue, {})})
    behind_us = world.latest_wall_us - world.machine.clock.wall_us()
    world.step(behind_us / SECOND_US + 7200)  # whatever was scheduled by a clock that was set back
    await peace_schedules.settle(world)
    await peace_flow.settle(world, scheduler)
    await drain(scheduler)
    await peace_schedules.drained(world)
    await on_time(world)
    await told(world)
    await patient(world)
    await peace_flow.fair(world)
    await peace_flow.shares(world)
    await peace_flow.closes(world, scheduler)
    await meddled(world)
    await peace_schedules.on_time(world)
    await tick(world)
    await numbers(world, scheduler)


async def drain(scheduler: Scheduler) -> None:
    """I29: every job becomes final within the bound, or when all that share a key could have run one by one."""
    bound_s = max(DRAIN_S, sum([_alone_s(job) async for job in scheduler.jobs(state=OPEN)]))
    for _ in range(math.ceil(bound_s / 2)):
        await asyncio.sleep(2)
        if not await scheduler.jobs(state=OPEN).count():
            return
    left = [job async for job in scheduler.jobs(state=OPEN)]
    demand(False, "I29", f"{len(left)} jobs are not final after {bound_s:.0f} s of peace", *left[:5])


def _alone_s(job: Job[object]) -> float:
    """How long nobody else with its concurrency key runs because of it, at most; 0: it has none.

    A schedule under SERIALIZE that is quicker than its jobs has more of them wait with every slot.
    """
    if job.record.concurrency_key is None:
        return 0
    script = job.args[1]
    attempts = next((number for number, how in enumerate(script["ends"], 1) if how in SUCCEED), len(script["ends"]))
    spans = (script.get(name, 0) for name in ("takes_s", "stays_s", "swallows_s"))
    hangs_s = (job.record.timeout_us or 0) / SECOND_US
    return float(attempts * (BETWEEN_S + sum(spans) + hangs_s))


async def tick(world: World) -> None:
    """I29: every loop of the engine ticks."""
    counts = world.counts
    before = counts["checks"], counts["pages of the due index"]
    await asyncio.sleep(TICKS_S)
    demand(counts["checks"] - before[0] >= TICKS_S // 2, "I29", "the housekeeper does not tick")
    known = bool(world.journal.tags)
    demand(not known or counts["pages of the due index"] > before[1], "I29", "the loader does not look")


async def on_time(world: World) -> None:
    """I7: with capacity free, starts are on time: plainly, after a forward step, and after a suspend."""
    await _probe(world, "probe plain", 0.5, 0.05)
    await _probe(world, "probe step", 30, BOUND_S, step_s=60)
    await _probe(world, "probe suspend", 100, BOUND_S, suspend_s=200)
    await _probe(world, "probe back", 2, 0.05 + 2, step_s=-1)


async def _probe(
    world: World,
    tag: str,
    delay_s: float,
    bound_s: float,
    *,
    step_s: float = 0,
    suspend_s: float = 0,
) -> None:
    machine = world.machine
    what = {"tag": tag, "script": {"ends": ["ok"]}, "clock": "after" if suspend_s else "at", "delay_s": delay_s}
    await world.users.submit(what)
    due = machine.now() + timedelta(seconds=delay_s)
    await asyncio.sleep(0.1)
    if step_s:
        world.step(step_s)
    machine.suspend(suspend_s)
    from_s = (max(due, machine.now()) - machine.now()).total_seconds()
    since_us = world.elapsed_us
    await asyncio.sleep(from_s + bound_s)
    began = [fact for fact in world.log if isinstance(fact, Began) and fact.tag == tag]
    demand(len(began) == 1, "I7", f"{tag} did not begin within {bound_s} s of its time", due)
    late_s = (began[0].elapsed_us - since_us) / SECOND_US - from_s
    demand(late_s <= bound_s, "I7", f"{tag} began {late_s:.3f} s late", due)


async def told(world: World) -> None:
    """I29: who waits for a job hears at once that it has ended."""
    await world.users.submit({"tag": "probe told", "script": {"ends": ["ok"]}, "clock": "after", "delay_s": 0.5})
    since_us = world.elapsed_us
    await world.users.wait("probe told", 30)
    waited_s = (world.elapsed_us - since_us) / SECOND_US
    demand(waited_s <= 0.6, "I29", f"who waited for a job was told after {waited_s:.3f} s, not after 0.5 s")


async def patient(world: World) -> None:
    """I19: a job with a misfire grace that waits for a rate, a slot or a worker is not skipped."""
    tags = [f"probe grace {number}" for number in range(8)]
    what = {"script": {"ends": ["ok"]}, "queue": "tight", "clock": "now", "misfire_grace_s": 0}
    await asyncio.gather(*(world.users.submit({"tag": tag, **what}) for tag in tags))
    await asyncio.sleep(10)
    states = {tag: (await world.users.jobs[tag].refresh()).state for tag in tags}
    demand({*states.values()} == {JobState.COMPLETED}, "I19", "skipped, and it only waited for its turn", states)


async def meddled(world: World) -> None:
    """I29: a stranger cancels every task of the scheduler, and it goes on."""
    for task in tasks_of_here():
        if task.get_name().startswith("timewheel"):
            task.cancel()
    await asyncio.sleep(1)
    await _probe(world, "probe meddled", 0.5, 0.05)


async def numbers(world: World, scheduler: Scheduler) -> None:
    """I30: what the scheduler says of itself is what the journal says."""
    statistics = await scheduler.statistics()
    demand(statistics.running == 0, "I30", "handlers run, and no job is open", statistics)
    demand(sum(depth.scheduled for depth in statistics.depths) == 0, "I30", "jobs are counted that are not", statistics)
    dump = await world.journal.inner.dump()
    counted = await scheduler.jobs().count()
    demand(counted == len(dump["jobs"]), "I30", f"{counted} jobs are counted, {len(dump['jobs'])} are there")
