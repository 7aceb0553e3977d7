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
from typing import TYPE_CHECKING

from timewheel.dispatch.appointment import Appointment
from timewheel.dispatch.claiming import AHEAD_US, REACH_US, Claiming
from timewheel.dispatch.gate import Claimant, Gate
from timewheel.dispatch.neighbours import Claims, Floor, Surroundings
from timewheel.dispatch.promises import Promises
from timewheel.dispatch.queued import Queued
from timewheel.model import LAST_CHANCE_LOSSES, ClockKind, Now

if TYPE_CHECKING:
    from timewheel.dispatch.limits import Limits
    from timewheel.dispatch.ready import Ready
    from timewheel.ports import Clock

MOST_HINTS = 1_000  # of one claim
PORTION = 64  # jobs that pass the gate in one turn of the loop: their handlers' first lines run in the next


class Dispatcher(Claiming):
    """See the module."""

    def __init__(
        self, ready: Ready, limits: Limits, now: Callable[[], Now], clock: Clock, surroundings: Surroundings
    ) -> None:
        super().__init__(ready, limits, now)
        self.gate = Gate()
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()
        self.queued = Queued(ready, self._hinted, self.gate, self._last_chance)
        self._pumping = False
        self._appointment = Appointment(clock, self.pump)

    def wire(self, claims: Claims, floor: Floor) -> None:
        """Connect the doers it works with."""
        self._claims, self._floor = claims, floor
        self._promises = Promises(self.limits, claims, self._now, self.kick)
        claims.limit_keys(self._key_limits)

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
        if claimant.pledge is not None:
            self._left(claimant.pledge)
        if claimant.job.losses >= LAST_CHANCE_LOSSES:
            self._free_last_chance()
        self.kick()

    def not_entered(self, claimant: Claimant) -> None:
        """A claimed job that had not entered is gone (given back, cancelled, moved)."""
        self.limits.return_slots(claimant.queue, 1, entered=False)
        if claimant.pledge is not None:
            self._refuse(claimant.pledge, claimant.job.job_id)
        if claimant.job.losses >= LAST_CHANCE_LOSSES:
            self._free_last_chance()
        self.kick()

    def take_back(self, claimant: Claimant) -> None:
        """A worker gives a withdrawn job back that it had not entered; its tokens are spent (the strict side)."""
        self._promise_again(claimant)
        self.gate.park(claimant)

    def came_early(self, claimant: Claimant) -> None:
        """A worker gives a job back for which it is too early again; its tokens are spent."""
        self._promise_again(claimant)
        self._admit(claimant, self._now())
        self.kick()

    def _promise_again(self, claimant: Claimant) -> None:
        self.limits.promise_again(claimant.queue)
        if claimant.pledge is not None:
            self.admission.promise_again(claimant.pledge, claimant.job.job_id, self._now().steady_us)
        self._promises.void()

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
                self._look_after_waiters(now)
                self._claim_what_may_start(now)
            self._arm(now)
        except Exception as fault:  # noqa: BLE001  a callback has nobody else to tell
            self._surroundings.failed(fault)

    def _claim_what_may_start(self, now: Now) -> None:
        wants: dict[str, int] = {}
        others: list[str] = []
        for queue in self.ready.queues(self._served):
            if queue in self._claiming:
                others.append(queue)
            elif (room := self.limits.room(queue, now.steady_us, AHEAD_US)) > 0:
                wants[queue] = self.ready.queue_size(queue, min(room, MOST_HINTS))
        if not wants:
            return
        room = self.limits.room_of_whole(now.steady_us, AHEAD_US)
        for queue, most in self.limits.shares.divide(room, wants, others).items():
            self._claim(queue, most, now)
        self._promises.save(now)
        self._surroundings.drained()

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
        gate, limits, pledge = self.gate, self.limits, claimant.pledge
        plain = pledge is None and self.declared.governed is None and not self.admission.guards.counts_starts
        if self.draining:
            self.release(claimant, "drain")
        elif limits.of(claimant.queue).paused:
            self.release(claimant, "paused")
        elif claimant.early_by(now) > 0:
            self._admit(claimant, now)  # the wall clock was set back while it waited
            return False
        elif not plain and not self._pledge_holds(claimant, now.steady_us):
            self.release(claimant, "limits")  # others hold by now: it is judged by these
        elif self._promises.hold(claimant.queue, now, rated=pledge is not None and bool(pledge.demands)):
            gate.stays(claimant)
            return False
        elif limits.enter(claimant.queue, now.steady_us) if plain else self._enters(claimant, now.steady_us):
            gate.left(claimant)
            self._floor.start(claimant, now)
        elif claimant.out_of_patience(now):
            self.release(claimant, "not_entered")
        else:
            gate.stays(claimant)
            return False
        return True

    def _pledge_holds(self, claimant: Claimant, now_us: int) -> bool:
        if claimant.pledge is None and self.declared.governed is None:
            return True
        job, pledge = claimant.job, claimant.pledge
        about = job.job_id, job.task, claimant.queue, job.failures, now_us
        if not self.admission.guards.holds(None if pledge is None else pledge.ticket, *about):
            return False
        return self.admission.holds_for(pledge, job.task, claimant.queue, job.flow)

    def _enters(self, claimant: Claimant, now_us: int) -> bool:
        """Let a job in that has its slots and its tokens, all of them, and take the tokens; False: not now."""
        pledge = claimant.pledge
        if pledge is not None and not self.admission.may_enter(pledge, now_us):
            return False
        if not self.limits.enter(claimant.queue, now_us):
            return False
        if pledge is not None:
            self.admission.enter(pledge, now_us)
        if self.admission.guards.counts_starts:
            self.admission.guards.started(claimant.job.task, claimant.queue, claimant.job.failures, now_us)
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
        if (look_at := self.admission.look_at) is not None:
            waits.append(look_at - now.steady_us)
        if coming := [wait for wait in waits if wait > 0]:
            self._appointment.make(now.steady_us + min(coming), now.steady_us)
