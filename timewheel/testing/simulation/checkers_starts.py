"""Checkers of what the handlers saw and the verbs answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, AttemptState, JobState, job_number, job_text
from timewheel.testing import invariants
from timewheel.testing.simulation.checking import Checker, attempt_of, job_of
from timewheel.testing.simulation.facts import Answered, Asked, Began, Ended, LifeRecord, Shaped, Token
from timewheel.testing.simulation.facts_flow import Rerun
from timewheel.testing.simulation.handlers import FINE

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

S = AttemptState
AGAIN = {S.FAILED_RETRYABLE, S.TIMED_OUT, S.LOST, S.RELEASED}  # it is over, and its job is pending again
AT_ANY_END = {S.TIMED_OUT, S.LOST, S.RELEASED, S.QUEUED}  # too late, never recorded, or given back
ALLOWED = {
    FINE: {S.SUCCEEDED},
    "Permanent": {S.FAILED_PERMANENT},
    "ExceptionGroup": {S.FAILED_PERMANENT},
    "Snooze": {S.RELEASED},
    "CancelledError": {S.CANCELLED, S.FAILED_RETRYABLE},
    "LookupError": {S.FAILED_PERMANENT, S.FAILED_RETRYABLE},  # what each task calls it: see `checkers_ends`
}
PATIENCE_US = SECOND_US  # a claim that takes longer may make a crash pass a rate
SLOW_US = 5 * SECOND_US


def job_number_of(fact: Began | Ended) -> int:
    """The id of its job."""
    return job_number(fact.job_id) or 0


class NeverEarly(Checker):
    """No handler begins early, twice, or without a claim that is durable."""

    number = "I6"
    sentence = invariants.SENTENCES["I6"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start of this life, by the clock its attempt counts."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Began):
                attempt = attempt_of(record, fact)
                cls.demand(attempt is not None, "began without a durable claim", fact)
                assert attempt is not None
                early_us = attempt.scheduled_at - fact.now.on(attempt.clock)
                cls.demand(early_us <= 0, f"began {early_us} us early", fact, attempt)

    @classmethod
    def all_over(cls, world: World) -> None:
        """One start an attempt."""
        seen = set()
        for fact in world.log:
            if isinstance(fact, Began):
                key = (fact.job_id, fact.attempt)
                cls.demand(key not in seen, f"attempt {key} began twice", fact)
                seen.add(key)


class TrueOutcomes(Checker):
    """What an attempt is recorded as is what its handler did."""

    number = "I25"
    sentence = "An error never becomes a success, nor a success an error"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The end of each handler of this life, and the attempts that say how one ended."""
        ends = {}
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Ended):
                attempt = attempt_of(record, fact)
                allowed = ALLOWED.get(fact.how, {S.FAILED_RETRYABLE}) | AT_ANY_END
                cls.demand(attempt is not None and attempt.state in allowed, f"ended {fact.how}", fact, attempt)
                ends[job_number_of(fact), fact.attempt] = fact.how
        for key, attempt in record.after["attempts"].items():
            if attempt.state is S.SUCCEEDED and key not in record.before["attempts"]:
                cls.demand(ends.get(key) == FINE, f"SUCCEEDED, but its handler ended {ends.get(key)}", attempt)
        for job_id, job in record.after["jobs"].items():
            if job.state is JobState.COMPLETED:
                expected = json.dumps(world.journal.tags[job_id])
                kept = job.result == expected if job.result_omitted is None else job.result is None
                cls.demand(kept, f"its handler returned {expected}", job)


class VerbsAreTrue(Checker):
    """The answer of cancel is the truth, and that of reschedule."""

    number = "I9"
    sentence = "A cancelled pending job never starts; the answer of cancel is the truth, in every interleaving"

    @classmethod
    def all_over(cls, world: World) -> None:
        """Follow each job through the log."""
        final = world.lives[-1]
        asked: dict[int, tuple[int, Asked]] = {}
        for place, fact in enumerate(world.log):
            if isinstance(fact, Asked) and fact.verb in ("cancel", "reschedule"):
                asked[fact.number] = (place, fact)
            elif isinstance(fact, Answered) and fact.number in asked and fact.how == "ok":
                begin, question = asked[fact.number]
                if fact.verb == "cancel":
                    cls._cancelled(world, final, begin, place, fact)
                elif fact.answer == "moved":
                    cls._moved(world, begin, question)

    @classmethod
    def _cancelled(cls, world: World, final: LifeRecord, begin: int, place: int, answered: Answered) -> None:
        since = begin if answered.answer == "cancelled" else place
        for at, fact in enumerate(world.log[begin:], begin):
            if isinstance(fact, Rerun) and job_text(fact.job_id) == answered.job_id:
                return  # replayed since, perhaps before the answer came
            if at >= since and isinstance(fact, Began) and fact.job_id == answered.job_id:
                attempt = attempt_of(final, fact)
                over_before = at < place and attempt is not None and attempt.state in AGAIN
                cls.demand(over_before, f"began, and its cancel was answered {answered.answer}", answered, fact)
        job = job_of(final, answered.job_id)
        state = None if job is None else job.state
        allowed = {"cancelled": {JobState.CANCELLED}, "requested": {JobState.CANCELLED, JobState.COMPLETED}}
        if answered.answer in allowed:
            cls.demand(state in allowed[answered.answer], f"{state} after {answered.answer}", answered, job)

    @classmethod
    def _moved(cls, world: World, begin: int, question: Asked) -> None:
        """Until somebody moves it again it does not begin before the time that was asked for."""
        if question.tag.startswith("flow"):
            return  # rates move it, rivals too
        attempts = world.lives[-1].after["attempts"]
        for fact in world.log[begin:]:
            if isinstance(fact, Asked) and fact.number != question.number and fact.job_id == question.job_id:
                return
            if isinstance(fact, Began) and fact.job_id == question.job_id:
                last = attempts[job_number_of(fact), fact.attempt]
                if fact.elapsed_us == question.elapsed_us and last.state in AGAIN:
                    continue  # it was past the gate when this was asked, and pending again when it was answered
                rows = [attempts[job_number_of(fact), number] for number in range(1, fact.attempt + 1)]
                claimed = any((row.clock, row.scheduled_at) == question.target for row in rows)
                cls.demand(claimed, "began without ever having been due when it was moved to", question, fact, *rows)
                return


class Rates(Checker):
    """Starts in any window w never exceed rate * w + burst, across restarts too."""

    number = "I17"
    sentence = "Starts in any window w never exceed rate*w + burst, across restarts too"

    @classmethod
    def all_over(cls, world: World) -> None:
        """Windows that a change of the limits, or a crash within a slow claim, would excuse are left out."""
        names = ["*", *world.plan.limits.get("queues", {})]
        for name in names:
            limits = world.plan.limits if name == "*" else world.plan.limits["queues"][name]
            if limits.get("rate"):
                cls._queue(world, name, limits["rate"])

    @classmethod
    def _queue(cls, world: World, name: str, rate: dict[str, float]) -> None:
        excused = {record.end for record in world.lives if record.longest_commit_us > PATIENCE_US}
        starts: list[Token] = []
        counting = True
        for place, fact in enumerate(world.log):
            if place in excused:
                starts = []
            if isinstance(fact, Shaped) and fact.queue in ("*", name):
                counting = fact.queue == "*"
                starts = starts if counting else []
            if isinstance(fact, Token) and counting and name in ("*", fact.queue):
                starts.append(fact)
                cls._window(name, starts, rate)

    @classmethod
    def _window(cls, name: str, starts: list[Token], rate: dict[str, float]) -> None:
        """The newest start against each before it; by steady time, which a boot may set back a little, or elapsed."""
        newest = starts[-1]
        for number, start in enumerate(reversed(starts), 1):
            steady_us, elapsed_us = newest.steady_us - start.steady_us, newest.elapsed_us - start.elapsed_us
            window_s = max(steady_us, elapsed_us) / SECOND_US
            allowed = rate["count"] / rate["per_s"] * window_s + rate["burst"]
            cls.demand(number <= allowed + 1e-6, f"{number} starts of {name} in {window_s} s", newest, start)
            if number > 60:  # a window that long hides nothing that a shorter one does not show
                return


class AtOnce(Checker):
    """Limits hold at every instant."""

    number = "I18"
    sentence = "Worker, queue and key limits and overlap policies hold at every instant"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start found a slot free."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Began):
                cls.demand(fact.running <= fact.most, f"{fact.running} of {fact.queue} run at once", fact)
                cls.demand(fact.in_all <= fact.most_in_all, f"{fact.in_all} run at once", fact)


class StepsAreRecorded(Checker):
    """A step is noticed and written down; steady time does not care."""

    number = "I21"
    sentence = "After a step nothing fires early and nothing is lost; steps are recorded"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The recorded steps add up to those that were made, if the scheduler had the time to see them."""
        if not record.clean or record.stopped_us - record.last_step_us < SLOW_US or not record.stepped_us:
            return
        seen = [json.loads(data)["difference_us"] for _, _, kind, data in record.entries if kind == "clock_step"]
        tolerance_us = SECOND_US * 3 // 10 * (len(record.stepped_us) + len(seen) + 1)
        off_us = abs(sum(seen) - sum(record.stepped_us))
        cls.demand(off_us <= tolerance_us, "steps that were not recorded", record.stepped_us, seen)
