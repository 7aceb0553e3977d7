"""Schedules and their ledger as records: what stages and adapters exchange of standing rules.

Pure. A schedule is a template that produces occurrences; each occurrence has a row in the ledger that says what became
of it, or lies in a row that accounts for a whole range. Instants are microseconds on the schedule's clock: wall for
rules of wall time, steady for intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from timewheel.model import ClockKind, JobState, OriginKind


class ScheduleState(StrEnum):
    """Where a schedule stands."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"  # makes nothing until it is resumed; its slots are missed then
    PARKED = "PARKED"  # cannot be planned, with the reason; tried again at a start and when what it lacks is there
    ENDED = "ENDED"  # its rule, `end` or `max_runs` leaves nothing more


class Fate(StrEnum):
    """What became of an occurrence."""

    JOB = "job"  # a job was made; how that ended is the job's state
    SKIPPED = "skipped"  # nothing ran, and the reason says why
    COALESCED = "coalesced"  # the job of a later slot, or one that waited, stands for it


class SkipReason(StrEnum):
    """Why an occurrence was skipped or coalesced."""

    MISFIRE = "misfire"  # reached too late: the process was down, the machine slept, the clock was set ahead
    PAUSED = "paused"
    PARKED = "parked"
    CATCH_UP = "catch_up"  # more were missed than catch_up_max
    OVERLAP = "overlap"  # the job before was not final yet
    OVERLAP_LIMIT = "overlap_limit"  # as many jobs as ALLOW or QUEUE_ALL let run or wait were there
    GAP = "gap"  # the clocks skip that time, and the gap policy is SKIP


class Position(NamedTuple):
    """How far a schedule has been planned; what plan() reads and writes. Adapters never look inside.

    `at`: every slot up to and including this instant is accounted for. `next_at`: the next slot; None: there is none,
    or (after_completion) it is not known before the job that runs has ended. `made`: jobs made by the rule.
    `catch_up_until`: slots up to here are made one by one (Misfire ALL); the next of them at `catch_up_at` (steady).
    `offset_us`: wall minus steady when it was written, by which a step of the wall clock is known. `tzdata`: the
    version of the zone data that `next_at` was worked out with.
    """

    clock: ClockKind
    at: int
    turn: int = 0
    next_at: int | None = None
    made: int = 0
    catch_up_until: int | None = None
    catch_up_at: int | None = None
    offset_us: int = 0
    tzdata: str = ""


@dataclass(slots=True)
class ScheduleRecord:
    """One schedule as a store keeps it. `created_at`, `updated_at` and `until` are wall.

    `definition` is what was declared, as JSON text (`timewheel.planning.definition`); adapters never look inside.
    `version` grows with every edit, pause and resume, not with planning. `reason`: of PARKED; of PAUSED, its note.
    `until`: when a pause ends by itself.
    """

    schedule: str  # its id
    task: str
    queue: str
    definition: str
    state: ScheduleState
    version: int
    position: Position
    created_at: int
    updated_at: int
    reason: str | None = None
    until: int | None = None


@dataclass(slots=True)
class OccurrenceRecord:
    """A row of the ledger: one occurrence, or a range of them (`count` > 1) with one fate and reason.

    (schedule, clock, first_at, turn, kind) is unique. `job_id`: of JOB the job that was made, of COALESCED the one that
    stands for it. `recorded_at` is wall.
    """

    schedule: str
    clock: ClockKind
    first_at: int
    last_at: int
    count: int
    turn: int
    kind: OriginKind
    fate: Fate
    recorded_at: int
    reason: str | None = None
    job_id: int | None = None


class LedgerEntry(NamedTuple):
    """A row of the ledger as it is read: its number (rising in the order of writing) and the state of its job."""

    number: int
    occurrence: OccurrenceRecord
    job_state: JobState | None


class UnfinishedJob(NamedTuple):
    """A job of a schedule that is not final."""

    job_id: int
    state: JobState
    reason: str | None  # of WAITING
    nominal_at: int
    kind: OriginKind
    cancel_requested: bool
