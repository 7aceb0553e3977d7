"""May this job start? Breakers and budgets, the rates of its task and of its keys, and the slots of its task: all of
them, or none. Pure.

A job that could be claimed, and that one of these limits concerns, is judged before the claim (`judge`): it gets a
`Pledge` (a slot and a promise of its tokens) and is claimed, or it is told when to come again, or that it has to wait
for a slot. At the gate it is asked once more (`may_enter`), and takes its tokens there (`enter`); until then all may be
given back (`refused`). The slot is held until its handler has ended (`ended`).

What is declared of tasks and queues may change at any time. A claimed job whose pledge is no longer what it needs is
given back at the gate and judged again.

Concurrency keys are counted by the journal: here is only what is declared of them (`key_limits`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from timewheel.dispatch.declared import Declarations, Demand
from timewheel.dispatch.guards import Guards, Ticket
from timewheel.dispatch.meters import Meters
from timewheel.dispatch.slots import COMING_US, Slots
from timewheel.model import SECOND_US, ClockKind, Now

if TYPE_CHECKING:
    from collections.abc import Collection

    from timewheel.flow import Flow
    from timewheel.safeguards import Dependency
    from timewheel.store.changes import Candidate

LET_GO_US = 60 * SECOND_US  # so long a waiter that was let go has its rank
MOST_LET_GO = 10_000


class Pledge(NamedTuple):
    """What a job holds from its judgement on: a slot of `slots` (None: it needs none), promises of tokens, and what
    breakers and budgets have to do with it."""

    slots: Slots | None
    demands: tuple[Demand, ...]
    edition: int  # of what was declared
    ticket: Ticket | None = None


class Admission:
    """See the module. `saved`: the journal's values of the rates and breakers."""

    def __init__(
        self, saved: Mapping[str, int], dependencies: Mapping[str, Dependency] | None = None, now_us: int = 0
    ) -> None:
        self.declared = Declarations()
        self.guards = Guards(self.declared, dependencies or {}, saved, now_us)
        self.meters = Meters(saved)
        self.look_at: int | None = None  # steady; when those that were let go are late
        self._let_go: OrderedDict[int, int] = OrderedDict()  # job id -> when it was let go
        self._asked_edition = -1  # of what was declared when waiters were asked for

    # ---- before the claim --------------------------------------------------------------------------------------------

    def judge(self, candidate: Candidate, queue: str, now: Now, ahead_us: int) -> Pledge | int | None:
        """A pledge for a job that may start until `ahead_us` from now; or the steady instant to come again at; or
        None: it waits for a slot of its task."""
        slots, demands = self.declared.needs(candidate.task, queue, candidate.flow)
        let_go = self._let_go.pop(candidate.job_id, None) is not None
        about = candidate.job_id, candidate.task, queue, candidate.failures, now.steady_us
        instant = self.guards.turn(*about)
        if instant is not None:
            self._stand_aside(candidate, demands, now.steady_us, instant)
        else:
            instant = self._turn(candidate, demands, now.steady_us, now.steady_us + ahead_us)
        if instant is not None:
            if let_go and slots is not None:
                slots.not_yet()
            return instant
        if slots is not None and not slots.take(now.steady_us, let_go=let_go):
            self._stand_aside(candidate, demands, now.steady_us, now.steady_us)
            return None
        for meter, rate, tokens in demands:
            self.meters.of(meter, rate, now.steady_us).promise(candidate.job_id, tokens, _steady(candidate))
            self.meters.changed(meter)
        return Pledge(slots, demands, self.declared.edition, self.guards.pledge(*about))

    def _stand_aside(self, candidate: Candidate, demands: tuple[Demand, ...], now_us: int, until_us: int) -> None:
        for name, rate, tokens in demands:
            self.meters.of(name, rate, now_us).stand_aside(candidate.job_id, tokens, until_us, _steady(candidate))

    def _turn(self, candidate: Candidate, demands: tuple[Demand, ...], now_us: int, until_us: int) -> int | None:
        """When a job is to come again for tokens; None: there are enough by `until_us`. It is booked with the meter
        that is the last to have them."""
        job_id, due_us, partition = candidate.job_id, _steady(candidate), _partition(candidate)
        turns: dict[str, int] = {}
        for name, rate, tokens in demands:
            meter = self.meters.of(name, rate, now_us)
            if meter.earliest(job_id, tokens, now_us, due_us, partition) > until_us:
                turns[name] = meter.turn(job_id, tokens, now_us, due_us, partition)
        if not turns:
            return None
        instant = max(turns.values())
        for name, rate, tokens in demands:
            meter = self.meters.of(name, rate, now_us)
            if turns.get(name) == instant:
                meter.tell(job_id, tokens, instant, due_us, partition)
            else:
                meter.stand_aside(job_id, tokens, instant, due_us)
        return instant

    # ---- at the gate -------------------------------------------------------------------------------------------------

    def holds_for(self, pledge: Pledge | None, task: str, queue: str, flow: Flow | None) -> bool:
        """Whether a claimed job's pledge is still all that it needs."""
        if pledge is not None and pledge.edition == self.declared.edition:
            return True
        slots, demands = self.declared.needs(task, queue, flow)
        if pledge is None:
            return slots is None and not demands
        return pledge.slots is slots and pledge.demands == demands

    def may_enter(self, pledge: Pledge, now_us: int) -> bool:
        """Whether every token is there, and every budget has room."""
        if pledge.ticket is not None and not self.guards.may_enter(pledge.ticket, now_us):
            return False
        return all(self.meters.promised(name).has(tokens, now_us) for name, _, tokens in pledge.demands)

    def enter(self, pledge: Pledge, now_us: int) -> None:
        """The job enters its handler, and takes its tokens. Only when it `may_enter`."""
        if pledge.ticket is not None:
            self.guards.keep_promises(pledge.ticket)
        for name, _, tokens in pledge.demands:
            self.meters.promised(name).spend(tokens, now_us)
            self.meters.changed(name)

    def promise_again(self, pledge: Pledge, job_id: int, now_us: int) -> None:
        """A job that had taken its tokens goes back to the gate; the tokens stay spent."""
        if pledge.ticket is not None:
            self.guards.promise_again(pledge.ticket)
        for name, rate, tokens in pledge.demands:
            self.meters.once_promised(name, rate, now_us).promise(job_id, tokens)
            self.meters.changed(name)

    def refused(self, pledge: Pledge, job_id: int, now_us: int) -> None:
        """A job with a pledge has not entered, and is not claimed any more."""
        for name, _, tokens in pledge.demands:
            self.meters.promised(name).take_back(job_id, tokens, now_us)
        if pledge.ticket is not None:
            self.guards.keep_promises(pledge.ticket)
        self.ended(pledge)

    def ended(self, pledge: Pledge) -> None:
        """A job that had entered holds its slot no more."""
        if pledge.slots is not None:
            pledge.slots.give_back()
        if pledge.ticket is not None:
            self.guards.left(pledge.ticket)

    # ---- waiters -----------------------------------------------------------------------------------------------------

    def ask(self, now_us: int, slots: Slots | None = None) -> dict[str, int]:
        """How many more waiters of each task (of one: of that with `slots`) the next TakeOver is to let go on."""
        asked = {each.task: each.ask(now_us) for each in (slots and (slots,)) or self.declared.slots.values()}
        return {name: jobs for name, jobs in asked.items() if jobs}

    def is_to_ask(self, now_us: int) -> bool:
        """Whether `ask` may have something to say although nothing has ended since."""
        if self._asked_edition == self.declared.edition and (self.look_at is None or now_us < self.look_at):
            return False
        self._asked_edition = self.declared.edition
        if self.look_at is not None and now_us >= self.look_at:  # before, those that were let go may still come
            self.look_at = None
        return True

    def answered(self, asked: Mapping[str, int], let_go: Collection[int], now_us: int) -> None:
        """A TakeOver is durable: `let_go` are SCHEDULED again, jobs among them that waited for something else."""
        while self._let_go and (len(self._let_go) >= MOST_LET_GO or self._oldest_let_go() < now_us - LET_GO_US):
            del self._let_go[next(iter(self._let_go))]
        if asked:
            self._let_go.update(dict.fromkeys(let_go, now_us))
        for name, jobs in asked.items():
            self.declared.slots[name].answered(jobs, len(let_go), now_us)
        self.look_at = now_us + COMING_US
        self._asked_edition = -1  # there may be more

    def _oldest_let_go(self) -> int:
        return next(iter(self._let_go.values()))


def _steady(candidate: Candidate) -> int | None:
    return candidate.due_at if candidate.clock is ClockKind.STEADY else None


def _partition(candidate: Candidate) -> str:
    return "" if candidate.flow is None else candidate.flow.partition_key or ""
