"""The only writer: the order of a batch, and that no failure of the journal loses or doubles what it was given."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.helpers import SlowStore, Stage, crash
from timewheel.errors import (
    JournalBusy,
    JournalCorrupt,
    JournalFull,
    JournalUnavailable,
    JournalUnknown,
    Overloaded,
    PartlyScheduled,
    SchedulerFailed,
)
from timewheel.events import Notices
from timewheel.model import AttemptState, JobState
from timewheel.store import aftermath, backlog, intake
from timewheel.store.changes import ORDER, AddEntry, Claim, SaveLimits
from timewheel.store.committer import Committer
from timewheel.testing import builders
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

FULL = JournalFull("no space", path="fake")
BUSY = JournalBusy("somebody holds it", path="fake")
UNKNOWN = JournalUnknown("an I/O error from COMMIT", path="fake")
RANK = {kind: rank for rank, kinds in enumerate(ORDER) for kind in kinds}


class FakeStore:
    """Takes `commit_s` for a commit; `faults` are raised by the next commits, one each (None: it succeeds)."""

    path = "fake"

    def __init__(self, *faults, commit_s=1.0, reopen_s=0.0):
        self.faults = list(faults)
        self.commit_s = commit_s
        self.reopen_s = reopen_s
        self.batches = []  # those that were written
        self.tried = 0
        self.reopened = 0

    async def commit(self, changes, stamp):
        self.tried += 1
        fault = self.faults.pop(0) if self.faults else None
        await asyncio.sleep(self.commit_s)  # virtual
        if fault is not None:
            raise fault
        self.batches.append(list(changes))
        return [("done", change) for change in changes]

    async def reopen(self):
        await asyncio.sleep(self.reopen_s)  # virtual
        self.reopened += 1


class Desk:
    """A committer on a fake store, and everything that it tells anybody."""

    def __init__(self, store):
        self.store = store
        self.machine = VirtualMachine()
        self.heard = []  # (change, outcome or exception), in order
        self.told = []  # what the surroundings hear
        self.batches_told = 0
        self.committer = Committer(store, lambda: None, self, self.machine.clock, Notices())

    # -- the surroundings --

    def committed(self, changes, outcomes):
        self.told.append(("committed", list(changes)))

    def all_told(self):
        self.batches_told += 1

    async def journal_unknown(self, claimed):
        self.told.append("unknown")

    def journal_failed(self, cause):
        self.told.append(("failed", cause))

    # -- posting --

    def receive(self, change):
        return lambda outcome: self.heard.append((change, outcome))

    def post(self, *changes):
        for change in changes:
            kind = type(change).__name__.lower()
            method = {"cancel": "verb", "reschedule": "verb", "submit": "submit_soon"}.get(kind, kind)
            getattr(self.committer, method)(change, self.receive(change))

    def outcomes(self, change):
        return [outcome for one, outcome in self.heard if one is change]

    def play(self, scene):
        """Run the scene beside the committer's loop, as a supervisor would keep it."""

        async def supervised():
            while True:
                try:
                    await self.committer.run()
                except asyncio.CancelledError:
                    if self.ending:
                        raise
                else:
                    return

        async def main():
            self.ending = False
            self.task = asyncio.get_running_loop().create_task(supervised())
            result = await scene()
            self.ending = True
            self.task.cancel()
            await asyncio.wait([self.task])
            return result

        return self.machine.run(main())

    async def pause(self, seconds):
        await self.machine.sleep(seconds)


def settle(job_id):
    return builders.settle_ok(job_id)


# ---- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_goes_in_the_order_of_kinds_and_of_arrival():
    desk = Desk(FakeStore())
    first = builders.submit(1)
    claims = [builders.claim(7), builders.claim(8)]
    late = [*claims, builders.submit(2), builders.cancel(3), builders.reschedule(4, 0), settle(5), settle(6)]

    async def scene():
        desk.post(first)
        await desk.pause(0.5)
        desk.post(*late)
        desk.committer.note(AddEntry("rest"))
        desk.committer.save_limits(SaveLimits({"a": 1}), aftermath.ignore)
        desk.committer.save_limits(SaveLimits({"a": 2}), aftermath.ignore)
        await desk.committer.flush()

    desk.play(scene)
    assert desk.store.batches[0] == [first], "idle, a single job commits at once"
    [batch] = desk.store.batches[1:]
    assert [RANK[type(change)] for change in batch] == sorted(RANK[type(change)] for change in batch)
    assert [c.job_id for c in batch if hasattr(c, "job_id")] == [5, 6, 3, 4]
    assert [c for c in batch if c in claims] == claims
    assert [c.values for c in batch if isinstance(c, SaveLimits)] == [{"a": 2}], "the newest limits alone"


def test_a_second_change_of_a_job_waits_for_the_next_batch():
    desk = Desk(FakeStore())
    ended, cancel, move, other = settle(1), builders.cancel(1), builders.reschedule(1, 0), builders.cancel(2)

    async def scene():
        desk.post(ended, cancel, move, other)
        await desk.committer.flush()

    desk.play(scene)
    assert desk.store.batches == [[ended, other], [cancel], [move]]


CHANGES = st.lists(
    st.one_of(
        st.builds(settle, st.integers(1, 4)),
        st.builds(builders.cancel, st.integers(1, 4)),
        st.builds(builders.submit, st.integers(1, 4)),
        st.builds(builders.claim, st.integers(1, 4)),
    ),
    max_size=40,
)
FAULTS = st.lists(st.sampled_from([None, FULL, BUSY, UNKNOWN]), max_size=4)


@given(CHANGES, FAULTS, st.lists(st.integers(0, 60), max_size=3))
def test_every_receiver_hears_exactly_once_whatever_happens(changes, faults, cancellations):
    """Also when the committer is cancelled at any moment; and settlements are written in their order."""
    desk = Desk(FakeStore(*faults, commit_s=0.3, reopen_s=0.2))
    posted = []

    async def scene():
        for tenths in cancellations:
            asyncio.get_running_loop().call_later(tenths / 10, desk.task.cancel)
        for change in unique_settles(changes):
            try:
                desk.post(change)
            except (JournalFull, JournalUnknown):
                continue
            posted.append(change)
            if len(posted) % 5 == 0:
                await desk.pause(0.2)
        await desk.pause(30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backlog, "BATCH_CHANGES", 4)
        patch.setattr(aftermath, "SUBMITS_A_TURN", 1)
        desk.play(scene)
    failed = any(one[0] == "failed" for one in desk.told)
    for change in posted:
        [outcome] = desk.outcomes(change)
        written = sum(any(one is change for one in batch) for batch in desk.store.batches)
        assert written == (0 if isinstance(outcome, Exception) else 1)
        if not failed and isinstance(outcome, Exception):
            assert type(change).__name__ not in ("Settle",), "a settlement is repeated until it is written"
    settles = [c for batch in desk.store.batches for c in batch if hasattr(c, "attempt_state")]
    assert [c.job_id for c in settles] == [c.job_id for c in posted if hasattr(c, "attempt_state")][: len(settles)]


def unique_settles(changes):
    seen = set()
    for change in changes:
        if hasattr(change, "attempt_state"):
            if change.job_id in seen:
                continue
            seen.add(change.job_id)
        yield change


# ---- failures ------------------------------------------------------------------------------------------------------


def test_a_full_journal_refuses_what_is_new_and_keeps_what_has_happened():
    desk = Desk(FakeStore(FULL, FULL))
    kept = [settle(1)]
    refused = [builders.claim(2), builders.submit(3), builders.cancel(4)]

    async def scene():
        desk.post(*kept, *refused)
        await desk.pause(1.1)
        with pytest.raises(JournalFull):
            desk.post(builders.submit(5))
        assert desk.committer.full
        await desk.committer.flush()
        assert not desk.committer.full

    desk.play(scene)
    assert [desk.outcomes(change) for change in refused] == [[FULL], [FULL], [FULL]]
    assert desk.store.batches == [kept, []]
    assert desk.told == [("committed", kept), ("committed", [])]
    assert desk.batches_told == 2  # then dispatching looks again: there is room


class FrugalStore(FakeStore):
    """While it is `full`, it has space for endings alone."""

    full = True

    async def commit(self, changes, stamp):
        if self.full and (not changes or any(type(change) in backlog.BEGINNINGS for change in changes)):
            raise FULL
        return await super().commit(changes, stamp)


def test_endings_are_written_while_nothing_else_is_and_at_once():
    desk = Desk(FrugalStore(commit_s=0.0))
    first, second, limits = settle(1), settle(2), SaveLimits({"a": 1})

    async def scene():
        desk.post(builders.submit(3))
        await desk.pause(0.2)
        assert desk.committer.trouble is FULL
        assert desk.committer.idle  # nothing that could be written waits
        desk.post(first)
        await desk.pause(0.01)
        assert desk.outcomes(first)
        desk.committer.save_limits(limits, aftermath.ignore)
        desk.post(second, builders.cancel(4))
        await desk.pause(0.01)
        assert desk.outcomes(second)
        assert desk.committer.full
        desk.store.full = False
        await desk.pause(1.1)
        assert desk.committer.trouble is None

    desk.play(scene)
    assert desk.store.batches == [[first], [second, limits], []]
    assert [outcome for change, outcome in desk.heard if type(change) in backlog.BEGINNINGS] == [FULL, FULL]


def test_a_journal_that_takes_nothing_is_told_of_once_a_minute(caplog):
    desk = Desk(FakeStore(*[FULL] * 150, commit_s=0.0))

    async def scene():
        desk.post(builders.submit(1))
        await desk.pause(150)

    desk.play(scene)
    assert len(caplog.records) == 3
    assert "a commit failed: JournalFull: no space" in caplog.text


def test_an_empty_batch_asks_a_full_journal_whether_there_is_space_again():
    desk = Desk(FakeStore(FULL, FULL))

    async def scene():
        desk.post(builders.submit(1))
        await desk.pause(10)

    desk.play(scene)
    assert desk.told == [("committed", [])]
    assert desk.batches_told == 1


def test_a_busy_journal_is_tried_again_and_nobody_notices():
    desk = Desk(FakeStore(BUSY, BUSY))
    changes = [settle(1), builders.submit(2)]

    async def scene():
        desk.post(*changes)
        await desk.committer.flush()

    desk.play(scene)
    assert desk.store.batches == [changes]
    assert [type(outcome) for _, outcome in desk.heard] == [tuple, tuple]


def test_patience_with_a_busy_journal_ends():
    desk = Desk(FakeStore(*[BUSY] * 200))
    change = builders.submit(1)

    async def scene():
        desk.post(change)
        await desk.pause(200)

    desk.play(scene)
    assert desk.outcomes(change) == [BUSY]
    assert desk.told == [("failed", BUSY)]


def test_an_unknown_outcome_is_told_reopened_and_settlements_are_repeated():
    desk = Desk(FakeStore(UNKNOWN))
    told = [builders.cancel(2), builders.submit(3), builders.claim(4)]
    repeated = settle(1)

    async def scene():
        desk.post(repeated, *told)
        await desk.committer.flush()

    desk.play(scene)
    assert [desk.outcomes(change) for change in told] == [[UNKNOWN]] * 3
    assert desk.store.batches == [[repeated]]
    assert desk.store.reopened == 1
    assert desk.told == ["unknown", ("committed", [repeated])]


@pytest.mark.parametrize(("faults", "cause"), [([UNKNOWN] * 3, UNKNOWN), ([JournalCorrupt("x", path="x")], None)])
def test_what_cannot_be_repaired_ends_the_committer_and_everybody_hears_why(faults, cause):
    desk = Desk(FakeStore(*faults))
    changes = [settle(1), builders.submit(2), builders.claim(3)]

    async def scene():
        desk.post(settle(9))
        await desk.pause(0.5)
        desk.post(*changes)
        await desk.pause(10)
        with pytest.raises(type(faults[-1])):
            desk.post(builders.submit(4))
        await desk.committer.flush()

    desk.play(scene)
    assert desk.told[-1] == ("failed", cause or faults[0])
    assert all(len(desk.outcomes(change)) == 1 for change in changes)


def test_three_unknowns_further_apart_than_a_minute_end_nothing():
    desk = Desk(FakeStore())

    async def scene():
        for number in range(5):
            desk.store.faults = [UNKNOWN]
            desk.post(settle(number))
            await desk.pause(40)

    desk.play(scene)
    assert len(desk.store.batches) == 5


class NeverReopens(FakeStore):
    async def reopen(self):
        raise JournalUnavailable("gone", path="fake")


def test_a_journal_that_cannot_be_reopened_ends_the_committer():
    desk = Desk(NeverReopens(UNKNOWN))
    change = settle(1)

    async def scene():
        desk.post(change)
        await desk.pause(5)

    desk.play(scene)
    assert [type(outcome) for outcome in desk.outcomes(change)] == [JournalUnavailable]


# ---- being cancelled -----------------------------------------------------------------------------------------------


def test_a_reopening_that_somebody_cancelled_is_a_fault_of_the_journal_not_the_callers_cancellation():
    """Callers and doers would take CancelledError for their own: a doer would begin anew for ever, without a turn."""
    desk = Desk(FakeStore(UNKNOWN, reopen_s=1))
    change = builders.submit(1)

    async def scene():
        caller = asyncio.ensure_future(desk.committer.submit(change))
        await desk.pause(1.5)
        for task in asyncio.all_tasks() - {asyncio.current_task(), caller}:
            task.cancel()
        with pytest.raises(JournalUnavailable, match="somebody cancelled the opening of the journal"):
            await caller
        with pytest.raises(JournalUnavailable):
            desk.post(builders.submit(2))

    desk.play(scene)
    assert [type(cause) for _, cause in desk.told] == [JournalUnavailable]


def test_a_callers_change_is_written_although_the_caller_was_cancelled():
    desk = Desk(FakeStore())
    change = builders.submit(1)

    async def scene():
        caller = asyncio.ensure_future(desk.committer.submit(change))
        await desk.pause(0.5)
        caller.cancel()
        await desk.committer.flush()
        assert caller.cancelled()

    desk.play(scene)
    assert desk.store.batches == [[change]]


@pytest.mark.parametrize("victim", ["the committer", "its commit"])
@pytest.mark.parametrize("moment_s", [0.5, 1.5])
@pytest.mark.parametrize("fault", [None, UNKNOWN])
def test_a_stranger_who_cancels_takes_nothing_with_him(victim, moment_s, fault):
    """The commit itself, in its task, may be hit too: then its outcome is unknown. Nobody waits for ever."""
    desk = Desk(FakeStore(fault, reopen_s=1))
    kept, told = settle(1), builders.submit(2)

    async def scene():
        desk.post(kept, told)
        await desk.pause(moment_s)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if (task is desk.task) == (victim == "the committer"):
                task.cancel()
        await desk.pause(20)

    desk.play(scene)
    assert len(desk.outcomes(told)) == 1
    if not any(one[0] == "failed" for one in desk.told):
        assert [batch for batch in desk.store.batches if kept in batch]


# ---- the bound of the queue ----------------------------------------------------------------------------------------


@pytest.fixture
def _small_queue(monkeypatch):
    monkeypatch.setattr(intake, "QUEUE_LIMIT", 5)
    monkeypatch.setattr(backlog, "BATCH_CHANGES", 3)


@pytest.mark.usefixtures("_small_queue")
def test_the_queue_is_bounded_and_callers_wait_their_turn():
    desk = Desk(FakeStore())
    most = 0

    async def caller(number):
        nonlocal most
        await desk.committer.submit(builders.submit(number))

    async def scene():
        nonlocal most
        callers = [asyncio.ensure_future(caller(number)) for number in range(1, 31)]
        callers[12].cancel()
        while not all(one.done() for one in callers):
            most = max(most, len(desk.committer._backlog.submits))
            with pytest.raises(Overloaded):
                desk.committer.check_room(6)
            await desk.pause(0.25)
        desk.committer.check_room(5)

    desk.play(scene)
    assert most <= 5
    written = [change.request.job_id for batch in desk.store.batches for change in batch]
    assert written == [number for number in range(1, 31) if number != 13]


# ---- in a scheduler ------------------------------------------------------------------------------------------------


class FillingStore(SlowStore):
    """Has no space while `filled`, or after `most` submissions."""

    filled = False
    fills_at = None  # the kind of change that finds it full
    most = None

    async def commit(self, changes, stamp):
        self.filled = self.filled or any(type(change) is self.fills_at for change in changes)
        submits = sum(hasattr(change, "request") for change in changes)
        if self.most is not None and submits:
            self.filled = self.filled or submits > self.most
            self.most -= submits
        if self.filled:
            raise FULL
        return await super().commit(changes, stamp)


def test_what_fell_due_while_the_journal_was_full_starts_when_there_is_space_again():
    stage = Stage(store=FillingStore(MemoryStore()))

    async def scene(scheduler):
        await scheduler.after(10, "note", "due")
        stage.store.filled = True
        with pytest.raises(JournalFull):
            await scheduler.now("note", "refused")
        await stage.machine.sleep(15)
        stage.store.filled = False
        await stage.machine.sleep(3)

    stage.play(scene)
    assert 15 <= stage.when("due") <= 16.1
    assert "refused" not in stage.tags()


def test_at_many_lists_what_is_acknowledged_when_the_journal_fills_half_way():
    stage = Stage(store=FillingStore(MemoryStore(), commit_s=0.01))

    async def scene(scheduler):
        stage.store.most = 2_500
        drafts = [scheduler.new(stage.far, "note", number) for number in range(6_000)]
        with pytest.raises(PartlyScheduled) as caught:
            await scheduler.at_many(drafts)
        stage.store.filled, stage.store.most = False, None
        await stage.machine.sleep(5)
        return caught.value

    error = stage.play(scene)
    assert isinstance(error.cause, JournalFull)
    assert 0 < len(error.jobs) < 6_000
    assert {job.number for job in error.jobs} == set(stage.dump()["jobs"])


def test_stop_leaves_no_claim_behind():
    """A claim under way when the stop begins is given back, not left for the next owner to find LOST."""
    for seed in range(40):
        stage = Stage(VirtualMachine(seed=seed, shuffle=True), SlowStore(MemoryStore(), seed, commit_s=0.04))

        async def scene(scheduler, stage=stage, seed=seed):
            for number in range(5):
                await scheduler.after(1, "note", number)
            await stage.machine.sleep(0.7 + seed / 100)

        stage.play(scene)
        for attempt in stage.dump()["attempts"].values():
            assert attempt.state in (AttemptState.SUCCEEDED, AttemptState.RELEASED), f"seed {seed}"


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("verb", ["cancel", "reschedule"])
def test_a_verb_of_unknown_outcome_lets_nothing_start_that_the_journal_has_ended(verb, written):
    """I9: the claimed job was withdrawn, and nobody knows whether the journal ended its attempt: it is given back."""
    stage = Stage(store=SlowStore(MemoryStore(), commit_s=0.002))

    async def scene(scheduler):
        job = await scheduler.after(1, "note", "only")
        await stage.machine.sleep(0.985 - stage.elapsed_s)
        stage.store.faults[stage.store.commits + 1] = (UNKNOWN, written)
        with pytest.raises(JournalUnknown):
            await (job.cancel() if verb == "cancel" else job.reschedule(stage.far))
        await stage.machine.sleep(10)
        return await job.refresh()

    job = stage.play(scene)
    happened = JobState.CANCELLED if verb == "cancel" else JobState.SCHEDULED
    assert job.state == (happened if written else JobState.COMPLETED)
    assert stage.tags() == ([] if written else ["only"])


def test_after_claims_of_unknown_outcome_every_job_runs_once():
    """What the lost claim took is given back, and what a newer claim took meanwhile is left alone."""
    for seed in range(30):
        machine = VirtualMachine(seed=seed, shuffle=True)
        stage = Stage(machine, SlowStore(MemoryStore(), seed, commit_s=0.1, read_s=0.02))

        async def scene(scheduler, stage=stage, seed=seed):
            await scheduler.at_many(scheduler.new(stage.soon, "note", number) for number in range(20))
            stage.store.faults[stage.store.commits + 1] = (UNKNOWN, seed % 2 == 0)
            await stage.machine.sleep(20)

        stage.play(scene)
        assert sorted(stage.tags()) == list(range(20)), f"seed {seed}"
        assert {job.state for job in stage.dump()["jobs"].values()} == {JobState.COMPLETED}, f"seed {seed}"


def test_a_fatal_error_fails_the_scheduler_in_view():
    stage = Stage(store=SlowStore(MemoryStore()))

    async def life():
        scheduler = stage.scheduler()
        await scheduler.start()
        stage.store.faults[stage.store.commits + 1] = (JournalCorrupt("rotten", path="x"), False)
        with pytest.raises(JournalCorrupt):
            await scheduler.now("note", "never")
        with pytest.raises(SchedulerFailed, match="rotten"):
            await scheduler.now("note", "never")
        await scheduler.stop()

    stage.machine.run(life())
    crash(stage.store)
    assert not stage.diary


def test_a_claim_that_the_journal_refused_waits_and_starts_when_there_is_space():
    stage = Stage(store=FillingStore(MemoryStore(), commit_s=0.01))

    async def scene(scheduler):
        await scheduler.after(10, "note", "due")

        stage.store.fills_at = Claim
        await stage.machine.sleep(15)
        stage.store.filled, stage.store.fills_at = False, None
        await stage.machine.sleep(3)

    stage.play(scene)
    assert 15 <= stage.when("due") <= 16.1
