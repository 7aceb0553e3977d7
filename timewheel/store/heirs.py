"""Heirs: jobs that wait until another has ended, and the change that lets them go on. Pure.

Whoever ends a job need not know who waits for it: as long as any job may wait for another (overlap, key, dependency),
each batch in which a job can end takes a TakeOver along, so that the end and what follows from it are one transaction.
While none waits that costs nothing.

Of tasks the slots are counted in memory: the dispatcher wants so many waiters of a task to go on (`want`), and the next
TakeOver lets them. What is wanted is kept until a batch with it is durable.

A handler that cannot be stopped holds its concurrency key until it ends, whatever becomes of its job meanwhile. Each
batch says of these who they are when it is put together: what ends such a job comes after `overruns`, and no claim of
the same batch can take its key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from timewheel.flow import OnConflict
from timewheel.store.changes import (
    Cancel,
    Change,
    Claim,
    Claimed,
    Outcome,
    Planned,
    PlanOccurrences,
    Reschedule,
    Settle,
    Submit,
    Submitted,
    TakeOver,
    Unhold,
)
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyHolder, KeyLimits

if TYPE_CHECKING:
    from timewheel.store.backlog import Entry

_MAY_END = (Settle, Cancel, Reschedule, Claim, Unhold)  # an overrun that ends gives up its key


class Heirs:
    """`may_wait`: whether some job may be WAITING (overlap, key or dependency). Once true, it stays so until the next
    start. `key_limits`: of every TakeOver from now on."""

    def __init__(self) -> None:
        self.may_wait = False
        self.key_limits: KeyLimits = ONE_OF_A_KEY
        self._everything = False
        self._wanted: Counter[str] = Counter()
        self._keys: set[str] = set()  # to look at, for one that held them does no more
        self._overran: dict[int, KeyHolder] = {}  # by job id; replaced whole, for batches keep what they were told
        self._any_overran = False  # so far: most never have one, and their claims are left alone
        self._under_way: TakeOver | None = None
        self._receive: Callable[[Mapping[str, int], Any], None] = _nobody_asks

    @property
    def asks(self) -> bool:
        """Whether a TakeOver is wanted although nothing ends."""
        return self._everything or bool(self._wanted or self._keys) or self._under_way is not None

    def want(self, tasks: Mapping[str, int], receive: Callable[[Mapping[str, int], Any], None]) -> None:
        """Let so many more waiters of each task go on; `receive(tasks, outcome)` hears of each TakeOver that does."""
        self._wanted.update(tasks)
        self._receive = receive

    def want_everything(self) -> None:
        """Look at all that wait: limits of keys have changed."""
        self._everything = True

    def overruns(self, job_id: int, holder: KeyHolder) -> None:
        """The handler of this job cannot be stopped: its key is held until `overrun_ended`."""
        self._overran = {**self._overran, job_id: holder}
        self._any_overran = True

    def overrun_ended(self, job_id: int) -> bool:
        """Its handler has ended at last: whether that held a key, which is looked at with the next batch then."""
        if job_id not in self._overran:
            return False
        self._keys.add(self._overran[job_id].key)
        self._overran = {other: holder for other, holder in self._overran.items() if other != job_id}
        return True

    def remember(self, batch: list[Entry]) -> None:
        """Add a TakeOver to a batch in which a job may end that another waits for, or when one is wanted."""
        if self._any_overran:
            for change, _ in batch:
                if isinstance(change, Claim):  # also one whose batch was not written: it was told of others
                    change.key_limits = change.key_limits._replace(overran=self._overran)
        if self._under_way is not None:  # the batch that it went with was not written
            self._everything |= self._under_way.everything
            self._wanted.update(self._under_way.tasks)
            self._keys |= self._under_way.keys
            self._under_way = None
        if any(isinstance(change, TakeOver) for change, _ in batch):
            return
        may_wait = self.may_wait or _makes_wait(batch)
        if self.asks or (may_wait and any(_may_end(change) for change, _ in batch)):
            limits = self.key_limits._replace(overran=self._overran)
            self._under_way = TakeOver(self._everything, limits, dict(self._wanted), frozenset(self._keys))
            self._everything = False
            self._wanted.clear()
            self._keys.clear()
            batch.append((self._under_way, self._written))

    def learn(self, outcomes: Iterable[Outcome]) -> None:
        """See from the outcomes of a batch whether it made a job wait."""
        if not self.may_wait:
            self.may_wait = _made_wait(outcomes)

    def _written(self, outcome: Any) -> None:
        """Where the jobs lie now was heard by the surroundings, as of every batch."""
        if isinstance(outcome, BaseException):
            return
        take, self._under_way = self._under_way, None
        if take is not None and take.tasks:
            self._receive(take.tasks, outcome)


def _makes_wait(batch: list[Entry]) -> bool:
    """Whether it makes a job that waits, so that one of the same batch can end for which it does. A loop: it is hot."""
    for change, _ in batch:
        if isinstance(change, Submit) and (flow := change.request.flow) is not None and flow.wait_for is not None:
            return True
    return False


def _may_end(change: Change) -> bool:
    if isinstance(change, Submit):
        flow = change.request.flow
        return flow is not None and flow.unique is not None and flow.unique.on_conflict is OnConflict.REPLACE
    return isinstance(change, _MAY_END) or (isinstance(change, PlanOccurrences) and change.supersede)


def _made_wait(outcomes: Iterable[Outcome]) -> bool:
    for outcome in outcomes:
        if isinstance(outcome, Submitted):
            if outcome.lane < 0 and outcome.created:
                return True
        elif isinstance(outcome, (Planned, Claimed)) and outcome.waiting:
            return True
    return False


def _nobody_asks(_: Mapping[str, int], __: Any) -> None:
    """Nobody has wanted a task's waiters to go on."""
