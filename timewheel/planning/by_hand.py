"""What people have a schedule do out of turn: run once now, and make up for slots that did not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from timewheel.model import FINAL_STATES, ClockKind, JobRequest, JobState, Now, Origin, OriginKind
from timewheel.planning.carrying import request_of
from timewheel.planning.definition import Definition
from timewheel.planning.drafts import WantedJob
from timewheel.planning.overlap import Admission, Verdict
from timewheel.planning.slots import Slots, offset_us, slots_of
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import Fate, LedgerEntry, OccurrenceRecord, Position, ScheduleRecord, ScheduleState
from timewheel.store.aftermath import let_others_run
from timewheel.store.changes import PlanOccurrences

if TYPE_CHECKING:
    from timewheel.planning.accountant import Accountant
    from timewheel.planning.carrier import Carrier
    from timewheel.planning.kept import Kept
    from timewheel.planning.roster import Roster

_JOBS_A_CHANGE = 100
_AT_ONCE_US = 1_000  # triggers at one instant are told apart by as many microseconds
_LEDGER_PAGE = 500
_MOST_SEEN = 100_000  # slots of one backfill; the rest is left out
_SEEN_A_TURN = 50
_DID_NOT_RUN = FINAL_STATES - {JobState.COMPLETED, JobState.DEAD}  # a dead letter ran: it is replayed, not made up for


@dataclass(frozen=True, slots=True)
class Backfill:
    """What a backfill found, and made: `slots` of the rule in the range, `already_ran` of them had run or are to run.

    `made`: jobs that were made, or would be in a dry run. `left_out`: slots beyond the most that were asked for.
    """

    slots: int
    already_ran: int
    made: int
    left_out: int = 0
    job_ids: list[int] = field(default_factory=list)


class _Span(NamedTuple):
    """Which slots: start <= nominal < end, on the schedule's clock."""

    start: int
    end: int


class ByHand:
    """See the module."""

    def __init__(self, roster: Roster, carrier: Carrier, accountant: Accountant) -> None:
        self._roster = roster
        self._carrier = carrier
        self._accountant = accountant

    async def trigger(self, schedule: str, *, force: bool) -> int | None:
        """Make one job now, whatever the state of the schedule; None when the overlap policy skipped it.

        The overlap policy decides as for a slot, unless `force`. A trigger that joins a job that waits gives its id.
        """
        async with self._roster.held(schedule) as kept:
            definition = self._roster.definition(kept)
            unfinished = await self._accountant.unfinished(schedule)
            admission = Admission(definition.overlap, unfinished, definition.misfire.catch_up_max)
            verdict = Verdict(Fate.JOB) if force else admission.admit()
            now, record = self._roster.now(), kept.here
            nominal = _free_name(kept, definition.clock, now)
            change = self._by_verdict(record, definition, verdict, nominal, now)
            if not force:
                change.hold, change.supersede = admission.hold, admission.replaces
            await self._roster.write(kept, schedule, change)
            self._carrier.replace_soon([*admission.cancelled(), *admission.superseded()])
            return change.rows[0].job_id

    def _by_verdict(
        self, record: ScheduleRecord, definition: Definition, verdict: Verdict, nominal: int, now: Now
    ) -> PlanOccurrences:
        """One row of kind MANUAL, and its job, if it gets one."""
        origin = Origin(record.schedule, definition.clock, nominal, record.position.turn, OriginKind.MANUAL)
        job_id = None if verdict.stand is None else verdict.stand.job_id
        jobs = []
        if verdict.fate is Fate.JOB:
            job_id = self._carrier.new_id()
            jobs.append(request_of(definition, WantedJob(nominal, definition.clock, origin), job_id, now))
        row = _row(origin, verdict.fate, now)
        row.reason, row.job_id = verdict.reason, job_id
        return PlanOccurrences(record.schedule, record.version, record.position, [row], jobs)

    # ---- backfill ----------------------------------------------------------------------------------------------------

    async def backfill(
        self, schedule: str, start_us: int, end_us: int, *, dry_run: bool, at_once: int, most: int
    ) -> Backfill:
        """Make jobs for the slots with start <= nominal < end that have come, but did not run: the oldest `most`.

        They are due at once, oldest first; at most `at_once` of them run at a time (they share concurrency keys, unless
        the schedule's jobs have one of their own). In a dry run nothing is written but what is due by the rule anyway.

        No slot gets two jobs: those that an active schedule is still to catch up with are left to it; and once slots of
        a pause are made up for, no resume goes back behind the last of them.
        """
        async with self._roster.held(schedule) as kept:
            definition = self._roster.definition(kept)
            await self._accountant.account(kept)
            now = self._roster.now()
            span = _span(definition, start_us, end_us, now)
            if definition.fixed_delay or span.start >= span.end:  # a fixed delay has no slots but those that ran
                return Backfill(0, 0, 0)
            slots = _slots(definition, kept.here.position, span, now)
            ran, turns = await self._ran(schedule, definition.clock, span)
            is_active = kept.here.state is ScheduleState.ACTIVE
            wanted, seen = await _wanted(slots, span, ran, most, kept.here.position.at if is_active else span.end)
            made: list[int] = []
            if not dry_run and wanted:
                if wanted[-1] > kept.here.position.at:
                    ahead_us = now.on(definition.clock) - wanted[-1]
                    await self._accountant.pass_over(kept, Now(now.wall_us - ahead_us, now.steady_us - ahead_us))
                made = await self._make_up(kept, definition, [(at, turns.get(at, 0)) for at in wanted], at_once)
            total = slots.count(span.start - 1, span.end - 1)
            return Backfill(total, seen - len(wanted), len(wanted), total - seen, made)

    async def _ran(self, schedule: str, clock: ClockKind, span: _Span) -> tuple[set[int], dict[int, int]]:
        """The slots that ran or are to run; and for those that were made up for before, the next free turn."""
        ran: set[int] = set()
        turns: dict[int, int] = {}
        async for entry in self._rows(schedule, span):
            row = entry.occurrence
            if row.clock is not clock or row.kind is OriginKind.MANUAL:
                continue
            if row.kind is OriginKind.BACKFILL:
                turns[row.first_at] = max(turns.get(row.first_at, 0), row.turn + 1)
            if row.fate is Fate.JOB and entry.job_state not in _DID_NOT_RUN:
                ran.add(row.first_at)
        return ran, turns

    async def _rows(self, schedule: str, span: _Span) -> AsyncIterator[LedgerEntry]:
        before = None
        while True:
            page = await self._roster.store.ledger(
                schedule, since=span.start, until=span.end - 1, before=before, limit=_LEDGER_PAGE
            )
            for entry in page.entries:
                yield entry
            before = page.next_before
            if before is None:
                return

    async def _make_up(
        self, kept: Kept, definition: Definition, wanted: list[tuple[int, int]], at_once: int
    ) -> list[int]:
        made: list[int] = []
        for begin in range(0, len(wanted), _JOBS_A_CHANGE):
            now, record = self._roster.now(), kept.here
            change = PlanOccurrences(record.schedule, record.version, record.position, [], [])
            for nominal, turn in wanted[begin : begin + _JOBS_A_CHANGE]:
                origin = Origin(record.schedule, definition.clock, nominal, turn, OriginKind.BACKFILL, catch_up=True)
                job = self._job(definition, origin, now, (len(made) + len(change.jobs)) % at_once)
                row = _row(origin, Fate.JOB, now)
                row.job_id = job.job_id
                change.rows.append(row)
                change.jobs.append(job)
            await self._roster.write(kept, record.schedule, change)
            made += [job.job_id for job in change.jobs]
        return made

    def _job(self, definition: Definition, origin: Origin, now: Now, share: int) -> JobRequest:
        wanted = WantedJob(now.on(definition.clock), definition.clock, origin)
        job = request_of(definition, wanted, self._carrier.new_id(), now)
        job.concurrency_key = job.concurrency_key or f"backfill:{origin.schedule}:{share}"
        return job


async def _wanted(slots: Slots, span: _Span, ran: set[int], most: int, until: int) -> tuple[list[int], int]:
    """The oldest slots up to `until` that did not run; and how many slots were looked at for that."""
    wanted: list[int] = []
    seen, at = 0, slots.first(span.start - 1)
    while at is not None and at < span.end and len(wanted) < most and seen < _MOST_SEEN:
        seen += 1
        if at <= until and at not in ran:
            wanted.append(at)
        if seen % _SEEN_A_TURN == 0:
            await let_others_run()
        at = slots.first(at)
    return wanted, seen


def _slots(definition: Definition, position: Position, span: _Span, now: Now) -> Slots:
    """The slots of the definition; those of an interval also before the position, whose phase they have."""
    if isinstance(definition.rule, Every):
        interval_us = definition.rule.interval_us
        back = max(0, (position.at - span.start) // interval_us + 2)
        position = position._replace(at=position.at - back * interval_us)
    return slots_of(definition, position, now)


def _free_name(kept: Kept, clock: ClockKind, now: Now) -> int:
    """Now, or as many microseconds later as others were triggered at this very instant."""
    last_clock, last = kept.last_manual
    nominal = now.on(clock)
    if clock is last_clock and nominal <= last < nominal + _AT_ONCE_US:
        nominal = last + 1
    kept.last_manual = clock, nominal
    return nominal


def _span(definition: Definition, start_us: int, end_us: int, now: Now) -> _Span:
    if definition.start_us is not None:
        start_us = max(start_us, definition.start_us)
    shift = offset_us(now) if definition.clock is ClockKind.STEADY else 0
    return _Span(start_us - shift, min(end_us - shift, now.on(definition.clock) + 1))


def _row(origin: Origin, fate: Fate, now: Now) -> OccurrenceRecord:
    at = origin.nominal_at
    return OccurrenceRecord(origin.schedule, origin.clock, at, at, 1, origin.turn, origin.kind, fate, now.wall_us)
