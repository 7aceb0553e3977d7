"""Random batches of changes, aimed at what the journal holds, now and then beside it."""

from dataclasses import replace

from hypothesis import strategies as st

from timewheel.model import SECOND_US, ClockKind, JobState, WaitingReason
from timewheel.store.changes import AddEntry, Cancel, PruneKeys, PutQueue, Reschedule, SaveLimits, Settle, Unhold
from timewheel.testing.builders import SETTLES, claim, later, submit

UNKNOWN_ID = 1 << 50
TASKS = ("t0", "t1", "t2")
OFFSETS = st.sampled_from([-10 * SECOND_US, -SECOND_US, -1, 0, 0, 1, 20_000, SECOND_US])
ENDINGS = (*sorted(SETTLES), "retry", "retry", "overrun", "unresolvable")
NAMES = st.sampled_from(["a", "b", "ž"])
CLOCKS = st.sampled_from(ClockKind)
KINDS = ("settle",) * 4 + ("claim",) * 4 + ("submit",) * 4 + ("cancel", "reschedule") * 2 + ("unhold", "unhold", "rest")


class BatchMaker:
    """Draws a batch for a journal that now holds `dump`."""

    def __init__(self, draw, dump, now, next_id):
        self._draw = draw
        self._jobs = dump["jobs"]
        self._attempts = dump["attempts"]
        self._now = now
        self.next_id = next_id
        self._targets = set()  # of Settle, Cancel, Reschedule: one a job

    def batch(self, least, most):
        kinds = self._draw(st.lists(st.sampled_from(KINDS), min_size=least, max_size=most))
        changes = [getattr(self, f"_{kind}")() for kind in kinds]
        return [change for change in changes if change is not None]

    def _pick(self, *states):
        """A job's id: one in these states if there is one, sometimes any other, sometimes none."""
        ids = sorted(job_id for job_id, job in self._jobs.items() if job.state in states)
        if not ids or self._draw(st.integers(0, 9)) == 0:
            ids = [*sorted(self._jobs), UNKNOWN_ID]
        return self._draw(st.sampled_from(ids))

    def _target(self, *states):
        job_id = self._pick(*states)
        if job_id in self._targets:
            return None
        self._targets.add(job_id)
        return job_id

    def _settle(self):
        job_id = self._target(JobState.ACTIVE)
        if job_id is None:
            return None
        job = self._jobs.get(job_id)
        attempt = self._attempts.get((job_id, job.attempt)) if job else None
        number, epoch = (attempt.number, attempt.epoch) if attempt else (1, 1)
        settle: Settle = SETTLES[self._draw(st.sampled_from(ENDINGS))](job_id)
        changes = {
            "attempt": number + self._draw(st.sampled_from([0] * 8 + [-1, 1])),
            "claim_epoch": epoch + self._draw(st.sampled_from([0] * 8 + [-1, 1])),
            "failures": self._draw(st.integers(0, 5)),
            "losses": self._draw(st.integers(0, 4)),
            "finished_at": self._draw(st.none() | st.just(self._now.wall_us)),
            "error": self._draw(st.none() | NAMES),
        }
        if settle.due_at is not None:
            changes["due_at"] = self._now.steady_us + self._draw(OFFSETS)
        return replace(settle, **changes)

    def _cancel(self):
        job_id = self._target(JobState.SCHEDULED, JobState.ACTIVE, JobState.WAITING)
        return job_id and Cancel(job_id, self._draw(st.sampled_from(["", "enough"])), self._draw(st.booleans()))

    def _reschedule(self):
        job_id = self._target(JobState.SCHEDULED, JobState.ACTIVE, JobState.WAITING)
        clock = self._draw(CLOCKS)
        at = self._now.on(clock) + self._draw(OFFSETS)
        return job_id and Reschedule(job_id, clock, at, self._draw(st.booleans()))

    def _submit(self):
        clock = self._draw(CLOCKS)
        key = self._draw(st.none() | NAMES)
        task = self._draw(st.sampled_from(TASKS))
        self.next_id += self._draw(st.integers(1, 3))
        return submit(
            self.next_id,
            importable=task == "t0",
            task=task,
            queue=self._draw(NAMES),
            priority=self._draw(st.sampled_from([5, 5, 0])),
            clock=clock,
            scheduled_at=self._now.on(clock) + self._draw(OFFSETS),
            misfire_grace_us=self._draw(st.sampled_from([None, None, 0, SECOND_US])),
            tags=self._draw(st.sampled_from([(), ("x",), ("x", "y")])),
            idempotency_key=key,
            digest=key and self._draw(st.sampled_from(["d1", "d1", "d2"])),
        )

    def _claim(self):
        new = range(self.next_id, self.next_id - 4, -1)
        hints = [self._pick(JobState.SCHEDULED) for _ in range(self._draw(st.integers(1, 6)))]
        hints += self._draw(st.lists(st.sampled_from(new), max_size=3))
        return claim(
            *hints,
            ahead_us=self._draw(st.sampled_from([0, 20_000])),
            watching_since=later(self._draw(st.sampled_from([0, 0, -SECOND_US, -60 * SECOND_US])), self._now),
            last_chances=self._draw(st.integers(0, 1)),
        )

    def _unhold(self):
        ids = [self._pick(JobState.WAITING) for _ in range(4)]
        return Unhold(
            self._draw(st.sampled_from(WaitingReason)),
            self._draw(st.integers(0, 3)),
            self._draw(st.none() | st.lists(st.sampled_from(TASKS)).map(tuple)),
            self._draw(st.none() | st.lists(st.sampled_from(ids)).map(tuple)),
        )

    def _rest(self):
        name = self._draw(NAMES)
        return self._draw(
            st.sampled_from(
                [
                    SaveLimits({name: self.next_id}),
                    PutQueue(name, f'{{"n":{self.next_id}}}'),
                    AddEntry(name, f"[{self.next_id}]"),
                    PruneKeys(1000),
                ]
            )
        )
