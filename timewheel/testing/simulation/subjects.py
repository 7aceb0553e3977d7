"""What the changes of a batch are about: events of jobs and schedules, by which moves and faults are timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from timewheel.store.changes import (
    Cancel,
    Change,
    Claim,
    DropSchedule,
    PlanOccurrences,
    PutSchedule,
    Reschedule,
    Settle,
    Submit,
)
from timewheel.store.letters import Replay

TAG = "tag "  # what the tags of simulated jobs begin with
_VERBS: dict[type, tuple[str, str]] = {
    Submit: ("submitting", "submitted"),
    Settle: ("settling", "settled"),
    Cancel: ("cancelling", "cancelled"),
    Reschedule: ("moving", "moved"),
    Replay: ("replaying", "replayed"),
}
Subject = tuple[str, str, int]
Event = tuple[str, str, str]


def subjects(changes: Sequence[Change]) -> list[Subject]:
    """(event before the write, event after it, job id) of every change that is about a job."""
    found = []
    for change in changes:
        if isinstance(change, Claim):
            found += [("claiming", "claimed", job_id) for job_id in change.job_ids]
        elif isinstance(change, Submit):
            found.append((*_VERBS[Submit], change.request.job_id))
        elif isinstance(change, Settle | Cancel | Reschedule | Replay):
            found.append((*_VERBS[type(change)], change.job_id))
    return found


def standing_events(changes: Sequence[Change]) -> Iterator[Event]:
    """(event before the write, event after it, schedule) of every change that is about a schedule."""
    for change in changes:
        if isinstance(change, PlanOccurrences):
            yield "planning", "planned", change.schedule
        elif isinstance(change, PutSchedule):
            yield "writing", "written", change.record.schedule
        elif isinstance(change, DropSchedule):
            yield "writing", "written", change.schedule


def note_tags(changes: Sequence[Change], tags: dict[int, str]) -> None:
    """Learn the tags of the jobs that a batch makes: those of a schedule have its id."""
    for change in changes:
        if isinstance(change, Submit) and change.request.tags:
            tags[change.request.job_id] = change.request.tags[0].removeprefix(TAG)
        elif isinstance(change, PlanOccurrences):
            tags.update({job.job_id: change.schedule for job in change.jobs})
