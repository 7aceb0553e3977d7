"""What a run of the state machine drew, by name, so that a test can see that nothing was left out."""

from timewheel.model import CancelAnswer, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import (
    AddEntry,
    Cancel,
    Claim,
    Defer,
    DropSchedule,
    KeyConflict,
    Missing,
    PlanOccurrences,
    PruneKeys,
    PutCalendar,
    PutQueue,
    PutSchedule,
    Reschedule,
    SaveLimits,
    Settle,
    Stale,
    Submit,
    TakeOver,
    Unhold,
    UniqueMet,
    VersionConflict,
)
from timewheel.store.letters import Discard, Prune, PutOperation, Replay, TooLate

OUTCOMES = {
    Settle: ("stale", *(f"to {state}" for state in JobState if state not in (JobState.ACTIVE, JobState.SKIPPED))),
    Cancel: ("missing", *CancelAnswer),
    Reschedule: ("missing", "moved, and waits on", *RescheduleAnswer),
    Submit: (
        *("created", "the same again", "conflict", "missing"),
        *("placed", "waits or ended", "replaces", "met", "met and failed", "met and moved"),
    ),
    Replay: ("missing", "too late", "done"),
    Discard: ("missing", "too late", "done"),
    PutSchedule: ("made", "edited", "conflict"),
    DropSchedule: ("dropped", "nothing", "conflict"),
    PutCalendar: ("done",),
    PlanOccurrences: ("placed", "waiting", "superseded", "nothing", "conflict"),
    Claim: ("claimed", "skipped", "held", "waiting", "given up", "asked", "nothing"),
    Defer: ("nothing", "some"),
    TakeOver: ("nothing", "some", "cancelled"),
    Unhold: ("nothing", *WaitingReason),
    SaveLimits: ("done",),
    PutQueue: ("done",),
    AddEntry: ("done",),
    PruneKeys: ("nothing", "some"),
    Prune: ("nothing", "some", "to the end"),
    PutOperation: ("done",),
}
"""Every kind of change with every outcome that it can have."""

FAULTS = (
    "died, nothing written",
    "died, written",
    "failed, nothing written",
    "failed, written, unknown",
    "failed, nothing written, unknown",
    "died in a take-over, before its commit",
    "died in a take-over, after its commit",
    "a take-over failed",
    "died in a recovery",
    "recovered",
    "reaped what was read before",
    "usurped",
)
WANTED = {f"{kind.__name__} {outcome}" for kind, outcomes in OUTCOMES.items() for outcome in outcomes} | set(FAULTS)


def outcomes_of(change, outcome):
    """The names of what came of one change."""
    if isinstance(outcome, Stale):
        return ["stale"]
    if isinstance(outcome, Missing):
        return ["missing"]
    if isinstance(outcome, VersionConflict | KeyConflict):
        return ["conflict"]
    if isinstance(outcome, TooLate):
        return ["too late"]
    return _OUTCOMES[type(change)](change, outcome)


_OUTCOMES = {
    Settle: lambda _, outcome: [f"to {outcome.job_state}"],
    Cancel: lambda _, outcome: [outcome.answer],
    Reschedule: lambda _, outcome: [
        "moved, and waits on" if outcome.answer and outcome.lane is None else outcome.answer
    ],
    Submit: lambda _, outcome: _submitted(outcome),
    Replay: lambda *_: ["done"],
    Discard: lambda *_: ["done"],
    PutSchedule: lambda change, _: ["edited" if change.expected_version else "made"],
    DropSchedule: lambda _, outcome: ["dropped" if outcome.rows else "nothing"],
    PutCalendar: lambda *_: ["done"],
    PlanOccurrences: lambda _, outcome: _filled(("placed", "waiting", "superseded"), outcome),
    Claim: lambda _, outcome: _filled(("claimed", "skipped", "held", "waiting", "given up", "asked"), outcome),
    Defer: lambda _, outcome: ["some" if outcome.places else "nothing"],
    TakeOver: lambda _, outcome: _filled(("some", "cancelled"), outcome),
    Unhold: lambda change, outcome: [change.reason if outcome.places else "nothing"],
    SaveLimits: lambda *_: ["done"],
    PutQueue: lambda *_: ["done"],
    AddEntry: lambda *_: ["done"],
    PruneKeys: lambda _, outcome: ["some" if outcome.rows else "nothing"],
    Prune: lambda _, outcome: [
        "some" if outcome.rows else "nothing",
        *(["to the end"] if outcome.last is None else []),
    ],
    PutOperation: lambda *_: ["done"],
}


def _submitted(outcome):
    if isinstance(outcome, UniqueMet):
        return ["met and moved" if outcome.place else "met and failed" if outcome.conflict else "met"]
    if not outcome.created:
        return ["the same again"]
    names = ["created", "waits or ended" if outcome.lane is None else "placed"]
    return [*names, "replaces"] if outcome.replaced else names


def _filled(names, outcome):
    return [name for name, found in zip(names, outcome, strict=True) if found] or ["nothing"]


def note_batch(seen, changes, outcomes):
    """Count what came of a batch."""
    for change, outcome in zip(changes, outcomes, strict=True):
        for name in outcomes_of(change, outcome):
            seen[f"{type(change).__name__} {name}"] += 1
