"""Bugs of flow control, of what becomes of failures, and of dead letters: one of each kind of mistake."""

from __future__ import annotations

from tests.planted.planting import Bug, all_of, edit, edit_verb, edited, into
from timewheel import errand, ledger, operations, progress
from timewheel.dispatch import admission, breaker, budget, guards, meter, ready, shares, slots
from timewheel.model import JobState
from timewheel.store import heirs, key_limits
from timewheel.work import classify, lifecycle, run, watch
from timewheel_storage import memory_claims, memory_flow, memory_letters

FLOW_BUGS: list[Bug] = []
_bug = into(FLOW_BUGS)

# ---- rates and slots (I17, I18) --------------------------------------------------------------------------------------

_bug(
    "tokens of a key not counted",
    "a start takes one token of its task, and none of its key",
    edit(
        admission.Admission,
        "enter",
        "self.meters.promised(name).spend(tokens, now_us)",
        "self.meters.promised(name).take_back(0, tokens, now_us) if name.startswith('queue') or 'r' in name[-2:]"
        " else self.meters.promised(name).spend(tokens, now_us)",
    ),
    "I17",
    40,
    near=23,
)
_bug(
    "cost ignored",
    "every start takes one token of its key, whatever it costs",
    edit(admission.Declarations, "needs", "min(flow.cost, rate.burst)", "1"),
    "I17",
    40,
    near=23,
)
_bug(
    "rates of keys not saved",
    "after a restart the rates of tasks and keys begin with full buckets",
    edit(meter.Meter, "to_save", "return self.bucket.promised", "return 0 and self.bucket.promised"),
    "I15 I17",
    160,
    near=111,
)
_bug(
    "a slot too many",
    "one job more of a task runs than its concurrency lets",
    edit(slots.Slots, "take", "if free <= 0:", "if free <= -1:"),
    "I18",
    40,
    near=10,
)
_bug(
    "slot of a task kept",
    "a job that has ended does not give the slot of its task back",
    edit(admission.Admission, "ended", "pledge.slots.give_back()", "pass"),
    "I29",
    40,
    near=1,
)
_bug(
    "waiters of a task forgotten",
    "nobody lets those go on that wait for a slot of their task",
    edit(slots.Slots, "ask", "if free <= 0 or not self._waiting:", "if True:"),
    "I18 I29",
    40,
    near=7,
)
_bug(
    "key limit off by one",
    "one job more of a concurrency key runs than may",
    edit(memory_claims.Claims, "_is_held", "<= 0", "<= -1"),
    "I18",
    40,
    near=1,
)
_bug(
    "the laxest limit holds",
    "where task and queue declare a limit of one key, the larger one holds",
    edit(key_limits.KeyLimits, "of", "min(declared", "max(declared"),
    "I18",
    60,
    near=7,
)
_bug(
    "holders' limits ignored",
    "a job begins beside holders of its key that let fewer run",
    edit(memory_claims.Claims, "_room", "(job, *running)", "(job,)"),
    "I18",
    60,
    near=36,
)
_bug(
    "the key of a handler that clings",
    "a job begins beside a handler with its key that does not stop, once the job of that one is DEAD or CANCELLED",
    edit(ledger.Ledger, "overruns", "if job.concurrency_key is not None:", "if False:"),
    "I18",
    40,
    near=13,
)
_bug(
    "the key of a handler that clung",
    "whoever waits for a key that only a handler without a job held waits on when that has ended",
    edit(heirs.Heirs, "overrun_ended", "self._keys.add(self._overran[job_id].key)", "pass"),
    "I29",
    40,
    near=15,
)

_bug(
    "partitions take no turns",
    "the many jobs of one tenant start before the one of another",
    edit(ready.Ready, "take", "turns.append(partition)", "turns.appendleft(partition)"),
    "I7",
    20,
    near=1,
)

_bug(
    "weights ignored",
    "queues that wait for the same slots have as many starts each, whatever they weigh",
    edit(shares.Shares, "_step", "UNIT // self._weights.get(queue, 1)", "UNIT"),
    "I7",
    60,
    near=7,
)

# ---- unique, dependencies (I4, I18) ----------------------------------------------------------------------------------

_bug(
    "running jobs not in the way",
    "a unique job is made while another of its kind runs",
    edit(memory_flow.Submits, "_in_the_way", "if job.state in unique.states", "if job.state in unique.states[:2]"),
    "I4",
    60,
    near=18,
)
_bug(
    "period of a unique ignored",
    "a job stands in a unique one's way however long ago it was made",
    edit(memory_flow.Submits, "_in_the_way", "unique.period_us is None or", "True or"),
    "I4",
    160,
    near=57,
)
_bug(
    "replaced and kept",
    "the job that is replaced goes on beside the new one",
    edit_verb(memory_flow.Submits, "submit", 'self._end(other, JobState.CANCELLED, "replaced")', "pass"),
    "I3 I4 I30",
    60,
    near=13,
)
_bug(
    "dependency released early",
    "a job goes on when those that it waits for have begun",
    edit(memory_flow, "fate_of", "if states - FINAL_STATES:", "if states - FINAL_STATES - {JobState.ACTIVE}:"),
    "I18 I29",
    60,
    near=28,
)
_bug(
    "failed dependency ignored",
    "a job runs although one that it waited for did not complete",
    edit(
        memory_flow,
        "fate_of",
        "dependencies.if_one_fails is DependencyFails.RUN",
        "dependencies.if_one_fails is not DependencyFails.WAIT",
    ),
    "I18",
    60,
    near=1,
)
_bug(
    "dependents not let go",
    "a job whose dependencies have all completed waits on",
    edit(memory_claims.Claims, "_dependencies_met", "met[job_id] = job", "pass"),
    "I18 I29",
    40,
    near=7,
)

# ---- how jobs are given up (I14) -------------------------------------------------------------------------------------

_bug(
    "deadline ignored",
    "a job begins after its deadline",
    lambda: all_of(
        edited(memory_claims, "_gives_up_at", ("return", "return 1 << 62 or")),
        edited(run.Run, "too_late", ("return over or", "return")),
    ),
    "I14",
    60,
    near=7,
)
_bug(
    "expiry ignored",
    "a job begins although it has expired",
    lambda: all_of(
        edited(memory_claims, "_expires_at", ("return", "return 1 << 62 or")),
        edited(
            run.Run, "too_late", ("return over or (expires and not job.failures and not job.losses)", "return over")
        ),
    ),
    "I14",
    160,
    near=58,
)
_bug(
    "run twice after a loss",
    "a job that is not idempotent is tried again when its process died in it",
    edit(lifecycle, "decide_lost", "elif not terms.idempotent:", "elif False:"),
    "I14",
    60,
    near=10,
)
_bug(
    "run twice after a timeout",
    "a job that is not idempotent is tried again when nobody knows how it ended",
    edit(lifecycle, "_failed", "elif fault is FaultClass.AMBIGUOUS and not case.terms.idempotent:", "elif False:"),
    "I14",
    60,
    near=7,
)
_bug(
    "classes of a task ignored",
    "what a task calls its exceptions is not asked",
    edit(classify, "classify", "None if judge is None else judge(error)", "None"),
    "I14",
    60,
    near=15,
)

# ---- heartbeats (I14) ------------------------------------------------------------------------------------------------

_bug(
    "silence not noticed",
    "a handler that has stopped saying that it is alive runs on",
    edit(watch.Watch, "_listened", 'self._expired(run, f"no heartbeat for {timeout_us / SECOND_US:g} s")', "pass"),
    "I14 I29",
    60,
    near=1,
)
_bug(
    "heartbeats not heard",
    "a handler is ended for its silence although it says that it is alive",
    edit(watch.Watch, "_listened", "if left_us > 0:", "if False:"),
    "I14",
    60,
    near=1,
)
_bug(
    "one silence is forgiven",
    "a silent handler is ended when it has been silent for twice as long as it may be",
    edit(watch.Watch, "_listened", "late_us >= LATE_US and heard_us", "(late_us := timeout_us) and heard_us"),
    "I14",
    60,
    near=1,
)

_bug(
    "a blocked loop is no excuse",
    "a handler is ended for a silence in which the loop was blocked, before it could say anything",
    edit(watch.Watch, "_listened", "late_us >= LATE_US and heard_us", "False and heard_us"),
    "I14",
    160,
    near=1,
)

# ---- dead letters (I10, I13, I29) ------------------------------------------------------------------------------------

_bug(
    "replay keeps failures",
    "a replay does not begin with fresh budgets",
    edit_verb(memory_letters.Letters, "replay", "job.failures = job.losses = 0", "pass"),
    "I13",
    60,
    near=1,
)
_bug(
    "replay of what completed",
    "a job that has completed runs again",
    edit_verb(
        memory_letters.Letters,
        "replay",
        "if old.state not in REPLAYABLE:",
        "if old.state not in (*REPLAYABLE, JobState.COMPLETED):",
        JobState=JobState,
    ),
    "I1 I10 I25 I29",
    60,
    near=13,
)
_bug(
    "replay without audit",
    "who had a job run again is not written down",
    edit_verb(memory_letters.Letters, "replay", 'self._add_entry("audit", replay.audit)', "pass"),
    "I10",
    40,
    near=1,
)
_bug(
    "canaries ignored",
    "a replay of many goes on while its canaries run, or have failed",
    edit(progress.Progress, "room", "if not self.tried:", "if False:"),
    "I10",
    60,
    near=13,
)
_bug(
    "failed canary ignored",
    "a replay of many goes on although a canary has failed",
    edit(errand.Errand, "_look_at", "elif job.state is not JobState.COMPLETED:", "elif False:"),
    "I10",
    160,
    near=40,
)
_bug(
    "rate of a replay ignored",
    "the jobs of a replay of many are all due at once",
    edit(progress.Progress, "next_due", "due_at = self._earliest(terms, now_us)", "due_at = now_us"),
    "I10",
    60,
    near=13,
)
_bug(
    "operation forgotten",
    "an operation that a former process left unfinished does not go on",
    edit(operations.Operations, "resume", "record.state is OperationState.RUNNING", "False"),
    "I10 I29",
    60,
    near=18,
)
# ---- breakers and budgets (I17) --------------------------------------------------------------------------------------

_bug(
    "breaker never opens",
    "a dependency that fails is called on",
    edit(breaker.CircuitBreaker, "failed", "if enough and failures >=", "if False and failures >="),
    "I17",
    60,
    near=18,
)
_bug(
    "breaker never closes",
    "a dependency that has recovered is not called as before",
    edit(
        breaker.CircuitBreaker, "succeeded", "self._successes += 1", "self._open(now_us + self._open_us, 'a success')"
    ),
    "I17 I29",
    60,
    near=18,
)
_bug(
    "open breaker not asked",
    "jobs start although the breaker of their dependency is open",
    lambda: all_of(
        edited(breaker.CircuitBreaker, "turn", ("if self.state.lets_all:", "if True:")),
        edited(breaker.CircuitBreaker, "holds", ("return self.state.lets_all", "return True")),
    ),
    "I17",
    60,
    near=18,
)
_bug(
    "all probe",
    "half open a breaker lets all start",
    edit(breaker.CircuitBreaker, "turn", "if len(self._probes) < self._settings.probes:", "if True:"),
    "I17",
    120,
    near=18,
)
_bug(
    "budget ignored",
    "retries start whatever their share is",
    edit(budget.Budget, "_allows", "return retries", "return True or retries"),
    "I17",
    60,
    near=18,
)
_bug(
    "budget of a queue not asked",
    "the retries of a queue start whatever its budget says",
    edit(guards.Guards, "_of", "(self._queues.get(queue), None", "(None, None"),
    "I17",
    60,
    near=1,
)

_bug(
    "all dead letters forgotten",
    "retention forgets dead letters that nobody has discarded",
    edit(memory_letters, "_names", "return job.discarded_at is not None and", "return job.discarded_at is None or"),
    "I1",
    160,
    near=48,
)
