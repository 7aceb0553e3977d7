"""What waits to be written, and which of it goes into the next batch. Pure.

One queue a kind, taken in the order of `timewheel.store.changes.ORDER`. Batches are bounded (`BATCH_CHANGES`,
`BATCH_BYTES`); submissions always get a share, housekeeping gets at least one step a batch. A batch holds at most one
Settle, Cancel, Reschedule, Replay or Discard of any one job: a verb whose job is in the batch already waits for the
next one.

While the journal is full only endings are taken: settlements, for which stores keep some space back, and the small rest
along with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from timewheel.store.changes import (
    Cancel,
    Change,
    Claim,
    Defer,
    DropSchedule,
    PlanOccurrences,
    PutCalendar,
    PutQueue,
    PutSchedule,
    Reschedule,
    SaveLimits,
    Settle,
    Submit,
    TakeOver,
)
from timewheel.store.letters import Discard, Replay

STANDING = (PutSchedule, DropSchedule, PutCalendar)
VERBS = (Cancel, Reschedule, Replay, Discard)
BEGINNINGS = (Submit, *VERBS, Claim, Defer, *STANDING, PlanOccurrences)
REFUSED_WHILE_FULL = (*BEGINNINGS, PutQueue)  # somebody waits for each, and is not to wait without end
BATCH_CHANGES = 2_000
BATCH_BYTES = 4 * 1024 * 1024
HOUSEKEEPING_CHANGES = 8  # a batch: it always moves on and never crowds out jobs
STANDING_CHANGES = 200  # a batch, of those that write schedules
PLANNED_ROWS = 500  # a batch: rows of ledgers and jobs that plans write; one plan always fits

Receiver: TypeAlias = Callable[[Any], None]  # called with the outcome, or with the exception
Entry: TypeAlias = tuple[Any, Receiver]  # a change, and who wants to hear its outcome


class Backlog:
    """The queues of the committer."""

    def __init__(self) -> None:
        self.settles: deque[Entry] = deque()
        self.verbs: deque[Entry] = deque()
        self.submits: deque[Entry] = deque()
        self.standing: deque[Entry] = deque()
        self.plans: deque[Entry] = deque()
        self.claims: deque[Entry] = deque()
        self.defers: deque[Entry] = deque()
        self.rest: deque[Entry] = deque()
        self.limits: Entry | None = None  # the newest SaveLimits replaces an older one and goes with every batch

    def __iter__(self) -> Iterator[Entry]:
        for queue in self._queues():
            yield from queue

    def take(self, *, endings_only: bool = False) -> list[Entry]:
        """The next batch; empty when nothing waits."""
        batch: list[Entry] = []
        self._take_settles(batch)
        if endings_only and not batch:
            return batch
        if not endings_only:
            if self.verbs and not self.settles:  # a verb never overtakes the settlement of its job
                self._take_verbs(batch)
            if self.submits:
                self._take_submits(batch)
            _move(self.standing, batch, STANDING_CHANGES)
            if not self.standing:  # a plan never overtakes the edit of its schedule
                self._take_plans(batch)
            _move(self.claims, batch, BATCH_CHANGES)
            _move(self.defers, batch, BATCH_CHANGES)
        _move(self.rest, batch, HOUSEKEEPING_CHANGES)
        if self.limits is not None:
            batch.append(self.limits)
            self.limits = None
        return batch

    def put_back(self, batch: list[Entry], told: tuple[type, ...]) -> list[Entry]:
        """Put a batch back in front, in order, but for the kinds in `told`, which are returned instead."""
        tell: list[Entry] = []
        for entry in reversed(batch):
            if isinstance(entry[0], told):
                tell.append(entry)
            elif isinstance(entry[0], SaveLimits):
                self.put_limits(*entry, older=True)
            elif isinstance(entry[0], TakeOver) and not entry[0].everything:
                continue  # it goes with the endings of its batch, and those get another
            else:
                self._queue_of(entry[0]).appendleft(entry)
        tell.reverse()
        return tell

    def put_limits(self, change: SaveLimits, receive: Receiver, *, older: bool = False) -> None:
        """Have limits written with the next batch, together with those that still wait: the newer value counts."""
        if self.limits is not None:
            waiting = self.limits[0].values
            if older:
                change, receive = SaveLimits({**change.values, **waiting}), self.limits[1]
            else:
                change = SaveLimits({**waiting, **change.values})
        self.limits = (change, receive)

    def settling(self) -> set[int]:
        """The jobs whose settlement waits."""
        return {change.job_id for change, _ in self.settles}

    def drop_beginnings(self) -> list[Entry]:
        """Take out all that waits to begin something, and the settings of queues."""
        dropped = [entry for entry in self if isinstance(entry[0], REFUSED_WHILE_FULL)]
        for queue in (self.verbs, self.submits, self.standing, self.plans, self.claims, self.defers):
            queue.clear()
        self.rest = deque(entry for entry in self.rest if not isinstance(entry[0], REFUSED_WHILE_FULL))
        return dropped

    def empty(self) -> list[Entry]:
        """Take everything out."""
        everything = list(self)
        for queue in self._queues():
            queue.clear()
        self.limits = None
        return everything

    def _queues(self) -> tuple[deque[Entry], ...]:
        beginnings = (self.verbs, self.submits, self.standing, self.plans, self.claims, self.defers)
        return self.settles, *beginnings, self.rest

    def _queue_of(self, change: Change) -> deque[Entry]:
        if isinstance(change, Settle):
            return self.settles
        if isinstance(change, VERBS):
            return self.verbs
        if isinstance(change, Submit):
            return self.submits
        if isinstance(change, STANDING):
            return self.standing
        if isinstance(change, PlanOccurrences):
            return self.plans
        if isinstance(change, Defer):
            return self.defers
        return self.claims if isinstance(change, Claim) else self.rest

    def _take_settles(self, batch: list[Entry]) -> None:
        size = 0
        settles = self.settles
        while settles and len(batch) < BATCH_CHANGES and size < BATCH_BYTES:
            entry = settles.popleft()
            batch.append(entry)
            size += len(entry[0].result or "") + len(entry[0].error or "")

    def _take_verbs(self, batch: list[Entry]) -> None:
        taken = {entry[0].job_id for entry in batch}
        later: deque[Entry] = deque()
        while self.verbs and len(batch) < BATCH_CHANGES:
            entry = self.verbs.popleft()
            if entry[0].job_id in taken:
                later.append(entry)
            else:
                taken.add(entry[0].job_id)
                batch.append(entry)
        later.extend(self.verbs)
        self.verbs = later

    def _take_submits(self, batch: list[Entry]) -> None:
        room = max(BATCH_CHANGES - len(batch), BATCH_CHANGES // 4)
        size = 0
        submits = self.submits
        while submits and room > 0 and size < BATCH_BYTES:
            entry = submits.popleft()
            batch.append(entry)
            size += len(entry[0].request.arguments)
            room -= 1

    def _take_plans(self, batch: list[Entry]) -> None:
        rows = size = 0
        while self.plans and rows < PLANNED_ROWS and size < BATCH_BYTES:
            entry = self.plans.popleft()
            batch.append(entry)
            rows += 1 + len(entry[0].rows) + len(entry[0].jobs)
            size += sum(len(job.arguments) for job in entry[0].jobs)


def _move(source: deque[Entry], batch: list[Entry], most: int) -> None:
    if len(source) <= most:
        batch.extend(source)
        source.clear()
    else:
        batch.extend(source.popleft() for _ in range(most))


def claims_of(entries: list[Entry]) -> list[int]:
    """Every job that the claims among these hint at, once."""
    hints = (job_id for change, _ in entries if isinstance(change, Claim) for job_id in change.job_ids)
    return list(dict.fromkeys(hints))


def tell(entries: list[Entry], outcome: BaseException) -> None:
    """Tell everyone who waits for these."""
    for _, receive in entries:
        receive(outcome)
