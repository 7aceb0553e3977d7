"""Checkers of how jobs are given up: expiry, deadlines, what must not run twice, and what an error is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import AttemptRecord, AttemptState, FaultClass, JobState, job_number
from timewheel.testing.simulation.checking import Checker, attempt_of, reruns_of
from timewheel.testing.simulation.facts import Began, Ended, LifeRecord

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

S = AttemptState
F = FaultClass
BEGINS_ANEW = {S.RELEASED, S.CANCELLED}  # neither a failure nor a loss
FAULTS = {  # by the type of what was raised
    "ValueError": F.TRANSIENT,
    "Transient": F.TRANSIENT,
    "Permanent": F.PERMANENT,
    "Throttled": F.THROTTLED,
    "Ambiguous": F.AMBIGUOUS,
}
OF_FRAGILE = {"LookupError": F.PERMANENT, "ArithmeticError": F.THROTTLED, "OSError": F.AMBIGUOUS}
FAILED = {S.FAILED_RETRYABLE, S.FAILED_PERMANENT}


class InTime(Checker):
    """What has expired does not begin, and what is given up never does."""

    number = "I14"
    sentence = "A job begins neither at its deadline or after it, nor, unless it began before, from its expiry on"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start of this life, by the wall clock."""
        again = reruns_of(world, record.end)
        for fact in world.log[record.begin : record.end]:
            number = job_number(fact.job_id) or 0 if isinstance(fact, Began) else 0
            flow = world.journal.book.flow.flows.get(number)
            if not isinstance(fact, Began) or flow is None:
                continue
            if any(each.attempt < fact.attempt for each in again.get(number, ())):
                continue  # a replay takes both away
            wall_us = fact.now.wall_us
            cls.demand(flow.deadline is None or wall_us < flow.deadline, "began after its deadline", fact, flow)
            former = [record.after["attempts"][number, each].state for each in range(1, fact.attempt)]
            if set(former) <= BEGINS_ANEW:
                cls.demand(flow.expires_at is None or wall_us < flow.expires_at, "began, and had expired", fact, flow)
        for job in record.after["jobs"].values():
            if job.state is JobState.DEAD and job.reason == "deadline":
                cls.demand(job.flow is not None and job.flow.deadline is not None, "a deadline that it has not", job)
            if job.state is JobState.SKIPPED and job.reason == "expired":
                fits = job.flow is not None and job.flow.expires_at is not None and not job.failures and not job.losses
                cls.demand(fits and job.finished_at >= job.flow.expires_at, "expired, and had not", job)


class NeverTwice(Checker):
    """What must not run twice does not, unless a person says so."""

    number = "I14"
    sentence = "A job that is not idempotent does not run again after an attempt of which nobody knows how it ended"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Attempts that follow another."""
        again = reruns_of(world, record.end)
        for (job_id, number), attempt in record.after["attempts"].items():
            job = record.after["jobs"][job_id]
            if number == 1 or job.flow is None or job.flow.idempotent:
                continue
            former = record.after["attempts"][job_id, number - 1]
            if _is_ambiguous(former):
                replayed = any(each.attempt == number - 1 for each in again.get(job_id, ()))
                cls.demand(replayed, "run again, and nobody knows how it ended", former, attempt)


def _is_ambiguous(attempt: AttemptRecord) -> bool:
    return attempt.state in (S.TIMED_OUT, S.LOST) or attempt.fault == F.AMBIGUOUS


class Faults(Checker):
    """What a failure is called."""

    number = "I14"
    sentence = "A failure is of the class that its exception, or its task, says, and a permanent one ends its job"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The attempts of the handlers that raised in this life."""
        for fact in world.log[record.begin : record.end]:
            attempt = attempt_of(record, fact) if isinstance(fact, Ended) else None
            if attempt is None or attempt.state not in FAILED or not isinstance(fact, Ended):
                continue
            job = record.after["jobs"][attempt.job_id]
            known = FAULTS | (OF_FRAGILE if job.task == "fragile" else {})
            if fact.how in known:
                cls.demand(attempt.fault == known[fact.how], f"{fact.how} is called {attempt.fault}", fact, attempt)
                permanent = attempt.state is S.FAILED_PERMANENT
                cls.demand(permanent == (attempt.fault == F.PERMANENT), "permanent, or not", fact, attempt)


class FlowAsAsked(Checker):
    """A job has the flow control that was asked for."""

    number = "I3"
    sentence = "A job has the flow control that was asked for"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """What was written of each job, against what its caller said."""
        for job_id, job in record.after["jobs"].items():
            what = world.users.asked.get(world.journal.tags.get(job_id, ""))
            if what is None or job.origin is not None or not what["tag"].startswith("flow"):
                continue
            flow = job.flow
            said = (what.get("rate_key"), what.get("cost", 1), what.get("partition_key"), what["task"] != "fragile")
            kept = (None, 1, None, True)
            if flow is not None:
                kept = (flow.rate_key, flow.cost, flow.partition_key, flow.idempotent)
            cls.demand(kept == said, f"{kept}, not {said}", job)
            unique = None if flow is None or flow.unique is None else flow.unique.on_conflict.value
            cls.demand(unique == what.get("unique", {}).get("on_conflict"), "another rule for rivals", job, what)
