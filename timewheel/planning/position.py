"""Where a schedule begins, how it goes on after a step of the wall clock, and when it is due next.

Pure: no asyncio, clock, randomness, files or sockets. The work does not grow with the size of a step.

Slots of one turn are planned in rising order and once each. A position of wall time that goes back therefore begins a
new turn, so that a slot which is passed again is another occurrence.
"""

from __future__ import annotations

from typing import NamedTuple

from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.planning.definition import Definition
from timewheel.planning.slots import offset_us, slots_of
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import Position

SMALL_STEP_US = 250_000  # less is the clock being adjusted, not set
GREAT_STEP_US = 3 * 3600 * SECOND_US  # set back by so much, the clock was wrong before: everything is planned anew


class Wake(NamedTuple):
    """When a schedule wants to be planned next: an instant on one clock."""

    clock: ClockKind
    at: int


def first_position(definition: Definition, now: Now, tzdata: str, before: Position | None = None) -> Position:
    """Where a new schedule begins: only slots after now, and none before its start.

    `before`: the position that it had under another rule, when that was changed; the jobs that were made still count
    for max_runs. Raises InvalidRule when the rule lacks its calendar.
    """
    clock, rule = definition.clock, definition.rule
    at = _first_steady(definition, rule, now) if isinstance(rule, Every) else _from(definition, now.wall_us)
    turn, made = 0, 0
    if before is not None:
        again = clock is ClockKind.WALL and (before.clock is not clock or at < before.at)
        turn, made = before.turn + again, before.made
    position = Position(clock, at, turn, None, made, offset_us=offset_us(now), tzdata=tzdata)
    if isinstance(rule, Every) and rule.after_completion:
        return position._replace(next_at=slots_of(definition, position, now).first(at))
    return renewed(definition, position, now, tzdata)


def renewed(definition: Definition, position: Position, now: Now, tzdata: str) -> Position:
    """The position with its next slot worked out anew from `at`, with the zone data that is called `tzdata`."""
    if definition.fixed_delay:
        return position._replace(tzdata=tzdata)
    if definition.max_runs is not None and position.made >= definition.max_runs:
        return position._replace(next_at=None, tzdata=tzdata)
    return position._replace(next_at=slots_of(definition, position, now).first(position.at), tzdata=tzdata)


def stepped_back(definition: Definition, position: Position, now: Now) -> bool:
    """Whether the wall clock was set back so far that the schedule is planned from now on again.

    A rule that runs in real elapsed time goes on at once; any other serves no slot again, unless the step is 3 h or
    more. Small steps add up for as long as what was planned lies ahead.
    """
    if position.clock is not ClockKind.WALL or position.at <= _from(definition, now.wall_us):
        return False
    step_us = offset_us(now) - position.offset_us
    return step_us <= -GREAT_STEP_US or (step_us < -SMALL_STEP_US and definition.rule.wild)


def settled(definition: Definition, position: Position, now: Now) -> Position:
    """The position as it stands under the clocks as they are now: set back if `stepped_back`."""
    if stepped_back(definition, position, now):
        return position._replace(
            at=_from(definition, now.wall_us),
            turn=position.turn + 1,
            catch_up_until=None,
            catch_up_at=None,
            offset_us=offset_us(now),
        )
    if position.clock is ClockKind.WALL and position.at > now.wall_us:
        return position
    return at_offset(position, offset_us(now))


# Not by `_replace`, which takes several times as long: these are made for every slot.


def at_slot(position: Position, at: int) -> Position:
    """The position with every slot up to this instant accounted for."""
    return Position(position.clock, at, *position[2:])


def at_next(position: Position, next_at: int | None, made: int) -> Position:
    """The position before that slot, with so many jobs made."""
    return Position(position.clock, position.at, position.turn, next_at, made, *position[5:])


def at_offset(position: Position, offset: int) -> Position:
    """The position as of a wall clock that is so far ahead of steady time."""
    return position if position.offset_us == offset else Position(*position[:-2], offset, position.tzdata)


def of_zones(position: Position, tzdata: str) -> Position:
    """The position as of the zone data that is called so."""
    return position if position.tzdata == tzdata else Position(*position[:-1], tzdata)


def without_catch_up(position: Position) -> Position:
    """The position with no slots to catch up with."""
    if position.catch_up_until is None and position.catch_up_at is None:
        return position
    return position._replace(catch_up_until=None, catch_up_at=None)


def wake_at(position: Position) -> Wake | None:
    """When there is something to plan; None: never, or (a fixed delay) when the job that runs has ended."""
    if position.catch_up_at is not None:
        return Wake(ClockKind.STEADY, position.catch_up_at)
    return None if position.next_at is None else Wake(position.clock, position.next_at)


def _from(definition: Definition, wall_us: int) -> int:
    """The instant after which slots of wall time count, when they count from this one on."""
    return wall_us if definition.start_us is None else max(wall_us, definition.start_us - 1)


def _first_steady(definition: Definition, rule: Every, now: Now) -> int:
    """One interval before the first slot after now: from there on the phase is kept, on the steady clock alone.

    The phase is that of the anchor, or of `start`, or begins now.
    """
    anchor_us = definition.start_us if rule.anchor_us is None else rule.anchor_us
    if anchor_us is None or (rule.after_completion and anchor_us <= now.wall_us):
        return now.steady_us
    least = now.steady_us + 1
    if definition.start_us is not None:
        least = max(least, _steady(definition.start_us, now))
    anchor = _steady(anchor_us, now)
    return anchor + max(0, -((anchor - least) // rule.interval_us)) * rule.interval_us - rule.interval_us


def _steady(wall_us: int, now: Now) -> int:
    return wall_us - offset_us(now)
