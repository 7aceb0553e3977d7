"""What a journal in memory is made of: its tables, its due index, and the only ways to write them.

Stored records are never changed in place: a change copies a record and swaps the copy in. So a batch that fails half
way is undone by swapping back, in reverse.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from timewheel.flow import NO_FLOW, lane_partition
from timewheel.model import (
    FINAL_STATES,
    Anchor,
    AttemptRecord,
    AttemptState,
    ClockKind,
    JobRecord,
    JobState,
    Lane,
    OriginKind,
    WaitingReason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from timewheel.schedule_records import OccurrenceRecord, ScheduleRecord
    from timewheel.store.letters import OperationRecord
    from timewheel.store.port import Owner

OPEN = frozenset({AttemptState.QUEUED, AttemptState.RUNNING})
LEGAL: dict[JobState | None, frozenset[JobState]] = {
    None: frozenset({JobState.SCHEDULED, JobState.WAITING, JobState.CANCELLED}),
    JobState.SCHEDULED: frozenset(JobState) - {JobState.COMPLETED},
    JobState.WAITING: frozenset({JobState.WAITING, JobState.SCHEDULED, JobState.CANCELLED, JobState.SKIPPED}),
    JobState.ACTIVE: FINAL_STATES | {JobState.ACTIVE, JobState.SCHEDULED, JobState.WAITING},
} | {state: frozenset[JobState]() for state in FINAL_STATES}
"""The legal graph: what a job may become from each state (None: it did not exist)."""
LEGAL_OF_LETTERS: dict[JobState | None, frozenset[JobState]] = {
    JobState.DEAD: frozenset({JobState.SCHEDULED, JobState.DEAD}),
    JobState.SKIPPED: frozenset({JobState.SCHEDULED}),
    JobState.CANCELLED: frozenset({JobState.SCHEDULED}),
}
"""What Replay and Discard alone make of a job."""

RowKey = tuple[str, ClockKind, int, int, OriginKind]  # schedule, clock, first_at, turn, kind

_JOB_VALUES = attrgetter(*JobRecord.__dataclass_fields__)
_ATTEMPT_VALUES = attrgetter(*AttemptRecord.__dataclass_fields__)


def copy_job(job: JobRecord) -> JobRecord:
    """A record of its own."""
    return JobRecord(*_JOB_VALUES(job))


def copy_attempt(attempt: AttemptRecord) -> AttemptRecord:
    """A record of its own."""
    return AttemptRecord(*_ATTEMPT_VALUES(attempt))


def row_key(row: OccurrenceRecord) -> RowKey:
    """What a row of the ledger is known by."""
    return (row.schedule, row.clock, row.first_at, row.turn, row.kind)


def ensure(holds: object, *message: object) -> None:
    """Assert an invariant, also under python -O."""
    if not holds:
        raise AssertionError(*message)


class DueIndex:
    """The SCHEDULED jobs of one lane by (due_at, id). Sorted when read; removed keys linger until half is stale."""

    def __init__(self) -> None:
        self.live: set[tuple[int, int]] = set()
        self._sorted: list[tuple[int, int]] = []
        self._added: list[tuple[int, int]] = []

    def add(self, key: tuple[int, int]) -> None:
        """Add a key that is not there."""
        self.live.add(key)
        self._added.append(key)

    def remove(self, key: tuple[int, int]) -> None:
        """Remove a key that is there."""
        self.live.remove(key)

    def after(self, key: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """The live keys > `key`, in order."""
        if len(self._sorted) + len(self._added) > 2 * len(self.live) + 1000:
            self._sorted = sorted(self.live)
        elif len(self._added) < 4:
            for added in self._added:
                insort(self._sorted, added)
        else:
            self._sorted += self._added
            self._sorted.sort()
        self._added = []
        return self._walk(key)

    def _walk(self, last: tuple[int, int]) -> Iterator[tuple[int, int]]:
        for position in range(bisect_right(self._sorted, last), len(self._sorted)):
            key = self._sorted[position]
            if key != last and key in self.live:  # a key that was removed and added again stands here twice
                yield key
            last = key


class Journal:
    """What one or more handles share: the data, and who owns it."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRecord] = {}
        self.attempts: dict[tuple[int, int], AttemptRecord] = {}
        self.keys: dict[tuple[str, str], tuple[int, str | None]] = {}
        self.lanes: dict[tuple[str, int, ClockKind, str], Lane] = {}
        self.partitions: dict[str, dict[str, None]] = {}  # of the lanes, by queue
        self.due: dict[int, DueIndex] = {}  # by lane number
        self.held: dict[JobState, set[int]] = {JobState.ACTIVE: set(), JobState.WAITING: set()}
        self.ids: list[int] | None = []  # every job id in order; None: to be sorted afresh
        self.unfinished: dict[str, set[int]] = {}  # by schedule
        self.keyed: dict[str, set[int]] = {}  # not final, by concurrency key
        self.unique: dict[str, set[int]] = {}  # in any state, by the digest of what is unique
        self.waiters: dict[int, set[int]] = {}  # WAITING (dependency), by each job that they wait for
        self.schedules: dict[str, ScheduleRecord] = {}
        self.ledger: dict[RowKey, tuple[int, OccurrenceRecord]] = {}  # each with its number
        self.ledgers: dict[str, dict[int, OccurrenceRecord]] = {}  # by schedule and number
        self.calendars: dict[str, str] = {}
        self.operations: dict[int, OperationRecord] = {}
        self.limits: dict[str, int] = {}
        self.queues: dict[str, str] = {}
        self.importable: dict[str, None] = {}
        self.entries: dict[int, tuple[int, int, str, str]] = {}
        self.epoch = 0
        self.owner: Owner | None = None
        self.anchor: Anchor | None = None
        self.undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    # -- the only ways to write, each with its way back ---------------------------------------------------------------

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set one key of a plain table."""
        if key in table:
            self.undo.append((table.__setitem__, (key, table[key])))
        else:
            self.undo.append((table.pop, (key,)))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        """Remove one key of a plain table."""
        self.undo.append((table.__setitem__, (key, table.pop(key))))

    def replace(
        self, old: JobRecord | None, new: JobRecord, legal: dict[JobState | None, frozenset[JobState]] = LEGAL
    ) -> None:
        """Make a job (old None), or put a changed copy of it in its place."""
        before = old.state if old else None
        ensure(new.state in legal[before], "a job's states move along the legal graph", new.job_id, before, new.state)
        ensure((new.state in FINAL_STATES) == (new.finished_at is not None), "only a final job has ended", new.job_id)
        self.lane(new)
        self.undo.append((self._swap, (new, old)))
        self._swap(old, new)

    def forget(self, job: JobRecord) -> None:
        """Forget a final job and its attempts."""
        ensure(job.state in FINAL_STATES, "an unfinished job is not forgotten", job.job_id)
        for number in range(1, job.attempt + 1):
            self.drop(self.attempts, (job.job_id, number))
        self.undo.append((self._swap, (None, job)))
        self._swap(job, None)

    def lane(self, job: JobRecord) -> Lane:
        """The lane in which a job lies when it is SCHEDULED; made, with the next number, when it is new."""
        known = self.partitions.setdefault(job.queue, {})
        key = (job.queue, job.priority, job.due_clock, lane_partition((job.flow or NO_FLOW).partition_key, known))
        lane = self.lanes.get(key)
        if lane is None:
            lane = Lane(len(self.lanes) + 1, *key)
            self.put(self.lanes, key, lane)
            self.put(self.due, lane.number, DueIndex())
            self.put(known, lane.partition, None)
        return lane

    def _swap(self, old: JobRecord | None, new: JobRecord | None) -> None:
        if old is not None:
            self._list(old, set.discard)
            if old.state is JobState.SCHEDULED:
                self._index_of(old).remove((old.due_at, old.job_id))
            elif old.state in self.held:
                self.held[old.state].remove(old.job_id)
        if new is not None:
            self._list(new, set.add)
            if new.state is JobState.SCHEDULED:
                self._index_of(new).add((new.due_at, new.job_id))
            elif new.state in self.held:
                self.held[new.state].add(new.job_id)
            self.jobs[new.job_id] = new
        elif old is not None:
            del self.jobs[old.job_id]
        if old is None or new is None:
            self.ids = None

    def _list(self, job: JobRecord, change: Callable[[set[int], int], None]) -> None:
        """Keep the jobs of a digest, and the unfinished ones of a schedule, of a key and of dependencies."""
        flow = job.flow or NO_FLOW
        if flow.unique is not None:
            change(self.unique.setdefault(flow.unique.digest, set()), job.job_id)
        if job.state in FINAL_STATES:
            return
        if job.state is JobState.WAITING and job.reason == WaitingReason.DEPENDENCY and flow.wait_for is not None:
            for job_id in flow.wait_for.job_ids:
                change(self.waiters.setdefault(job_id, set()), job.job_id)
        if job.origin is not None:
            change(self.unfinished.setdefault(job.origin.schedule, set()), job.job_id)
        if job.concurrency_key is not None:
            change(self.keyed.setdefault(job.concurrency_key, set()), job.job_id)

    def _index_of(self, job: JobRecord) -> DueIndex:
        return self.due[self.lane(job).number]

    def roll_back(self) -> None:
        """Undo what was written since the batch began."""
        while self.undo:
            way_back, arguments = self.undo.pop()
            way_back(*arguments)
