"""What settlements, cancels and reschedules were answered is what they did: laws of `timewheel.testing.outcomes`."""

from __future__ import annotations

from collections.abc import Callable

from timewheel.model import AttemptState, CancelAnswer, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import Cancel, Cancelled, Missing, Reschedule, Rescheduled, Settle, Settled, Stale
from timewheel.testing.laws import Dump, demand
from timewheel.testing.step import Step

S = JobState


def is_live(settle: Settle, dump: Dump) -> bool:
    """Whether a settlement ends an attempt that is open: of this job, this number, claimed under this epoch."""
    job = dump["jobs"].get(settle.job_id)
    if job is None or job.state is not S.ACTIVE or job.attempt != settle.attempt:
        return False
    return bool(dump["attempts"][settle.job_id, settle.attempt].epoch == settle.claim_epoch)


def only_live_attempts_are_settled(step: Step) -> None:
    """I23, I24: a settlement finds the exact state, attempt and lease that it names, or it is STALE."""
    for settle, outcome in step.of(Settle):
        live = is_live(settle, step.before)
        demand(isinstance(outcome, Settled if live else Stale), "I23", f"live: {live}", settle, outcome)
        job = step.job_before(settle.job_id)
        for number in range(1, job.attempt + 1 if job else 1):
            key = (settle.job_id, number)
            old = step.before["attempts"][key]
            new = step.after["attempts"].get(key, old)
            if live and number == settle.attempt:
                demand(new.state is settle.attempt_state, "I23", "ended otherwise", settle, new)
                told, seen = (settle.error, settle.reason, settle.fault), (new.error, new.reason, new.fault)
                demand(seen == told, "I23", "told otherwise", settle, new)
            else:
                demand(old == new, "I23", "a settlement changed another attempt", settle, old, new)


def settled_jobs_go_where_they_are_told(step: Step) -> None:
    """I10, I9: a settlement's job goes where it was sent, but a requested cancel is kept by every end but success."""
    for settle, outcome in step.of(Settle):
        if not isinstance(outcome, Settled):
            continue
        old, new = step.before["jobs"][settle.job_id], step.after["jobs"][settle.job_id]
        told = settle.job_state
        if old.cancel_requested is not None and told is not S.COMPLETED:
            told = S.CANCELLED
        demand(outcome.job_state is told, "I9", f"should be {told}", settle, outcome)
        if told.final:
            demand(new.state is told, "I10", f"should be {told}", settle, new)
        demand((new.failures, new.losses) == (settle.failures, settle.losses), "I13", "miscounted", settle, new)
        last = (old.fault, old.fingerprint) if settle.fault is None else (settle.fault, settle.fingerprint)
        demand((new.fault, new.fingerprint) == last, "I13", "of another failure", settle, new)


def cancels_are_true(step: Step) -> None:
    """I9: the answer of a cancel is the truth, and what it cancelled never starts."""
    for cancel, outcome in step.of(Cancel):
        old, new = step.job_before(cancel.job_id), step.after["jobs"].get(cancel.job_id)
        if old is None:
            demand(isinstance(outcome, Missing), "I9", "no such job", cancel, outcome)
            continue
        told = CancelAnswer.CANCELLED
        if old.state.final:
            told = CancelAnswer.TOO_LATE
        elif old.state is S.ACTIVE and cancel.entered:
            told = CancelAnswer.REQUESTED
        ended = old.attempt if told is CancelAnswer.CANCELLED and old.state is S.ACTIVE else None
        expected = Cancelled(cancel.job_id, told, ended, old.state is S.SCHEDULED)
        demand(outcome == expected, "I9", f"should be {expected}", cancel, outcome, old)
        if told is CancelAnswer.CANCELLED:
            demand(new.state is S.CANCELLED and new.reason == cancel.reason, "I9", "said to be cancelled", new)
        if told is CancelAnswer.REQUESTED:
            kept = new.state is S.ACTIVE and new.cancel_requested == cancel.reason
            demand(kept, "I9", "the request is not kept", cancel, new)
        if ended is not None:
            attempt = step.after["attempts"][cancel.job_id, ended]
            demand(attempt.state is AttemptState.CANCELLED, "I9", "its attempt goes on", attempt)


def reschedules_are_true(step: Step) -> None:
    """I9: a job is moved unless it was too late, and the answer says which."""
    for move, outcome in step.of(Reschedule):
        old, new = step.job_before(move.job_id), step.after["jobs"].get(move.job_id)
        if old is None:
            demand(isinstance(outcome, Missing), "I9", "no such job", move, outcome)
            continue
        moves = (
            old.state is S.SCHEDULED
            or (old.state is S.ACTIVE and not move.entered)
            or (old.state is S.WAITING and old.reason != WaitingReason.OVERRUN)
        )
        told = isinstance(outcome, Rescheduled) and outcome.answer is RescheduleAnswer.MOVED
        demand(told == moves, "I9", f"moves: {moves}", move, outcome, old)
        if not moves:
            continue
        moved = (new.clock, new.scheduled_at, new.due_clock, new.due_at, new.version)
        expected = (move.clock, move.scheduled_at, move.clock, move.scheduled_at, old.version + 1)
        elsewhere = move.job_id in step.moved() and new.version > old.version
        demand(elsewhere or moved == expected, "I9", "moved elsewhere", move, new)
        if old.state is S.WAITING and old.reason != WaitingReason.UNRESOLVABLE:
            nowhere = isinstance(outcome, Rescheduled) and (outcome.due_at, outcome.was_scheduled) == (0, False)
            demand(nowhere, "I9", "waits still, and is said to lie somewhere", move, outcome)
        if old.state is S.ACTIVE:
            attempt = step.after["attempts"][move.job_id, old.attempt]
            demand(attempt.state is AttemptState.RELEASED, "I12", "its attempt goes on", attempt)


OF_VERBS: tuple[Callable[[Step], None], ...] = (
    only_live_attempts_are_settled,
    settled_jobs_go_where_they_are_told,
    cancels_are_true,
    reschedules_are_true,
)
