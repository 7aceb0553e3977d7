"""Checkers of schedules as such: their states, and that their jobs are what was declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import OriginKind
from timewheel.schedule_records import ScheduleState
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import Answered, Asked, Carried, LifeRecord, Put
from timewheel.testing.simulation.told import PlanSeen, plan_seen

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

S = ScheduleState
FIELDS = ("task", "arguments", "queue", "priority", "retry", "timeout_us", "tags")


class AsDeclared(Checker):
    """The jobs of a schedule are what its definition says."""

    number = "I3"
    sentence = "A job of a schedule has everything that was declared"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each job that was made, against the definition as the journal had it then."""
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                for job in fact.change.jobs:
                    for name in FIELDS:
                        wanted = getattr(plan.definition, name)
                        cls.demand(getattr(job, name) == wanted, f"{name} is not {wanted!r}", job, fact)
                    overlap = plan.definition.overlap
                    key = overlap.key or plan.definition.concurrency_key
                    made_up = job.origin is not None and job.origin.kind is OriginKind.BACKFILL and key is None
                    cls.demand(made_up or job.concurrency_key == key, f"the key is not {key!r}", job, fact)
                    cls.demand(not made_up or job.concurrency_key is not None, "made up for without bound", job, fact)


class StandingStates(Checker):
    """A schedule is resumed by people or by the time they named, parked for a reason, and ends when nothing is left."""

    number = "I10"
    sentence = "Schedules change their states as people, their rules and what they lack say, and not otherwise"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each change of a state."""
        asked: dict[str, set[int]] = {}
        set_back = any(move.kind == "step" and move.what["s"] < 0 for move in record.life.moves)
        for place, fact in enumerate(world.log[record.begin : record.end]):
            if isinstance(fact, Asked) and fact.verb == "go on":
                asked.setdefault(fact.tag, set()).add(fact.number)
            elif isinstance(fact, Put):
                cls._resumed(fact, asked.get(fact.schedule, set()), set_back=set_back)
            elif isinstance(fact, Carried) and (plan := plan_seen(world, fact)) is not None:
                cls._planned(world, plan)
            elif isinstance(fact, Answered) and fact.verb == "go on" and place:
                asked.get(fact.tag, set()).discard(fact.number if fact.how != "gave up" else -1)

    @classmethod
    def _resumed(cls, fact: Put, asked: set[int], *, set_back: bool) -> None:
        """`set_back`: the clock may have been set to before the time that people named, once that had come."""
        before = fact.before
        if before is None or before.state is not S.PAUSED or fact.record.state is S.PAUSED:
            return
        over = before.until is not None and (before.until <= fact.record.updated_at or set_back)
        cls.demand(over or bool(asked), "resumed, and nobody asked for that", fact)

    @classmethod
    def _planned(cls, world: World, plan: PlanSeen) -> None:
        fact, before, after = plan.fact, plan.fact.before.state, plan.fact.change.state
        if after is S.PARKED:
            cls.demand(bool(fact.change.reason), "parked without a reason", fact)
            cls.demand(plan.definition.task in world_lacks(world, fact), "parked, and it lacks nothing", fact)
        cls.demand(before is not S.ENDED or not plan.rows, "planned after its end", fact)
        cls.demand(
            after is not S.PAUSED and (before is not S.PAUSED or after is None), "paused or resumed by a plan", fact
        )
        spent = plan.definition.max_runs is not None and plan.after.made >= plan.definition.max_runs
        moved = plan.definition.calendar is not None  # which other dates may have been saved for meanwhile
        if after is S.ENDED and not plan.definition.fixed_delay and not spent and not moved:
            cls.demand(plan.slots.next(plan.after.at) is None, "ended before its last slot", fact)
        if spent and before is S.ACTIVE and plan.jobs_of_the_rule:
            cls.demand(after is S.ENDED, "goes on after its last run", fact)


def world_lacks(world: World, fact: Carried) -> list[str]:
    """The tasks that the life did not have in which a plan was made."""
    begun = [each for each in world.lives if world.log[each.begin].elapsed_us <= fact.elapsed_us]
    return begun[-1].life.without
