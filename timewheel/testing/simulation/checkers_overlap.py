"""Checkers of overlap and of concurrency keys: at each commit, and at each start of a handler."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timewheel.model import JobRequest, JobState, OriginKind, job_number, job_text
from timewheel.planning.overlap import ONE_AT_A_TIME
from timewheel.planning.policies import OverlapKind
from timewheel.schedule_records import Fate, SkipReason, UnfinishedJob
from timewheel.testing.simulation.book import is_open
from timewheel.testing.simulation.checkers_time import held_up_us
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import Asked, Began, Carried, Ended, Freed, LifeRecord, Note, Over, Requested
from timewheel.testing.simulation.facts_flow import Rerun
from timewheel.testing.simulation.standing import FORCED
from timewheel.testing.simulation.told import PlanSeen, plan_seen
from timewheel.testing.simulation.world import STOP

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

K = OverlapKind


@dataclass(slots=True)
class Known:
    """A job of a schedule: since which place in the log it may start; whether it must be alone then."""

    schedule: str
    alone: bool
    freed: int | None


class Overlaps(Checker):
    """What a slot may start beside."""

    number = "I18"
    sentence = (
        "Overlap policies hold at every instant: never two jobs of one schedule unless its policy, force or a replay "
        "lets them"
    )

    @classmethod
    def all_over(cls, world: World) -> None:
        """Follow every job of a schedule through the log."""
        jobs: dict[int, Known] = {}
        running: dict[int, Began] = {}
        forced: Counter[str] = Counter()
        again: set[int] = set()
        lives = {record.begin for record in world.lives}
        for place, fact in enumerate(world.log):
            if place in lives:
                running.clear()
            if isinstance(fact, Asked) and fact.verb == FORCED:
                forced[fact.tag] += 1
            elif isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                cls._made(plan, place, jobs, forced)
            elif isinstance(fact, Freed):
                for job_id in fact.job_ids:
                    if job_id in jobs and jobs[job_id].freed is None:  # else it waited for its key
                        jobs[job_id].freed = place
            elif isinstance(fact, Rerun):
                again.add(fact.job_id)  # by hand: as if forced
            elif isinstance(fact, Began):
                cls._began(fact, jobs, running, again)
            elif isinstance(fact, Ended | Over):  # a handler that overran its last attempt goes on after its job
                running.pop(fact.job_id if isinstance(fact, Over) else job_number(fact.job_id) or 0, None)

    @classmethod
    def _made(cls, plan: PlanSeen, place: int, jobs: dict[int, Known], forced: Counter[str]) -> None:
        fact = plan.fact
        kind = plan.definition.overlap.kind
        starts = {job_id for _, _, job_id in fact.made.places}
        left = {job.job_id: job for job in fact.left}
        for job in fact.change.jobs:
            assert job.origin is not None
            is_forced = job.origin.kind is OriginKind.MANUAL and cls._may_be_forced(plan, job, left, forced)
            free = job.origin.kind is OriginKind.BACKFILL or is_forced
            jobs[job.job_id] = Known(fact.schedule, kind in ONE_AT_A_TIME and not free, None)
            if job.job_id in starts:
                jobs[job.job_id].freed = place
                if not free:
                    cls._starts(plan, job, left)
            elif not free and not job.origin.catch_up:
                cls._waits(plan, left)

    @classmethod
    def _may_be_forced(
        cls, plan: PlanSeen, job: JobRequest, left: dict[int, UnfinishedJob], forced: Counter[str]
    ) -> bool:
        """Whether a trigger goes past the policy, and as many as do were forced."""
        others = [other for other in left if other != job.job_id]
        held = plan.fact.change.hold or not others or plan.definition.overlap.kind in (K.SERIALIZE, K.ALLOW)
        if held:
            return plan.definition.overlap.kind is K.ALLOW
        cls.demand(forced[plan.fact.schedule] > 0, "triggered past the policy, and nobody forced that", plan.fact)
        forced[plan.fact.schedule] -= 1
        return True

    @classmethod
    def _starts(cls, plan: PlanSeen, job: JobRequest, left: dict[int, UnfinishedJob]) -> None:
        """A job that may start at once; `left` are the unfinished ones, itself included, after its commit."""
        policy = plan.definition.overlap
        others = [other for other in left.values() if other.job_id != job.job_id]
        if policy.kind in ONE_AT_A_TIME or policy.kind is K.QUEUE_ALL:
            alone = not any(map(is_open, others))
            cls.demand(alone, f"{policy.kind}, and it may start beside another", job, others, plan.fact)
        elif policy.kind is K.ALLOW and policy.limit is not None:
            cls.demand(len(left) <= policy.limit, f"{len(left)} at once, {policy.limit} are allowed", plan.fact)

    @classmethod
    def _waits(cls, plan: PlanSeen, left: dict[int, UnfinishedJob]) -> None:
        """A job was made that waits for others of its schedule."""
        policy = plan.definition.overlap
        waiting = sum(not is_open(job) for job in left.values())
        cls.demand(policy.kind not in (K.SKIP, K.ALLOW, K.SERIALIZE), f"waits under {policy.kind}", plan.fact)
        if policy.kind in (K.QUEUE_ONE, K.REPLACE):
            cls.demand(waiting == 1, f"{waiting} wait under {policy.kind}", left, plan.fact)
        elif policy.limit is not None:
            cls.demand(waiting <= policy.limit, f"{waiting} wait, {policy.limit} may", plan.fact)

    @classmethod
    def _began(cls, fact: Began, jobs: dict[int, Known], running: dict[int, Began], again: set[int]) -> None:
        number = job_number(fact.job_id) or 0
        known = jobs.get(number)
        if known is not None:
            cls.demand(known.freed is not None, "began, and it was never let go", fact)
            for other_id, other in running.items():
                beside = jobs[other_id]
                if other_id == number or not again.isdisjoint((other_id, number)):
                    continue
                if known.alone and beside.schedule == known.schedule:
                    later = (beside.freed or 0) > (known.freed or 0)
                    cls.demand(later, "began while one before it ran", fact, other)
            running[number] = fact


class OverlapReasons(Checker):
    """Who was skipped or coalesced for an overlap had another job of the schedule beside it."""

    number = "I18"
    sentence = "A slot is left out for an overlap only while there is one"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each such row, by what was unfinished lately."""
        slack_us = 500_000 + 3 * record.longest_commit_us
        schedule_of: dict[int, str] = {}
        busy_us: dict[str, int] = {}
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Over):
                job = record.after["jobs"].get(fact.job_id)
                if job is not None and job.origin is not None:
                    busy_us[job.origin.schedule] = fact.elapsed_us
            elif isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                recently = fact.elapsed_us - busy_us.get(fact.schedule, -1 << 60) <= slack_us
                cls._rows(plan, recently)
                schedule_of |= dict.fromkeys(plan.jobs, fact.schedule)

    @classmethod
    def _rows(cls, plan: PlanSeen, recently: bool) -> None:
        fact, policy = plan.fact, plan.definition.overlap
        there = len(fact.busy) + len(fact.change.jobs)
        for row in fact.change.rows:
            if row.reason == SkipReason.OVERLAP and row.count == 1:
                cls.demand(recently or there > 0, "an overlap with nothing", row, fact)
                allowed = (K.SKIP, K.QUEUE_ONE, K.REPLACE)
                cls.demand(policy.kind in allowed, f"an overlap under {policy.kind}", row, fact)
            elif row.reason == SkipReason.OVERLAP_LIMIT and policy.limit is not None and not recently:
                many = there if policy.kind is K.ALLOW else sum(not is_open(job) for job in fact.left)
                cls.demand(many >= policy.limit, f"the limit of {policy.limit} was not reached", row, fact)
            if row.fate is Fate.COALESCED and row.job_id not in plan.jobs:
                waits = {job.job_id for job in fact.busy if not is_open(job)}
                cls.demand(recently or row.job_id in waits, "joined one that does not wait", row, fact)


class Replacements(Checker):
    """Whom REPLACE is to replace is asked to end."""

    number = "I18"
    sentence = "A job that is to be replaced is asked to end, and soon"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """In a life whose commits did not fail; after each plan that replaces."""
        if record.faulted or record.meddled or not record.ran:
            return
        slack_us = 2_500_000 + 6 * record.longest_commit_us + held_up_us(record)
        owed: dict[int, int] = {}
        for fact in world.log[record.begin : record.end]:
            for job_id, until_us in owed.items():
                cls.demand(fact.elapsed_us <= until_us, "to be replaced, and not asked to end", job_text(job_id), fact)
            if isinstance(fact, Requested | Over):
                owed.pop(fact.job_id, None)
            elif isinstance(fact, Note) and fact.what == STOP:
                return
            elif isinstance(fact, Carried) and fact.change.supersede and fact.change.jobs:
                for job in fact.left:
                    spared = job.job_id in {each.job_id for each in fact.change.jobs} or job.state is JobState.WAITING
                    if not spared and not job.cancel_requested:
                        owed.setdefault(job.job_id, fact.elapsed_us + slack_us)
