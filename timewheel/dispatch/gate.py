"""The gate: where claimed jobs wait for their instant, and where every start is decided for good. Pure.

Jobs are claimed a little ahead of their due time. At the gate a job is in one of three places:

- *early*: its clock has not reached its due time;
- *open*: its time has come; it enters as soon as nothing forbids it (no token left, queue paused);
- *parked*: a cancel or reschedule of it is being committed (`withdraw`). Nothing enters from there. When the outcome is
  known, `resolve` drops it if its attempt was ended by that, and puts it back otherwise.

A job that waited open for `PATIENCE_US` is given back (RELEASED), so that no claim is ever forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, ClockKind, Now

if TYPE_CHECKING:
    from timewheel.dispatch.admission import Pledge
    from timewheel.store.changes import ClaimedJob

PATIENCE_US = SECOND_US
LOOK_AGAIN_US = 5_000  # how often a job that waits with its time come is looked at again


class Claimant:
    """A claimed job at the gate. `claimed` is when its claim's commit returned; `pledge` what it was judged by."""

    __slots__ = ("claimed", "job", "lag_us", "pledge", "queue")

    def __init__(self, job: ClaimedJob, queue: str, claimed: Now, pledge: Pledge | None = None) -> None:
        self.job = job
        self.queue = queue
        self.claimed = claimed
        self.pledge = pledge
        self.lag_us = claimed[job.clock] - job.due_at  # negative: claimed ahead of its due time

    def dispatch_lag_us(self) -> int:
        """dispatched_at - scheduled_at, where dispatched_at = max(claim, due_at)."""
        return self.lag_us if self.lag_us > 0 else 0

    def dispatched_wall_us(self) -> int:
        """dispatched_at on the wall clock."""
        return self.claimed.wall_us if self.lag_us >= 0 else self.claimed.wall_us - self.lag_us

    def early_by(self, now: Now) -> int:
        """How much too early it is at this moment; not above 0 when its time has come."""
        return self.job.due_at - now[self.job.clock]

    def out_of_patience(self, now: Now) -> bool:
        """Whether it has waited with its time come for too long."""
        waited_since = max(self.claimed.on(self.job.clock), self.job.due_at)
        return now.on(self.job.clock) - waited_since >= PATIENCE_US


class Gate:
    """See the module."""

    def __init__(self) -> None:
        self._early: dict[ClockKind, list[tuple[int, int, Claimant]]] = {kind: [] for kind in ClockKind}
        self._open: deque[Claimant] = deque()
        self._staying: list[Claimant] = []
        self._parked: dict[int, Claimant] = {}
        self._withdrawn: dict[int, int] = {}  # job id -> verbs under way
        self.waiting: set[int] = set()  # ids of all jobs at the gate

    def admit(self, claimant: Claimant, now: Now) -> None:
        """A claimed job comes to the gate, or a candidate for which it is too early again."""
        job = claimant.job
        self.waiting.add(job.job_id)
        if claimant.early_by(now) > 0:
            heappush(self._early[job.clock], (job.due_at, job.job_id, claimant))
        else:
            self._open.append(claimant)

    def candidates(self, now: Now) -> Generator[Claimant, None, None]:
        """The jobs whose time has come, in order; each must be answered by `entered` / `left`, or `stays`."""
        for kind, early in self._early.items():
            moment = now.on(kind)
            while early and early[0][0] <= moment:
                self._open.append(heappop(early)[2])
        try:
            for _ in range(len(self._open)):
                claimant = self._open.popleft()
                if claimant.job.job_id in self._withdrawn:
                    self._parked[claimant.job.job_id] = claimant
                else:
                    yield claimant
        finally:  # also when the caller stops early: those that stay keep their places
            self._open.extendleft(reversed(self._staying))
            self._staying.clear()

    def left(self, claimant: Claimant) -> None:
        """A candidate entered its handler, or was given back."""
        self.waiting.discard(claimant.job.job_id)

    def stays(self, claimant: Claimant) -> None:
        """A candidate may not enter yet: it keeps its place."""
        self._staying.append(claimant)

    def next_due(self) -> Iterator[tuple[ClockKind, int]]:
        """When the next early job of each clock is due."""
        for kind, early in self._early.items():
            if early:
                yield kind, early[0][0]

    def waits(self, now: Now) -> list[int]:
        """In how many microseconds somebody here may enter: the next early jobs, and those whose time has come."""
        waits = [due - now.on(kind) for kind, due in self.next_due()]
        return [*waits, LOOK_AGAIN_US] if self._open else waits

    def has_open(self) -> bool:
        """Whether a job waits whose time has come."""
        return bool(self._open)

    def withdraw(self, job_id: int) -> None:
        """A verb of a job that has not been entered is about to be committed: it must not enter meanwhile."""
        self._withdrawn[job_id] = self._withdrawn.get(job_id, 0) + 1

    def park(self, claimant: Claimant) -> None:
        """Take back a job that was handed to a worker but not entered, because it was withdrawn."""
        self.waiting.add(claimant.job.job_id)
        self._parked[claimant.job.job_id] = claimant

    def resolve(self, job_id: int, ended_attempt: int | None) -> Claimant | None:
        """The verb's outcome is known. Returns the claimant that is gone for good because of it, if any."""
        verbs = self._withdrawn[job_id] - 1
        if verbs:
            self._withdrawn[job_id] = verbs
        else:
            del self._withdrawn[job_id]
        claimant = self._find(job_id) if ended_attempt is not None else None
        if claimant is not None and claimant.job.attempt == ended_attempt:
            self._remove(claimant)
            return claimant
        parked = None if verbs else self._parked.pop(job_id, None)
        if parked is not None:
            self._open.append(parked)
        return None

    def take(self, job_id: int) -> Claimant | None:
        """Remove and return a job, if it is here."""
        claimant = self._find(job_id)
        if claimant is not None:
            self._remove(claimant)
        return claimant

    def drain(self, kind: ClockKind | None = None) -> list[Claimant]:
        """Remove and return the jobs of one clock (None: all) that no verb is under way for."""

        def goes(claimant: Claimant) -> bool:
            return (kind is None or claimant.job.clock is kind) and claimant.job.job_id not in self._withdrawn

        chosen = [claimant for claimant in self._open if goes(claimant)]
        self._open = deque(claimant for claimant in self._open if not goes(claimant))
        for early in self._early.values():
            chosen += [entry[2] for entry in early if goes(entry[2])]
            early[:] = [entry for entry in early if not goes(entry[2])]
            heapify(early)
        self.waiting.difference_update([claimant.job.job_id for claimant in chosen])
        return chosen

    def _find(self, job_id: int) -> Claimant | None:
        if job_id in self._parked:
            return self._parked[job_id]
        if job_id not in self.waiting:
            return None
        early = (entry[2] for heap in self._early.values() for entry in heap)
        return next((each for source in (self._open, early) for each in source if each.job.job_id == job_id), None)

    def _remove(self, claimant: Claimant) -> None:
        job_id = claimant.job.job_id
        self.waiting.discard(job_id)
        self._parked.pop(job_id, None)
        if claimant in self._open:
            self._open.remove(claimant)
            return
        early = self._early[claimant.job.clock]
        early[:] = sorted(entry for entry in early if entry[1] != job_id)
