"""What a schedule tells of its occurrences: Occurrence (what became of one), Upcoming (what is to come), Backfill.

Pure. Instants are aware datetimes in UTC; those of a schedule that counts elapsed time are shown at the clocks' present
offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from timewheel.model import JobState, OriginKind, job_text
from timewheel.planning import preview
from timewheel.schedule_records import Fate, LedgerEntry
from timewheel.times import utc_datetime

J_co = TypeVar("J_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A row of a schedule's ledger: one occurrence, or a range of `count` occurrences with one fate and reason.

    nominal_at: the time the rule gives, after gap and fold, before jitter; the first of a range, `last_at` the last.
    kind: "rule", "manual" (triggered) or "backfill". fate: "job" (a job was made: `job_id`, and how it stands now),
    "skipped" or "coalesced" (`job_id` stands for it, where it is known); `reason` says why. turn: above 0 when the
    clock was set back so far that the schedule passes a slot again.
    """

    nominal_at: datetime
    last_at: datetime
    count: int
    kind: OriginKind
    fate: Fate
    reason: str | None
    job_id: str | None
    job_state: JobState | None
    recorded_at: datetime
    turn: int


@dataclass(frozen=True, slots=True)
class Upcoming:
    """An occurrence to come; or, with a `reason`, `count` times of which no job will be made.

    reason: "gap" and "calendar": they are left out; "past": it has come already (its ledger says what became of it).

    at: its instant. local: what clocks in the rule's zone show then, `utc_offset` their distance from UTC. nominal: the
    wall time that the rule names, and `notes` why that is another ("gap", "fold_first", "roll", ...); both are naive.
    scheduled_at: when its job will be due, jitter included; None when none will be made. Of what is left out the first.
    """

    at: datetime
    local: datetime
    utc_offset: timedelta
    nominal: datetime
    notes: tuple[str, ...]
    scheduled_at: datetime | None
    reason: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Backfill(Generic[J_co]):
    """What a backfill came to: the range has `slots` slots that have come, of which `already_ran` ran or are to run.

    made: how many jobs it made (`jobs`), or would make after a dry run. left_out: slots beyond the most that were asked
    for; another backfill makes up for those.
    """

    slots: int
    already_ran: int
    made: int
    left_out: int
    jobs: tuple[J_co, ...]
    dry_run: bool


def occurrence_of(entry: LedgerEntry, offset_us: int) -> Occurrence:
    """The public form of a row; `offset_us` is wall minus steady at present."""
    row = entry.occurrence
    shift = offset_us if row.clock else 0
    return Occurrence(
        utc_datetime(row.first_at + shift),
        utc_datetime(row.last_at + shift),
        row.count,
        row.kind,
        row.fate,
        row.reason,
        None if row.job_id is None else job_text(row.job_id),
        entry.job_state,
        utc_datetime(row.recorded_at),
        row.turn,
    )


def upcoming_of(line: preview.Upcoming) -> Upcoming:
    """The public form of a line of a preview."""
    return Upcoming(
        utc_datetime(line.nominal_us),
        line.local,
        timedelta(seconds=line.offset_s),
        line.nominal,
        tuple(note.value for note in line.notes),
        None if line.scheduled_us is None else utc_datetime(line.scheduled_us),
        line.reason,
        line.count,
    )
