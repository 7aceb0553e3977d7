"""Who waits for another is let go on in the batch that ends the other; and how much of planning goes into a batch."""

from __future__ import annotations

import pytest

from timewheel.flow import Dependencies, Flow, OnConflict, Uniqueness
from timewheel.model import AttemptState, ClockKind, JobRequest, JobState, Now, RetryPolicy, WaitingReason
from timewheel.schedule_records import Fate, OccurrenceRecord, OriginKind, Position
from timewheel.store.backlog import PLANNED_ROWS, STANDING_CHANGES, Backlog, claims_of
from timewheel.store.changes import (
    AddEntry,
    Cancel,
    Claim,
    Claimed,
    Defer,
    Done,
    DropSchedule,
    Planned,
    PlanOccurrences,
    Reschedule,
    SaveLimits,
    Settle,
    Submit,
    Submitted,
    TakeOver,
    Unheld,
    Unhold,
)
from timewheel.store.heirs import Heirs
from timewheel.store.key_limits import KeyHolder, KeyLimits
from timewheel.store.letters import Discard, Replay

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
        (Submitted(1, 0, created=True), False),
        (Submitted(1, -1, created=False), False),
        (Submitted(1, -1, created=True), True),
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


def submit(on_conflict=None):
    unique = None if on_conflict is None else Uniqueness("d", ("SCHEDULED",), on_conflict)
    flow = None if unique is None else Flow(unique=unique)
    return Submit(JobRequest(1, "t", "[]", "q", 5, ClockKind.WALL, 0, RetryPolicy(), flow=flow))


def test_who_begins_to_wait_in_this_very_batch_is_looked_after():
    """The job for which it waits is replaced by the next submission of the batch, and nobody waited before."""
    waits = Submit(
        JobRequest(2, "t", "[]", "q", 5, ClockKind.WALL, 0, RetryPolicy(), flow=Flow(wait_for=Dependencies((1,))))
    )
    heirs, entries = Heirs(), batch(waits, submit(OnConflict.REPLACE))
    heirs.remember(entries)
    assert isinstance(entries[-1][0], TakeOver)
    heirs, entries = Heirs(), batch(waits, submit())
    heirs.remember(entries)
    assert len(entries) == 2, "nothing ends"


def supersede(value):
    plan = plan_of(1)
    plan.supersede = value
    return plan


@pytest.mark.parametrize(
    ("change", "may_end"),
    [
        (submit(), False),
        (submit(OnConflict.KEEP), False),
        (submit(OnConflict.REPLACE), True),
        (supersede(False), False),
        (supersede(True), True),
    ],
)
def test_what_replaces_or_supersedes_ends_jobs(change, may_end):
    heirs, entries = Heirs(), batch(change)
    heirs.may_wait = True
    heirs.remember(entries)
    assert (len(entries) == 2) is may_end


# ---- waiters of tasks ------------------------------------------------------------------------------------------------


class Wanting:
    """Heirs of whom something is wanted, and what was heard."""

    def __init__(self):
        self.heirs = Heirs()
        self.heard = []

    def want(self, **tasks):
        self.heirs.want(tasks, lambda asked, outcome: self.heard.append((dict(asked), outcome)))

    def batch(self, *changes):
        """The TakeOver that goes with a batch of these, and the way to say that it was written; or None."""
        entries = batch(*changes)
        self.heirs.remember(entries)
        return entries[-1] if len(entries) > len(changes) else None


def test_what_is_wanted_goes_with_the_next_batch_once_and_is_heard_of():
    wanting = Wanting()
    assert not wanting.heirs.asks
    wanting.want(a=1)
    wanting.want(a=2, b=1)
    assert wanting.heirs.asks
    take, receive = wanting.batch(AddEntry("x"))
    assert take == TakeOver(tasks={"a": 3, "b": 1})
    receive(Unheld([]))
    assert wanting.heard == [({"a": 3, "b": 1}, Unheld([]))]
    assert not wanting.heirs.asks
    assert wanting.batch(SETTLE) is None


def test_what_is_wanted_goes_again_when_its_batch_was_not_written():
    wanting = Wanting()
    wanting.want(a=1)
    wanting.heirs.want_everything()
    first, _ = wanting.batch()
    wanting.want(a=1, b=1)
    assert first == TakeOver(everything=True, tasks={"a": 1})
    second, receive = wanting.batch()
    assert second == TakeOver(everything=True, tasks={"a": 2, "b": 1})
    receive(Unheld([]))
    assert wanting.heard == [({"a": 2, "b": 1}, Unheld([]))]


def test_what_is_wanted_while_a_batch_is_written_goes_with_the_next():
    wanting = Wanting()
    wanting.want(a=1)
    _, receive = wanting.batch()
    wanting.want(a=5)
    receive(Unheld([]))
    assert wanting.batch()[0] == TakeOver(tasks={"a": 5})


def test_a_take_over_of_somebody_else_is_not_doubled_and_what_is_wanted_waits():
    wanting = Wanting()
    wanting.want(a=1)
    assert wanting.batch(TakeOver(everything=True)) is None
    assert wanting.batch()[0] == TakeOver(tasks={"a": 1})


def test_every_take_over_goes_by_the_limits_of_keys_as_they_are_now():
    wanting = Wanting()
    wanting.heirs.may_wait = True
    wanting.heirs.key_limits = KeyLimits(tasks={"t": 3})
    take, receive = wanting.batch(SETTLE)
    assert take == TakeOver(key_limits=KeyLimits(tasks={"t": 3}))
    receive(Unheld([]))
    assert wanting.heard == [], "no task was asked for"


# ---- handlers that do not stop ---------------------------------------------------------------------------------------

HOLDER = KeyHolder("k", "t", "q")


def told(change):
    return dict(change.key_limits.overran)


def test_each_claim_and_take_over_of_a_batch_is_told_who_overran_when_it_is_put_together():
    heirs, claim = Heirs(), Claim([1], 0, Now(0, 0), key_limits=KeyLimits(tasks={"t": 3}))
    heirs.may_wait = True
    heirs.overruns(7, HOLDER)
    entries = batch(claim)
    heirs.remember(entries)
    assert [told(change) for change, _ in entries] == [{7: HOLDER}] * 2
    assert claim.key_limits.tasks == {"t": 3}
    heirs.overruns(8, HOLDER)
    assert told(claim) == {7: HOLDER}, "a batch that is being written does not change"


def test_a_claim_whose_batch_was_not_written_is_told_anew():
    heirs, claim = Heirs(), Claim([1], 0, Now(0, 0))
    heirs.overruns(7, HOLDER)
    heirs.remember(batch(claim))
    assert heirs.overrun_ended(7)
    heirs.remember(batch(claim))
    assert told(claim) == {}


def test_the_key_of_one_that_ends_is_looked_at_once_also_when_nobody_is_known_to_wait():
    wanting = Wanting()
    heirs = wanting.heirs
    heirs.overruns(7, HOLDER)
    assert not heirs.asks
    assert heirs.overrun_ended(7)
    assert heirs.asks
    take, _ = wanting.batch()
    assert take == TakeOver(keys=frozenset({"k"}))
    take, receive = wanting.batch()
    assert take == TakeOver(keys=frozenset({"k"})), "the first was not written"
    receive(Unheld([]))
    assert not heirs.asks
    assert not heirs.overrun_ended(7)
    assert not heirs.asks


# ---- the backlog -----------------------------------------------------------------------------------------------------


def test_limits_that_wait_are_written_together_and_the_newer_value_counts():
    backlog = Backlog()
    heard = []
    backlog.put_limits(SaveLimits({"a": 1, "b": 1}), lambda _: heard.append("first"))
    backlog.put_limits(SaveLimits({"b": 2, "c": None}), lambda _: heard.append("second"))
    [(change, receive)] = taken = backlog.take()
    assert change == SaveLimits({"a": 1, "b": 2, "c": None})
    receive(Done())
    assert heard == ["second"]
    backlog.put_limits(SaveLimits({"a": 7}), ignore)
    backlog.put_back(taken, ())
    assert backlog.take() == [(SaveLimits({"a": 7, "b": 2, "c": None}), ignore)]


def test_deferrals_go_all_at_once_after_the_claims_and_hear_that_the_journal_is_full():
    backlog = Backlog()
    for number in range(50):
        backlog.defers.append((Defer([(number, 0, None)]), ignore))
    assert len(backlog.take()) == 50
    backlog.defers.append((Defer([(1, 0, None)]), ignore))
    assert backlog.take(endings_only=True) == []
    assert backlog.drop_beginnings() == [(Defer([(1, 0, None)]), ignore)]
    assert list(backlog) == []


def test_a_replay_or_a_discard_waits_for_the_batch_after_another_change_of_its_job():
    backlog = Backlog()
    backlog.settles.append((SETTLE, ignore))
    for change in (Replay(1, 0, "{}"), Discard(1, "{}"), Replay(2, 0, "{}")):
        backlog.verbs.append((change, ignore))
    assert [change for change, _ in backlog.take()] == [SETTLE, Replay(2, 0, "{}")]
    assert [change for change, _ in backlog.take()] == [Replay(1, 0, "{}")]
    assert [change for change, _ in backlog.take()] == [Discard(1, "{}")]


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
