"""Who waits for a key, and who is let go on, as the answers say: laws of `timewheel.testing.outcomes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from timewheel.model import JobRecord, JobState, WaitingReason
from timewheel.store.changes import (
    Cancel,
    Claim,
    Claimed,
    Planned,
    Reschedule,
    Settle,
    Settled,
    TakeOver,
    Unheld,
    Unhold,
)
from timewheel.testing.invariants_schedules import holds_its_key
from timewheel.testing.laws import demand
from timewheel.testing.step import Step

S = JobState


def keys_make_jobs_wait(step: Step) -> None:
    """I18: a claim sets aside only jobs whose key is held, and these wait until they are released."""
    released = {job_id for _, job_id in _released(step)}
    held = {job.concurrency_key for job in step.after["jobs"].values() if holds_its_key(job)}
    freed = {step.after["jobs"][job_id].concurrency_key for kind, job_id in _released(step) if kind is Unhold}
    for _, outcome in step.of(Claim):
        assert isinstance(outcome, Claimed)
        for job_id in outcome.waiting:
            job = step.after["jobs"][job_id]
            waits = (job.state, job.reason) == (S.WAITING, WaitingReason.KEY)
            demand(waits or job_id in released, "I18", "its key is held, and it does not wait", job)
            demand(job.concurrency_key is not None, "I18", "waits for a key, and has none", job)
            demand(job.concurrency_key in held | freed, "I18", "waits for a key that is free", job, outcome)


def _released(step: Step) -> Iterator[tuple[type[Unhold | TakeOver], int]]:
    for kind in (Unhold, TakeOver):
        for _, outcome in step.of(kind):
            assert isinstance(outcome, Unheld)
            yield from ((kind, job_id) for _, _, job_id in outcome.places)


def unheld_jobs_waited(step: Step) -> None:
    """I24: what is released waited, for this reason, and is due when it was."""
    reasons = _why_they_wait(step)
    moved = {change.job_id for change in step.changes if isinstance(change, Reschedule | Settle)}
    for unhold, outcome in step.of(Unhold):
        assert isinstance(outcome, Unheld)
        demand(len(outcome.places) <= max(unhold.limit, 0), "I24", "more than the limit", unhold, outcome)
        for _, due_at, job_id in outcome.places:
            old, new = step.before["jobs"].get(job_id), step.after["jobs"][job_id]
            demand((new.state, new.due_at) == (S.SCHEDULED, due_at), "I24", "released elsewhere", outcome, new)
            demand(reasons.get(job_id) == unhold.reason, "I24", "released, and did not wait for this", unhold, old, new)
            if old is not None and job_id not in moved:
                demand(old.due_at == due_at, "I24", "due at another time", old, new)


def the_first_who_may_goes_on(step: Step) -> None:
    """I18, I29: a take-over lets go the first that waits for what is free, where it is asked to look, and no other."""
    reasons = _why_they_wait(step)
    jobs: dict[int, JobRecord | None] = dict(step.after["jobs"])
    takes = list(step.of(TakeOver))
    for take, outcome in reversed(takes):  # they come last: before each, what it and the later ones released waited
        assert isinstance(outcome, Unheld)
        for _, due_at, job_id in outcome.places:
            job = step.after["jobs"][job_id]
            demand(jobs[job_id] is not None, "I18", "let go twice", job)
            demand((job.state, job.due_at) == (S.SCHEDULED, due_at), "I18", "let go elsewhere", job, outcome)
            jobs[job_id] = None
        told = sorted(_who_may_go(step, jobs, reasons, take))
        seen = [job_id for _, _, job_id in outcome.places]
        demand(seen == told, "I18", f"should let {told} go", take, outcome)


def _why_they_wait(step: Step) -> dict[int, str | None]:
    """For what each job waits, or last waited, at the end of the batch."""
    reasons = {job_id: job.reason for job_id, job in step.before["jobs"].items() if job.state is S.WAITING}
    for settle, outcome in step.of(Settle):
        if isinstance(outcome, Settled) and outcome.job_state is S.WAITING:
            reasons[settle.job_id] = settle.reason
    for outcome in step.outcomes:
        if isinstance(outcome, Planned):
            reasons |= dict.fromkeys(outcome.waiting, WaitingReason.OVERLAP.value)
    for outcome in step.outcomes:
        if isinstance(outcome, Claimed):
            reasons |= dict.fromkeys(outcome.waiting, WaitingReason.KEY.value)
    return reasons


def _who_may_go(
    step: Step, jobs: dict[int, JobRecord | None], reasons: dict[int, str | None], take: TakeOver
) -> Iterator[int]:
    after = step.after["jobs"]
    named = after.keys() if take.everything else after.keys() & set(_named(step))
    waiting = {job_id: reasons.get(job_id) for job_id, job in jobs.items() if job is None or job.state is S.WAITING}
    for schedule in {after[job_id].origin.schedule for job_id in named if after[job_id].origin is not None}:
        mine = [job for job in after.values() if job.origin is not None and job.origin.schedule == schedule]
        unfinished = [job for job in mine if not job.state.final]
        if all(waiting.get(job.job_id) == WaitingReason.OVERLAP for job in unfinished):
            yield from _first(unfinished)
    for key in {after[job_id].concurrency_key for job_id in named} - {None}:
        mine = [job for job in after.values() if job.concurrency_key == key]
        if not any(holds_its_key(job) for job in mine):
            yield from _first(job for job in mine if waiting.get(job.job_id) == WaitingReason.KEY)


def _first(jobs: Iterable[JobRecord]) -> list[int]:
    return [job_id for _, job_id in sorted((job.due_at, job.job_id) for job in jobs)[:1]]


def _named(step: Step) -> Iterator[int]:
    """Where something can have ended."""
    for change, outcome in zip(step.changes, step.outcomes, strict=True):
        if isinstance(change, Settle | Cancel | Reschedule):
            yield change.job_id
        elif isinstance(change, Claim):
            yield from change.job_ids
        elif isinstance(change, Unhold) and isinstance(outcome, Unheld):
            yield from (job_id for _, _, job_id in outcome.places)


OF_WAITS: tuple[Callable[[Step], None], ...] = (keys_make_jobs_wait, unheld_jobs_waited, the_first_who_may_goes_on)
