"""Checkers of dead letters: replays and discards, one or many, and what is forgotten."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from timewheel.model import SECOND_US, JobState, job_text
from timewheel.store.changes import KEY_KEEPING_US
from timewheel.store.letters import OperationState, PruneRule
from timewheel.testing.simulation.checking import Checker, job_of
from timewheel.testing.simulation.facts import Answered, Asked, LifeRecord, Over
from timewheel.testing.simulation.facts_flow import Forgotten, Rerun
from timewheel.testing.simulation.operators import DISCARD, REPLAY

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

RUN_AGAIN = {JobState.DEAD, JobState.SKIPPED, JobState.CANCELLED}


class RunAgain(Checker):
    """A replay is what was asked for and answered, once."""

    number = "I10"
    sentence = "What has ended runs again when an operator says so, once for each time, and that is written down"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The replays of this life against the answers and the audit."""
        log = world.log[record.begin : record.end]
        single: Counter[str] = Counter()
        for fact in log:
            if isinstance(fact, Rerun):
                cls.demand(fact.state in RUN_AGAIN, f"{fact.state} runs again", fact)
                single[job_text(fact.job_id)] += fact.operation is None
        asked = Counter(fact.job_id for fact in log if isinstance(fact, Asked) and fact.verb == REPLAY)
        said = [fact for fact in log if isinstance(fact, Answered) and fact.verb == REPLAY]
        told = Counter(fact.job_id for fact in said if fact.how == "ok" and fact.answer == "replayed")
        late = Counter(fact.job_id for fact in said if fact.how == "ok" and fact.answer != "replayed")
        for job_id in single.keys() | asked.keys():
            fits = told[job_id] <= single[job_id] <= asked[job_id] - late[job_id]
            cls.demand(fits, f"{job_id}: {single[job_id]} replays, {told[job_id]} answers", *said)
        written = Counter(_subject(data) for _, _, kind, data in record.entries if kind == "audit")
        done = Counter((REPLAY, job_text(each.job_id), each.operation) for each in log if isinstance(each, Rerun))
        for key in done.keys() | {key for key in written if key[0] == REPLAY}:
            cls.demand(done[key] == written[key], f"{done[key]} replays, {written[key]} entries in the audit", key)
        cls._discards(record, said=[fact for fact in log if isinstance(fact, Answered) and fact.verb == DISCARD])

    @classmethod
    def _discards(cls, record: LifeRecord, said: list[Answered]) -> None:
        for fact in said:
            if fact.answer == "discarded":
                job = job_of(record, fact.job_id)
                kept = job is not None and (job.discarded_at is not None or job.version > 1)
                cls.demand(kept, "discarded, and it is not", fact, job)


def _subject(data: str) -> tuple[Any, ...]:
    entry = json.loads(data)
    return entry.get("action"), entry.get("job"), entry.get("operation")


class Canaries(Checker):
    """An operation on many tries a few first."""

    number = "I10"
    sentence = "A replay of many touches no more than its canaries before these have completed, and keeps its rate"

    @classmethod
    def all_over(cls, world: World) -> None:
        """Each operation, through the log."""
        asked = {}
        for number, each in world.lives[-1].after["operations"].items():
            cls.demand(each.state is not OperationState.RUNNING, "still runs when all was over", each)
            asked[job_text(number).replace("job-", "")] = json.loads(each.request)
        done: dict[str, list[Rerun]] = defaultdict(list)
        completed: dict[int, int] = {}
        for place, fact in enumerate(world.log):
            if isinstance(fact, Over) and fact.state is JobState.COMPLETED:
                completed[fact.job_id] = place
            elif isinstance(fact, Rerun) and fact.operation is not None:
                terms = asked.get(fact.operation.rpartition("-")[2])
                cls.demand(terms is not None, "an operation that is not kept", fact)
                assert terms is not None
                former = done[fact.operation]
                cls.demand(fact.job_id not in {each.job_id for each in former}, "replayed twice by one", fact)
                if len(former) >= terms["canary"]:
                    tried = former[: terms["canary"]]
                    fine = all(each.job_id in completed for each in tried)
                    cls.demand(fine, "went on before its canaries have completed", fact, *tried)
                former.append(fact)
                cls._rate(former, terms)

    @classmethod
    def _rate(cls, done: list[Rerun], terms: dict[str, Any]) -> None:
        """By the times at which they were to be due."""
        newest = done[-1]
        for number, each in enumerate(reversed(done), 1):
            window_s = (newest.due_at - each.due_at) / SECOND_US
            allowed = terms["count"] * SECOND_US / terms["per_us"] * window_s + terms["burst"]
            cls.demand(number <= allowed + 1e-3, f"{number} replays in {window_s} s", newest, each, terms)


class Remembered(Checker):
    """Only what retention says is forgotten."""

    number = "I1"
    sentence = "Only jobs that ended long enough ago are forgotten, and none that a key or another job still needs"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each job that was forgotten in this life, by what the plan says."""
        ages = world.plan.limits.get("retention") or {}
        lives = world.lives[: world.lives.index(record) + 1]
        furthest_us = max((now.wall_us for life in lives for now in life.watched), default=0)  # keys may be gone since
        for fact in world.log[record.begin : record.end]:
            if not isinstance(fact, Forgotten):
                continue
            job = fact.job
            cls.demand(job.state.final and job.finished_at is not None, "forgotten before it has ended", fact)
            assert job.finished_at is not None
            cls.demand(any(_names(rule, fact) for rule in fact.rules), "forgotten, and no rule names it", fact)
            age = ages.get(f"{job.state.value.lower()}_s")
            if job.state is JobState.DEAD and job.discarded_at is not None:
                mine = [each for each in (age, ages.get("discarded_s")) if each is not None]
                age = min(mine, default=None)
            cls.demand(age is not None, "forgotten, and to be kept for ever", fact)
            kept_us = max(fact.now.wall_us, furthest_us) - job.finished_at
            held = job.idempotency_key is not None and kept_us < KEY_KEEPING_US
            cls.demand(not held, "forgotten, and its key is kept", fact)
            cls.demand(not fact.needed, "forgotten, and another waits for it", fact)


def _names(rule: PruneRule, fact: Forgotten) -> bool:
    job = fact.job
    ended = job.finished_at
    if job.state is JobState.DEAD and not rule.letters:
        ended = job.discarded_at
    fits = rule.state is job.state and rule.queue in (None, job.queue)
    return fits and ended is not None and ended < rule.ended_before
