"""The dispatcher: from ready to the handler. It claims what may start soon, and lets it through the gate.

A *pump* looks at every queue that has ready jobs, in turn, asks the limits how many may be claimed, and hands the
committer a claim with that many hints. When the claim's commit has returned, the jobs come to the gate; from there, in
one loop turn without an await, each is checked again, takes its tokens and is handed to the worker. Everything here
runs in callbacks of one event loop; an error in one of them stops the scheduler (`failed`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from timewheel.dispatch.appointment import Appointment
from timewheel.dispatch.gate import Claimant, Gate
from timewheel.dispatch.last_chance import LastChance
from timewheel.dispatch.neighbours import Claims, Floor, Surroundings
from timewheel.dispatch.promises import Promises
from timewheel.dispatch.queued import Queued
from timewheel.errors import JournalFull
from timewheel.model import LAST_CHANCE_LOSSES, SECOND_US, ClockKind, Now
from timewheel.store.changes import Claim, Claimed

if TYPE_CHECKING:
    from timewheel.dispatch.limits import Limits
    from timewheel.dispatch.ready import Ready
    from timewheel.ports import Clock

MOST_HINTS = 1_000  # of one claim
PORTION = 64  # jobs that pass the gate in one turn of the loop: their handlers' first lines run in the next
AHEAD_US = 20_000
SLACK_US = SECOND_US // 4  # a wall clock set back by less is no step: what had fired by then is claimed all the same
REACH_US = AHEAD_US + SLACK_US  # how far before its due time a job may be claimed, and wait at the gate


class Dispatcher:
    """See the module."""

    def __init__(
        self, ready: Ready, limits: Limits, now: Callable[[], Now], clock: Clock, surroundings: Surroundings
    ) -> None:
        self.ready, self.limits = ready, limits
        self.gate = Gate()
        self.watching_since = now()
        self._now, self._surroundings = now, surroundings
        self._loop = asyncio.get_running_loop()
        self._claiming: set[str] = set()  # queues with a claim under way: one at a time
        self._hinted: dict[int, int] = {}  # job id -> lane, of the claims under way
        self._last_chance = LastChance()
        self.queued = Queued(ready, self._hinted, self.gate, self._last_chance)
        self._served = ""  # the queue that was claimed for last: its turn comes after all others
        self.draining = self._pumping = False
        self._appointment = Appointment(clock, self.pump)

    def wire(self, claims: Claims, floor: Floor) -> None:
        """Connect the doers it works with."""
        self._claims, self._floor = claims, floor
        self._promises = Promises(self.limits, claims, self._now, self.kick)

    # ---- what others tell --------------------------------------------------------------------------------------------

    def fire(self, entries: Sequence[tuple[int, int, int]]) -> None:
        """The wheels say that these (due_us, job_id, lane) are due."""
        push = self.ready.push
        for due_us, job_id, lane in entries:
            push(due_us, job_id, lane)
        self.kick()

    def kick(self) -> None:
        """Something changed: pump in the next loop turn."""
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self.pump)

    def ended(self, claimant: Claimant) -> None:
        """A job that had entered holds its slots no more."""
        self.limits.return_slots(claimant.queue, 1, entered=True)
        if claimant.job.losses >= LAST_CHANCE_LOSSES:
            self._free_last_chance()
        self.kick()

    def not_entered(self, claimant: Claimant) -> None:
        """A claimed job that had not entered is gone (given back, cancelled, moved)."""
        self.limits.return_slots(claimant.queue, 1, entered=False)
        if claimant.job.losses >= LAST_CHANCE_LOSSES:
            self._free_last_chance()
        self.kick()

    def take_back(self, claimant: Claimant) -> None:
        """A worker gives a withdrawn job back that it had not entered; its tokens are spent (the strict side)."""
        self.limits.promise_again(claimant.queue)
        self.gate.park(claimant)

    def came_early(self, claimant: Claimant) -> None:
        """A worker gives a job back for which it is too early again; its tokens are spent."""
        self.limits.promise_again(claimant.queue)
        self._admit(claimant, self._now())
        self.kick()

    def resolve(self, job_id: int, ended_attempt: int | None, *, unsure: bool = False) -> None:
        """The outcome of a verb is known (see Gate); `unsure`: nobody knows it, so the job may not start as it is."""
        gone = self.gate.resolve(job_id, ended_attempt)
        if gone is not None:
            self.not_entered(gone)
        elif unsure and (doubtful := self.gate.take(job_id)) is not None:
            self.release(doubtful, "not_entered")
        self.kick()

    def give_back(self, reason: str, kind: ClockKind | None = None, queue: str | None = None) -> None:
        """Release what waits at the gate: at a drain, at a backward step (one clock), at a pause (one queue)."""
        for claimant in self.gate.drain(kind):
            if queue is None or claimant.queue == queue:
                self.release(claimant, reason)
            else:
                self.gate.admit(claimant, self._now())

    def look(self) -> None:
        """A clock was set, or the machine slept: what a timer is to bring may be due already."""
        self._appointment.forget()
        self.kick()

    @property
    def holds_claims(self) -> bool:
        """Whether jobs are being claimed, or wait at the gate."""
        return bool(self._hinted or self.gate.waiting)

    # ---- claiming ----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let in what may enter, and claim what may start, now."""
        self._pumping = False
        now = self._now()  # one for all: what is not yet due for the gate must still be coming for the timer
        try:
            self._open_gate(now)
            if not self.draining and not self._claims.full:
                self._claim_what_may_start(now)
            self._arm(now)
        except Exception as fault:  # noqa: BLE001  a callback has nobody else to tell
            self._surroundings.failed(fault)

    def _claim_what_may_start(self, now: Now) -> None:
        claimed = False
        queues = self.ready.queues(self._served)
        for position, queue in enumerate(queues):
            room = 0 if queue in self._claiming else self.limits.room(queue, now.steady_us, AHEAD_US)
            if room > 0:
                share = max(1, self.limits.room_of_whole(now.steady_us, AHEAD_US) // (len(queues) - position))
                claimed |= self._claim(queue, min(room, share, MOST_HINTS), now)
        if claimed:
            self._promises.save(now)
            self._surroundings.drained()

    def _claim(self, queue: str, most: int, now: Now) -> bool:
        hints = self.ready.take(queue, most, now)
        if not hints:
            return False
        self._served = queue
        self._claiming.add(queue)
        self.limits.take_slots(queue, len(hints))
        self._hinted.update((job_id, lane) for _, job_id, lane in hints)
        last_chances = self._last_chance.take()
        change = Claim([entry[1] for entry in hints], REACH_US, self.watching_since, last_chances)
        self._claims.claim(change, partial(self._claimed, queue, hints, last_chances))
        return True

    def _claimed(
        self, queue: str, hints: list[tuple[int, int, int]], last_chances: int, outcome: Claimed | BaseException
    ) -> None:
        self._claiming.discard(queue)
        for _, job_id, _ in hints:
            self._hinted.pop(job_id, None)
        if isinstance(outcome, BaseException):
            self.limits.return_slots(queue, len(hints), entered=False)
            if last_chances:
                self._free_last_chance()
            self.fire(hints if isinstance(outcome, JournalFull) else ())  # what was loaded afresh found no slot
            return
        self.limits.return_slots(queue, len(hints) - len(outcome.jobs), entered=False)
        now = self._now()
        for job in outcome.jobs:
            self._admit(Claimant(job, queue, now), now)
        self._last_chance.hold(hints, outcome.held)
        used = any(job.losses >= LAST_CHANCE_LOSSES for job in outcome.jobs)
        if (last_chances and not used) or (outcome.held and self._last_chance.is_free):
            self._free_last_chance()
        self.kick()

    def _free_last_chance(self) -> None:
        for entry in self._last_chance.free():
            self.ready.push(*entry)

    def _admit(self, claimant: Claimant, now: Now) -> None:
        """Let a claimed job wait at the gate, unless it would hold its slot there for nothing."""
        if self.draining:
            self.release(claimant, "drain")
        elif claimant.early_by(now) > REACH_US:
            self.release(claimant, "clock_step")  # back, while its claim or a verb of it was committed
        else:
            self.gate.admit(claimant, now)

    def _open_gate(self, now: Now) -> None:
        with closing(self.gate.candidates(now)) as candidates:
            gone = 0
            for claimant in candidates:
                gone += self._consider(claimant, now)
                if gone >= PORTION:  # the loop has others to serve
                    self.kick()
                    return

    def _consider(self, claimant: Claimant, now: Now) -> bool:
        """Let one job in, give it back, or let it wait on; whether it has left the gate."""
        gate, limits = self.gate, self.limits
        if self.draining:
            self.release(claimant, "drain")
        elif limits.of(claimant.queue).paused:
            self.release(claimant, "paused")
        elif claimant.early_by(now) > 0:
            self._admit(claimant, now)  # the wall clock was set back while it waited
            return False
        elif self._promises.hold(claimant.queue, now):
            gate.stays(claimant)
            return False
        elif limits.enter(claimant.queue, now.steady_us):
            gate.left(claimant)
            self._floor.start(claimant, now)
        elif claimant.out_of_patience(now):
            self.release(claimant, "not_entered")
        else:
            gate.stays(claimant)
            return False
        return True

    def release(self, claimant: Claimant, reason: str) -> None:
        """Give a claimed job back that has not entered."""
        self.gate.left(claimant)
        self._floor.release(claimant, reason)
        self.not_entered(claimant)

    def _arm(self, now: Now) -> None:
        """Have the next pump come when an early job is due, or when a rate allows the next start."""
        waits = self.gate.waits(now)
        open_queues = [queue for queue in self.ready.queues() if not self.limits.of(queue).paused]
        waits += [self.limits.next_room(queue, now.steady_us) - AHEAD_US - now.steady_us for queue in open_queues]
        if coming := [wait for wait in waits if wait > 0]:
            self._appointment.make(now.steady_us + min(coming), now.steady_us)
