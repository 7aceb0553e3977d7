"""What must hold of any journal, told by its dumps alone: one predicate an invariant, each raising `Violated`.

    dump = await store.dump()
    check_dump(dump)                 # every law of one dump
    check_step(before, dump)         # every law of what one batch, or any number of them, made of a dump

Laws of a step hold between any two dumps of one journal, except for those of `OF_ONE_BATCH`; where jobs that ended may
be replayed, discarded or forgotten in between, say `letters=True`. What a store answers beside its dump:
`timewheel.testing.answers`.

Independent of the memory model on purpose: stores that agree with one another may all be wrong. The numbers are those
of the project's list of invariants; `SENTENCES` has them in words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from timewheel.model import AttemptRecord, AttemptState, ClockKind, JobRecord, JobState
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyLimits
from timewheel.testing.invariants_flow import (
    OF_FLOW,
    final_jobs_only_run_again,
    keys_are_within_their_limits,
    only_a_replay_changes_what_was_asked,
    only_the_ended_are_forgotten,
)
from timewheel.testing.invariants_schedules import OF_A_STEP_OF_SCHEDULES, OF_SCHEDULES
from timewheel.testing.laws import Dump, Violated, demand

__all__ = [
    "ASKED_OF_A_JOB",
    "IN_ONE_BATCH",
    "SENTENCES",
    "Dump",
    "Violated",
    "check_dump",
    "check_step",
    "demand",
    "nothing_changed",
    "one_success",
]

S = JobState

SENTENCES = {
    "I1": "An acknowledged job is never lost: after any crashes it reaches exactly one final state",
    "I3": "An unacknowledged request exists completely or not at all",
    "I4": "One idempotency key: one job; another body: refused",
    "I5": "No occurrence id is created twice, over restarts, clock steps, backfill, DST, edits",
    "I6": "No attempt starts early by the clock its job lives by",
    "I9": "A cancelled pending job never starts; the answer of cancel is the truth",
    "I10": "States move along the legal graph; final states change only by a replay",
    "I11": "Attempts are numbered 1..n without gaps for ever; a row only moves forward and never changes once final",
    "I12": "At most one open attempt per job",
    "I13": "LOST attempts spend the crash budget; RELEASED ones spend nothing",
    "I15": "Rebuilding is a pure function of the journal",
    "I16": "Recovery is idempotent: a crash at any point of it, any number of times, gives the same result",
    "I18": "Worker, queue and key limits and overlap policies hold at every instant",
    "I22": "A stale epoch writes nothing",
    "I23": "A lost lease can neither renew nor finish",
    "I24": "Recovery and reaping change only rows still in the exact state, attempt and lease that were read",
    "I29": "Liveness: when faults stop, all due jobs become final or running within a bound",
}

_NOT_COMPLETED = frozenset(JobState) - {S.COMPLETED}  # that takes an attempt, which one batch does not open and end
IN_ONE_BATCH: dict[JobState | None, frozenset[JobState]] = {  # the legal graph, as far as one batch leads
    **dict.fromkeys((None, S.SCHEDULED, S.WAITING, S.DEAD), _NOT_COMPLETED),
    **dict.fromkeys((S.CANCELLED, S.SKIPPED), _NOT_COMPLETED - {S.DEAD}),
    S.ACTIVE: frozenset(JobState),
    S.COMPLETED: frozenset({S.COMPLETED}),
}
FIXED_OF_A_JOB = (  # but see `only_a_replay_changes_what_was_asked`
    "task",
    "queue",
    "priority",
    "created_at",
    "retry",
    "timeout_us",
    "misfire_grace_us",
    "tags",
    "idempotency_key",
    "origin",
    "concurrency_key",
)
ASKED_OF_A_JOB = (*FIXED_OF_A_JOB, "arguments", "flow")
FIXED_OF_AN_ATTEMPT = ("job_id", "number", "epoch", "clock", "scheduled_at")


# ---- one dump --------------------------------------------------------------------------------------------------------


def jobs_are_complete(dump: Dump) -> None:
    """I3: a row has what its state needs and nothing else: an end when final, a reason when held or given up."""
    for job_id, job in dump["jobs"].items():
        demand(job.job_id == job_id, "I3", "a job under another's id", job)
        demand((job.finished_at is not None) == job.state.final, "I3", "an end without a final state, or none", job)
        demand(job.due_clock in (job.clock, ClockKind.STEADY), "I3", "due by a clock that nobody named", job)
        reasoned = job.state in {S.WAITING, S.DEAD, S.SKIPPED, S.CANCELLED}
        demand((job.reason is not None) == reasoned, "I3", "a reason where there is none, or none where one is", job)


def attempts_are_numbered(dump: Dump) -> None:
    """I11: the attempts of each job are 1..n, and n is what the job's row says."""
    numbers = defaultdict(list)
    for (job_id, number), attempt in dump["attempts"].items():
        demand((attempt.job_id, attempt.number) == (job_id, number), "I11", "an attempt in another's place", attempt)
        demand(job_id in dump["jobs"], "I11", "an attempt of no job", attempt)
        numbers[job_id].append(number)
    for job_id, job in dump["jobs"].items():
        found = sorted(numbers[job_id])
        demand(found == list(range(1, job.attempt + 1)), "I11", f"attempts numbered {found}", job)


def one_open_attempt(dump: Dump) -> None:
    """I12: an ACTIVE job has one open attempt, its newest; no other job has any."""
    opened = defaultdict(list)
    for (job_id, number), attempt in dump["attempts"].items():
        if attempt.state.open:
            opened[job_id].append(number)
    for job_id, job in dump["jobs"].items():
        expected = [job.attempt] if job.state is S.ACTIVE else []
        demand(opened[job_id] == expected, "I12", f"open attempts {opened[job_id]}", job)


def one_success(dump: Dump) -> None:
    """I1: a COMPLETED job has one attempt that succeeded, its newest; no other job has any."""
    successes = defaultdict(list)
    for (job_id, number), attempt in dump["attempts"].items():
        if attempt.state is AttemptState.SUCCEEDED:
            successes[job_id].append(number)
    for job_id, job in dump["jobs"].items():
        expected = [job.attempt] if job.state is S.COMPLETED else []
        demand(successes[job_id] == expected, "I1", f"attempts that succeeded: {successes[job_id]}", job)


def keys_name_their_jobs(dump: Dump) -> None:
    """I4: what is kept of an idempotency key is the job that has it, and its body's digest."""
    for (task, key), (job_id, digest) in dump["keys"].items():
        job = dump["jobs"].get(job_id)
        demand(job is not None, "I4", f"the key {key!r} of {task} names no job", job_id)
        demand((job.task, job.idempotency_key) == (task, key), "I4", f"{key!r} of {task} names another's job", job)
        demand(digest is not None, "I4", f"the key {key!r} of {task} has no digest", job)


OF_A_DUMP: tuple[Callable[[Dump], None], ...] = (
    jobs_are_complete,
    attempts_are_numbered,
    one_open_attempt,
    keys_name_their_jobs,
    *OF_SCHEDULES,
    *OF_FLOW,
)


def check_dump(dump: Dump, key_limits: KeyLimits = ONE_OF_A_KEY) -> None:
    """Every law of one dump, whatever batches were written (`one_success` holds of what schedulers write).

    `key_limits`: no claim was ever given larger ones.
    """
    for law in OF_A_DUMP:
        law(dump)
    keys_are_within_their_limits(dump, key_limits)


# ---- a step ----------------------------------------------------------------------------------------------------------


def nothing_is_forgotten(before: Dump, after: Dump) -> None:
    """I1: jobs and attempts stay (where nothing is pruned)."""
    for kind in ("jobs", "attempts"):
        gone = before[kind].keys() - after[kind].keys()
        demand(not gone, "I1", f"{kind} are gone", sorted(gone))


def states_move_along_the_graph(before: Dump, after: Dump) -> None:
    """I10: each job went where one batch may lead from where it stood."""
    for job_id, job in after["jobs"].items():
        old: JobRecord | None = before["jobs"].get(job_id)
        demand(job.state in IN_ONE_BATCH[old.state if old else None], "I10", "a step off the graph", old, job)


def final_jobs_stay(before: Dump, after: Dump) -> None:
    """I10: a final job never changes (where none is replayed, discarded or pruned)."""
    for job_id, old in before["jobs"].items():
        demand(
            not old.state.final or old == after["jobs"][job_id], "I10", "final, and changed", old, after["jobs"][job_id]
        )


def jobs_keep_what_was_asked(before: Dump, after: Dump) -> None:
    """I3: what the caller asked for never changes, but for the time; versions and attempts only grow."""
    for job_id, old in before["jobs"].items():
        new = after["jobs"].get(job_id)
        if new is None:
            continue
        for name in FIXED_OF_A_JOB:
            demand(getattr(old, name) == getattr(new, name), "I3", f"{name} changed", old, new)
        demand(new.version >= old.version, "I10", "an older version", old, new)
        demand(new.attempt >= old.attempt, "I11", "fewer attempts", old, new)


def one_attempt_a_batch(before: Dump, after: Dump) -> None:
    """I12: one batch opens at most one attempt of a job."""
    for job_id, old in before["jobs"].items():
        new = after["jobs"].get(job_id, old)
        demand(new.attempt - old.attempt in (0, 1), "I12", "attempts were skipped", old, new)


def attempts_only_move_forward(before: Dump, after: Dump) -> None:
    """I11: a row never changes once final, and what it was claimed with never changes at all."""
    for key, old in before["attempts"].items():
        new: AttemptRecord = after["attempts"].get(key, old)
        moved = old.state.open and not new.state.open
        demand(old == new or moved, "I11", "an attempt moved back, or changed", old, new)
        for name in FIXED_OF_AN_ATTEMPT:
            demand(getattr(old, name) == getattr(new, name), "I11", f"{name} changed", old, new)


WITHOUT_LETTERS: tuple[Callable[[Dump, Dump], None], ...] = (nothing_is_forgotten, final_jobs_stay)
OF_A_STEP: tuple[Callable[[Dump, Dump], None], ...] = (
    only_the_ended_are_forgotten,
    final_jobs_only_run_again,
    only_a_replay_changes_what_was_asked,
    jobs_keep_what_was_asked,
    attempts_only_move_forward,
    *OF_A_STEP_OF_SCHEDULES,
)
OF_ONE_BATCH: tuple[Callable[[Dump, Dump], None], ...] = (states_move_along_the_graph, one_attempt_a_batch)


def check_step(before: Dump, after: Dump, *, one_batch: bool = True, letters: bool = False) -> None:
    """Every law of what one batch (or any number, if not `one_batch`) made of the dump before.

    `letters`: jobs that ended may be replayed, discarded or forgotten.
    """
    for law in (() if letters else WITHOUT_LETTERS) + OF_A_STEP + (OF_ONE_BATCH if one_batch else ()):
        law(before, after)


def nothing_changed(before: Dump, after: Dump) -> None:
    """I22 and the like: two dumps are equal; names the first rows that are not."""
    for kind in before.keys() | after.keys():
        old, new = before.get(kind), after.get(kind)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for key in old.keys() | new.keys():
                demand(old.get(key) == new.get(key), "I15", f"{kind} {key} differ", old.get(key), new.get(key))
        demand(old == new, "I15", f"{kind} differ", old, new)
