"""What claims and deferrals were answered is what they did: laws of `timewheel.testing.outcomes`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from timewheel.flow import NO_FLOW
from timewheel.model import ClockKind, JobRecord, JobState, WaitingReason
from timewheel.store.changes import Candidate, Claim, Claimed, ClaimedJob, Defer, Governed, TakeOver, Unheld
from timewheel.store.key_limits import KeyHolder, KeyLimits
from timewheel.testing.invariants_flow import flow_of, holds_its_key
from timewheel.testing.laws import demand
from timewheel.testing.step import Step

S = JobState


def claimed_jobs_run_or_are_given_up(step: Step) -> None:
    """I12, I6: each job that a claim gave out is ACTIVE with that attempt open, and was in time; others say why not."""
    now = step.stamp.now.wall_us
    for claim, outcome in step.of(Claim):
        assert isinstance(outcome, Claimed)
        for one in outcome.jobs:
            new = step.after["jobs"][one.job_id]
            demand((new.state, new.attempt) == (S.ACTIVE, one.attempt), "I12", "claimed, and not ACTIVE", one, new)
            demand(one.flow == new.flow, "I3", "claimed with another flow", one, new)
            demand(not _is_over(new, now) and not _is_expired(new, now), "I6", "claimed too late", one)
            demand(not _is_governed(one, claim.governed), "I17", "claimed, and nobody was asked", one, claim)
        for job_id in outcome.skipped:
            new = step.after["jobs"][job_id]
            skipped = new.state is S.SKIPPED and (
                (new.reason == "misfire" and new.attempt == 0) or (new.reason == "expired" and _is_expired(new, now))
            )
            demand(skipped, "I12", "skipped, and not SKIPPED", new)
        for job_id in outcome.given_up:
            new = step.after["jobs"][job_id]
            given_up = (new.state, new.reason) == (S.DEAD, "deadline") and _is_over(new, now)
            demand(given_up, "I12", "given up, and not DEAD", new)
        for asked in outcome.asked:
            new = step.after["jobs"][asked.job_id]
            demand(_is_governed(asked, claim.governed), "I29", "asked about, and nobody governs it", asked, claim)
            same = (asked.task, asked.failures, asked.flow) == (new.task, new.failures, new.flow)
            same = same and new.attempt in (asked.attempt, asked.attempt + 1)  # another claim of the batch may take it
            demand(same, "I15", "told otherwise", asked, new)
            demand(not _is_over(new, now), "I6", "asked about too late", asked)


def hints_are_answered_once(step: Step) -> None:
    """I12: a claim says one thing of a job, and all of them in the order of the hints."""
    for claim, outcome in step.of(Claim):
        assert isinstance(outcome, Claimed)
        jobs, skipped, held, waiting, given_up, asked = outcome
        lists = [[job.job_id for job in jobs], skipped, held, waiting, given_up, [one.job_id for one in asked]]
        hints = {job_id: place for place, job_id in reversed(list(enumerate(claim.job_ids)))}
        told = [job_id for one in lists for job_id in one]
        demand(len(set(told)) == len(told), "I12", "told twice of one job", claim, outcome)
        demand(set(told) <= hints.keys(), "I12", "told of what nobody asked for", claim, outcome)
        for one in lists:
            demand(one == sorted(one, key=hints.__getitem__), "I12", "another order", claim, one)


def claims_keep_to_the_limits_of_keys(step: Step) -> None:
    """I18: when a claim has let a job begin, no more jobs hold its key than each of them allows."""
    given: dict[str, KeyLimits] = {}
    for claim, outcome in step.of(Claim):
        assert isinstance(outcome, Claimed)
        keys = {step.after["jobs"][job.job_id].concurrency_key for job in outcome.jobs}
        given |= {key: claim.key_limits for key in keys if key is not None}
    holders: dict[str, list[JobRecord]] = defaultdict(list)
    for job in step.after["jobs"].values():
        if job.concurrency_key in given and holds_its_key(job):
            holders[job.concurrency_key].append(job)
    for key, jobs in holders.items():
        overran = given[key].overran
        running: list[JobRecord | KeyHolder] = [job for job in jobs if job.job_id not in overran]
        running += [holder for holder in overran.values() if holder.key == key]
        least = min(given[key].of(one.task, one.queue) for one in running)
        demand(len(running) <= least, "I18", f"{len(running)} hold {key!r}, and {least} may", *running)


def _is_over(job: JobRecord, now: int) -> bool:
    deadline = flow_of(job).deadline
    return deadline is not None and deadline <= now


def _is_expired(job: JobRecord, now: int) -> bool:
    expires_at = flow_of(job).expires_at
    return expires_at is not None and expires_at <= now and job.failures == job.losses == 0


def _is_governed(job: ClaimedJob | Candidate, governed: Governed | None) -> bool:
    if governed is None:
        return False
    rated = governed.rate_keys and (job.flow or NO_FLOW).rate_key is not None
    return job.task in governed.tasks or rated or (governed.retries and job.failures > 0)


def defers_are_true(step: Step) -> None:
    """I24, I29: what is deferred lies where it was told to, or waits for its task; what was as it was seen, is."""
    rows_of = Counter(row[0] for defer, _ in step.of(Defer) for row in defer.rows)
    touched = {*_touched(step), *(job_id for job_id, times in rows_of.items() if times > 1)}
    last: dict[int, int] = {}
    for defer, outcome in step.of(Defer):
        assert isinstance(outcome, Unheld)
        rows = {job_id: (seen_at, due_at) for job_id, seen_at, due_at in defer.rows}
        placed = [job_id for _, _, job_id in outcome.places]
        order = [job_id for job_id, _, due_at in defer.rows if due_at is not None and job_id in placed]
        demand(placed == order, "I24", "another order, or twice", defer, outcome)
        for _, due_at, job_id in outcome.places:
            demand(job_id in rows and rows[job_id][1] == due_at, "I24", "deferred elsewhere", defer, outcome)
            last[job_id] = due_at
        for job_id, (seen_at, moved_to) in rows.items():
            old = step.job_before(job_id)
            as_seen = old is not None and old.state is S.SCHEDULED and old.due_at == seen_at
            new = step.after["jobs"].get(job_id)
            if job_id not in touched and old is not None and new is not None:
                waits = (new.state, new.reason) == (S.WAITING, WaitingReason.TASK)
                demand((job_id in placed) == (as_seen and moved_to is not None), "I29", f"{as_seen}", old, outcome)
                demand(not as_seen or moved_to is not None or waits, "I29", "waits for nothing", old, new)
                demand(as_seen or new == old, "I24", "deferred, and not as it was seen", old, new)
    for job_id, due_at in last.items():
        if rows_of[job_id] > 1:
            continue
        new = step.after["jobs"][job_id]
        told = (S.SCHEDULED, ClockKind.STEADY, due_at)
        demand((new.state, new.due_clock, new.due_at) == told, "I24", f"should be due at {due_at}", new)


def _touched(step: Step) -> list[int]:
    """The jobs that something else of the batch may have changed, as far as that is told."""
    touched: list[int] = []
    for change, outcome in zip(step.changes, step.outcomes, strict=True):
        if isinstance(change, Claim):
            touched += change.job_ids
        elif isinstance(change, Defer):
            continue
        elif isinstance(change, TakeOver) and isinstance(outcome, Unheld):
            touched += outcome.cancelled
        touched += [job_id for _, _, job_id in getattr(outcome, "places", ())]
        told = (getattr(change, "job_id", None), getattr(outcome, "job_id", None), getattr(outcome, "replaced", None))
        touched += [job_id for job_id in told if job_id is not None]
        touched += getattr(outcome, "superseded", ())
    return touched


OF_CLAIMS: tuple[Callable[[Step], None], ...] = (
    claimed_jobs_run_or_are_given_up,
    hints_are_answered_once,
    claims_keep_to_the_limits_of_keys,
    defers_are_true,
)
