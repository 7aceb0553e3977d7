"""What keeps failures from spreading: the breakers of dependencies, and the retry budgets of these and of queues. Pure.

A job is judged by them before its claim (`turn`), where one of them may have a say, and asked again at the gate
(`holds`, `may_enter`). While every breaker is closed they cost nothing before the claim: only when one is not are the
jobs of its tasks asked for (`Declarations.guard`). Of retries all are asked for as soon as there is any budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from timewheel.dispatch.breaker import BreakerState, CircuitBreaker, Transition
from timewheel.dispatch.budget import Budget
from timewheel.safeguards import Dependency

if TYPE_CHECKING:
    from timewheel.dispatch.declared import Declarations
    from timewheel.model import FaultClass
    from timewheel.safeguards import RetryBudget

SAVED = "breaker\n"  # before the dependency's name, in the names of what is saved: no queue has such a name


class Ticket(NamedTuple):
    """What a job holds from its judgement on: a place at a breaker, and promises of budgets."""

    job_id: int
    breaker: CircuitBreaker | None
    budgets: tuple[Budget, ...]


class Guarded(NamedTuple):
    """What protects one dependency."""

    breaker: CircuitBreaker | None
    budget: Budget | None


class Guards:
    """See the module. `told(dependency, transition)` hears of every change of a breaker."""

    def __init__(
        self, declared: Declarations, settings: Mapping[str, Dependency], saved: Mapping[str, int], now_us: int
    ) -> None:
        self.told: Callable[[str, Transition], None] = lambda *_: None
        self._declared = declared
        self._settings = settings
        self._saved = {name.removeprefix(SAVED): value for name, value in saved.items() if name.startswith(SAVED)}
        self._stored = dict(self._saved)  # what the journal holds
        self.counts_starts = False  # whether there is any budget
        self._guarded: dict[str, Guarded] = {}
        self._queues: dict[str, Budget] = {}
        for name in {*settings, *self._saved}:
            self.of(name, now_us)
        self._changed()

    def of(self, dependency: str, now_us: int) -> Guarded:
        """What protects this dependency, by its settings or as by default."""
        guarded = self._guarded.get(dependency)
        if guarded is None:
            settings = self._settings.get(dependency, Dependency())
            breaker = budget = None
            if settings.breaker is not None:
                saved = self._saved.get(dependency)
                breaker = CircuitBreaker(settings.breaker, saved, now_us, lambda change: self._went(dependency, change))
            if settings.retry_budget is not None:
                budget = Budget(settings.retry_budget)
            guarded = self._guarded[dependency] = Guarded(breaker, budget)
        return guarded

    def shape(self, queue: str, settings: RetryBudget | None) -> None:
        """A queue has this retry budget from now on; what it has counted stays only if that is the same."""
        budget = self._queues.get(queue)
        if (None if budget is None else budget.settings) == settings:
            return
        self._queues.pop(queue, None)
        if settings is not None:
            self._queues[queue] = Budget(settings)
        self._changed()

    def budget_of(self, queue: str) -> Budget | None:
        """The retry budget of a queue."""
        return self._queues.get(queue)

    def queue_budgets(self) -> list[tuple[str, Budget]]:
        """The queues that have a retry budget, and these."""
        return sorted(self._queues.items())

    def in_use(self) -> list[str]:
        """Those that are declared, that tasks name, or whose breaker is not closed: not all that anybody named."""
        saved = (name for name, each in self._guarded.items() if each.breaker and each.breaker.value is not None)
        return sorted({*self._settings, *self._declared.dependencies.values(), *saved})

    # ---- before the claim --------------------------------------------------------------------------------------------

    def turn(self, job_id: int, task: str, queue: str, failures: int, now_us: int) -> int | None:
        """None: as far as these go the job may start now; otherwise when it is to come again."""
        breaker, budgets = self._of(task, queue, failures, now_us)
        if breaker is not None and (instant := breaker.turn(job_id, now_us)) is not None:
            return instant
        for budget in budgets:
            if (instant := budget.turn(job_id, now_us)) is not None:
                return instant
        return None

    def pledge(self, job_id: int, task: str, queue: str, failures: int, now_us: int) -> Ticket | None:
        """The job is going to start. Only when it is its `turn`."""
        breaker, budgets = self._of(task, queue, failures, now_us)
        if breaker is not None:
            breaker.start(job_id)
        for budget in budgets:
            budget.promise()
        return None if breaker is None and not budgets else Ticket(job_id, breaker, budgets)

    # ---- at the gate -------------------------------------------------------------------------------------------------

    def holds(self, ticket: Ticket | None, job_id: int, task: str, queue: str, failures: int, now_us: int) -> bool:
        """Whether a claimed job has been judged by all that has a say by now, and nothing has closed before it."""
        breaker, budgets = self._of(task, queue, failures, now_us)
        if breaker is not None and not breaker.holds(job_id):
            return False
        return budgets == (() if ticket is None else ticket.budgets)

    def may_enter(self, ticket: Ticket, now_us: int) -> bool:
        """Whether every budget allows it now."""
        return all(budget.may_enter(now_us) for budget in ticket.budgets)

    def started(self, task: str, queue: str, failures: int, now_us: int) -> None:
        """A job starts, whether it was judged or not."""
        if budget := self._queues.get(queue):
            budget.start(now_us, retry=failures > 0)
        name = self._declared.dependencies.get(task)
        if name is not None and (budget := self.of(name, now_us).budget):
            budget.start(now_us, retry=failures > 0)

    def keep_promises(self, ticket: Ticket) -> None:
        """A job with a ticket has started, or does not now: its promises are over."""
        for budget in ticket.budgets:
            budget.take_back()

    def promise_again(self, ticket: Ticket) -> None:
        """A job that had started goes back to the gate."""
        for budget in ticket.budgets:
            budget.promise()

    def left(self, ticket: Ticket) -> None:
        """A job with a ticket has ended, or does not start now."""
        if ticket.breaker is not None:
            ticket.breaker.left(ticket.job_id)

    # ---- how they end ------------------------------------------------------------------------------------------------

    def ended(self, job_id: int, task: str, fault: FaultClass | None, now_us: int, retry_after_us: int = 0) -> None:
        """An attempt was a success (`fault` is None), or failed."""
        name = self._declared.dependencies.get(task)
        breaker = None if name is None else self.of(name, now_us).breaker
        if breaker is None:
            return
        if fault is None:
            breaker.succeeded(job_id, now_us)
        else:
            breaker.failed(job_id, fault, now_us, retry_after_us)

    def to_save(self) -> dict[str, int | None]:
        """What the journal is to hold of breakers, where that has changed; None: forget it."""
        values: dict[str, int | None] = {}
        for name, guarded in self._guarded.items():
            value = None if guarded.breaker is None else guarded.breaker.value
            if value != self._stored.get(name):
                values[SAVED + name] = value
                self._stored[name] = value  # type: ignore[assignment]  # None is what a name has that is not there
        return values

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _of(
        self, task: str, queue: str, failures: int, now_us: int
    ) -> tuple[CircuitBreaker | None, tuple[Budget, ...]]:
        """What has a say in the start of such a job."""
        name = self._declared.dependencies.get(task)
        guarded = None if name is None else self.of(name, now_us)
        if not failures:
            return None if guarded is None else guarded.breaker, ()
        budgets = (self._queues.get(queue), None if guarded is None else guarded.budget)
        return None if guarded is None else guarded.breaker, tuple(each for each in budgets if each is not None)

    def _went(self, dependency: str, transition: Transition) -> None:
        self._changed()
        self.told(dependency, transition)

    def _changed(self) -> None:
        breakers = {name: each.breaker for name, each in self._guarded.items() if each.breaker is not None}
        shut = frozenset(name for name, breaker in breakers.items() if not breaker.state.lets_all)
        budgets = bool(self._queues) or any(each.budget is not None for each in self._guarded.values())
        self.counts_starts = budgets
        self._declared.guard(shut, retries=budgets)


def is_forced(state: BreakerState) -> bool:
    """Whether a person said so."""
    return state in (BreakerState.FORCED_OPEN, BreakerState.FORCED_CLOSED)
