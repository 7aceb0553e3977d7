"""Checkers of what a scheduler tells beside its jobs: numbers, late results, epochs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from timewheel.events import AttemptsEnded, JobsEnded, JobsScheduled, LateResult
from timewheel.model import AttemptState, JobState, job_text
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import LifeRecord
from timewheel.testing.simulation.facts_flow import Rerun

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

S = AttemptState


class Numbers(Checker):
    """What was counted is what the journal holds."""

    number = "I30"
    sentence = "Metrics equal the journal at quiescence"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """In a clean life the notices add up to the difference of the dumps."""
        if not record.clean:
            return
        made = sum(sum(each.queues.values()) for each in record.notices if isinstance(each, JobsScheduled))
        new = record.after["jobs"].keys() - record.before["jobs"].keys()
        cls.demand(made == len(new), f"{made} jobs were counted, {len(new)} were made")
        ends: Counter[JobState] = Counter()
        for each in record.notices:
            if isinstance(each, AttemptsEnded):
                ends.update(state for state in each.job_states if state.final)
            elif isinstance(each, JobsEnded):
                ends[each.state] += each.jobs
        final = Counter(job.state for job in record.after["jobs"].values() if job.state.final)
        final.subtract(job.state for job in record.before["jobs"].values() if job.state.final)
        final.update(fact.state for fact in world.log[record.begin : record.end] if isinstance(fact, Rerun))
        final = +final
        cls.demand(ends == final, f"counted {dict(ends)}, the journal has {dict(final)}")
        cls._failures(record)

    @classmethod
    def _failures(cls, record: LifeRecord) -> None:
        told = [each.faults for each in record.notices if isinstance(each, AttemptsEnded)]
        faults = Counter(fault for column in told for fault in column if fault is not None)
        found = Counter(each.fault for each in record.after["attempts"].values() if each.fault is not None)
        found.subtract(each.fault for each in record.before["attempts"].values() if each.fault is not None)
        cls.demand(faults == +found, f"failures: counted {dict(faults)}, the journal has {dict(found)}")


class LateResults(Checker):
    """What a handler brings too late is recorded as ignored."""

    number = "I23"
    sentence = "A lost lease can neither renew nor finish; its late result is recorded as ignored"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Every late result of a clean life has its entry, and its attempt keeps its end."""
        if not record.clean:
            return
        late = [each for each in record.notices if isinstance(each, LateResult)]
        written = [json.loads(data) for _, _, kind, data in record.entries if kind == "late_result"]
        for each in late:
            attempt = record.after["attempts"][each.job_id, each.attempt]
            cls.demand(attempt.state in (S.TIMED_OUT, S.RELEASED), "late, and yet its attempt says", attempt)
            told = {"job": job_text(each.job_id), "attempt": each.attempt} in written
            cls.demand(told or attempt.state is S.RELEASED, "a late result without an entry", each)


class NothingStale(Checker):
    """A stale epoch writes nothing."""

    number = "I22"
    sentence = "A stale epoch writes nothing"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """What was tried under a former epoch is not there, and epochs only rise."""
        cls.demand(all(kind != "stale" for _, _, kind, _ in record.entries), "a stale batch was written")
        former = [each.epoch for each in world.lives[: record.number - 1] if each.ran]
        cls.demand(not record.ran or all(epoch < record.epoch for epoch in former), "an epoch twice", former)
