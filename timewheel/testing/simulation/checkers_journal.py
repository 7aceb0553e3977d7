"""Checkers of what the journal holds after each life."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from timewheel.model import BUDGET_STATES, LAST_CHANCE_LOSSES, AttemptState, JobState
from timewheel.store.changes import KEY_KEEPING_US
from timewheel.testing import invariants
from timewheel.testing.invariants_flow import final_jobs_only_run_again
from timewheel.testing.simulation.checking import Checker, job_of, reruns_of, tagged
from timewheel.testing.simulation.facts import Answered, LifeRecord
from timewheel.testing.simulation.facts_flow import Rerun

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World


class Kept(Checker):
    """What anyone was told exists, exists, and ends once."""

    number = "I1"
    sentence = invariants.SENTENCES["I1"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Acknowledged jobs are there; in a clean life also those whose caller did not wait for the answer."""
        invariants.nothing_is_forgotten(record.before, record.after)
        invariants.one_success(record.after)
        for job_id, tag in record.acknowledged.items():
            cls.demand(job_of(record, job_id) is not None, f"{job_id} (tag {tag}) was acknowledged and is gone")
        if record.clean:
            cls._given_up(world, record)

    @classmethod
    def _given_up(cls, world: World, record: LifeRecord) -> None:
        tags = {tag for tag, job in tagged(world, record) if job.idempotency_key is None}
        tags |= {tag for tag, what in world.users.asked.items() if not what.keys().isdisjoint(("key", "unique"))}
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Answered) and fact.how == "gave up" and fact.verb == "submit":
                cls.demand(fact.tag in tags, f"the submission of {fact.tag} was withdrawn with its caller", fact)

    @classmethod
    def all_over(cls, world: World) -> None:
        """Every job is final."""
        for job in world.lives[-1].after["jobs"].values():
            cls.demand(job.state.final, "not final when all was over", job)


class Whole(Checker):
    """A job has everything that was asked for."""

    number = "I3"
    sentence = invariants.SENTENCES["I3"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each job is what its caller asked for."""
        invariants.jobs_are_complete(record.after)
        invariants.jobs_keep_what_was_asked(record.before, record.after)
        for tag, job in tagged(world, record):
            what = world.users.asked.get(tag)
            cls.demand(what is not None, "a job that nobody asked for", job)
            assert what is not None
            cls.demand(job.task == what.get("task", "act"), "another task", job, what)
            cls.demand(job.queue == what.get("queue", "default"), "another queue", job, what)
            cls.demand(job.priority == what.get("priority", 5), "another priority", job, what)
            cls.demand((job.timeout_us is None) == ("timeout_s" not in what), "another timeout", job, what)
            grace = what.get("misfire_grace_s")
            cls.demand(job.misfire_grace_us == (None if grace is None else round(grace * 1e6)), "another grace", job)
            cls.demand(job.idempotency_key == what.get("key"), "another key", job, what)
            cls.demand(job.concurrency_key == what.get("concurrency_key"), "another concurrency key", job, what)


class OneKey(Checker):
    """One idempotency key is one job, for as long as it is kept."""

    number = "I4"
    sentence = invariants.SENTENCES["I4"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """No two jobs have one key, unless the first was final for longer than a key is kept."""
        invariants.keys_name_their_jobs(record.after)
        jobs = defaultdict(list)
        for job in record.after["jobs"].values():
            if job.idempotency_key is not None:
                jobs[job.task, job.idempotency_key].append(job)
        for (task, key), holders in jobs.items():
            for job in holders[:-1]:
                ended = job.finished_at
                expired = ended is not None and world.latest_wall_us - ended >= KEY_KEEPING_US
                cls.demand(expired, f"{len(holders)} jobs have the key {key!r} of {task}", *holders)
        cls._conflicts(world, record)

    @classmethod
    def _conflicts(cls, world: World, record: LifeRecord) -> None:
        """Who was refused has asked for another body than the job that he was shown; who was not, for the same."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Answered) and fact.answer.startswith("IdempotencyConflict"):
                job = job_of(record, fact.answer.split()[1])
                cls.demand(job is not None, "refused because of a job that does not exist", fact)
                tag = world.journal.tags[job.job_id] if job is not None else ""
                cls.demand(tag != fact.tag, "refused though the body is the same", fact, job)


class LegalSteps(Checker):
    """Final is final."""

    number = "I10"
    sentence = invariants.SENTENCES["I10"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """A final job is as it was, unless somebody has it run again, or discards it."""
        final_jobs_only_run_again(record.before, record.after)
        again = {fact.job_id for fact in world.log[record.begin : record.end] if isinstance(fact, Rerun)}
        for job_id, old in record.before["jobs"].items():
            new = record.after["jobs"][job_id]
            stays = not old.state.final or old.version == new.version or job_id in again
            cls.demand(stays, "final, and changed without a replay", old, new)


class Numbered(Checker):
    """Attempts count up, and stay as they ended."""

    number = "I11"
    sentence = invariants.SENTENCES["I11"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """1..n, forward only."""
        invariants.attempts_are_numbered(record.after)
        invariants.attempts_only_move_forward(record.before, record.after)


class OneOpen(Checker):
    """At most one open attempt a job."""

    number = "I12"
    sentence = invariants.SENTENCES["I12"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """An ACTIVE job has one, others none; after a life that ended in order nothing is ACTIVE."""
        invariants.one_open_attempt(record.after)
        if record.clean:
            active = [job for job in record.after["jobs"].values() if job.state is JobState.ACTIVE]
            cls.demand(not active, "still ACTIVE after a stop", *active)


class CrashBudget(Checker):
    """Each attempt spends what its end costs, and no budget is passed."""

    number = "I13"
    sentence = "LOST attempts spend the crash budget, and end in DEAD (crash_loop); RELEASED ones spend nothing"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The counters are the sums of the attempts, and DEAD jobs have spent what their reason says."""
        again = reruns_of(world, record.end)
        spent: dict[int, Counter[AttemptState]] = defaultdict(Counter)
        for (job_id, number), attempt in record.after["attempts"].items():
            if job_id not in again or number > again[job_id][-1].attempt:
                spent[job_id][attempt.state] += 1
        for job_id, job in record.after["jobs"].items():
            states = spent[job_id]
            failures = sum(states[state] for state in BUDGET_STATES)
            cls.demand(job.losses == states[AttemptState.LOST], f"losses, but {dict(states)}", job)
            cls.demand(job.failures == failures, f"failures, but {dict(states)}", job)
            cls.demand(job.failures <= job.retry.max_attempts, "more failures than allowed", job)
            last_loss = job.losses == LAST_CHANCE_LOSSES + 1
            cls.demand(job.losses <= LAST_CHANCE_LOSSES + 1, "lost too often", job)
            crash_loop = job.state is JobState.DEAD and job.reason == "crash_loop"
            otherwise = job.state is JobState.CANCELLED or job.reason in ("deadline", "ambiguous")
            cls.demand(crash_loop == last_loss or otherwise, "a crash loop, or none", job)
            if job.state is JobState.DEAD:
                cls._reason(job, states)

    @classmethod
    def _reason(cls, job: object, states: Counter[AttemptState]) -> None:
        reason, spent = job.reason, job.failures  # type: ignore[attr-defined]  # a JobRecord
        permanent = states[AttemptState.FAILED_PERMANENT] == 1
        cls.demand(permanent == (reason == "permanent"), "permanent, or not", job)
        if reason == "exhausted":
            cls.demand(spent == job.retry.max_attempts, "not exhausted", job)  # type: ignore[attr-defined]
        known = ("permanent", "exhausted", "gave_up", "crash_loop", "deadline", "ambiguous")
        cls.demand(reason in known, "DEAD for no reason that exists here", job)


class RecoveryRepeats(Checker):
    """What a recovery that was cut short leaves is a part of what a whole one leaves."""

    number = "I16"
    sentence = "Recovery is idempotent: a crash at any point of it, any number of times, gives the same result"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Only what was open is LOST, and all of that once the recovery is complete."""
        for key, attempt in record.after["attempts"].items():
            before = record.before["attempts"].get(key)
            if attempt.state is AttemptState.LOST:
                cls.demand(before is not None, "an attempt of this life is LOST", attempt)
                was_open = before is not None and (before.state.open or before == attempt)
                cls.demand(was_open, "LOST, and was not open", before, attempt)
            elif before is not None and before.state.open:
                cls.demand(not record.ran and attempt == before, "open before, and not LOST", before, attempt)


class OnlyWhatWasRead(Checker):
    """Recovery changes nothing else."""

    number = "I24"
    sentence = invariants.SENTENCES["I24"]

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """A life that died before it ran has changed ACTIVE and WAITING jobs only."""
        if record.ran:
            return
        cls.demand(record.before["jobs"].keys() == record.after["jobs"].keys(), "jobs were made in a recovery")
        for job_id, old in record.before["jobs"].items():
            new = record.after["jobs"][job_id]
            touched = old.state in (JobState.ACTIVE, JobState.WAITING)
            cls.demand(old == new or touched, "changed by a recovery", old, new)
