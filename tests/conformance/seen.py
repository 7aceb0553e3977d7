"""What a run of the state machine drew, by name, so that a test can see that nothing was left out."""

from timewheel.model import CancelAnswer, JobState, RescheduleAnswer, WaitingReason
from timewheel.store.changes import (
    AddEntry,
    Cancel,
    Claim,
    KeyConflict,
    Missing,
    PruneKeys,
    PutQueue,
    Reschedule,
    SaveLimits,
    Settle,
    Stale,
    Submit,
    Unhold,
)

OUTCOMES = {
    Settle: ("stale", *(f"to {state}" for state in JobState if state not in (JobState.ACTIVE, JobState.SKIPPED))),
    Cancel: ("missing", *CancelAnswer),
    Reschedule: ("missing", *RescheduleAnswer),
    Submit: ("created", "the same again", "conflict"),
    Claim: ("claimed", "skipped", "held", "nothing"),
    Unhold: ("nothing", *WaitingReason),
    SaveLimits: ("done",),
    PutQueue: ("done",),
    AddEntry: ("done",),
    PruneKeys: ("nothing", "some"),
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
    return _OUTCOMES[type(change)](change, outcome)


_OUTCOMES = {
    Settle: lambda _, outcome: [f"to {outcome.job_state}"],
    Cancel: lambda _, outcome: [outcome.answer],
    Reschedule: lambda _, outcome: [outcome.answer],
    Submit: lambda _, outcome: (
        ["conflict"] if isinstance(outcome, KeyConflict) else ["created" if outcome.created else "the same again"]
    ),
    Claim: lambda _, outcome: (
        [name for name, found in zip(("claimed", "skipped", "held"), outcome, strict=True) if found] or ["nothing"]
    ),
    Unhold: lambda change, outcome: [change.reason if outcome.places else "nothing"],
    SaveLimits: lambda *_: ["done"],
    PutQueue: lambda *_: ["done"],
    AddEntry: lambda *_: ["done"],
    PruneKeys: lambda _, outcome: ["some" if outcome.rows else "nothing"],
}


def note_batch(seen, changes, outcomes):
    """Count what came of a batch."""
    for change, outcome in zip(changes, outcomes, strict=True):
        for name in outcomes_of(change, outcome):
            seen[f"{type(change).__name__} {name}"] += 1
