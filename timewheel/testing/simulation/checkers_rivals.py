"""Checkers of jobs that are asked for in view of others: unique ones, and those that wait for others to end."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from timewheel.flow import DependencyFails, OnConflict, Uniqueness
from timewheel.model import JobRecord, JobState, WaitingReason, job_number
from timewheel.store.changes import Submitted, UniqueMet
from timewheel.testing.simulation.checking import Checker, reruns_of
from timewheel.testing.simulation.facts import Began, LifeRecord, Over
from timewheel.testing.simulation.facts_flow import Rival

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

NOT_BEGUN = (JobState.SCHEDULED, JobState.WAITING)
UNFINISHED = frozenset({"SCHEDULED", "WAITING", "ACTIVE"})


class OneOfAKind(Checker):
    """Of unique jobs there is one at a time."""

    number = "I4"
    sentence = "A unique job is not made while another stands in its way; who does, and what became of him, is told"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each submission of a unique job; and that never two of a kind are unfinished, unless one was replayed.

        Of kinds that all are asked for alike: one with a period is made beside an old one, and only it is replaced.
        """
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Rival):
                cls._answered(fact)
        again = reruns_of(world, record.end)
        asked = [fact.unique for fact in world.log[: record.end] if isinstance(fact, Rival)]
        otherwise = {one.digest for one in asked if one.period_us is not None or not set(one.states) >= UNFINISHED}
        unfinished = defaultdict(list)
        for job_id, job in record.after["jobs"].items():
            unique = None if job.flow is None else job.flow.unique
            if unique is None or unique.digest in otherwise:
                continue
            if not job.state.final and job_id not in again:
                unfinished[unique.digest].append(job)
        for jobs in unfinished.values():
            cls.demand(len(jobs) == 1, "two of a kind", *jobs)

    @classmethod
    def _answered(cls, fact: Rival) -> None:
        """Who stood in the way before the batch and after it stood there all the time."""
        unique, outcome = fact.unique, fact.outcome
        before = {job.job_id: job for job in fact.before}
        after = {job.job_id: job for job in fact.after}
        kept = [job for job in fact.before if job.job_id in after]  # the others were forgotten in the same batch
        there = [job for job in kept if all(_in_the_way(each, fact) for each in (job, after[job.job_id]))]
        if isinstance(outcome, UniqueMet):
            cls.demand(outcome.conflict == (unique.on_conflict is OnConflict.FAIL), "refused, or not", fact)
            met = after.get(outcome.job_id)
            cls.demand(met is not None and met.job_id != fact.job_id, "met nobody", fact)
            seen = [each for each in (before.get(outcome.job_id), met) if each is not None]
            in_the_way = len(seen) < 2 or any(_in_the_way(each, fact) for each in seen)  # else its batch made it
            unseen = len(seen) == 2 and seen[1].version - seen[0].version > 1  # replayed, and changed, in its batch
            cls.demand(in_the_way or unseen, "met one that is not in its way", fact)
            newest = met is not None and all(_age(job) <= _age(met) for job in there)
            cls.demand(newest, "another, newer, stood in the way", fact)
            moves = unique.on_conflict is OnConflict.RESCHEDULE and met is not None and met.state in NOT_BEGUN
            if moves and met is not None and met.reason != "overrun":
                old = before.get(met.job_id)
                moved = old is None or old.state not in NOT_BEGUN or met.version > old.version
                cls.demand(moved, "not moved", fact)
        elif outcome.created:
            cls._made(fact, outcome, unique, there, after)

    @classmethod
    def _made(
        cls, fact: Rival, outcome: Submitted, unique: Uniqueness, there: list[JobRecord], after: dict[int, JobRecord]
    ) -> None:
        if outcome.replaced is None:
            cls.demand(not there, f"made ({unique.on_conflict}) beside another", fact)
        else:
            gone = after[outcome.replaced]
            older = all(_age(job) < _age(gone) for job in there)
            cls.demand(older, "another, newer, was to be replaced", fact)
            cls.demand(unique.on_conflict is OnConflict.REPLACE, "replaced, and nobody asked for that", fact)
            ended = (gone.state, gone.reason) == (JobState.CANCELLED, "replaced")
            cls.demand(ended, "replaced, and it goes on", fact)


def _age(job: JobRecord) -> tuple[int, int]:
    """The newest of them stands in the way."""
    return job.created_at, job.job_id


def _in_the_way(job: JobRecord, fact: Rival) -> bool:
    unique = fact.unique
    recent = unique.period_us is None or fact.now.wall_us - job.created_at < unique.period_us
    return job.job_id < fact.job_id and job.state.value in unique.states and recent


class Waiters(Checker):
    """Who waits for others."""

    number = "I18"
    sentence = "A job that waits for others begins when all of them are final, and ends with them as its policy says"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Whoever waits has somebody to wait for."""
        for job in record.after["jobs"].values():
            if job.state is not JobState.WAITING or job.reason != WaitingReason.DEPENDENCY:
                continue
            states = {record.after["jobs"][other].state for other in job.flow.wait_for.job_ids}
            waits = any(not state.final for state in states)
            failed = states != {JobState.COMPLETED} and job.flow.wait_for.if_one_fails is DependencyFails.WAIT
            cls.demand(waits or failed, f"waits for others that are {sorted(states)}", job)

    @classmethod
    def all_over(cls, world: World) -> None:
        """Follow the ends of all jobs through the log."""
        flows = world.journal.book.flow.flows
        ends: dict[int, set[JobState]] = defaultdict(set)
        again = reruns_of(world, len(world.log))
        for fact in world.log:
            if isinstance(fact, Over):
                ends[fact.job_id].add(fact.state)
            elif isinstance(fact, Began):
                number = job_number(fact.job_id) or 0
                wait_for = flows[number].wait_for if number in flows else None
                if wait_for is None or number in again:
                    continue
                for other in wait_for.job_ids:
                    cls.demand(bool(ends[other]), "began before others that it waits for have ended", fact, other)
                    fine = JobState.COMPLETED in ends[other] or wait_for.if_one_fails is DependencyFails.RUN
                    cls.demand(fine, f"began, and another ended {ends[other]}", fact, other)
        for job in world.lives[-1].after["jobs"].values():
            if (job.state, job.reason) == (JobState.CANCELLED, "dependency"):
                wait_for = flows[job.job_id].wait_for
                assert wait_for is not None
                cls.demand(wait_for.if_one_fails is DependencyFails.CANCEL, "its policy is another", job)
                failed = [other for other in wait_for.job_ids if ends[other] - {JobState.COMPLETED}]
                cls.demand(bool(failed), "cancelled, and all that it waited for completed", job)
