"""Claiming: from ready to the gate. What may start soon is claimed; what must be judged first comes back and is.

A claim hands those candidates back that a limit of their task or of their keys concerns (`Governed`). They are judged
here, by the admission: those that may start are claimed at once, by a second claim that asks no more; the others are
deferred to the instant at which they may, or wait for a slot of their task. While nobody declares such limits, nothing
is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from timewheel.dispatch.admission import Pledge
from timewheel.dispatch.gate import Claimant
from timewheel.dispatch.last_chance import LastChance
from timewheel.errors import JournalFull
from timewheel.model import BUDGET_STATES, LAST_CHANCE_LOSSES, SECOND_US, AttemptState, Now
from timewheel.store.changes import Candidate, Claim, Claimed, Defer, Governed, Unheld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timewheel.dispatch.last_chance import Entry
    from timewheel.dispatch.limits import Limits
    from timewheel.dispatch.neighbours import Claims
    from timewheel.dispatch.promises import Promises
    from timewheel.dispatch.ready import Ready
    from timewheel.dispatch.slots import Slots
    from timewheel.flow import Flow
    from timewheel.work.lifecycle import Decision

AHEAD_US = 20_000
SLACK_US = SECOND_US // 4  # a wall clock set back by less is no step: what had fired by then is claimed all the same
REACH_US = AHEAD_US + SLACK_US  # how far before its due time a job may be claimed, and wait at the gate


class Claiming(ABC):
    """The part of a Dispatcher that claims; the claimed ones come to `_admit`."""

    _claims: Claims
    _promises: Promises

    def __init__(self, ready: Ready, limits: Limits, now: Callable[[], Now]) -> None:
        self.ready, self.limits = ready, limits
        self.admission, self.declared = limits.admission, limits.admission.declared
        self.watching_since = now()
        self._now = now
        self._claiming: set[str] = set()  # queues with a claim under way: one at a time
        self._hinted: dict[int, int] = {}  # job id -> lane, of what the journal is asked about
        self._last_chance = LastChance()
        self._served = ""  # the queue that was claimed for last: its turn comes after all others
        self._key_limits = self.declared.key_limits  # as the journal's keeper knows them
        self.draining = False

    @abstractmethod
    def fire(self, entries: Sequence[Entry]) -> None:
        """These (due_us, job_id, lane) are due."""

    @abstractmethod
    def kick(self) -> None:
        """Something changed: pump in the next loop turn."""

    @abstractmethod
    def _admit(self, claimant: Claimant, now: Now) -> None:
        """A job is claimed."""

    # ---- claims ------------------------------------------------------------------------------------------------------

    def _claim(self, queue: str, most: int, now: Now) -> None:
        hints = self.ready.take(queue, most, now)
        self._served = queue
        self._claiming.add(queue)
        self.limits.take_slots(queue, len(hints))
        self._ask(queue, hints, self.declared.governed, {})

    def _ask(self, queue: str, hints: list[Entry], governed: Governed | None, pledges: dict[int, Pledge]) -> None:
        self._hinted.update((job_id, lane) for _, job_id, lane in hints)
        last_chances = self._last_chance.take()
        hinted = [entry[1] for entry in hints]
        change = Claim(hinted, REACH_US, self.watching_since, last_chances, governed, self.declared.key_limits)
        self._claims.claim(change, partial(self._claimed, queue, hints, last_chances, pledges))

    def _claimed(
        self,
        queue: str,
        hints: list[Entry],
        last_chances: int,
        pledges: dict[int, Pledge],
        outcome: Claimed | BaseException,
    ) -> None:
        if not pledges:
            self._claiming.discard(queue)
        self._forget(hints)
        if isinstance(outcome, BaseException):
            self.limits.return_slots(queue, len(hints), entered=False)
            self._give_up(pledges)
            if last_chances:
                self._free_last_chance()
            self.fire(hints if isinstance(outcome, JournalFull) else ())  # what was loaded afresh found no slot
            return
        now = self._now()
        self._last_chance.hold(hints, outcome.held)
        used = any(job.losses >= LAST_CHANCE_LOSSES for job in outcome.jobs)
        if (last_chances and not used) or (outcome.held and self._last_chance.is_free):
            self._free_last_chance()  # before the candidates are judged: the claim of one of them may need it
        opened = self._judge(queue, hints, outcome.asked, now) if outcome.asked else 0
        self.limits.return_slots(queue, len(hints) - len(outcome.jobs) - opened, entered=False)
        for job in outcome.jobs:
            self._admit(Claimant(job, queue, now, pledges.pop(job.job_id, None)), now)
        self._give_up(pledges)
        self.kick()

    def _forget(self, hints: list[Entry]) -> None:
        for _, job_id, _ in hints:
            self._hinted.pop(job_id, None)

    def _free_last_chance(self) -> None:
        for entry in self._last_chance.free():
            self.ready.push(*entry)

    # ---- candidates --------------------------------------------------------------------------------------------------

    def _judge(self, queue: str, hints: list[Entry], asked: list[Candidate], now: Now) -> int:
        """Claim those of the candidates that may start, and defer the others; how many are claimed."""
        if self.draining:
            return 0  # they stay SCHEDULED, for the next owner
        entries = {entry[1]: entry for entry in hints}
        pledges: dict[int, Pledge] = {}
        rows: list[tuple[int, int, int | None]] = []
        for candidate in asked:
            verdict = self.admission.judge(candidate, queue, now, AHEAD_US)
            if isinstance(verdict, Pledge):
                pledges[candidate.job_id] = verdict
            else:
                instant = verdict and _not_after_its_end(verdict, candidate.flow, now)
                rows.append((candidate.job_id, candidate.due_at, instant))
        if any(row[2] is None for row in rows):
            self._let_go()  # nobody may have counted those that wait, and there are slots
        if rows:
            deferred = [entries[row[0]] for row in rows]
            self._hinted.update((job_id, lane) for _, job_id, lane in deferred)
            self._claims.defer(Defer(rows), partial(self._deferred, deferred))
        if pledges:
            self._ask(queue, [entries[job_id] for job_id in pledges], None, pledges)
            self._promises.save(now)
        return len(pledges)

    def _deferred(self, entries: list[Entry], outcome: Any) -> None:
        self._forget(entries)
        if isinstance(outcome, JournalFull):
            self.fire(entries)

    def _give_up(self, pledges: Mapping[int, Pledge]) -> None:
        """These jobs were pledged their start, and were not claimed: cancelled, moved, or their key is held."""
        for job_id, pledge in pledges.items():
            self._refuse(pledge, job_id)

    def _refuse(self, pledge: Pledge, job_id: int) -> None:
        self.admission.refused(pledge, job_id, self._now().steady_us)
        if pledge.slots is not None:
            self._let_go(pledge.slots)

    def _left(self, pledge: Pledge) -> None:
        self.admission.ended(pledge)
        if pledge.slots is not None:
            self._let_go(pledge.slots)

    def attempt_ended(self, claimant: Claimant, decision: Decision, retry_after_us: int) -> None:
        """An attempt that had entered has ended so: a success or a failure of what its task depends on, or neither."""
        job, state = claimant.job, decision.attempt_state
        if job.task in self.declared.dependencies and (state in BUDGET_STATES or state is AttemptState.SUCCEEDED):
            now_us = self._now().steady_us
            self.admission.guards.ended(job.job_id, job.task, decision.fault, now_us, retry_after_us)

    def save_limits(self) -> None:
        """What is saved of limits has changed although nothing is claimed."""
        self._promises.save(self._now())

    # ---- waiters -----------------------------------------------------------------------------------------------------

    def _let_go(self, slots: Slots | None = None) -> None:
        """Let those go on that wait for slots that are free (of one task, with `slots`)."""
        if wanted := self.admission.ask(self._now().steady_us, slots):
            self._claims.let_go(wanted, self._went)

    def _went(self, asked: Mapping[str, int], outcome: Unheld) -> None:
        self.admission.answered(asked, [place[2] for place in outcome.places], self._now().steady_us)
        self.kick()

    def _look_after_waiters(self, now: Now) -> None:
        """What was declared may have changed, and those that were let go may not have come."""
        if self.declared.key_limits is not self._key_limits:
            self._key_limits = self.declared.key_limits
            self._claims.limit_keys(self._key_limits)
        if self.admission.is_to_ask(now.steady_us):
            self._let_go()


def _not_after_its_end(instant_us: int, flow: Flow | None, now: Now) -> int:
    """A steady instant; or, if that comes first, the one at which the job is given up or expires, as the claim sees."""
    if flow is None:
        return instant_us
    ends = [end for end in (flow.deadline, flow.expires_at) if end is not None and end > now.wall_us]
    return min([instant_us, *(end - now.wall_us + now.steady_us + AHEAD_US for end in ends)])
