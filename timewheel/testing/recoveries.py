"""What recovery may make of a journal: laws of the dump before it and the one after it, whatever happened between.

    check_recovered(before, after, epoch, tasks, now)   # `epoch`: the owner's that recovered to the end

They hold for a recovery that died half way, any number of times, and was begun again by the next owner (I16).
"""

from __future__ import annotations

from dataclasses import replace

from timewheel.flow import Flow
from timewheel.model import LAST_CHANCE_LOSSES, AttemptState, JobRecord, JobState, Now, WaitingReason
from timewheel.testing.invariants_flow import flow_of, waits_for_jobs
from timewheel.testing.invariants_schedules import nobody_waits_in_vain
from timewheel.testing.laws import Dump, demand

S = JobState


def lost_attempts_are_settled_once(before: Dump, after: Dump, epoch: int, now: Now) -> None:
    """I13, I16: each open attempt of a former owner is LOST, spends one loss, and its job goes on or is given up."""
    for job_id, job in before["jobs"].items():
        if not _is_lost(before, job, epoch):
            continue
        new, attempt = after["jobs"][job_id], after["attempts"][job_id, job.attempt]
        demand(attempt.state is AttemptState.LOST, "I16", "its owner is gone, and it is not LOST", attempt)
        demand((new.failures, new.losses) == (job.failures, job.losses + 1), "I13", "miscounted", job, new)
        told = S.SCHEDULED
        if job.cancel_requested is not None:
            told = S.CANCELLED
        elif new.losses > LAST_CHANCE_LOSSES or _is_given_up(flow_of(job), now):
            told = S.DEAD
        demand(new.state is told, "I13", f"should be {told}", job, new)


def held_jobs_are_released(before: Dump, after: Dump, tasks: tuple[str, ...]) -> None:
    """I16: whoever waited for a handler of a former owner, or for a name that is known now, is due when it was."""
    for job_id, job in before["jobs"].items():
        if _is_released(job, tasks):
            new = after["jobs"][job_id]
            went = (new.state, new.reason, new.due_at, new.due_clock) == (S.SCHEDULED, None, job.due_at, job.due_clock)
            demand(went, "I16", "not released", job, new)


def recovery_leaves_the_rest(before: Dump, after: Dump, epoch: int, tasks: tuple[str, ...]) -> None:
    """I24: nothing but lost attempts, their jobs and released jobs changes."""
    for job_id in before["jobs"].keys() | after["jobs"].keys():
        old, new = before["jobs"].get(job_id), after["jobs"].get(job_id)
        may = old is not None and (
            _is_lost(before, old, epoch) or _is_released(old, tasks) or (new is not None and _took_over(old, new))
        )
        demand(may or old == new, "I24", "recovery changed a job that it had no business with", old, new)
    for key in before["attempts"].keys() | after["attempts"].keys():
        attempt, now = before["attempts"].get(key), after["attempts"].get(key)
        may = attempt is not None and attempt.state.open and attempt.epoch < epoch
        demand(may or attempt == now, "I24", "recovery changed an attempt that was not lost", attempt, now)


def check_recovered(before: Dump, after: Dump, epoch: int, tasks: tuple[str, ...], now: Now) -> None:
    """Every law of a recovery; `tasks` are the names that it knew, `now` is when it was (the clock stood still)."""
    lost_attempts_are_settled_once(before, after, epoch, now)
    held_jobs_are_released(before, after, tasks)
    recovery_leaves_the_rest(before, after, epoch, tasks)
    nobody_waits_in_vain(after)


def _is_lost(before: Dump, job: JobRecord, epoch: int) -> bool:
    return job.state is S.ACTIVE and bool(before["attempts"][job.job_id, job.attempt].epoch < epoch)


def _is_released(job: JobRecord, tasks: tuple[str, ...]) -> bool:
    if job.state is not S.WAITING:
        return False
    return job.reason == WaitingReason.OVERRUN or (job.reason == WaitingReason.UNRESOLVABLE and job.task in tasks)


def _is_given_up(flow: Flow, now: Now) -> bool:
    """Whether a job whose attempt was lost does not go on: it may not run twice, or it is too late."""
    return not flow.idempotent or (flow.deadline is not None and flow.deadline <= now.wall_us)


def _took_over(old: JobRecord, new: JobRecord) -> bool:
    """Whether a job that waited for another to end is due now, when it was, or has ended; and nothing else changed."""
    if old.state is not S.WAITING or old.reason in (WaitingReason.OVERRUN, WaitingReason.UNRESOLVABLE):
        return False
    ended = replace(old, state=S.CANCELLED, finished_at=new.finished_at)  # for what it waited for did not complete
    return new == replace(old, state=S.SCHEDULED, reason=None) or (waits_for_jobs(old) and new == ended)
