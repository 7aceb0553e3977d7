"""What must hold of schedules, ledger and waiting jobs of any journal: laws of `timewheel.testing.invariants`.

nobody_waits_in_vain(dump)       # besides: at a moment when everybody has been let go on who may (TakeOver)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

from timewheel.flow import DependencyFails
from timewheel.model import ClockKind, JobRecord, JobState, OriginKind, WaitingReason
from timewheel.schedule_records import Fate, OccurrenceRecord, SkipReason
from timewheel.testing.invariants_flow import flow_of, holds_its_key, waits_for_jobs
from timewheel.testing.laws import Dump, demand

S = JobState


def rows_are_whole(dump: Dump) -> None:
    """I5: a row accounts for one slot or for a range, and has what its fate needs and nothing else.

    A row of what a gap swallowed stands at the gap: such slots have no instants of their own.
    """
    for key, row in dump["ledger"].items():
        demand(
            (row.schedule, row.clock, row.first_at, row.turn, row.kind) == key, "I5", "a row in another's place", row
        )
        span = row.last_at - row.first_at
        demand(row.count >= 1, "I5", "a row of no slot", row)
        if row.reason != SkipReason.GAP:
            demand(span >= row.count - 1, "I5", "a range that does not hold its slots", row)
            demand((row.count == 1) == (span == 0), "I5", "one slot is not a range", row)
        demand(row.fate is not Fate.JOB or row.count == 1, "I5", "one job for a range", row)
        demand((row.job_id is None) == (row.fate is Fate.SKIPPED), "I5", "a job where none is, or none", row)
        demand((row.reason is None) == (row.fate is Fate.JOB), "I5", "a reason where none is, or none", row)


def jobs_and_rows_tell_the_same(dump: Dump) -> None:
    """I5: each row of fate JOB has its job, whose origin is the row's key; each job of a schedule has one such row.

    A job that ended may have been forgotten.
    """
    rows: dict[int, OccurrenceRecord] = {}
    for row in dump["ledger"].values():
        if row.job_id is None:
            continue
        job = dump["jobs"].get(row.job_id)
        if job is None:  # forgotten
            continue
        demand(job.origin is not None and job.origin.schedule == row.schedule, "I5", "a job of others", row, job)
        if row.fate is Fate.JOB:
            demand(row.job_id not in rows, "I5", "two occurrences of one job", row, rows.get(row.job_id))
            rows[row.job_id] = row
    for job in dump["jobs"].values():
        if job.origin is None:
            continue
        mine = rows.get(job.job_id)
        told = mine and (mine.schedule, mine.clock, mine.first_at, mine.turn, mine.kind)
        demand(told == job.origin[:5], "I5", "an occurrence of another job, or of none", job, mine)


def slots_are_accounted_for_once(dump: Dump) -> None:
    """I5: rows of the rule do not overlap within one turn; what a gap swallowed lies anywhere."""
    turns: dict[tuple[object, ...], list[OccurrenceRecord]] = defaultdict(list)
    for row in dump["ledger"].values():
        if row.kind is OriginKind.RULE and row.reason != SkipReason.GAP:
            turns[row.schedule, row.clock, row.turn].append(row)
    for rows in turns.values():
        rows.sort(key=lambda row: row.first_at)
        for earlier, later in pairwise(rows):
            demand(earlier.last_at < later.first_at, "I5", "slots that have two rows", earlier, later)


def positions_cover_the_ledger(dump: Dump) -> None:
    """I5: what the rule has a row for, in this turn, lies behind the schedule: it will not be planned again.

    An interval that is to begin at a later time stands one interval before its first slot, wherever that may be.
    """
    for row in dump["ledger"].values():
        schedule = dump["schedules"].get(row.schedule)
        if schedule is None or row.kind is not OriginKind.RULE:
            continue
        position = schedule.position
        if (row.clock, row.turn) == (position.clock, position.turn):
            here = position.at if position.clock is ClockKind.WALL or position.next_at is None else position.next_at - 1
            is_over = position.clock is ClockKind.STEADY and position.next_at is None
            demand(
                is_over or row.last_at <= here, "I5", "a slot lies before its schedule that has a row", row, schedule
            )


def schedules_are_whole(dump: Dump) -> None:
    """I3: a schedule lies under its own id, and has a version."""
    for name, schedule in dump["schedules"].items():
        demand(schedule.schedule == name, "I3", "a schedule under another's id", schedule)
        demand(schedule.version > 0, "I3", "a schedule without a version", schedule)


def waiting_jobs_wait_for_something(dump: Dump) -> None:
    """I18: a job that waits for others of its schedule is of one, and one that waits for a key has one."""
    for job in dump["jobs"].values():
        if job.state is not S.WAITING:
            continue
        demand(job.reason in set(WaitingReason), "I18", "waits for nothing that is known", job)
        demand(job.reason != WaitingReason.OVERLAP or job.origin is not None, "I18", "waits for no schedule", job)
        demand(job.reason != WaitingReason.KEY or job.concurrency_key is not None, "I18", "waits for no key", job)


OF_SCHEDULES: tuple[Callable[[Dump], None], ...] = (
    rows_are_whole,
    jobs_and_rows_tell_the_same,
    slots_are_accounted_for_once,
    positions_cover_the_ledger,
    schedules_are_whole,
    waiting_jobs_wait_for_something,
)


def nobody_waits_in_vain(dump: Dump, overran: Collection[str] = ()) -> None:
    """I29: who waits for a job of its schedule has one that is to end; who waits for a key, one that runs or will.

    Who waits for certain jobs has one that has not ended; or, if it is to wait on, one that did not complete.
    `overran`: keys that handlers hold whose jobs may have ended.
    """
    waiting: list[JobRecord] = [job for job in dump["jobs"].values() if job.state is S.WAITING]
    working: set[str] = set(_others_than_overlap(dump["jobs"].values()))
    keys = {job.concurrency_key for job in dump["jobs"].values() if holds_its_key(job) or job.state is S.SCHEDULED}
    keys.update(overran)
    for job in waiting:
        if job.reason == WaitingReason.OVERLAP and job.origin is not None:
            demand(job.origin.schedule in working, "I29", "waits, and no job of its schedule is unfinished", job)
        if job.reason == WaitingReason.KEY:
            demand(job.concurrency_key in keys, "I29", "waits for a key that nobody has", job)
        wait_for = flow_of(job).wait_for
        if waits_for_jobs(job) and wait_for is not None:
            states = {dump["jobs"][job_id].state for job_id in wait_for.job_ids}
            waits_on = wait_for.if_one_fails is DependencyFails.WAIT and states != {S.COMPLETED}
            demand(waits_on or any(not state.final for state in states), "I29", "what it waits for has ended", job)


def _others_than_overlap(jobs: Iterable[JobRecord]) -> Iterable[str]:
    """The schedules with a job that is unfinished and does not wait for another of its schedule."""
    for job in jobs:
        waits = job.state is S.WAITING and job.reason == WaitingReason.OVERLAP
        if job.origin is not None and not job.state.final and not waits:
            yield job.origin.schedule


# ---- a step ----------------------------------------------------------------------------------------------------------


def rows_never_change(before: Dump, after: Dump) -> None:
    """I5: what the ledger says of an occurrence it says for ever."""
    for key, row in before["ledger"].items():
        demand(after["ledger"].get(key) == row, "I5", "a row of the ledger changed", row, after["ledger"].get(key))


def calendars_stay(before: Dump, after: Dump) -> None:
    """I3: a calendar may be replaced, and is never forgotten."""
    gone = before["calendars"].keys() - after["calendars"].keys()
    demand(not gone, "I3", "calendars are gone", sorted(gone))


OF_A_STEP_OF_SCHEDULES: tuple[Callable[[Dump, Dump], None], ...] = (rows_never_change, calendars_stay)
