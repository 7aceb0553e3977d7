"""Checkers of what is made of each slot: misfire policies to the very slot, and the jobs that come of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, ClockKind, JobRequest, OriginKind
from timewheel.planning.policies import Misfire, OverlapKind
from timewheel.schedule_records import Fate, OccurrenceRecord, ScheduleState, SkipReason
from timewheel.testing.simulation.checking import Checker, job_of
from timewheel.testing.simulation.facts import Carried, LifeRecord, Over, Put, Told
from timewheel.testing.simulation.told import PlanSeen, plan_seen

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

OVERLAPS = (SkipReason.OVERLAP, SkipReason.OVERLAP_LIMIT)
AT_ONCE_US = 1_000  # triggers at one instant are told apart by microseconds
R = SkipReason
Row = OccurrenceRecord


class MisfireIsExact(Checker):
    """After n missed slots SKIP makes no job, LATEST one, COALESCE one that counts n, ALL the newest of them."""

    number = "I19"
    sentence = (
        "Misfire is exact: after n missed occurrences SKIP makes 0, LATEST 1, COALESCE 1 (count n), ALL min(n, cap)"
    )

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each plan of this life, row by row."""
        resumed: set[str] = set()
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Put):
                was_paused = fact.before is not None and fact.before.state is ScheduleState.PAUSED
                if was_paused and fact.record.state is ScheduleState.ACTIVE:
                    resumed.add(fact.schedule)
            elif isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                cls._reasons(plan, resumed)
                if plan.rows and not plan.definition.fixed_delay:
                    resumed.discard(fact.schedule)
                    cls._rows(plan)

    @classmethod
    def _reasons(cls, plan: PlanSeen, resumed: set[str]) -> None:
        """Why slots were missed is true."""
        fact, state = plan.fact, plan.fact.before.state
        allowed = {R.MISFIRE, R.CATCH_UP}
        if state is ScheduleState.PAUSED:
            allowed = {R.PAUSED}
            cls.demand(not fact.change.jobs or not plan.jobs_of_the_rule, "made by a paused schedule", fact)
        elif state is ScheduleState.PARKED:
            allowed = {R.PARKED, R.CATCH_UP}
        elif fact.schedule in resumed:
            allowed |= {R.PAUSED}
        for row in plan.rows:
            if row.reason is None or row.reason in OVERLAPS or row.reason == R.GAP:
                continue
            cls.demand(row.reason in allowed, f"{row.reason}, and the schedule was {state}", row, fact)
            late = row.reason != R.MISFIRE or row.first_at <= plan.late or plan.definition.fixed_delay
            cls.demand(late, f"missed, and only {plan.at - row.first_at} us late", row, fact)

    @classmethod
    def _rows(cls, plan: PlanSeen) -> None:
        rows, misfire = plan.slot_rows, plan.definition.misfire
        if plan.leaves:
            cls.demand(all(row.fate is Fate.SKIPPED for row in rows), "run for an edit", plan.fact)
        elif not plan.turned and plan.before.catch_up_until is not None and misfire.kind is Misfire.ALL:
            cls._all_of_them(plan, rows, min(plan.before.catch_up_until, plan.at))
        elif plan.slots.count(plan.start, plan.late) == 0:
            cls._none_missed(plan, rows)
        elif misfire.kind is Misfire.SKIP:
            cls._none_of_them(plan, rows)
        elif misfire.kind is Misfire.ALL:
            cls._all_of_them(plan, rows, plan.late)
        else:
            cls._one_for_them(plan, rows)

    @classmethod
    def _none_missed(cls, plan: PlanSeen, rows: list[Row]) -> None:
        """Every slot has a fate of its own; of several at once REPLACE keeps the newest."""
        merged = plan.definition.overlap.kind is OverlapKind.REPLACE
        for row in rows:
            own = row.count == 1 or merged
            cls.demand(own and (row.fate is Fate.JOB or row.reason in OVERLAPS), "nothing was missed", row, plan.fact)
        for job in plan.jobs_of_the_rule:
            assert job.origin is not None
            cls.demand(job.origin[5:] == (False, None), "nothing was missed, the job says", job, plan.fact)

    @classmethod
    def _none_of_them(cls, plan: PlanSeen, rows: list[Row]) -> None:
        missed = [row for row in rows if row.first_at <= plan.late]
        cls.demand(len(missed) == 1 and missed[0].fate is Fate.SKIPPED, "SKIP, and of the missed ones ran", plan.fact)
        cls._none_missed(plan, [row for row in rows if row.first_at > plan.late])

    @classmethod
    def _one_for_them(cls, plan: PlanSeen, rows: list[Row]) -> None:
        """LATEST, COALESCE: one for the newest that has come; the older ones are one row."""
        newest, older = rows[-1], rows[:-1]
        cls.demand(plan.slots.count(newest.first_at, plan.at) == 0, "there is a newer slot", plan.fact)
        cls.demand(newest.fate is Fate.JOB or newest.reason in OVERLAPS, "the newest does not run", plan.fact)
        stands = newest.job_id is not None and plan.definition.misfire.kind is Misfire.COALESCE
        wanted = Fate.COALESCED if stands else Fate.SKIPPED
        cls.demand(len(older) <= 1 and all(row.fate is wanted for row in older), f"the older: {wanted}", plan.fact)
        if stands and older:
            cls.demand(older[0].job_id == newest.job_id, "coalesced into another job", plan.fact)
        late = newest.first_at <= plan.late
        count = sum(row.count for row in older) + late
        for job in plan.jobs_of_the_rule:
            assert job.origin is not None
            told = None if job.origin.missed is None else job.origin.missed.slots
            cls.demand((told or 0) == count, f"{count} slots were missed, the job is told {told}", job, plan.fact)
            cls.demand(job.origin.catch_up == late, "late, or not", job, plan.fact)

    @classmethod
    def _all_of_them(cls, plan: PlanSeen, rows: list[Row], until: int) -> None:
        """ALL begins, or goes on, by another cap after an edit: more are dropped, and then one after the other."""
        missed = plan.slots.count(plan.start, until)
        over = max(0, missed - plan.definition.misfire.catch_up_max)
        dropped = sum(row.count for row in rows if row.reason == R.CATCH_UP)
        cls.demand(dropped == over, f"{missed} were missed, and {dropped} dropped", plan.fact)
        cls._one_by_one(plan, rows[1:] if over else rows, until)

    @classmethod
    def _one_by_one(cls, plan: PlanSeen, rows: list[Row], until: int) -> None:
        per_s = plan.definition.misfire.catch_up_per_s
        portion = plan.definition.misfire.catch_up_max if per_s is None else math.ceil(per_s / 10)
        cls.demand(len(rows) <= portion, f"more than {portion} at a time", plan.fact)
        for row in rows:
            run = row.count == 1 and (row.fate is Fate.JOB or row.reason in OVERLAPS)
            cls.demand(run and row.first_at <= until, "not one of those to catch up with", row, plan.fact)
        for job in plan.jobs_of_the_rule:
            assert job.origin is not None
            cls.demand(job.origin.catch_up, "not marked as one that is late", job, plan.fact)
        at, after = plan.before.catch_up_at, plan.after.catch_up_at
        steady_us = (plan.rows[0].recorded_at if plan.rows else plan.fact.now.wall_us) - plan.after.offset_us
        known = plan.after.clock is ClockKind.STEADY or plan.after.at <= plan.at
        if known and rows and at is not None:
            cls.demand(at <= steady_us + SECOND_US // 2, f"faster than {per_s} a second", plan.fact)
        if known and rows and after is not None and per_s is not None:
            pause_us = math.floor(portion * SECOND_US / per_s)
            cls.demand(after - steady_us >= pause_us - SECOND_US // 2, f"faster than {per_s} a second", plan.fact)


class JobsOfSlots(Checker):
    """A job of a schedule is due within the jitter of its slot, before the next one, and never before the slot."""

    number = "I6"
    sentence = "No job of a schedule is due before its slot, nor after the jitter or the next slot"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each job that was made, and what its handler was told."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                for job in fact.change.jobs:
                    cls._job(plan, job)
            elif isinstance(fact, Told):
                cls._told(record, fact)

    @classmethod
    def _job(cls, plan: PlanSeen, job: JobRequest) -> None:
        origin = job.origin
        assert origin is not None
        early = origin.nominal_at - plan.now_on(origin.clock)
        cls.demand(
            early <= (AT_ONCE_US if origin.kind is OriginKind.MANUAL else 0), "made before its slot", job, plan.fact
        )
        if origin.kind is not OriginKind.RULE:
            return
        late = job.scheduled_at - origin.nominal_at
        most = max(0, plan.definition.jitter_us - 1)
        cls.demand(0 <= late <= most and job.clock is origin.clock, f"due {late} us after its slot", job, plan.fact)
        following = None if plan.definition.fixed_delay else plan.slots.next(origin.nominal_at)
        cls.demand(following is None or job.scheduled_at < following, "due after the next slot", job, plan.fact)

    @classmethod
    def _told(cls, record: LifeRecord, fact: Told) -> None:
        job = job_of(record, fact.job_id)
        cls.demand(job is not None and job.origin is not None, "told of a schedule that made no such job", fact)
        assert job is not None
        assert job.origin is not None
        origin = job.origin
        shift = fact.offset_us if origin.clock is ClockKind.STEADY else 0
        near = abs(origin.nominal_at + shift - fact.nominal_us) <= SECOND_US * bool(shift)
        near = near or (
            origin.clock is ClockKind.STEADY and bool(record.stepped_us)
        )  # shown as the clocks stood before
        cls.demand(near and origin.schedule == fact.schedule, "told of another slot", fact, job)
        missed = None if origin.missed is None else origin.missed.slots
        cls.demand(missed == fact.missed, "told of other missed slots", fact, job)


class FixedDelays(Checker):
    """A fixed delay counts from the end of the run before."""

    number = "I6"
    sentence = "After a run of a fixed delay ends, one interval passes before the next slot; and not much more"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each slot, against the end of the job before it, where both lie in this life."""
        ended: dict[int, int] = {}
        last: dict[str, int] = {}
        slack_us = SECOND_US + 4 * record.longest_commit_us
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Over):
                ended[fact.job_id] = fact.now.steady_us
            elif isinstance(fact, Put):
                last.pop(fact.schedule, None)
            elif isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                for row in plan.slot_rows if plan.definition.fixed_delay else ():
                    if (end := ended.get(last.get(fact.schedule, 0))) is not None:
                        interval_us = plan.definition.rule.interval_us  # type: ignore[attr-defined]  # of an Every
                        late = row.first_at - end - interval_us
                        cls.demand(late >= -slack_us, f"{-late} us before its interval was over", row, fact)
                        cls.demand(late <= slack_us, f"{late} us after its interval was over", row, fact)
                    last.pop(fact.schedule, None)
                    if row.job_id is not None:
                        last[fact.schedule] = row.job_id
