"""One commit with the dumps on both sides of it: what the laws of outcomes look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from timewheel.model import JobRecord
from timewheel.store.changes import Change, Defer, Outcome, Submitted, UniqueMet
from timewheel.store.port import Stamp
from timewheel.testing.laws import Dump

ChangeT = TypeVar("ChangeT", bound=Change)


def same(outcome: Outcome, told: Outcome) -> bool:
    """Whether an outcome is what it should be; tuples of two kinds may be equal."""
    return type(outcome) is type(told) and outcome == told


class Step(NamedTuple):
    """The dump before, what was asked and answered, the dump after."""

    before: Dump
    changes: Sequence[Change]
    outcomes: Sequence[Outcome]
    after: Dump
    stamp: Stamp

    def of(self, kind: type[ChangeT]) -> Iterator[tuple[ChangeT, Outcome]]:
        """The changes of one kind, each with its outcome."""
        for change, outcome in zip(self.changes, self.outcomes, strict=True):
            if isinstance(change, kind):
                yield change, outcome

    def moved(self) -> set[int]:
        """The jobs that other jobs' submissions, or deferrals, may have moved or replaced after all verbs."""
        moved = {row[0] for change in self.changes if isinstance(change, Defer) for row in change.rows}
        for outcome in self.outcomes:
            if isinstance(outcome, UniqueMet):
                moved.add(outcome.job_id)
            elif isinstance(outcome, Submitted) and outcome.replaced is not None:
                moved.add(outcome.replaced)
        return moved

    def job_before(self, job_id: int) -> JobRecord | None:
        """A job as it was before the commit."""
        found: JobRecord | None = self.before["jobs"].get(job_id)
        return found
