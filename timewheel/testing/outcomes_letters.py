"""What becomes of jobs that have ended, as the answers say: laws of `timewheel.testing.outcomes`."""

from __future__ import annotations

from collections.abc import Callable

from timewheel.model import JobRecord, JobState
from timewheel.store.changes import DONE, Missing, Outcome
from timewheel.store.letters import Discard, Prune, Pruned, PruneRule, PutOperation, Replay, Replayed, TooLate
from timewheel.testing.invariants_flow import RUN_AGAIN, flow_of, waits_for_jobs
from timewheel.testing.laws import demand
from timewheel.testing.step import Step, same

S = JobState


def replays_are_true(step: Step) -> None:
    """I10: what did not complete runs again, once for each replay, and with nothing left of its end."""
    for replay, outcome in step.of(Replay):
        old, new = step.job_before(replay.job_id), step.after["jobs"].get(replay.job_id)
        if old is None or old.state not in RUN_AGAIN:
            told: Outcome = Missing(replay.job_id) if old is None else TooLate(replay.job_id)
            demand(same(outcome, told), "I10", f"should be {told}", replay, outcome)
            continue
        told_of = (replay.job_id, replay.due_at)
        seen = (outcome.job_id, outcome.due_at) if isinstance(outcome, Replayed) else None
        demand(seen == told_of, "I10", f"should lie at {told_of}", replay, outcome)
        demand(new is not None and new.version > old.version, "I10", "replayed, and as old as before", old, new)
        left = (new.failures, new.losses, new.first_failed_at, new.error, new.fault, new.fingerprint)
        demand(left == (0, 0, None, None, None, None), "I10", "what it failed with is left", new)
        demand((new.cancel_requested, new.discarded_at) == (None, None), "I10", "how it ended is left", new)
        flow = flow_of(new)
        demand((flow.expires_at, flow.deadline) == (None, None), "I10", "it would end at once", new)
        arguments = old.arguments if replay.arguments is None else replay.arguments
        demand(new.arguments == arguments, "I3", "runs with other arguments", replay, new)


def discards_are_true(step: Step) -> None:
    """I10: a dead letter is discarded once, and nothing else of it changes; a Prune of its batch may forget it."""
    now = step.stamp.now.wall_us
    prunes = any(True for _ in step.of(Prune))
    for discard, outcome in step.of(Discard):
        old, new = step.job_before(discard.job_id), step.after["jobs"].get(discard.job_id)
        told: Outcome = DONE
        if old is None:
            told = Missing(discard.job_id)
        elif old.state is not S.DEAD or old.discarded_at is not None:
            told = TooLate(discard.job_id)
        demand(same(outcome, told), "I10", f"should be {told}", discard, outcome)
        if told is DONE:
            given = new.discarded_at == now if new is not None else prunes
            demand(given, "I10", "not discarded", discard, new)


def only_letters_leave_their_end(step: Step) -> None:
    """I10: a final job changes only by a replay or a discard of this batch, and goes only by a prune."""
    replayed = {change.job_id for change, outcome in step.of(Replay) if isinstance(outcome, Replayed)}
    discarded = {change.job_id for change, outcome in step.of(Discard) if same(outcome, DONE)}
    prunes = any(True for _ in step.of(Prune))
    for job_id, old in step.before["jobs"].items():
        new: JobRecord | None = step.after["jobs"].get(job_id)
        if new is None:
            demand(prunes, "I1", "gone, and nobody asked for it", old)
        elif old.state.final and new != old:
            demand(job_id in replayed | discarded, "I10", "final, and changed", old, new)
        if new is not None and new.arguments != old.arguments:
            demand(job_id in replayed, "I3", "other arguments", old, new)


def prunes_follow_their_rules(step: Step) -> None:
    """I1: a prune forgets what its rules name, in the part of the journal that it looked at, and nothing else.

    It holds of prunes that name nothing of what this batch itself has ended.
    """
    jobs, after = dict(step.before["jobs"]), step.after["jobs"]
    jobs |= after
    gone = jobs.keys() - after.keys()
    for prune, outcome in step.of(Prune):
        assert isinstance(outcome, Pruned)
        window = sorted(job_id for job_id in jobs if job_id > prune.after)[: prune.limit]
        last = window[-1] if len(window) == prune.limit else None
        demand(outcome.last == last, "I1", f"looked at {window}", prune, outcome)
        named = {job_id for job_id in window if any(names(rule, jobs[job_id]) for rule in prune.rules)}
        for job_id in named - gone:
            demand(_is_kept(step, job_id), "I1", "named, and not forgotten", prune, jobs[job_id])
        for job_id in named & gone:
            demand(not _is_held(step, job_id), "I4", "forgotten with the key that it holds", jobs[job_id])
            del jobs[job_id]
        demand(outcome.rows == len(named & gone), "I1", f"forgot {sorted(named & gone)}", prune, outcome)
    left = gone & jobs.keys()
    demand(not left, "I1", "gone, and no rule names them", sorted(left))


def names(rule: PruneRule, job: JobRecord) -> bool:
    """Whether a rule names a job."""
    if job.state is not rule.state or job.finished_at is None or rule.queue not in (None, job.queue):
        return False
    ended = job.finished_at < rule.ended_before
    if job.state is S.DEAD and not rule.letters:
        ended = ended and job.discarded_at is not None and job.discarded_at < rule.ended_before
    return ended


def _is_held(step: Step, job_id: int) -> bool:
    """Whether a job holds its key after the batch."""
    return any(holder == job_id for holder, _ in step.after["keys"].values())


def _is_kept(step: Step, job_id: int) -> bool:
    """Whether a job had a reason to stay before the batch or after it."""
    for dump in (step.before, step.after):
        if any(holder == job_id for holder, _ in dump["keys"].values()):
            return True
        for job in dump["jobs"].values():
            wait_for = flow_of(job).wait_for
            if wait_for is not None and job_id in wait_for.job_ids and (waits_for_jobs(job) or _is_new(step, job)):
                return True
    return False


def _is_new(step: Step, job: JobRecord) -> bool:
    """Whether a job was made in this batch: it may have waited, and have been let go on."""
    return job.job_id not in step.before["jobs"]


def operations_are_as_put(step: Step) -> None:
    """I3: an operation is the last record that was written."""
    operations = dict(step.before["operations"])
    for put, _ in step.of(PutOperation):
        operations[put.record.number] = put.record
    demand(step.after["operations"] == operations, "I3", "operations are not as put", operations)


OF_LETTERS: tuple[Callable[[Step], None], ...] = (
    replays_are_true,
    discards_are_true,
    only_letters_leave_their_end,
    prunes_follow_their_rules,
    operations_are_as_put,
)
