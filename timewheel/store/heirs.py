"""Heirs: jobs that wait until another has ended, and the change that lets them go on. Pure.

Whoever ends a job need not know who waits for it: as long as any job may wait for another (overlap, key), each batch in
which a job can end takes a TakeOver along, so that the end and what follows from it are one transaction. While none
waits that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from timewheel.store.changes import Cancel, Claim, Claimed, Outcome, Planned, Reschedule, Settle, TakeOver, Unhold

if TYPE_CHECKING:
    from timewheel.store.backlog import Entry

_MAY_END = (Settle, Cancel, Reschedule, Claim, Unhold)  # an overrun that ends gives up its key


class Heirs:
    """`may_wait`: whether some job may be WAITING (overlap or key). Once true, it stays so until the next start."""

    def __init__(self) -> None:
        self.may_wait = False

    def remember(self, batch: list[Entry]) -> None:
        """Add a TakeOver to a batch in which a job may end that another waits for."""
        if not self.may_wait or any(isinstance(change, TakeOver) for change, _ in batch):
            return
        if any(isinstance(change, _MAY_END) for change, _ in batch):
            batch.append((TakeOver(), _nobody_asks))

    def learn(self, outcomes: Iterable[Outcome]) -> None:
        """See from the outcomes of a batch whether it made a job wait."""
        if not self.may_wait:
            self.may_wait = any(isinstance(outcome, Planned | Claimed) and outcome.waiting for outcome in outcomes)


def _nobody_asks(_: object) -> None:
    """Where the jobs lie now is heard by the surroundings, as of every batch."""
