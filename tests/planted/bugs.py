"""The planted bugs: one of each kind of mistake that the invariants of RELIABILITY.md are there to notice."""

from __future__ import annotations

import dataclasses
import random
from typing import Any
from unittest.mock import patch

from tests.planted.bugs_of_flow import FLOW_BUGS
from tests.planted.bugs_of_schedules import STANDING_BUGS
from tests.planted.planting import Bug, Planting, all_of, edit, edited, into, reworded, small, verbs_as_now
from timewheel import (
    aftermath,
    clockwatch,
    engine,
    ledger,
    queue_keeper,
    requests,
    submissions,
    supervisor,
    timeline,
    verbs,
    waiters,
)
from timewheel.dispatch import bucket, claiming, dispatcher, gate, limits, promises
from timewheel.model import JobState
from timewheel.store import aftermath as store_aftermath
from timewheel.store import committer, loader, recovery
from timewheel.store.changes import Cancelled, Settle, Submit, Submitted
from timewheel.wheel import ticker
from timewheel.work import lifecycle, settling, watch, worker
from timewheel_storage import memory, memory_claims, memory_flow, memory_journal, memory_verbs
from timewheel_storage.sqlite import batch as sqlite_batch
from timewheel_storage.sqlite import write_settle, write_verbs

BUGS: list[Bug] = []
_bug = into(BUGS)


LATE_SETTLEMENT = """
        if error is None:
            decision = self._judge(run, Ending(EndingKind.RETURNED), self._now())
            late = settlement(run, decision, self._now(), self._ledger.epoch, None, value)
            self._ledger.settle(late, run.claimant)
        self._ledger.overran("""
MOVES_SOMETHING = """
    journal.epoch += 1
    for job in [job for job in journal.jobs.values() if job.state is JobState.SCHEDULED][:1]:
        moved = copy_job(job)
        moved.due_at += 1
        journal.replace(job, moved)
"""


# ---- what was promised is kept (I1, I3, I25) -------------------------------------------------------------------------

_bug(
    "early acknowledgement",
    "a submission is acknowledged when it is queued, before its batch is durable",
    edit(
        committer.Committer,
        "submit",
        "return await future",
        "return Submitted(change.request.job_id, -1, True)",
        Submitted=Submitted,
    ),
    "I1",
    20,
)
_bug(
    "withdrawn with its caller",
    "a submission whose caller stops waiting is taken out of the queue",
    edit(
        committer.Committer,
        "submit",
        "return await future",
        """
    try:
        return await future
    except asyncio.CancelledError:
        kept = [entry for entry in self._backlog.submits if entry[0] is not change]
        self._backlog.submits.clear()
        self._backlog.submits.extend(kept)
        raise
""",
    ),
    "I1",
    60,
    near=6,
)
_bug(
    "outcome lost",
    "the settlement of a handler that failed is forgotten",
    edit(
        ledger.Ledger,
        "settle",
        "if self.closed:",
        "if self.closed or change.attempt_state.name == 'FAILED_RETRYABLE':",
    ),
    "I15 I25 I29",
    20,
)
_bug(
    "retry forgotten",
    "a job that is to be tried again is not put into memory",
    edit(aftermath.Consequences, "_settled", "if outcome.job_state is JobState.SCHEDULED:", "if False:"),
    "I7 I15 I29",
    20,
)
_bug(
    "unknown taken for failure",
    "after a commit of unknown outcome nothing is re-read: claims that were written are forgotten",
    edit(
        committer.Committer,
        "_reopen",
        "await to_the_end(self._aftermath.journal_unknown(claims_of(told)))",
        "claims_of(told)",
    ),
    "I15 I29",
    60,
)
_bug(
    "unknown taken for success",
    "after a commit of unknown outcome the callers are told that their jobs exist",
    edit(
        committer.Committer,
        "_reopen",
        "tell(told, error)",
        """
    for change, receive in told:
        receive(Submitted(change.request.job_id, -1, True) if isinstance(change, Submit) else error)
""",
        Submit=Submit,
        Submitted=Submitted,
    ),
    "I1",
    100,
    near=28,
)
_bug(
    "settlement not repeated",
    "after a commit of unknown outcome its settlements are not written again",
    edit(
        committer.Committer,
        "_reopen",
        "(*BEGINNINGS, AddEntry)",
        "(*BEGINNINGS, AddEntry, Settle)",
        Settle=Settle,
    ),
    "I12 I15 I16 I29",
    60,
    near=11,
)
_bug(
    "error taken for success",
    "a handler that raises SystemExit counts as one that returned",
    edit(
        settling,
        "ending_of",
        "if error is None:",
        "if error is None or isinstance(error, SystemExit):",
    ),
    "I25",
    20,
)
_bug(
    "callers not told",
    "when the journal is full, submissions that wait are dropped without a word",
    edit(
        committer.Committer,
        "_after_error",
        "tell([*told, *self._backlog.drop_beginnings()], error)",
        "self._backlog.drop_beginnings()",
    ),
    "I29",
    60,
    near=14,
)

# ---- one key, one job (I4) -------------------------------------------------------------------------------------------

_bug(
    "key ignored",
    "a submission under a key that is held makes a second job",
    edit(memory_flow.Submits, "_holder", "if key not in self._journal.keys:", "if True:"),
    "I4",
    20,
)
_bug(
    "key not compared with the body",
    "another request under a key that is held is answered with the job that holds it",
    edit(requests, "_digest", "return hashlib.sha256(orjson.dumps(body)).hexdigest()", "return 'same'"),
    "I4",
    40,
)
_bug(
    "key lost in a restart",
    "a new owner begins with no idempotency keys",
    edit(memory.MemoryStore, "own", "journal.owner = owner", "journal.owner = owner; journal.keys.clear()"),
    "I4",
    40,
)
_bug(
    "submitted twice",
    "a submission without a key is written twice, under two ids",
    edit(
        submissions.Submissions,
        "submit",
        "outcome = await engine.committer.submit(submit)",
        """
    outcome = await engine.committer.submit(submit)
    if submit.request.idempotency_key is None:
        await engine.committer.submit(Submit(replace(submit.request, job_id=engine.new_id())))
""",
        replace=dataclasses.replace,
    ),
    "I3",
    10,
)

# ---- never early, never late (I6, I7, I21) ---------------------------------------------------------------------------

_bug(
    "20 ms early",
    "the gate lets a job in as soon as it may be claimed",
    edit(gate.Claimant, "early_by", "return self.job.due_at", "return -20_000 + self.job.due_at"),
    "I6",
    10,
)
_bug(
    "wall job on the steady clock",
    "the gate counts a wall job on the steady clock",
    lambda: all_of(
        edited(gate.Claimant, "early_by", ("now[self.job.clock]", "now[1]")),
        edited(gate.Gate, "candidates", ("now.on(kind)", "now.steady_us")),
        edited(gate.Gate, "waits", ("now.on(kind)", "now.steady_us")),
    ),
    "I6",
    40,
)
_bug(
    "backward step not noticed",
    "a wall clock that was set back goes unnoticed",
    edit(
        clockwatch.ClockWatch,
        "look",
        "if not stepped and",
        "if stepped <= 0 and",
    ),
    "I6 I7 I15 I21 I29",
    40,
    near=8,
)
_bug(
    "wake lost after a resume",
    "the ticker sleeps until the next job is due, however long: a suspend makes it late",
    edit(ticker.Ticker, "turn", "sleep = self._longest_sleep_us", "sleep = 3_600_000_000"),
    "I7 I21 I29",
    20,
)
_bug(
    "timer not set anew",
    "an earlier job does not wake the ticker",
    edit(ticker.Ticker, "insert", "self._alarm.ring()", "pass"),
    "I7 I29",
    10,
)
_bug(
    "steady time follows the wall",
    "at a start steady time begins at the wall clock, whatever was set while the process was down",
    edit(timeline, "_steady_at_start", "if anchor is None:", "if True:"),
    "I21",
    40,
)

# ---- the truth of the verbs (I9) -------------------------------------------------------------------------------------

_bug(
    "cancel answered too soon",
    "cancel answers before its batch is durable",
    edit(
        verbs.Verbs,
        "cancel",
        "return await self._commit(change)",
        """
    asyncio.ensure_future(self._commit(change)).add_done_callback(lambda each: each.cancelled() or each.exception())
    return Cancelled(change.job_id, CancelAnswer.REQUESTED if change.entered else CancelAnswer.CANCELLED)
""",
        Cancelled=Cancelled,
    ),
    "I9",
    20,
)
_bug(
    "withdrawn, and entered",
    "the gate does not look whether a cancel of the job is under way",
    edit(gate.Gate, "candidates", "if claimant.job.job_id in self._withdrawn:", "if False:"),
    "I9 I25",
    60,
)
_bug(
    "cancel forgotten in recovery",
    "a job whose running attempt was lost is tried again although it was cancelled",
    edit(
        memory_verbs.Verbs,
        "_judged",
        "elif job.cancel_requested is not None:",
        "elif job.cancel_requested is not None and settle.attempt_state.name != 'LOST':",
    ),
    "I9",
    60,
)
_bug(
    "moved while it runs",
    "reschedule takes a job whose handler has been entered for one that waits",
    edit(
        verbs.Verbs,
        "reschedule",
        "change.entered = self._withdraw(change.job_id)",
        "self._withdraw(change.job_id)",
    ),
    "I9 I25 I12 I29",
    40,
)

# ---- attempts (I10 to I13) -------------------------------------------------------------------------------------------

_bug(
    "attempt number reused",
    "an attempt that was given back is not counted",
    edit(
        memory_verbs.Verbs,
        "_judged",
        "job = copy_job(old)",
        """
    job = copy_job(old)
    if settle.attempt_state.name == "RELEASED" and job.attempt > 1:
        job.attempt -= 1
        self._journal.drop(self._journal.attempts, (job.job_id, old.attempt))
""",
    ),
    "I11 I6",
    40,
)
_bug(
    "late result accepted",
    "what a handler brings after its attempt timed out makes the job COMPLETED",
    lambda: all_of(
        edited(worker.Worker, "_ended", ("self._ledger.overran(", LATE_SETTLEMENT)),
        edited(memory_verbs.Verbs, "settle", ("old.state is not JobState.ACTIVE", "old.state in FINAL_STATES")),
        edited(memory_verbs.Verbs, "_end_attempt", ("ensure(old.state in OPEN and state not in OPEN", "ensure(True")),
        verbs_as_now(),
        patch.dict(memory_journal.LEGAL, {JobState.WAITING: frozenset(JobState)}),
    ),
    "I23 I25 I30",  # or two settlements in one batch, or numbers that do not fit the journal
    60,
)
_bug(
    "run twice at once",
    "after a commit of unknown outcome jobs are given back that run",
    edit(
        engine.Engine,
        "journal_unknown",
        "[each for each in claimed if each not in ours and not self.worker.has(each)]",
        "[each for each in self.worker._runs if each not in ours]",
    ),
    "I12 I15 I25 I29",
    60,
)
_bug(
    "losses not counted",
    "an attempt that was lost spends nothing",
    edit(lifecycle, "decide_lost", "losses=counters.losses + 1", "losses=counters.losses"),
    "I13",
    10,
)
_bug(
    "releases counted",
    "an attempt that was given back spends the crash budget",
    edit(settling, "release_of", "losses=job.losses", "losses=job.losses + 1"),
    "I13",
    20,
)
_bug(
    "snoozes counted",
    "a snooze spends the retry budget",
    edit(
        lifecycle,
        "_raised",
        "JobState.SCHEDULED, due_at, *case.counters, SNOOZED",
        "JobState.SCHEDULED, due_at, *case.spent(), SNOOZED",
    ),
    "I13",
    20,
)
_bug(
    "one retry too many",
    "a job fails once more often than its policy allows",
    edit(
        lifecycle,
        "_failed",
        "elif not retries_left(case.policy, spent.failures):",
        "elif not retries_left(case.policy, case.counters.failures):",
    ),
    "I13",
    20,
)

_bug(
    "retry at once",
    "a failed attempt is tried again without its back-off",
    edit(
        lifecycle,
        "_failed",
        "min(case.now + delay, MAX_TIME_US)",
        "case.now",
    ),
    "I14",
    10,
)
_bug(
    "permanent error retried",
    "an error that is permanent is tried again",
    lambda: edited(
        lifecycle,
        "_raised",
        ("if verdict.kind is VerdictKind.PERMANENT:", "if False:"),
        ("_FAULTS[verdict.kind]", "_FAULTS.get(verdict.kind, FaultClass.TRANSIENT)"),
    ),
    "I13 I14 I25",
    10,
)

# ---- a restart (I15, I16, I24) ---------------------------------------------------------------------------------------

_bug(
    "recovery under its own epoch",
    "recovery names its own epoch instead of that of the attempt: nothing is settled",
    edit(recovery.Recovery, "_loss", "attempt.epoch,", "self._epoch,"),
    "I12 I15 I16 I29",
    10,
)
_bug(
    "recovery leaves the last",
    "recovery settles what a former owner left open, except the last job",
    edit(recovery.Recovery, "_lose_open_attempts", "for job, attempt in page:", "for job, attempt in page[:-1]:"),
    "I15 I16 I29",
    20,
)
_bug(
    "lane forgotten",
    "the newest lane is not loaded after a restart",
    edit(loader.Loader, "_learn_lanes", "await self._store.lanes()", "(await self._store.lanes())[:-1]"),
    "I7 I15 I29",
    20,
)
_bug(
    "pause forgotten",
    "a queue that was paused is not after a restart",
    edit(queue_keeper.QueueKeeper, "_hold", "= settings.paused", "= settings.paused and queue in self._kept"),
    "I15 I18",
    40,
)
_bug(
    "overrun never let go",
    "a job whose handler overran waits for ever",
    edit(ledger.Ledger, "overran", "if waiting:", "if False:"),
    "I29",
    60,
)
_bug(
    "unresolvable for ever",
    "a job whose task was not known waits for ever, also when it is known again",
    edit(recovery.Recovery, "recover", "released += await self.unhold(WaitingReason.UNRESOLVABLE, tasks)", "pass"),
    "I29",
    40,
)
_bug(
    "recovery goes too far",
    "a new owner also moves jobs that nobody had claimed",
    edit(memory.MemoryStore, "own", "journal.epoch += 1", MOVES_SOMETHING, copy_job=memory.copy_job),
    "I24",
    40,
)

# ---- limits (I17, I18) -----------------------------------------------------------------------------------------------

_bug(
    "fresh bucket at a restart",
    "a restart brings full buckets",
    edit(engine.Engine, "_wire", "saved = await store.limits()", "saved = {}"),
    "I15 I17",
    20,
)
_bug(
    "limits not saved",
    "the limits are not saved with the claims that spend them",
    edit(promises.Promises, "save", "SaveLimits(values)", "SaveLimits({})"),
    "I15 I17",
    20,
)
_bug(
    "promises not saved",
    "claimed jobs that did not start yet are not counted in what is saved of a rate",
    edit(limits.Limits, "to_save", "limit.bucket.promised(latest_start_us, limit.promised)", "limit.bucket.tat"),
    "I15 I17",
    40,
)
_bug(
    "one start too many",
    "a rate lets one more start than its burst",
    lambda: all_of(
        edited(
            bucket.Bucket,
            "spend",
            ("if after > now + self._burst * self._step", "if after > now + (self._burst + 1) * self._step"),
        ),
        edited(bucket.Bucket, "room", ("self._burst * self._step - base", "(self._burst + 1) * self._step - base")),
    ),
    "I17",
    20,
)
_bug(
    "slot given back twice",
    "a handler that ends gives its slot back twice",
    edit(
        limits.Limits,
        "return_slots",
        "limit.used -= n",
        "limit.used = max(0, limit.used - n - (n if entered else 0))",
    ),
    "I18",
    20,
)
_bug(
    "slot leaked",
    "a job that is given back keeps its slot",
    edit(dispatcher.Dispatcher, "release", "self.not_entered(claimant)", "self.kick()"),
    "I7 I15 I18 I29",
    40,
)
_bug(
    "overrun frees its slot",
    "a handler that overran holds no slot any more",
    lambda: all_of(
        edited(
            worker.Worker,
            "_overrun",
            (
                "self._settle(run, self._judge",
                "self._ledger.slot_free(run.claimant); self._settle(run, self._judge",
            ),
        ),
        edited(
            worker.Worker,
            "_ended",
            ("self._ledger.slot_free(run.claimant)", "pass"),
        ),
    ),
    "I18",
    60,
)
_bug(
    "queue's own limit ignored",
    "only the whole scheduler's concurrency is looked at",
    lambda: all_of(
        edited(limits.Limits, "enter", ("own.has_slot and self.whole.has_slot", "self.whole.has_slot")),
        edited(limits.Limits, "room", ("min(whole, self.of(queue).room(now_us, ahead_us))", "whole")),
    ),
    "I17 I18",
    20,
)

# ---- owners and leases (I22, I23) ------------------------------------------------------------------------------------

_bug(
    "epoch not checked",
    "a former owner may write",
    edit(
        memory.MemoryStore, "commit", "journal.owner is None or stamp.epoch != journal.epoch", "journal.owner is None"
    ),
    "I22",
    10,
)
_bug(
    "epoch not checked in SQL",
    "a former owner may write",
    lambda: reworded(sqlite_batch, "STAMP", (" AND epoch = ?5", " AND ?5 > 0")),
    "I22",
    10,
    store="sqlite",
)
_bug(
    "late result in silence",
    "nobody writes down that a result came too late",
    edit(ledger.Ledger, "overran", 'self._committer.note(AddEntry("late_result", data))', "pass"),
    "I23",
    60,
)

# ---- the scheduler lives (I28, I29, I30) -----------------------------------------------------------------------------

_bug(
    "chance without a seed",
    "retries are spread by another source of chance than the one that was given",
    edit(worker.Worker, "_judge", "self._chance()", "random.random()", random=random),
    "I28",
    10,
)
_bug(
    "doer dies silently",
    "a doer that a stranger cancelled is not started again",
    edit(
        supervisor.Supervisor,
        "_supervise",
        '_log.warning("somebody cancelled the %s of timewheel; it goes on", name)',
        "return",
    ),
    "I7 I29 I15",
    20,
)
_bug(
    "waiter not woken",
    "who waits for a job is not told that it has ended",
    edit(waiters.Waiters, "final", "alarm.ring()", "pass"),
    "I29",
    10,
)
_bug(
    "timeout forgotten",
    "a handler may run longer than its timeout",
    edit(watch.Watch, "begin", "if timeout_us is not None:", "if False:"),
    "I29",
    40,
    near=5,
)
_bug(
    "stop does not write",
    "stop returns before the outcomes are durable",
    edit(engine.Engine, "stop", "await self._write_everything()", "pass"),
    "I12 I26 I29 I30",
    40,
    near=11,
)
_bug(
    "grace judged by the present",
    "a job with a misfire grace is skipped when it only waited for a slot",
    edit(claiming.Claiming, "_ask", "self.watching_since,", "self._now(),"),
    "I19",
    20,
)
_bug(
    "grace ignored",
    "a job with a misfire grace runs however late its scheduler came",
    edit(memory_claims, "_misfired", "return job.due_at", "return False and job.due_at"),
    "I19",
    20,
)
_bug(
    "cancelled jobs not counted",
    "metrics leave out the jobs that were cancelled",
    edit(aftermath, "_ended_by", "int(outcome.answer is CancelAnswer.CANCELLED)", "0"),
    "I30",
    20,
)

# ---- pages and portions, made small so that they fill ---------------------------------------------------------------


def _small(owner: Any, name: str, old: str, new: str) -> Planting:
    return lambda: all_of(small(), edited(owner, name, (old, new)))


_bug(
    "rest of a page forgotten",
    "behind a full page of the due index nothing is loaded any more",
    _small(loader.Loader, "_load", "book.lower(DueKey(*page[-1]))", "pass"),
    "I7 I15 I29",
    20,
)
_bug(
    "frontier off by one",
    "behind a full page loading goes on one key too late",
    _small(loader.Loader, "_load", "DueKey(*page[-1])", "DueKey(page[-1][0], page[-1][1] + 1)"),
    "I7 I15 I29",
    20,
)
_bug(
    "overflow forgotten",
    "a lane that has no room for a job does not lower its frontier",
    _small(loader.Loader, "placed", "book.lower(DueKey(due_us, job_id - 1))", "pass"),
    "I7 I15 I29 I30",
    40,
    near=10,
)
_bug(
    "first portion only",
    "of a large batch only the first portion is told of its outcome",
    _small(store_aftermath, "tell_outcomes", "range(0, max(1, len(batch)), PORTION)", "range(0, 1, PORTION)"),
    "I15 I18 I29",
    20,
    near=1,
)
_bug(
    "first page of losses",
    "recovery looks at one page of what a former owner left open",
    _small(recovery.Recovery, "_lose_open_attempts", "if len(page) < PAGE:", "if True:"),
    "I15 I16 I29",
    20,
)

# ---- the same in SQL -------------------------------------------------------------------------------------------------

_bug(
    "state missing in the cancel's WHERE",
    "a cancel changes a job that is final",
    lambda: reworded(write_verbs, "CANCELS", (" AND state < 3", "")),
    "I1 I9 I10",
    40,
    store="sqlite",
)
_bug(
    "cancel request ignored in SQL",
    "a job whose running attempt does not succeed is tried again although it was cancelled",
    lambda: all_of(
        *(
            patch.object(write_settle, name, getattr(write_settle, name).replace(write_settle._FINAL, "r.state"))
            for name in ("PLACES", "NEW_LANES", "ANY_END")
        )
    ),
    "I9",
    60,
    store="sqlite",
)

BUGS += STANDING_BUGS + FLOW_BUGS
PLANTED: dict[str, Bug] = {bug.name: bug for bug in BUGS}
