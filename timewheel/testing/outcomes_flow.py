"""What stands in the way of new jobs, and what they wait for: laws of `timewheel.testing.outcomes`.

They replay the submissions of a batch on a few plain facts: the state of each job when they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from timewheel.flow import DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import CancelAnswer, JobRequest, JobState, WaitingReason
from timewheel.store.changes import (
    Cancelled,
    KeyConflict,
    Missing,
    Outcome,
    Rescheduled,
    Settle,
    Settled,
    Submit,
    Submitted,
    UniqueMet,
)
from timewheel.store.letters import Replayed
from timewheel.testing.invariants_flow import flow_of
from timewheel.testing.laws import demand
from timewheel.testing.step import Step, same

S = JobState
NOWHERE = (-1, None)  # the lane of what is not in the due index; None: by name


class Fact(NamedTuple):
    """What submissions look at of a job."""

    state: JobState
    reason: str | None
    created_at: int
    digest: str | None

    @property
    def has_begun(self) -> bool:
        """Whether it is kept whatever the new one wants."""
        return self.state not in (S.SCHEDULED, S.WAITING)


def facts_at_submits(step: Step) -> dict[int, Fact]:
    """How the jobs stand once settlements, cancels, reschedules and replays of the batch are written."""
    facts = {}
    for job_id, job in step.before["jobs"].items():
        unique = flow_of(job).unique
        facts[job_id] = Fact(job.state, job.reason, job.created_at, unique.digest if unique else None)
    for change, outcome in zip(step.changes, step.outcomes, strict=True):
        told: tuple[JobState, str | None] | None = None
        if isinstance(outcome, Settled) and isinstance(change, Settle):
            told = (outcome.job_state, change.reason)
        elif isinstance(outcome, Cancelled) and outcome.answer is CancelAnswer.CANCELLED:
            told = (S.CANCELLED, None)
        elif isinstance(outcome, Replayed) or (isinstance(outcome, Rescheduled) and outcome.lane not in NOWHERE):
            told = (S.SCHEDULED, None)
        if told is not None and isinstance(outcome, Settled | Cancelled | Replayed | Rescheduled):
            facts[outcome.job_id] = facts[outcome.job_id]._replace(state=told[0], reason=told[1])
    return facts


def submits_meet_what_is_there(step: Step) -> None:
    """I4, I18: a unique job is one of its kind, and a job that names others waits for them."""
    facts, now = facts_at_submits(step), step.stamp.now.wall_us
    for submit, outcome in step.of(Submit):
        wanted = submit.request
        if isinstance(outcome, KeyConflict) or (isinstance(outcome, Submitted) and not outcome.created):
            continue
        flow = wanted.flow or Flow()
        other = None if flow.unique is None else _in_the_way(facts, flow.unique, now)
        replaced = None
        if other is not None and flow.unique is not None:
            if flow.unique.on_conflict is not OnConflict.REPLACE or facts[other].has_begun:
                _is_met(facts, other, wanted, flow.unique.on_conflict, outcome)
                continue
            replaced = other
        unknown = [job_id for job_id in (flow.wait_for.job_ids if flow.wait_for else ()) if job_id not in facts]
        if unknown:
            demand(same(outcome, Missing(unknown[0])), "I18", f"{unknown[0]} is unknown", submit, outcome)
            continue
        _is_made(step, facts, wanted, replaced, outcome)


def _in_the_way(facts: dict[int, Fact], unique: Uniqueness, now: int) -> int | None:
    mine = [
        (fact.created_at, job_id)
        for job_id, fact in facts.items()
        if fact.digest == unique.digest
        and fact.state.value in unique.states
        and (unique.period_us is None or fact.created_at > now - unique.period_us)
    ]
    return max(mine)[1] if mine else None


def _is_met(facts: dict[int, Fact], other: int, wanted: JobRequest, on_conflict: OnConflict, outcome: Outcome) -> None:
    """The answer tells of the job that stood in the way, and where it lies when it was moved."""
    fact, place, was_scheduled = facts[other], None, False
    if on_conflict is OnConflict.RESCHEDULE:
        goes = fact.state is S.WAITING and fact.reason == WaitingReason.UNRESOLVABLE
        if fact.state is S.SCHEDULED or goes:
            place, was_scheduled = wanted.scheduled_at, fact.state is S.SCHEDULED
            facts[other] = fact._replace(state=S.SCHEDULED, reason=None)
    told = None
    if isinstance(outcome, UniqueMet):
        told = (outcome.job_id, outcome.conflict, outcome.place and outcome.place[1], outcome.was_scheduled)
    expected = (other, on_conflict is OnConflict.FAIL, place, was_scheduled)
    demand(told == expected, "I4", f"should meet {expected}", fact, wanted, outcome)


def _is_made(step: Step, facts: dict[int, Fact], wanted: JobRequest, replaced: int | None, outcome: Outcome) -> None:
    """The job is made, in place of another or not, and in the state that those it waits for leave it."""
    flow = wanted.flow or Flow()
    fate = _fate_of(flow, [facts[job_id].state for job_id in flow.wait_for.job_ids] if flow.wait_for else [])
    if replaced is not None:
        old, new = facts[replaced], step.after["jobs"][replaced]
        facts[replaced] = old._replace(state=S.CANCELLED, reason=None)
        demand((new.state, new.reason) == (S.CANCELLED, "replaced"), "I4", "not replaced", new, outcome)
        if flow.wait_for and replaced in flow.wait_for.job_ids:
            fate = _fate_of(flow, [facts[job_id].state for job_id in flow.wait_for.job_ids])
        told = (getattr(outcome, "replaced", None), getattr(outcome, "replaced_was_scheduled", None))
        demand(told == (replaced, old.state is S.SCHEDULED), "I4", f"replaced {replaced}", old, wanted, outcome)
    made = isinstance(outcome, Submitted) and outcome.job_id == wanted.job_id and outcome.created
    demand(made, "I4", "should be made", wanted, outcome)
    assert isinstance(outcome, Submitted)
    demand((outcome.replaced is None) == (replaced is None), "I4", "replaced another", wanted, outcome)
    told_fate = (outcome.lane not in NOWHERE, outcome.ended)
    demand(told_fate == (fate is S.SCHEDULED, fate is S.CANCELLED), "I18", f"should be {fate}", wanted, outcome)
    reason = None if fate is S.SCHEDULED else WaitingReason.DEPENDENCY.value
    facts[wanted.job_id] = Fact(fate, reason, step.stamp.now.wall_us, flow.unique.digest if flow.unique else None)
    if fate is S.CANCELLED:
        job = step.after["jobs"][wanted.job_id]
        demand((job.state, job.reason) == (S.CANCELLED, "dependency"), "I18", "should have ended", job)


def _fate_of(flow: Flow, states: list[JobState]) -> JobState:
    """The state of a job whose dependencies have these."""
    if flow.wait_for is None or all(state is S.COMPLETED for state in states):
        return S.SCHEDULED
    if any(not state.final for state in states):
        return S.WAITING
    fates = {DependencyFails.CANCEL: S.CANCELLED, DependencyFails.RUN: S.SCHEDULED, DependencyFails.WAIT: S.WAITING}
    return fates[flow.wait_for.if_one_fails]


OF_FLOW: tuple[Callable[[Step], None], ...] = (submits_meet_what_is_there,)
