"""One commit with the dumps on both sides of it: what the laws of outcomes look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from timewheel.model import JobRecord
from timewheel.store.changes import Change, Outcome
from timewheel.store.port import Stamp
from timewheel.testing.laws import Dump

ChangeT = TypeVar("ChangeT", bound=Change)


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

    def job_before(self, job_id: int) -> JobRecord | None:
        """A job as it was before the commit."""
        found: JobRecord | None = self.before["jobs"].get(job_id)
        return found
