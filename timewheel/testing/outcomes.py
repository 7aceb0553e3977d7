"""What a batch was answered is what it did: one predicate an invariant, each raising `Violated`.

    step = Step(before, changes, outcomes, after, stamp)   # the dumps on both sides of one commit
    check_outcomes(step)

Independent of every adapter, as `timewheel.testing.invariants` is. What a batch may make of a job after its outcome (a
claim in the batch that rescheduled it, say) is allowed for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from timewheel.model import JobRecord, JobState
from timewheel.store.changes import (
    KEY_KEEPING_US,
    Cancel,
    Claimed,
    Defer,
    Done,
    KeyConflict,
    Missing,
    Planned,
    PruneKeys,
    PutQueue,
    Reschedule,
    SaveLimits,
    Settle,
    Submit,
    Submitted,
    Unheld,
    UniqueMet,
)
from timewheel.store.letters import Discard, Prune, Replay
from timewheel.testing.invariants import ASKED_OF_A_JOB
from timewheel.testing.laws import demand
from timewheel.testing.outcomes_claims import OF_CLAIMS
from timewheel.testing.outcomes_flow import OF_FLOW
from timewheel.testing.outcomes_letters import OF_LETTERS
from timewheel.testing.outcomes_schedules import OF_SCHEDULES
from timewheel.testing.outcomes_verbs import OF_VERBS
from timewheel.testing.outcomes_waits import OF_WAITS
from timewheel.testing.step import Step

__all__ = ["OF_OUTCOMES", "Step", "check_outcomes"]

S = JobState

_SET_BY_THE_STORE = ("created_at",)


def only_named_jobs_change(step: Step) -> None:
    """I24: a batch changes the jobs that it names, and no other."""
    named = set(_named(step))
    prunes = any(True for _ in step.of(Prune))
    for kind in ("jobs", "attempts"):
        old, new = step.before[kind], step.after[kind]
        for key in old.keys() | new.keys():
            job_id = key if kind == "jobs" else key[0]
            same = old.get(key) == new.get(key)
            may = job_id in named or (prunes and key not in new)  # which ones: `prunes_follow_their_rules`
            demand(same or may, "I24", f"{kind} {key}: nobody named it", old.get(key), new.get(key))


def _named(step: Step) -> Iterator[int]:
    for change, outcome in zip(step.changes, step.outcomes, strict=True):
        if isinstance(change, Settle | Cancel | Reschedule | Replay | Discard):
            yield change.job_id
        elif isinstance(change, Submit):
            yield change.request.job_id
        elif isinstance(change, Defer):
            yield from (job_id for job_id, _, _ in change.rows)
        elif isinstance(outcome, Claimed):
            yield from (job.job_id for job in outcome.jobs)
            yield from (*outcome.skipped, *outcome.waiting, *outcome.given_up)
        elif isinstance(outcome, Unheld | Planned):
            yield from (job_id for _, _, job_id in outcome.places)
        if isinstance(outcome, Planned):
            yield from (*outcome.waiting, *outcome.superseded)
        elif isinstance(outcome, Submitted) and outcome.replaced is not None:
            yield outcome.replaced
        elif isinstance(outcome, UniqueMet):
            yield outcome.job_id
        elif isinstance(outcome, Unheld):
            yield from outcome.cancelled


def submits_are_whole(step: Step) -> None:
    """I3: a job that was made is all there; one that was refused is not there at all."""
    moved = {outcome.job_id for outcome in step.outcomes if isinstance(outcome, UniqueMet)}
    for submit, outcome in step.of(Submit):
        wanted = submit.request
        made = isinstance(outcome, Submitted) and outcome.created
        new: JobRecord | None = step.after["jobs"].get(wanted.job_id)
        demand((new is not None) == made, "I3", f"created: {made}", submit, outcome, new)
        if new is None:
            continue
        for name in ASKED_OF_A_JOB:
            if name not in _SET_BY_THE_STORE:
                demand(getattr(new, name) == getattr(wanted, name), "I3", f"{name} is not as asked", submit, new)
        if wanted.job_id in moved:
            continue
        placed = (new.clock, new.scheduled_at, new.created_at)
        demand(placed == (wanted.clock, wanted.scheduled_at, step.stamp.now.wall_us), "I3", "placed otherwise", new)


def one_key_makes_one_job(step: Step) -> None:
    """I4: while a key is held, its request makes nothing and another is refused; else it makes its holder."""
    for submit, outcome in step.of(Submit):
        wanted = submit.request
        if isinstance(outcome, UniqueMet | Missing):  # see `submits_meet_what_is_there`
            free = wanted.idempotency_key is None or not _is_held(step, (wanted.task, wanted.idempotency_key))
            demand(free, "I4", "something else was asked before its key", submit, outcome)
            continue
        if wanted.idempotency_key is None:
            demand(isinstance(outcome, Submitted) and outcome.created, "I4", "refused without a key", submit, outcome)
            continue
        name = (wanted.task, wanted.idempotency_key)
        made = isinstance(outcome, Submitted) and outcome.created
        demand(not (made and _is_held(step, name)), "I4", "a second job of one key", submit, outcome)
        holder, digest = step.after["keys"].get(name, (None, None))
        told = Submitted if digest == wanted.digest else KeyConflict
        demand(isinstance(outcome, told), "I4", f"should be {told.__name__}", submit, outcome)
        demand(getattr(outcome, "job_id", None) == holder, "I4", f"{name} is held by {holder}", submit, outcome)


def held_keys_are_kept(step: Step) -> None:
    """I4: a key within its keeping time is not forgotten, and a request to forget keys takes no more than it may."""
    for name, kept in step.before["keys"].items():
        if _is_held(step, name):
            demand(step.after["keys"].get(name) == kept, "I4", f"{name} was forgotten or taken", kept)
    for prune, outcome in step.of(PruneKeys):
        demand(isinstance(outcome, Done) and outcome.rows <= max(prune.limit, 0), "I4", "too many", prune, outcome)


def what_was_saved_is_there(step: Step) -> None:
    """I3: limits and settings of queues hold the last value that was written."""
    limits, queues = dict(step.before["limits"]), dict(step.before["queues"])
    for save, _ in step.of(SaveLimits):
        limits |= save.values
    limits = {name: value for name, value in limits.items() if value is not None}
    for put, _ in step.of(PutQueue):
        queues[put.queue] = put.settings
    demand(step.after["limits"] == limits, "I3", "limits are not as saved", limits, step.after["limits"])
    demand(step.after["queues"] == queues, "I3", "queues are not as put", queues, step.after["queues"])


def _is_held(step: Step, name: tuple[str, str]) -> bool:
    """Whether a key is within its keeping time before the batch."""
    if name not in step.before["keys"]:
        return False
    ended = step.before["jobs"][step.before["keys"][name][0]].finished_at
    return ended is None or bool(step.stamp.now.wall_us - ended < KEY_KEEPING_US)


OF_OUTCOMES: tuple[Callable[[Step], None], ...] = (
    only_named_jobs_change,
    *OF_VERBS,
    *OF_CLAIMS,
    submits_are_whole,
    one_key_makes_one_job,
    held_keys_are_kept,
    what_was_saved_is_there,
    *OF_SCHEDULES,
    *OF_WAITS,
    *OF_FLOW,
    *OF_LETTERS,
)


def check_outcomes(step: Step) -> None:
    """Every law of what one batch was answered."""
    for law in OF_OUTCOMES:
        law(step)
