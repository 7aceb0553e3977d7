"""I29 for flow control: once the faults are over, who waits for others goes on or is let go, and operations end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timewheel import Scheduler
from timewheel.flow import DependencyFails
from timewheel.model import JobRecord, JobState, WaitingReason, job_text
from timewheel.store.letters import OperationState
from timewheel.testing.laws import demand

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SETTLE_S = 400


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
