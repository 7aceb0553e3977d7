"""I29 for flow control: once the faults are over, who waits for others goes on or is let go, and operations end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel import Scheduler
from timewheel.flow import DependencyFails
from timewheel.model import JobRecord, JobState, WaitingReason, job_text
from timewheel.store.letters import OperationState
from timewheel.testing.laws import demand
from timewheel.testing.simulation.facts import Began
from timewheel.testing.simulation.flow_plans import BANK, KEYED

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SETTLE_S = 400
PROBE = "probe fair"
CLOSES_S = 12  # it is open for 2 s at most; then one after the other may try
CONTEST = "contest"
CONTENDERS = 36  # of each queue: many more than may be claimed at once
MANY = 16  # of which two run at a time
SOON = 6  # after those that are claimed already: twice as many as may run


async def settle(world: World, scheduler: Scheduler) -> None:
    """Have operations end; then cancel whoever waits for what will never complete, until nobody does."""
    if not world.limits.tasks:
        return
    if "brittle" in world.limits.tasks:
        await world.operators.force("auto")
    for _ in range(SETTLE_S):
        await asyncio.sleep(1)
        dump = await world.journal.inner.dump()
        jobs = dump["jobs"]
        goes_on = [job for job in jobs.values() if not job.state.final and not waits_in_vain(job, jobs)]
        running = [each for each in dump["operations"].values() if each.state is OperationState.RUNNING]
        if goes_on or running:
            continue
        stuck = [job for job in jobs.values() if not job.state.final]
        if not stuck:
            return
        for job in stuck:
            await (await scheduler.get_job(job_text(job.job_id))).cancel("nobody completes what it waits for")
    demand(False, "I29", f"not settled after {SETTLE_S} s of peace", *goes_on[:5], *running[:5])


async def fair(world: World) -> None:
    """The one job of a tenant does not wait for the many of another."""
    if not world.limits.tasks:
        return
    what = {"script": {"ends": ["ok"], "takes_s": 0.2}, "queue": "narrow", "clock": "now"}
    many = [{**what, "tag": f"{PROBE} {number}", "partition_key": "many"} for number in range(MANY)]
    await asyncio.gather(*map(world.users.submit, many))
    await asyncio.sleep(0.05)
    begin = len(world.log)
    await world.users.submit({**what, "tag": f"{PROBE} one", "partition_key": "one"})
    await asyncio.sleep(MANY * 0.2)
    starts = [fact.tag for fact in world.log[begin:] if isinstance(fact, Began) and fact.tag.startswith(PROBE)]
    demand(f"{PROBE} one" in starts[:SOON], "I7", "the one job of a tenant waits for the many of another", starts)


async def shares(world: World) -> None:
    """Two queues that both wait the whole time have starts by their weights, but for what was claimed before and after.

    A queue of weight w is a start, and as many as may run at once, from its share at most: each 1/w on its scale.
    """
    if not world.plan.limits.get(CONTEST):
        return
    weights = {KEYED: world.plan.limits["queues"][KEYED]["weight"], "default": 1}
    at_once = world.plan.limits["concurrency"]
    jobs = []
    for queue in weights:
        what = {"queue": queue, "script": {"ends": ["ok"], "takes_s": 0.1}, "clock": "after", "delay_s": 0.5}
        jobs += [{**what, "tag": f"{CONTEST} {queue} {number}"} for number in range(CONTENDERS)]
    begin = len(world.log)
    await asyncio.gather(*map(world.users.submit, jobs))
    await asyncio.sleep(2 + 2 * CONTENDERS * 0.1)
    started = dict.fromkeys(weights, 0)
    for fact in world.log[begin:]:
        if isinstance(fact, Began) and fact.tag.startswith(CONTEST) and fact.queue in weights:
            started[fact.queue] += 1
            if started[fact.queue] > CONTENDERS - 2 * at_once - 1:
                break  # from here on there may be room for all that wait
    scaled = {queue: started[queue] / weight for queue, weight in weights.items()}
    allowed = sum((1 + at_once) / weight for weight in weights.values())
    apart = abs(scaled[KEYED] - scaled["default"])
    world.counts["queues that share by their weights"] += 1
    demand(apart <= allowed, "I7", f"queues that weigh {weights} began {started}: {apart:.2f} apart", allowed)


async def closes(world: World, scheduler: Scheduler) -> None:
    """The breaker of a dependency that fails no more closes."""
    if "brittle" not in world.limits.tasks:
        return
    what = {"script": {"ends": ["ok"]}, "task": "brittle", "clock": "now"}
    await asyncio.gather(*(world.users.submit({**what, "tag": f"probe bank {number}"}) for number in range(6)))
    await asyncio.sleep(CLOSES_S)
    state = scheduler.dependency(BANK).state()
    demand(state.breaker == "CLOSED", "I29", "a breaker does not close although nothing fails", state)


def waits_in_vain(job: JobRecord, jobs: dict[int, JobRecord]) -> bool:
    """Whether it waits for one that does not go on: that waits in vain itself, or has ended, and that will not do."""
    if job.state is not JobState.WAITING or job.reason != WaitingReason.DEPENDENCY or job.flow is None:
        return False
    assert job.flow.wait_for is not None
    others = [jobs[other] for other in job.flow.wait_for.job_ids]
    if any(not other.state.final and not waits_in_vain(other, jobs) for other in others):
        return False
    if any(not other.state.final for other in others):
        return True
    failed = any(other.state is not JobState.COMPLETED for other in others)
    return failed and job.flow.wait_for.if_one_fails is DependencyFails.WAIT
