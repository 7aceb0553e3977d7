"""What must hold of flow control, dead letters and retention in any journal: laws of `timewheel.testing.invariants`.

keys_are_within_their_limits(dump, limits)   # besides: where the same limits were given all the time
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from timewheel.flow import NO_FLOW, Flow
from timewheel.model import JobRecord, JobState, WaitingReason
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyLimits
from timewheel.testing.laws import Dump, demand

S = JobState
RUN_AGAIN = frozenset({S.DEAD, S.SKIPPED, S.CANCELLED})  # what a replay takes


def flow_of(job: JobRecord) -> Flow:
    """The flow control of a job, whether it has any or not."""
    return job.flow or NO_FLOW


def waits_for_jobs(job: JobRecord) -> bool:
    """Whether a job waits until others have ended."""
    return job.state is S.WAITING and job.reason == WaitingReason.DEPENDENCY


def holds_its_key(job: JobRecord) -> bool:
    """Whether a job holds its concurrency key, if it has one."""
    return job.state is S.ACTIVE or (job.state is S.WAITING and job.reason == WaitingReason.OVERRUN)


# ---- one dump --------------------------------------------------------------------------------------------------------


def only_dead_letters_are_discarded(dump: Dump) -> None:
    """I3: what was discarded is DEAD."""
    for job in dump["jobs"].values():
        demand(job.discarded_at is None or job.state is S.DEAD, "I3", "discarded, and not DEAD", job)


def what_is_waited_for_is_there(dump: Dump) -> None:
    """I1, I18: a job that waits for others names them, and none of them was forgotten."""
    for job in dump["jobs"].values():
        if not waits_for_jobs(job):
            continue
        wait_for = flow_of(job).wait_for
        demand(bool(wait_for and wait_for.job_ids), "I18", "waits for no jobs", job)
        for job_id in wait_for.job_ids if wait_for else ():
            demand(job_id in dump["jobs"], "I1", "waits for a job that is not there", job, job_id)


def operations_are_whole(dump: Dump) -> None:
    """I3: an operation lies under its own number."""
    for number, record in dump["operations"].items():
        demand(record.number == number, "I3", "an operation under another's number", record)


def keys_are_within_their_limits(dump: Dump, limits: KeyLimits = ONE_OF_A_KEY) -> None:
    """I18: of the jobs with one concurrency key no more run than each of them allows."""
    holders: dict[str, list[JobRecord]] = defaultdict(list)
    for job in dump["jobs"].values():
        if job.concurrency_key is not None and holds_its_key(job):
            holders[job.concurrency_key].append(job)
    for key, jobs in holders.items():
        least = min(limits.of(job.task, job.queue) for job in jobs)
        demand(len(jobs) <= least, "I18", f"{len(jobs)} jobs of {key!r}, and {least} may", *jobs)


OF_FLOW: tuple[Callable[[Dump], None], ...] = (
    only_dead_letters_are_discarded,
    what_is_waited_for_is_there,
    operations_are_whole,
)


# ---- a step ----------------------------------------------------------------------------------------------------------


def only_the_ended_are_forgotten(before: Dump, after: Dump) -> None:
    """I1: jobs that are not final stay; attempts go with their job, and not without it."""
    for job_id in before["jobs"].keys() - after["jobs"].keys():
        demand(before["jobs"][job_id].state.final, "I1", "forgotten before it has ended", before["jobs"][job_id])
    for job_id, number in before["attempts"].keys() - after["attempts"].keys():
        demand(job_id not in after["jobs"], "I1", "an attempt is gone, and its job is there", job_id, number)


def final_jobs_only_run_again(before: Dump, after: Dump) -> None:
    """I10: a final job changes by being discarded, or by running again; one that completed never does."""
    for job_id, old in before["jobs"].items():
        new: JobRecord | None = after["jobs"].get(job_id)
        if not old.state.final or new is None or new == old:
            continue
        if old.state is S.DEAD and new.state is S.DEAD and new.version == old.version:
            given = (old.discarded_at is None) and new.discarded_at is not None
            demand(given, "I10", "DEAD, and changed otherwise than by a discard", old, new)
            continue
        demand(old.state in RUN_AGAIN, "I10", "completed, and changed", old, new)
        demand(new.version > old.version, "I10", "final, and changed without a replay", old, new)


def only_a_replay_changes_what_was_asked(before: Dump, after: Dump) -> None:
    """I3: arguments are replaced, and deadline and expiry taken away, only where a job runs again."""
    for job_id, old in before["jobs"].items():
        new: JobRecord | None = after["jobs"].get(job_id)
        if new is None or (old.arguments, old.flow) == (new.arguments, new.flow):
            continue
        demand(new.version > old.version, "I3", "changed without a replay", old, new)
        freed = None if old.flow is None else old.flow._replace(expires_at=None, deadline=None)
        demand(new.flow in (old.flow, freed), "I3", "another flow", old, new)
