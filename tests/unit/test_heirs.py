"""Who waits for another is let go on in the batch that ends the other; and how much of planning goes into a batch."""

from __future__ import annotations

import pytest

from timewheel.model import AttemptState, ClockKind, JobState, Now, WaitingReason
from timewheel.schedule_records import Fate, OccurrenceRecord, OriginKind, Position
from timewheel.store.backlog import PLANNED_ROWS, STANDING_CHANGES, Backlog, claims_of
from timewheel.store.changes import (
    AddEntry,
    Cancel,
    Claim,
    Claimed,
    Done,
    DropSchedule,
    Planned,
    PlanOccurrences,
    Reschedule,
    Settle,
    TakeOver,
    Unhold,
)
from timewheel.store.heirs import Heirs

SETTLE = Settle(1, 1, 1, AttemptState.SUCCEEDED, JobState.COMPLETED)
ENDINGS = [
    SETTLE,
    Cancel(1, "", False),
    Reschedule(1, ClockKind.WALL, 0, False),
    Claim([1], 0, Now(0, 0)),
    Unhold(WaitingReason.OVERRUN, 1),
]


def ignore(_):
    pass


def batch(*changes):
    return [(change, ignore) for change in changes]


@pytest.mark.parametrize("change", ENDINGS, ids=lambda change: type(change).__name__)
def test_a_batch_in_which_a_job_may_end_takes_a_take_over_along_while_any_waits(change):
    heirs, entries = Heirs(), batch(change, AddEntry("x"))
    heirs.remember(entries)
    assert len(entries) == 2, "nobody waits"
    heirs.learn([Done(), Planned([], [7], [])])
    heirs.remember(entries)
    assert entries[-1][0] == TakeOver()
    heirs.remember(entries)
    assert len(entries) == 3, "one is enough"


def test_a_batch_in_which_nothing_ends_takes_none():
    heirs, entries = Heirs(), batch(AddEntry("x"))
    heirs.may_wait = True
    heirs.remember(entries)
    assert len(entries) == 1


@pytest.mark.parametrize(
    ("outcome", "waits"),
    [
        (Planned([], [], [3]), False),
        (Planned([(0, 0, 1)], [], []), False),
        (Planned([], [1], []), True),
        (Claimed([], [1], [2]), False),
        (Claimed([], [], [], [1]), True),
    ],
)
def test_it_learns_from_the_outcomes_that_somebody_waits(outcome, waits):
    heirs = Heirs()
    heirs.learn([outcome])
    assert heirs.may_wait is waits
    heirs.learn([Done()])
    assert heirs.may_wait is waits, "and does not forget"


def plan_of(rows):
    row = OccurrenceRecord("s", ClockKind.WALL, 0, 0, 1, 0, OriginKind.RULE, Fate.SKIPPED, 0, "misfire")
    return PlanOccurrences("s", 1, Position(ClockKind.WALL, 0), [row] * rows, [])


def test_plans_and_edits_take_a_bounded_share_of_a_batch_and_no_plan_overtakes_an_edit():
    backlog = Backlog()
    for number in range(STANDING_CHANGES + 5):
        backlog.standing.append((DropSchedule(str(number), 1), ignore))
    for _ in range(3):
        backlog.plans.append((plan_of(PLANNED_ROWS // 2), ignore))
    first = [change for change, _ in backlog.take()]
    assert [change.schedule for change in first] == [str(number) for number in range(STANDING_CHANGES)]
    second = [change for change, _ in backlog.take()]
    assert [change.schedule for change in second[:5]] == [str(STANDING_CHANGES + number) for number in range(5)]
    assert sum(isinstance(change, PlanOccurrences) for change in second) == len(second) - 5 == 2
    assert len(backlog.take()) == 1
    assert backlog.take() == []


def test_one_plan_larger_than_the_share_goes_alone():
    backlog = Backlog()
    for _ in range(2):
        backlog.plans.append((plan_of(3 * PLANNED_ROWS), ignore))
    assert [len(backlog.take()) for _ in range(3)] == [1, 1, 0]


def test_of_a_full_journal_only_endings_are_taken_and_what_begins_is_told():
    backlog = Backlog()
    backlog.settles.append((SETTLE, ignore))
    backlog.plans.append((plan_of(1), ignore))
    backlog.standing.append((DropSchedule("a", 1), ignore))
    taken = backlog.take(endings_only=True)
    assert [change for change, _ in taken] == [SETTLE]
    told = backlog.drop_beginnings()
    assert {type(change) for change, _ in told} == {PlanOccurrences, DropSchedule}
    assert not list(backlog)


def test_a_take_over_that_came_back_goes_with_its_endings_the_next_time_and_one_of_everything_stays():
    backlog = Backlog()
    backlog.put_back(batch(SETTLE, plan_of(1), DropSchedule("a", 1), TakeOver(), TakeOver(everything=True)), ())
    assert len(backlog.settles) == len(backlog.plans) == len(backlog.standing) == 1
    assert [change for change, _ in backlog.rest] == [TakeOver(everything=True)]


def test_a_job_that_several_claims_hint_at_is_looked_at_once():
    claims = [Claim(job_ids, 0, Now(0, 0)) for job_ids in ([3, 1], [1, 2])]
    assert claims_of(batch(SETTLE, *claims)) == [3, 1, 2]
