"""Random batches of changes, aimed at what the journal holds, now and then beside it."""

from dataclasses import replace
from random import Random

from tests.conformance.flow_batches import FAULTS, FINGERPRINTS, FlowChanges
from tests.conformance.schedule_batches import KEYS, QUEUES, TASKS, ScheduleChanges
from timewheel.model import SECOND_US, AttemptState, ClockKind, JobState, WaitingReason
from timewheel.store.changes import (
    AddEntry,
    Cancel,
    PruneKeys,
    PutQueue,
    Reschedule,
    SaveLimits,
    Settle,
    Unhold,
)
from timewheel.testing.builders import SETTLES, claim, later, submit

UNKNOWN_ID = 1 << 50
OFFSETS = (-10 * SECOND_US, -SECOND_US, -1, 0, 0, 1, 20_000, SECOND_US)
ENDINGS = (*sorted(SETTLES), "retry", "retry", "overrun", "unresolvable")
AS_CLAIMED = (0,) * 8 + (-1, 1)
NAMES = ("a", "b", "ž")
KINDS = (
    *("settle",) * 6,
    *("claim",) * 6,
    *("submit",) * 6,
    *("cancel", "reschedule", "unhold") * 2,
    *("rest", "prune"),
    *("plan",) * 4,
    *("put_schedule", "drop_or_calendar", "take_over"),
    *("replay", "defer") * 2,
    *("discard", "forget", "operation"),
)
APPLIED_FIRST = {"put_schedule", "drop_or_calendar"}  # of what plans look at


class BatchMaker(ScheduleChanges, FlowChanges):
    """Makes a batch, from a seed, for a journal that now holds `dump`."""

    def __init__(self, seed, dump, now, next_id):
        self._chance = Random(seed)
        self._one_of = self._chance.choice
        self._number = self._chance.randint
        self._jobs = dump["jobs"]
        self._attempts = dump["attempts"]
        self._now = now
        self.next_id = next_id
        self.know(dump)
        self._targets = set()  # of Settle, Cancel, Reschedule, Replay, Discard: one a job
        self._unholds = self._number(0, 1) > 0

    def batch(self, least, most):
        kinds = [self._one_of(KINDS) for _ in range(self._number(least, most))]
        changes = {}
        for place in sorted(range(len(kinds)), key=lambda place: kinds[place] not in APPLIED_FIRST):
            changes[place] = getattr(self, f"_{kinds[place]}")()
        batch = [changes[place] for place in sorted(changes) if changes[place] is not None]
        return [*batch, self._take_over_of(everything=False)] if self._waits() and self._number(0, 1) else batch

    def _waits(self):
        return any(job.state is JobState.WAITING for job in self._jobs.values())

    def _maybe(self, values):
        return self._one_of(values) if self._number(0, 1) else None

    def _some(self, values, most):
        return [self._one_of(values) for _ in range(self._number(0, most))]

    def _pick(self, *states, which=lambda _: True):
        """A job's id: one of `which` in these states if there is one; once in ten times any other, or none."""
        ids = sorted(job_id for job_id, job in self._jobs.items() if job.state in states and which(job))
        if not ids or self._number(0, 9) == 0:
            ids = [*sorted(self._jobs), UNKNOWN_ID]
        return self._one_of(ids)

    def _target(self, *states, which=lambda _: True):
        job_id = self._pick(*states, which=which)
        if job_id in self._targets:
            return None
        self._targets.add(job_id)
        return job_id

    def _settle(self):
        if self._number(0, 4):
            job_id = self._target(JobState.ACTIVE)
        else:  # one that ran before: a settlement that comes too late
            job_id = self._target(*JobState, which=lambda job: job.attempt and job.state is not JobState.ACTIVE)
        if job_id is None:
            return None
        number, epoch = self._attempt_of(self._jobs.get(job_id))
        settle: Settle = SETTLES[self._one_of(ENDINGS)](job_id)
        changes = {
            "attempt": number + self._one_of(AS_CLAIMED),
            "claim_epoch": epoch + self._one_of(AS_CLAIMED),
            "finished_at": self._maybe([self._now.wall_us]),
        }
        if settle.attempt_state is not AttemptState.SUCCEEDED or self._number(0, 1):  # else as most jobs end
            changes["failures"] = self._number(0, 5)
            changes["losses"] = self._number(0, 4)
            changes["error"] = self._maybe(NAMES)
            changes["fault"] = self._one_of(FAULTS)
            changes["fingerprint"] = changes["fault"] and self._one_of(FINGERPRINTS)
        if settle.due_at is not None:
            changes["due_at"] = self._now.steady_us + self._one_of(OFFSETS)
        return replace(settle, **changes)

    def _attempt_of(self, job):
        """Number and epoch of an attempt as it was claimed: the newest, or now and then one that ended long ago."""
        if job is None or job.attempt == 0:
            return 1, 1
        number = job.attempt
        if number > 1 and self._number(0, 4) == 0:
            number = self._number(1, number - 1)
        return number, self._attempts[job.job_id, number].epoch

    def _cancel(self):
        job_id = self._target(JobState.SCHEDULED, JobState.ACTIVE, JobState.ACTIVE, JobState.WAITING)
        return job_id and Cancel(job_id, self._one_of(["", "enough"]), self._one_of([True, False]))

    def _reschedule(self):
        job_id = self._target(JobState.SCHEDULED, JobState.ACTIVE, JobState.WAITING)
        clock = self._one_of(list(ClockKind))
        at = self._now.on(clock) + self._one_of(OFFSETS)
        return job_id and Reschedule(job_id, clock, at, self._one_of([True, False]))

    def _submit(self):
        clock = self._one_of(list(ClockKind))
        key = self._maybe(NAMES)
        task = self._one_of(TASKS)
        self.next_id += self._number(1, 3)
        return submit(
            self.next_id,
            importable=task == "t0",
            task=task,
            queue=self._one_of(QUEUES),
            priority=self._one_of([5, 5, 0]),
            clock=clock,
            scheduled_at=self._now.on(clock) + self._one_of(OFFSETS),
            timeout_us=self._one_of([None, *range(1, 6)]),
            misfire_grace_us=self._one_of([None, None, 0, SECOND_US]),
            tags=self._one_of([(), ("x",), ("x", "y")]),
            idempotency_key=key,
            digest=key and self._one_of(["d1", "d1", "d2"]),
            concurrency_key=self._one_of(KEYS),
            flow=self._flow(),
        )

    def _claim(self):
        new = range(self.next_id, self.next_id - 4, -1)
        hints = [self._pick(JobState.SCHEDULED) for _ in range(self._number(1, 6))]
        hints += self._some(new, 3)
        return claim(
            *hints,
            ahead_us=self._one_of([0, 20_000]),
            watching_since=later(self._one_of([0, 0, -SECOND_US, -60 * SECOND_US]), self._now),
            last_chances=self._number(0, 1),
            governed=self._governed(),
            key_limits=self._limits(),
        )

    def _unhold(self):
        if not self._unholds:
            return None
        ids = [self._pick(JobState.WAITING) for _ in range(4)]
        reasons = sorted({job.reason for job in self._jobs.values() if job.state is JobState.WAITING})
        return Unhold(
            WaitingReason(self._one_of(reasons if reasons and self._number(0, 3) else list(WaitingReason))),
            self._number(0, 3),
            self._maybe([tuple(self._some(TASKS, 3))]),
            self._maybe([tuple(self._some(ids, 4))]),
        )

    def _rest(self):
        name = self._one_of(NAMES)
        return self._one_of(
            [
                SaveLimits({name: self._one_of([self.next_id, None])}),
                PutQueue(name, f'{{"n":{self.next_id}}}', self._maybe([f'{{"a":{self.next_id}}}'])),
                AddEntry(name, f"[{self.next_id}]"),
            ]
        )

    def _prune(self):
        return PruneKeys(self._one_of([0, 1, 1000]))
