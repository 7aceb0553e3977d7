"""Checkers of the ledger: every slot of a schedule is in exactly one row, whatever was edited, paused or set back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.errors import InvalidRule
from timewheel.model import SECOND_US, ClockKind, OriginKind
from timewheel.schedule_records import Fate, OccurrenceRecord, ScheduleRecord, ScheduleState, SkipReason
from timewheel.testing.invariants_schedules import OF_A_STEP_OF_SCHEDULES, OF_SCHEDULES
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import Answered, Asked, Carried, Dropped, LifeRecord, Note, Put
from timewheel.testing.simulation.standing import DROP
from timewheel.testing.simulation.told import PlanSeen, Slots, plan_seen

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

HOUR_US = 3_600 * SECOND_US
SMALL_STEP_US = SECOND_US // 4
DRIFT_US = SECOND_US  # between a call and its commit


class OneFate(Checker):
    """No occurrence twice, and the journal keeps what was committed."""

    number = "I5"
    sentence = "No occurrence id is created twice, over restarts, clock steps, backfill, DST, edits"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """By the laws of any journal; and by the book, which followed every commit."""
        for law in OF_SCHEDULES:
            law(record.after)
        for step in OF_A_STEP_OF_SCHEDULES:
            step(record.before, record.after)
        book, kept = record.schedules, record.after["schedules"]
        for name in book.keys() | kept.keys():
            cls.demand(
                book.get(name) == kept.get(name), f"{name} is not what was written", book.get(name), kept.get(name)
            )
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Carried):
                cls._rows_kept(record, fact)

    @classmethod
    def _rows_kept(cls, record: LifeRecord, fact: Carried) -> None:
        for row in fact.change.rows:
            key = (row.schedule, row.clock, row.first_at, row.turn, row.kind)
            cls.demand(record.after["ledger"].get(key) == row, "planned a second time, or not kept", row, fact)


class Accounted(Checker):
    """Every slot that a schedule passes is in exactly one row."""

    number = "I5"
    sentence = "Every slot between two positions of a schedule is in exactly one row of its ledger"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Follow each plan of this life from slot to slot."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                cls._position(plan)
                if plan.definition.fixed_delay or plan.replans:
                    continue
                cls._partition(plan)

    @classmethod
    def _partition(cls, plan: PlanSeen) -> None:
        wrong = plan.uncovered()
        cls.demand(wrong is None, f"{wrong}", plan.fact)
        lost = plan.definition.rule.skipped(plan.start, min(plan.after.at, (plan.slots.end or 1 << 62) - 1))
        wanted = [(one.instant_us - 1, one.times) for one in lost]
        gaps = [(row.first_at, row.count) for row in plan.rows if row.reason == SkipReason.GAP]
        cls.demand(gaps == wanted, f"rows of gaps that should be {wanted}", plan.fact)

    @classmethod
    def _position(cls, plan: PlanSeen) -> None:
        """It goes forward, not beyond now, and back only where a step of the wall clock allows that."""
        fact, before, after = plan.fact, plan.before, plan.after
        cls.demand(after.clock is before.clock, "another clock, without an edit", fact)
        jobs = len(plan.jobs_of_the_rule)
        cls.demand(after.made == before.made + jobs, f"{jobs} jobs more were made by the rule", fact)
        limit = plan.definition.max_runs
        cls.demand(limit is None or not jobs or after.made <= limit, f"more than {limit} runs", fact)
        if not plan.turned:
            cls.demand(after.at >= before.at, "went back within one turn", fact)
            now = max(fact.now.on(after.clock), plan.at)
            if after.clock is ClockKind.WALL:  # it may have been set back since the plan was made
                now = max(now, fact.now.steady_us + after.offset_us)
            cls.demand(after.at <= max(before.at, now), f"beyond now, {now}", fact)
        elif not plan.replans:
            step_us = after.offset_us - before.offset_us
            back = step_us <= -3 * HOUR_US or (step_us < -SMALL_STEP_US and plan.definition.rule.wild)
            cls.demand(back and after.turn == before.turn + 1, f"passed again after a step of {step_us} us", fact)


class EditsKeep(Checker):
    """What has come is accounted for before an edit changes the slots, and the new ones count from then."""

    number = "I5"
    sentence = "No edit makes an occurrence vanish, or has one served twice"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each edit and each deletion of this life."""
        asked_us: dict[str, int] = {}  # since when somebody wants a schedule to be deleted
        stepped_us = -1
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Put):
                cls._put(world, fact)
            elif isinstance(fact, Note) and fact.what == "clock set":
                stepped_us = fact.elapsed_us
            elif isinstance(fact, Asked) and fact.verb == DROP:
                asked_us.setdefault(fact.tag, fact.elapsed_us)
            elif isinstance(fact, Answered) and fact.verb == DROP and fact.how != "gave up":
                asked_us.pop(fact.tag, None)
            elif isinstance(fact, Dropped) and fact.before is not None and fact.schedule in asked_us:
                clock, since_us = fact.before.position.clock, asked_us[fact.schedule]
                if clock is ClockKind.STEADY or stepped_us < since_us:
                    until = fact.now.on(clock) - (fact.elapsed_us - since_us) - DRIFT_US * (clock is ClockKind.WALL)
                    cls._left(world, fact.before, until, fact)

    @classmethod
    def _put(cls, world: World, fact: Put) -> None:
        before, record, position = fact.before, fact.record, fact.record.position
        made = 0 if before is None else before.position.made
        cls.demand(position.made == made, f"{made} jobs were made by the rule", fact)
        if before is not None:
            changed = (before.definition, before.state) != (record.definition, record.state)
            cls.demand(changed or record.state is ScheduleState.PAUSED, "written anew, and nothing changed", fact)
        if before is not None and position.at == before.position.at:
            return
        definition = world.journal.book.definition(record.definition)
        now = record.updated_at if position.clock is ClockKind.WALL else record.updated_at - position.offset_us
        if position.clock is ClockKind.WALL:
            least = now if definition.start_us is None else max(now, definition.start_us - 1)
            cls.demand(position.at == least, f"a new rule counts from {least}", fact)
        if before is not None:
            was = before.position.clock
            cls._left(world, before, record.updated_at - (position.offset_us if was else 0), fact)

    @classmethod
    def _left(cls, world: World, before: ScheduleRecord, until: int, fact: object) -> None:
        """No slot of the former definition up to an instant is left without a row."""
        try:
            definition = world.journal.book.definition(before.definition)
        except InvalidRule:  # what cannot be read was parked for it, and has no slots to account for
            return
        spent = definition.max_runs is not None and before.position.made >= definition.max_runs
        if definition.fixed_delay or spent or before.state is ScheduleState.ENDED or definition.calendar is not None:
            return
        if definition.clock is ClockKind.STEADY and definition.end_us is not None:
            return  # its end is taken to steady time as the clocks stand when it is planned
        left = Slots(definition, before.position.at, before.position.offset_us).next(before.position.at)
        cls.demand(left is None or left > until, f"the slot {left} vanished in an edit", fact)


class MadeUpOnce(Checker):
    """A backfill makes up for slots of the rule that did not run."""

    number = "I5"
    sentence = "Backfill runs slots whose fate is not 'ran'"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Of the jobs of one slot all but the newest never ran."""
        newest: dict[tuple[object, ...], OccurrenceRecord] = {}
        jobs = record.after["jobs"]
        rows = [row for row in record.after["ledger"].values() if row.fate is Fate.JOB]
        for row in sorted(rows, key=lambda row: row.job_id or 0):
            if row.kind is OriginKind.MANUAL:
                continue
            key = (row.schedule, row.clock, row.first_at)
            other = newest.get(key)
            if other is not None and row.kind is OriginKind.BACKFILL:
                state = jobs[other.job_id].state
                cls.demand(state in ("CANCELLED", "SKIPPED"), f"made up for, and it was {state}", other, row)
            newest[key] = row
