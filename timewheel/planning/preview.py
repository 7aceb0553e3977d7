"""What a schedule will do, and why: its next slots, and the times that its rule will leave out.

Pure: no asyncio, clock, randomness, files or sockets. What a misfire or an overlap will do is not known ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.planning.definition import Definition
from timewheel.planning.jitter import due
from timewheel.planning.position import first_position
from timewheel.planning.slots import Slots, offset_us, slots_of
from timewheel.recurrence.interval import Every
from timewheel.recurrence.offsets import offset_s
from timewheel.recurrence.rule import Note, Occurrence, Skipped
from timewheel.recurrence.zonal import Zonal
from timewheel.schedule_records import Position, SkipReason
from timewheel.times import utc_datetime

CALENDAR = "calendar"
PAST = "past"


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A slot to come; or, with a `reason`, times of which no job will be made.

    reason: "gap" and "calendar": they are left out; "past": it has come already; the ledger says what became of it.

    nominal_us: the slot, wall. local: what clocks in the rule's zone show then; offset_s: their distance from UTC.
    nominal: the wall time that the rule names, before a gap or a roll moved it. Both are naive; in UTC for an interval.
    notes: why it is not simply that time. scheduled_us: when the job will be due, jitter included (wall). count: how
    many times are left out; the entry shows the first. Of an interval the instants are as the clocks stand now.
    """

    nominal_us: int
    local: datetime
    offset_s: int
    nominal: datetime
    notes: tuple[Note, ...] = ()
    scheduled_us: int | None = None
    reason: str | None = None
    count: int = 1


def upcoming(
    definition: Definition, schedule: str, position: Position | None, now: Now, n: int, after_us: int | None = None
) -> list[Upcoming]:
    """The next `n` slots after now, or after the instant `after_us` (wall), with what is left out between them.

    Slots that have come by now are marked; they are what the rule tells, also of times before the schedule was made.
    Fewer when the rule, `end` or `max_runs` leaves no more; of a fixed delay at most the one that is known. `position`
    None: of a schedule that is not made yet. Raises InvalidRule when the rule lacks its calendar.
    """
    if position is None:
        position = first_position(definition, now, "")
    shift = offset_us(now) if position.clock is ClockKind.STEADY else 0
    come = max(position.at, now.wall_us - shift)
    after = come if after_us is None else after_us - shift
    left = n if definition.max_runs is None else max(0, definition.max_runs - position.made)
    slots = slots_of(definition, position, now)
    if definition.fixed_delay:
        found = _known(slots, position, max(after, come))
    else:
        after = max(after, _first_us(definition) - 1 - shift)
        slots = _reaching_back(slots, after)
        found = _occurrences(slots, after)
    result: list[Upcoming] = []
    for one in islice(found, n):
        past = one.instant_us <= come
        if not past and left == 0:
            break
        left -= not past
        result += _left_out(slots, after, one.instant_us)
        due_at = None if past else due(definition, slots.rule, schedule, one.instant_us, position.turn)
        result.append(_runs(one, due_at, shift))
        after = one.instant_us
    return result


def _first_us(definition: Definition) -> int:
    """No slot lies before this instant (wall), whenever the schedule was made."""
    anchor_us = definition.rule.anchor_us if isinstance(definition.rule, Every) else None
    return max(definition.start_us or 0, anchor_us or 0)


def _reaching_back(slots: Slots, after: int) -> Slots:
    """The slots of an interval also from before its position, to which `slots_of` anchors it."""
    rule = slots.rule
    if not isinstance(rule, Every) or rule.anchor_us is None or rule.anchor_us <= after:
        return slots
    before = -(-(rule.anchor_us - after) // rule.interval_us)
    again = Every(timedelta(microseconds=rule.interval_us))
    return replace(slots, rule=again.anchored(rule.anchor_us - (before + 1) * rule.interval_us))


def _known(slots: Slots, position: Position, after: int) -> Iterator[Occurrence]:
    """The one slot of a fixed delay that is known, unless a job runs."""
    if position.next_at is None or position.next_at <= after:
        return iter(())
    return islice(_occurrences(slots, position.next_at - 1), 1)


def _occurrences(slots: Slots, after: int) -> Iterator[Occurrence]:
    for one in slots.rule.occurrences(after):
        if slots.within(one.instant_us) < one.instant_us:
            return
        yield one


def _runs(one: Occurrence, due_at: int | None, shift: int) -> Upcoming:
    """`due_at` None: it has come already."""
    instant_us = one.instant_us + shift
    local, nominal = one.local, one.nominal
    if shift:
        local = nominal = utc_datetime(instant_us).replace(tzinfo=None)
    if due_at is None:
        return Upcoming(instant_us, local, one.offset_s, nominal, one.notes, None, PAST)
    return Upcoming(instant_us, local, one.offset_s, nominal, one.notes, due_at + shift)


def _left_out(slots: Slots, after: int, until: int) -> list[Upcoming]:
    """What the rule leaves out in (after, until): times that the clocks skip, and dates that are no business days."""
    rule = slots.rule
    if not isinstance(rule, Zonal):
        return []
    lost = [_lost(rule, one) for one in slots.lost(after, until)]
    return sorted([*lost, *_closed(rule, after, until)], key=lambda one: one.nominal_us)


def _lost(rule: Zonal, one: Skipped) -> Upcoming:
    offset = offset_s(rule.plan.zone, one.instant_us // SECOND_US)
    local = utc_datetime(one.instant_us + offset * SECOND_US).replace(tzinfo=None)
    return Upcoming(one.instant_us, local, offset, one.nominal, reason=SkipReason.GAP, count=one.times)


def _closed(rule: Zonal, after: int, until: int) -> Iterator[Upcoming]:
    if rule.calendar is None or rule.roll is not None:
        return
    plain = rule.without_calendar()
    first, count = plain.following(after), plain.count(after, until - 1)
    if first is not None and count:
        yield Upcoming(first.instant_us, first.local, first.offset_s, first.nominal, first.notes, None, CALENDAR, count)
