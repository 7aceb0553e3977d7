"""Who waits for a key, and who is let go on, as the answers say: laws of `timewheel.testing.outcomes`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from timewheel.flow import DependencyFails
from timewheel.model import JobRecord, JobState, WaitingReason
from timewheel.store.changes import (
    Cancel,
    Claim,
    Claimed,
    Defer,
    Planned,
    Reschedule,
    Settle,
    Settled,
    Submit,
    Submitted,
    TakeOver,
    Unheld,
    Unhold,
)
from timewheel.testing.invariants_flow import flow_of, holds_its_key, waits_for_jobs
from timewheel.testing.laws import demand
from timewheel.testing.outcomes_flow import NOWHERE
from timewheel.testing.step import Step

S = JobState


def keys_make_jobs_wait(step: Step) -> None:
    """I18: a claim sets aside only jobs whose key is held, and these wait until they are released."""
    released = {job_id for _, job_id in _released(step)}
    held = {job.concurrency_key for job in step.after["jobs"].values() if holds_its_key(job)}
    freed = {step.after["jobs"][job_id].concurrency_key for kind, job_id in _released(step) if kind is Unhold}
    for claim, outcome in step.of(Claim):
        assert isinstance(outcome, Claimed)
        overran = {holder.key for holder in claim.key_limits.overran.values()}
        for job_id in outcome.waiting:
            job = step.after["jobs"][job_id]
            waits = (job.state, job.reason) == (S.WAITING, WaitingReason.KEY)
            demand(waits or job_id in released, "I18", "its key is held, and it does not wait", job)
            demand(job.concurrency_key is not None, "I18", "waits for a key, and has none", job)
            demand(job.concurrency_key in held | freed | overran, "I18", "waits for a key that is free", job, outcome)


def _released(step: Step) -> Iterator[tuple[type[Unhold | TakeOver], int]]:
    for kind in (Unhold, TakeOver):
        for _, outcome in step.of(kind):
            assert isinstance(outcome, Unheld)
            yield from ((kind, job_id) for _, _, job_id in outcome.places)


def unheld_jobs_waited(step: Step) -> None:
    """I24: what is released waited, for this reason, and is due when it was."""
    reasons = _why_they_wait(step)
    moved = {change.job_id for change in step.changes if isinstance(change, Reschedule | Settle)} | step.moved()
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
        for job_id in outcome.cancelled:
            job = step.after["jobs"][job_id]
            ended = (S.CANCELLED, "dependency", step.stamp.now.wall_us)
            demand((job.state, job.reason, job.finished_at) == ended, "I18", "not ended", job, outcome)
            jobs[job_id] = None
        told = sorted(_who_may_go(step, jobs, reasons, take))
        goes, ends = _by_their_dependencies(step, jobs, reasons, take)
        seen = [job_id for _, _, job_id in outcome.places]
        demand(seen == sorted([*told, *goes]), "I18", f"should let {told} and {goes} go", take, outcome)
        demand(outcome.cancelled == sorted(ends), "I18", f"should end {ends}", take, outcome)


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
    for submit, outcome in step.of(Submit):
        if isinstance(outcome, Submitted) and outcome.created and outcome.lane in NOWHERE:
            reasons[submit.request.job_id] = WaitingReason.DEPENDENCY.value
    released = {job_id for _, job_id in _released(step)}
    for defer, _ in step.of(Defer):
        for job_id, _, due_at in defer.rows:
            job = step.after["jobs"].get(job_id)
            waits = job is not None and (job.state, job.reason) == (S.WAITING, WaitingReason.TASK)
            if due_at is None and (waits or (job_id in released and job_id not in reasons)):
                reasons[job_id] = WaitingReason.TASK.value
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
    overran = take.key_limits.overran
    for key in {*take.keys, *(after[job_id].concurrency_key for job_id in named)} - {None}:
        mine = [job for job in after.values() if job.concurrency_key == key]
        waiters = [job for job in mine if waiting.get(job.job_id) == WaitingReason.KEY]
        if waiters:
            holders = [job for job in mine if holds_its_key(job) and job.job_id not in overran]
            others = [holder for holder in overran.values() if holder.key == key]
            asks = after[_first(waiters)[0]]
            least = min(take.key_limits.of(one.task, one.queue) for one in (asks, *holders, *others))
            room = least - len(holders) - len(others)
            yield from _first_of_lanes(waiters, room)
    for task, slots in take.tasks.items():
        mine = [job for job in after.values() if job.task == task]
        yield from _first_of_lanes([job for job in mine if waiting.get(job.job_id) == WaitingReason.TASK], slots)


def _first(jobs: Iterable[JobRecord], most: int = 1) -> list[int]:
    return [job_id for _, job_id in sorted((job.due_at, job.job_id) for job in jobs)[: max(most, 0)]]


def _first_of_lanes(jobs: list[JobRecord], most: int) -> Iterator[int]:
    """Of each lane the first so many."""
    lanes: dict[tuple[object, ...], list[JobRecord]] = defaultdict(list)
    for job in jobs:
        lanes[job.queue, job.priority, job.due_clock, flow_of(job).partition_key].append(job)
    for mine in lanes.values():
        yield from _first(mine, most)


def _by_their_dependencies(
    step: Step, jobs: dict[int, JobRecord | None], reasons: dict[int, str | None], take: TakeOver
) -> tuple[list[int], list[int]]:
    """Who goes on, and who ends, as the jobs that they wait for stand before this take-over."""
    after: dict[int, JobRecord] = step.after["jobs"]
    waiting = {
        job_id
        for job_id, job in jobs.items()
        if reasons.get(job_id) == WaitingReason.DEPENDENCY and (job is None or waits_for_jobs(job))
    }
    states = {job_id: S.WAITING if jobs[job_id] is None else job.state for job_id, job in after.items()}
    goes: list[int] = []
    ends: list[int] = []
    looked_at = set(after) if take.everything else set(_named(step))
    while looked_at:
        ended_now = set()
        for job_id in waiting - {*goes, *ends}:
            wait_for = flow_of(after[job_id]).wait_for
            if wait_for is None or not looked_at & set(wait_for.job_ids):
                continue
            found = {states[other] for other in wait_for.job_ids}
            if any(not state.final for state in found):
                continue
            if found <= {S.COMPLETED} or wait_for.if_one_fails is DependencyFails.RUN:
                goes.append(job_id)
            elif wait_for.if_one_fails is DependencyFails.CANCEL:
                ends.append(job_id)
                states[job_id] = S.CANCELLED
                ended_now.add(job_id)
        looked_at = ended_now
    return goes, ends


def _named(step: Step) -> Iterator[int]:
    """Where something can have ended."""
    for change, outcome in zip(step.changes, step.outcomes, strict=True):
        if isinstance(change, Settle | Cancel | Reschedule):
            yield change.job_id
        elif isinstance(change, Claim):
            yield from change.job_ids
        elif isinstance(change, Unhold) and isinstance(outcome, Unheld):
            yield from (job_id for _, _, job_id in outcome.places)
        elif isinstance(outcome, Submitted) and outcome.replaced is not None:
            yield outcome.replaced
        elif isinstance(outcome, Planned):
            yield from outcome.superseded


OF_WAITS: tuple[Callable[[Step], None], ...] = (keys_make_jobs_wait, unheld_jobs_waited, the_first_who_may_goes_on)
