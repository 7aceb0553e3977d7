"""A plan as it comes together: rows of the ledger and the jobs that belong to them.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from timewheel.model import ClockKind, Missed, Now, Origin, OriginKind
from timewheel.planning.definition import Definition
from timewheel.planning.jitter import due
from timewheel.planning.overlap import Admission, Stand, Verdict
from timewheel.planning.slots import Slots
from timewheel.schedule_records import Fate, OccurrenceRecord, Position, SkipReason, UnfinishedJob


class WantedJob(NamedTuple):
    """A job to make: when it is due, on which clock, and the occurrence that it stands for."""

    scheduled_at: int
    clock: ClockKind
    origin: Origin


@dataclass(frozen=True, slots=True)
class Span:
    """Slots in a row: the first, the last, how many."""

    first: int
    last: int
    count: int


@dataclass(slots=True)
class Draft:
    """What a plan has so far: each row with the job that stands for it, if it has one."""

    definition: Definition
    schedule: str
    position: Position
    slots: Slots
    now: Now
    admission: Admission
    rows: list[tuple[OccurrenceRecord, Stand | None]] = field(default_factory=list)
    jobs: list[WantedJob] = field(default_factory=list)
    _found: tuple[int, int] | None = None  # no slot lies between these two, and the second is one

    def know(self, after: int, slot: int) -> None:
        """Take `slot` for the first one after the instant."""
        self._found = after, slot

    def first(self, after: int) -> int | None:
        """The first slot after the instant; asking again is free."""
        if self._found is not None and self._found[0] <= after < self._found[1]:
            slot = self._found[1]
            return slot if self.slots.within(slot) == slot else None
        found = self.slots.first(after)
        if found is not None:
            self._found = after, found
        return found

    @property
    def room(self) -> bool:
        """Whether max_runs leaves the rule another job."""
        most = self.definition.max_runs
        return most is None or self.position.made + len(self.jobs) < most

    def span(self, after: int, until: int) -> Span | None:
        """The slots in (after, until]."""
        first = self.first(after)
        if first is None or first > until:
            return None
        second = self.first(first)  # most have missed one slot: then that is all, and the next one is known besides
        if second is None or second > until:
            return Span(first, first, 1)
        last = self.slots.last(first, until)
        return None if last is None else Span(first, last, 1 + self.slots.count(first, until))

    def older(self, span: Span, first_left: int, left: int = 1) -> Span:
        """The slots of a span, one at least, before the last `left` of them, which begin at `first_left`."""
        last = self.slots.last(span.first - 1, first_left - 1)
        return Span(span.first, span.first if last is None else last, span.count - left)

    def skip(self, span: Span, reason: SkipReason) -> None:
        """Account for slots that do not run."""
        self._row(span, Fate.SKIPPED, reason, None)

    def merge(self, span: Span, reason: SkipReason, verdict: Verdict) -> None:
        """Account for slots that the job of a later slot stands for; where that got none, they are skipped."""
        if verdict.stand is None:
            self.skip(span, reason)
        else:
            self._row(span, Fate.COALESCED, reason, verdict.stand)

    def run(
        self,
        nominal: int,
        *,
        catch_up: bool = False,
        missed: Missed | None = None,
        in_turn: bool = False,
    ) -> Verdict:
        """Make the job of one slot, if the overlap policy lets it; the answer's `stand` is what stands for the slot."""
        number = self.admission.made
        verdict = self.admission.admit(in_turn=in_turn)
        if verdict.fate is Fate.JOB:
            verdict = Verdict(verdict.fate, verdict.reason, Stand(number=number))
            origin = Origin(
                self.schedule, self.position.clock, nominal, self.position.turn, catch_up=catch_up, missed=missed
            )
            due_at = due(self.definition, self.slots.rule, self.schedule, nominal, self.position.turn)
            self.jobs.append(WantedJob(due_at, self.position.clock, origin))
        self._row(Span(nominal, nominal, 1), verdict.fate, verdict.reason, verdict.stand)
        return verdict

    def lose(self, until: int) -> None:
        """Account for what the rule lost in gaps since the position, up to `until`.

        Such a row stands at the last microsecond before the clocks changed: no slot lies there, for the slots of wall
        time are whole seconds, so that the row takes no other's name.
        """
        for lost in self.slots.lost(self.position.at, until):
            at = lost.instant_us - 1
            self._row(Span(at, at, lost.times), Fate.SKIPPED, SkipReason.GAP, None)

    def sorted_rows(self) -> list[tuple[OccurrenceRecord, Stand | None]]:
        """The rows in the order of time."""
        return sorted(self.rows, key=lambda row: row[0].first_at)

    def _row(self, span: Span, fate: Fate, reason: SkipReason | None, stand: Stand | None) -> None:
        row = OccurrenceRecord(
            self.schedule, self.position.clock, span.first, span.last, span.count, self.position.turn,
            OriginKind.RULE, fate, self.now.wall_us, reason, None if stand is None else stand.job_id,
        )  # fmt: skip
        self.rows.append((row, stand))


def draft_of(
    definition: Definition,
    schedule: str,
    position: Position,
    slots: Slots,
    unfinished: Sequence[UnfinishedJob],
    now: Now,
) -> Draft:
    """An empty draft."""
    admission = Admission(definition.overlap, unfinished, definition.misfire.catch_up_max)
    return Draft(definition, schedule, position, slots, now, admission)
