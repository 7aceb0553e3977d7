"""A plan that was carried out, as a checker reads it: by which definition, at what time, over which slots.

What it says is worked out here once more, slot by slot, from the rule alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.errors import InvalidRule
from timewheel.model import SECOND_US, ClockKind, JobRequest, OriginKind
from timewheel.planning.definition import Definition
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import ScheduleState, SkipReason
from timewheel.testing.simulation.facts import Carried

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

MOST_STEPS = 500  # more slots than that are counted by the rule
UNDER_WAY_US = 2 * SECOND_US  # a plan that was made is written by then
LEFT = {ScheduleState.PAUSED: SkipReason.PAUSED, ScheduleState.PARKED: SkipReason.PARKED}


class Slots:
    """The slots of a definition, beginning after `at` on its clock. `end`: the first instant without any, or None."""

    def __init__(self, definition: Definition, at: int, offset_us: int) -> None:
        self._rule = definition.rule
        self._at = at
        shift = offset_us if definition.clock is ClockKind.STEADY else 0
        self.end = None if definition.end_us is None else definition.end_us - shift

    def next(self, after: int) -> int | None:
        """The first slot after the instant."""
        if isinstance(self._rule, Every):
            us = self._rule.interval_us
            found: int | None = self._at + max(1, (after - self._at) // us + 1) * us
        else:
            occurrence = self._rule.following(after)
            found = None if occurrence is None else occurrence.instant_us
        return None if found is None or (self.end is not None and found >= self.end) else found

    def count(self, after: int, until: int) -> int:
        """How many lie in (after, until]; one by one, unless they are very many."""
        found, at = 0, self.next(after)
        while at is not None and at <= until:
            found += 1
            if found > MOST_STEPS:
                return found - 1 + self._count(at - 1, until)
            at = self.next(at)
        return found

    def last(self, after: int, until: int) -> int | None:
        """The last in (after, until], found by halving."""
        if self.count(after, until) == 0:
            return None
        low, high = after, until  # a slot lies in (low, high]
        while high - low > 1:
            middle = (low + high) // 2
            following = self.next(middle)
            low, high = (middle, high) if following is not None and following <= high else (low, middle)
        return high

    def _count(self, after: int, until: int) -> int:
        if isinstance(self._rule, Every):
            last = until if self.end is None else min(until, self.end - 1)
            us = self._rule.interval_us
            return (last - self._at) // us - (after - self._at) // us
        return self._rule.count(after, until if self.end is None else min(until, self.end - 1))


class PlanSeen:
    """One plan that was carried out. `start`: after which instant its slots begin; `at`: when it was made."""

    def __init__(self, world: World, fact: Carried, calendars: int | None = None) -> None:
        self.fact = fact
        book = world.journal.book
        place = fact.calendars if calendars is None else calendars
        self.definition = book.definition(fact.before.definition, place)
        self.before, self.after = fact.before.position, fact.change.position
        self.rows = [row for row in fact.change.rows if row.kind is OriginKind.RULE]
        self.slot_rows = [row for row in self.rows if row.reason != SkipReason.GAP]
        self.jobs = {job.job_id: job for job in fact.change.jobs}
        self.turned = (self.after.clock, self.after.turn) != (self.before.clock, self.before.turn)
        self.at = self._at()
        self.start = self._turned_at() if self.turned else self.before.at
        self.slots = Slots(self.definition, self.start, self.after.offset_us)

    def _at(self) -> int:
        """When it was made, on the schedule's clock: as its rows say, else when it was written."""
        if not self.rows:
            return self.fact.now.on(self.after.clock)
        wall_us = self.rows[0].recorded_at
        return wall_us if self.after.clock is ClockKind.WALL else wall_us - self.after.offset_us

    def _turned_at(self) -> int:
        if not self.rows:
            return self.after.at
        start_us = self.definition.start_us
        return self.at if start_us is None else max(self.at, start_us - 1)

    @property
    def replans(self) -> bool:
        """Whether it only moves the schedule to now: a calendar has changed."""
        return not self.fact.change.rows and self.definition.calendar is not None

    @property
    def leaves(self) -> bool:
        """Whether it was made for an edit that follows: what has not run by now never will."""
        if self.fact.before.state in LEFT and self.fact.change.state is None:
            return True
        reasons = {row.reason for row in self.rows}
        return reasons == {SkipReason.CATCH_UP} and self.before.catch_up_until is not None

    @property
    def jobs_of_the_rule(self) -> list[JobRequest]:
        """The jobs that its slots got."""
        jobs = self.fact.change.jobs
        return [job for job in jobs if job.origin is not None and job.origin.kind is OriginKind.RULE]

    def now_on(self, clock: ClockKind) -> int:
        """When it was made, on a clock, as any of its rows says; on the steady one at the latest."""
        if clock is ClockKind.STEADY or not self.fact.change.rows:
            return self.fact.now.on(clock)
        return self.fact.change.rows[0].recorded_at

    @property
    def late(self) -> int:
        """The slots up to here were missed."""
        return self.at - self.definition.misfire.grace_us - 1

    def uncovered(self) -> str | None:
        """What is wrong with its rows, if anything."""
        slots, at = self.slots, self.start
        for row in self.slot_rows:
            expected = slots.next(at)
            if row.first_at != expected:
                return f"the slot after {at} is {expected}, the row is of {row.first_at}"
            if row.count != slots.count(row.first_at - 1, row.last_at) or slots.next(row.last_at - 1) != row.last_at:
                return (
                    f"{slots.count(row.first_at - 1, row.last_at)} slots up to {row.last_at}, the row tells {row.count}"
                )
            at = row.last_at
        left = slots.next(at)
        if left is not None and left <= self.after.at:
            return f"{slots.count(at, self.after.at)} slots after {at} were passed without a row"
        return None


def plan_seen(world: World, fact: Carried) -> PlanSeen | None:
    """The plan; None when nobody can read its schedule.

    One that was under way when its calendar was replaced, perhaps several times, counts by the one before.
    """
    seen: dict[int, PlanSeen | None] = world.journal.book.plans
    if id(fact) not in seen:
        seen[id(fact)] = _read(world, fact)
    return seen[id(fact)]


def _read(world: World, fact: Carried) -> PlanSeen | None:
    found: list[PlanSeen] = []
    until_us = world.journal.book.calendars_us
    for place in range(fact.calendars, -1, -1):
        if place <= fact.calendars - 3 and until_us[place + 1] < fact.elapsed_us - UNDER_WAY_US:
            break
        try:
            found.append(PlanSeen(world, fact, place))
        except InvalidRule:
            break
        if found[-1].definition.calendar is None or found[-1].uncovered() is None:
            return found[-1]
    return found[0] if found else None
