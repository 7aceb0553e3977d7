"""Random flow control, dead letters, operations and prunes for `tests.conformance.batches`.

Prunes name nothing that ended in their own batch, and no batch both defers and unholds: the laws of outcomes could not
tell which of both came first.
"""

from timewheel.flow import Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import SECOND_US, FaultClass, JobState
from timewheel.store.changes import Defer, Governed, TakeOver
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyHolder, KeyLimits
from timewheel.store.letters import Discard, OperationState, Prune, PruneRule, Replay
from timewheel.testing.builders_flow import UNFINISHED, put_operation

LIMITS = KeyLimits(tasks={"t1": 2, "t2": 3}, queues={"a": 3, "ž": 2})
"""The largest that a claim is ever given."""
FAULTS = (None, *(fault.value for fault in FaultClass))
FINGERPRINTS = (None, "f1", "f2")
PARTITIONS = (None, None, "p", "ž")
DIGESTS = ("u", "v")
STATES = (UNFINISHED, UNFINISHED, ("SCHEDULED",), (*UNFINISHED, "COMPLETED", "DEAD"), ())
PERIODS = (None, None, 1, SECOND_US)
OPERATIONS = range(1, 4)


class FlowChanges:
    """A part of BatchMaker."""

    def _flow(self, *, of_a_schedule=False):
        """Half of the jobs have none; those of schedules are never unique, and wait for no others."""
        if self._number(0, 1):
            return None
        flow = Flow(
            rate_key=self._one_of((None, None, "r", "ž")),
            cost=self._one_of((1, 3)),
            heartbeat_timeout_us=self._one_of((None, 5)),
            expires_at=self._soon(),
            deadline=self._soon(),
            idempotent=self._number(0, 3) > 0,
            partition_key=self._one_of(PARTITIONS),
        )
        if of_a_schedule:
            return flow
        unique = self._number(0, 3) == 0
        waits = self._number(0, 2) == 0
        return flow._replace(
            unique=self._uniqueness() if unique else None, wait_for=self._dependencies() if waits else None
        )

    def _soon(self):
        return self._now.wall_us + self._one_of((-1, 0, 1, 20_000, SECOND_US)) if self._number(0, 4) == 0 else None

    def _uniqueness(self):
        return Uniqueness(
            self._one_of(DIGESTS), self._one_of(STATES), self._one_of(list(OnConflict)), self._one_of(PERIODS)
        )

    def _dependencies(self):
        states = self._one_of(((JobState.ACTIVE, JobState.SCHEDULED), (JobState.WAITING,), tuple(JobState)))
        ids = [self._pick(*states) for _ in range(self._number(0, 2))]
        return Dependencies((*ids, *self._some(range(max(self.next_id - 3, 0), self.next_id + 1), 1)), self._policy())

    def _policy(self):
        return self._one_of((*DependencyFails, DependencyFails.CANCEL))

    # ---- claims and take-overs ---------------------------------------------------------------------------------------

    def _governed(self):
        tasks = frozenset(self._some(("t0", "t1"), 1))
        return self._one_of((None, None, Governed(tasks, self._number(0, 1) > 0, self._number(0, 2) == 0)))

    def _limits(self):
        limits = self._one_of((LIMITS, LIMITS, LIMITS, ONE_OF_A_KEY))
        return limits if self._number(0, 3) else limits._replace(overran=self._overran())

    def _overran(self):
        """Handlers that still run: of jobs that have ended, as a rule, and of some that were forgotten."""
        states = self._one_of(((JobState.DEAD, JobState.CANCELLED),) * 3 + (tuple(JobState),))
        found = {}
        for _ in range(self._number(1, 2)):
            job_id = self._pick(*states, which=lambda job: job.concurrency_key is not None)
            job = self._jobs.get(job_id)
            if job is None:
                found[job_id] = KeyHolder(*map(self._one_of, (("k", "l"), ("t1", "t2"), ("a", "ž"))))
            elif job.concurrency_key is not None:
                found[job_id] = KeyHolder(job.concurrency_key, job.task, job.queue)
        return found

    def _take_over_of(self, *, everything):
        tasks = {task: self._number(0, 2) for task in self._some(("t0", "t1", "t2"), 2)}
        return TakeOver(everything, self._limits(), tasks, frozenset(self._some(("k", "l"), 1)))

    def _defer(self):
        if self._unholds:
            return None
        ids = {self._pick(JobState.SCHEDULED) for _ in range(self._number(1, 4))}
        ids |= set(self._some(range(max(self.next_id - 3, 0), self.next_id + 1), 1))
        rows = []
        for job_id in self._shuffled(ids):
            job = self._jobs.get(job_id)
            seen_at = job.due_at if job else self._now.wall_us
            due_at = self._one_of((None, self._now.steady_us, self._now.steady_us + self._number(-5, 20_000)))
            rows.append((job_id, seen_at + self._one_of((0,) * 5 + (1,)), due_at))
        return Defer(rows)

    def _shuffled(self, ids):
        return self._chance.sample(sorted(ids), len(ids))

    # ---- what has ended ----------------------------------------------------------------------------------------------

    def _replay(self):
        states = (JobState.DEAD, JobState.SKIPPED, JobState.CANCELLED)
        job_id = self._target(*states) if self._number(0, 3) else self._target(JobState.COMPLETED)
        due_at = self._now.steady_us + self._one_of((-SECOND_US, 0, 0, 1))
        return job_id and Replay(job_id, due_at, f"[{self.next_id}]", self._maybe(["[[7],{}]"]))

    def _discard(self):
        job_id = self._target(JobState.DEAD, which=lambda job: job.discarded_at is None or self._number(0, 3) == 0)
        return job_id and Discard(job_id, f"[{self.next_id}]")

    def _forget(self):
        states = (JobState.COMPLETED, JobState.CANCELLED, JobState.DEAD, JobState.DEAD, JobState.SKIPPED)
        rules = [
            PruneRule(
                self._one_of(states),
                self._now.wall_us - self._one_of((0, 0, 0, SECOND_US)),
                self._one_of((None, None, "a", "b")),
                self._number(0, 1) > 0,
            )
            for _ in range(self._number(0, 3))
        ]
        after = self._one_of((-1, self._one_of((0, *self._jobs))))
        return Prune(tuple(rules), after, self._one_of((self._number(1, 12), 1_000)))

    def _operation(self):
        return put_operation(
            self._one_of(OPERATIONS),
            state=self._one_of(list(OperationState)),
            progress=f'{{"n":{self.next_id}}}',
            updated_at=self._now.wall_us,
            reason=self._maybe(["ž"]),
        )
