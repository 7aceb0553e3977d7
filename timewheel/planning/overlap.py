"""Whether a slot gets a job of its own beside those of its schedule that are not final.

Pure: no asyncio, clock, randomness, files or sockets. What runs is read from the journal each time: nothing is counted
that a crash could leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from timewheel.model import JobState, WaitingReason
from timewheel.planning.policies import OverlapKind, OverlapPolicy
from timewheel.schedule_records import Fate, SkipReason, UnfinishedJob

ONE_AT_A_TIME = frozenset({OverlapKind.SKIP, OverlapKind.QUEUE_ONE, OverlapKind.REPLACE})
_HOLDING = frozenset({OverlapKind.QUEUE_ONE, OverlapKind.QUEUE_ALL, OverlapKind.REPLACE})


class Stand(NamedTuple):
    """The job that stands for a slot: one that exists already, or the one with this number in the plan."""

    job_id: int | None = None
    number: int | None = None


class Verdict(NamedTuple):
    """JOB: make one. SKIPPED: `reason` says why. COALESCED: `stand` is the job that stands for the slot."""

    fate: Fate
    reason: SkipReason | None = None
    stand: Stand | None = None


_MAKE = Verdict(Fate.JOB)
_SKIP = Verdict(Fate.SKIPPED, SkipReason.OVERLAP)
_FULL = Verdict(Fate.SKIPPED, SkipReason.OVERLAP_LIMIT)


def is_waiter(job: UnfinishedJob) -> bool:
    """Whether a job waits for another of its schedule to end."""
    return job.state is JobState.WAITING and job.reason == WaitingReason.OVERLAP


class Admission:
    """The jobs of one schedule that are not final, those that the plan makes included.

    `made` counts the latter. `hold`: one of them must not start beside another. `replaces`: one of them takes the
    place of all that are there.
    """

    def __init__(self, policy: OverlapPolicy, unfinished: Sequence[UnfinishedJob], most_waiting: int) -> None:
        self._policy = policy
        self._unfinished = unfinished
        self._most_waiting = most_waiting
        self._waiting = sum(map(is_waiter, unfinished))
        waiters = [job.job_id for job in unfinished if is_waiter(job)]
        self._waiter = Stand(job_id=waiters[0]) if waiters else None
        self.made = 0
        self.hold = False
        self.replaces = False

    def admit(self, *, in_turn: bool = False) -> Verdict:
        """What becomes of the next slot; a job that the answer makes counts from now on.

        `in_turn`: one of many missed slots that all run, one after the other where the policy lets one run at a time.
        """
        verdict = self._in_turn() if in_turn and self._policy.kind in ONE_AT_A_TIME else self._judge()
        if verdict.fate is Fate.JOB:
            self._count(in_turn=in_turn)
        return verdict

    def cancelled(self) -> list[int]:
        """The jobs that REPLACE asks to end: those that do not wait for another and were not asked before.

        A job whose handler cannot be stopped (overrun) is left: it ends when its handler does.
        """
        if not self.replaces:
            return []
        spared = (WaitingReason.OVERLAP, WaitingReason.OVERRUN)
        return [
            job.job_id
            for job in self._unfinished
            if not job.cancel_requested and not (job.state is JobState.WAITING and job.reason in spared)
        ]

    def superseded(self) -> list[int]:
        """The jobs that wait to be the next, in whose place REPLACE puts a newer one.

        One of them may have been let go on before that is written: then it runs, and is to end like any other.
        """
        return [job.job_id for job in self._unfinished if is_waiter(job)] if self.replaces else []

    @property
    def _busy(self) -> int:
        return len(self._unfinished) + self.made

    def _judge(self) -> Verdict:
        kind, limit = self._policy.kind, self._policy.limit
        if not self._busy or kind in (OverlapKind.SERIALIZE, OverlapKind.REPLACE):
            return _MAKE
        if kind is OverlapKind.QUEUE_ONE:
            return _MAKE if self._waiter is None else Verdict(Fate.COALESCED, SkipReason.OVERLAP, self._waiter)
        if kind is OverlapKind.SKIP:
            return _SKIP
        taken = self._busy if kind is OverlapKind.ALLOW else self._waiting
        return _MAKE if limit is None or taken < limit else _FULL

    def _in_turn(self) -> Verdict:
        return _MAKE if self._waiting < self._most_waiting else _FULL

    def _count(self, *, in_turn: bool) -> None:
        one_at_a_time = in_turn and self._policy.kind in ONE_AT_A_TIME
        holds = one_at_a_time or self._policy.kind in _HOLDING
        self.hold = holds  # the same for each that a policy lets through
        self.replaces |= self._policy.kind is OverlapKind.REPLACE and not in_turn
        if holds and self._busy:
            self._waiting += 1
            self._waiter = self._waiter or Stand(number=self.made)
        self.made += 1
