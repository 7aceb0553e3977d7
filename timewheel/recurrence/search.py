"""The next, the last and the number of slots of dates and times in a zone. The work is bounded, whatever is asked.

Pure: no asyncio, clock, randomness, files or sockets. Slots of neighbouring days may come in another order than their
days (a midnight may be skipped, repeated or moved), so a slot is compared with those of all days that could beat it.
"""

from __future__ import annotations

from datetime import date, tzinfo
from typing import NamedTuple, Protocol

from timewheel.recurrence.choices import Fold, Gap
from timewheel.recurrence.civil import (
    EPOCH_DAY,
    REACH_S,
    Kind,
    Slot,
    count_slots,
    first_slot,
    last_slot,
    pieces,
    start_s,
)
from timewheel.recurrence.offsets import DAY_S, Transition, transitions
from timewheel.recurrence.times import DayTimes

LAST_DAY = date(9999, 12, 28).toordinal()
FAR_DAYS = 36_525  # 100 years: where a rule has no slot for as long (its dates recur within 40), it has none


class Dates(Protocol):
    """The days on which something runs."""

    def next(self, day: int) -> int | None:
        """The first day at or after `day`, None when there is none up to LAST_DAY."""
        ...

    def last(self, day: int) -> int | None:
        """The last day at or before `day`, None when there is none since 1970."""
        ...

    def between(self, day: int, end_day: int) -> int:
        """How many days lie in [day, end_day)."""
        ...


class Plan(NamedTuple):
    """What a rule comes down to: days, times of a day, a zone, and policies without AUTO."""

    dates: Dates
    times: DayTimes
    zone: tzinfo
    gap: Gap
    fold: Fold


def next_slot(plan: Plan, after_s: int) -> Slot | None:
    """The first slot after the instant; None when there is none within 100 years, or before 9999-12-29."""
    day = earliest = _earliest_day(after_s)
    limit = min(earliest + FAR_DAYS, LAST_DAY)
    best: Slot | None = None
    while (found := plan.dates.next(day)) is not None and found <= limit:
        if best is not None and start_s(found) - REACH_S > best.instant_s:
            break
        slot = first_slot(pieces(plan.zone, found, plan.gap, plan.fold), plan.times, found, after_s)
        if slot is not None and (best is None or slot < best):
            best = slot
        day = found + 1
    return best


def last_in(plan: Plan, after_s: int, until_s: int) -> Slot | None:
    """The last slot with after_s < instant <= until_s; None when there is none, or none in the 100 years before."""
    day = _latest_day(until_s)
    limit = max(_earliest_day(after_s), day - FAR_DAYS)
    best: Slot | None = None
    while (found := plan.dates.last(day)) is not None and found >= limit:
        if best is not None and start_s(found) + DAY_S + REACH_S < best.instant_s:
            break
        slot = last_slot(pieces(plan.zone, found, plan.gap, plan.fold), plan.times, found, until_s)
        if slot is not None and (best is None or slot.instant_s > best.instant_s):
            best = slot
        day = found - 1
    return best if best is not None and best.instant_s > after_s else None


def count_in(plan: Plan, after_s: int, until_s: int) -> int:
    """How many slots have after_s < instant <= until_s, exactly; no slot is visited."""
    if until_s <= after_s:
        return 0
    day, end = _earliest_day(after_s), min(_latest_day(until_s), LAST_DAY) + 1
    changes = transitions(plan.zone, start_s(day) - 2 * DAY_S, start_s(end) + 2 * DAY_S)
    total = -sum(_doubles(plan, change, after_s, until_s) for change in changes)
    for first, last, ordinary in _stretches(day, end, changes):
        if ordinary:
            total += plan.dates.between(first, last) * plan.times.total
            continue
        found = plan.dates.next(first)
        while found is not None and found < last:
            cut = pieces(plan.zone, found, plan.gap, plan.fold)
            total += count_slots(cut, plan.times, found, after_s, until_s)
            found = plan.dates.next(found + 1)
    return total


def _earliest_day(after_s: int) -> int:
    """No day before it has a slot after the instant."""
    return EPOCH_DAY + (after_s - REACH_S) // DAY_S


def _latest_day(until_s: int) -> int:
    """No day after it has a slot at or before the instant."""
    return EPOCH_DAY + (until_s + REACH_S) // DAY_S


def _stretches(day: int, end: int, changes: list[Transition]) -> list[tuple[int, int, bool]]:
    """[day, end) in stretches (first, end, ordinary); on ordinary days each time has one instant, in the range."""
    odd = {day, day + 1, day + 2, end - 1, end - 2, end - 3}
    for change in changes:
        near = EPOCH_DAY + change.at_s // DAY_S
        odd.update(range(near - 2, near + 3))
    result, since = [], day
    for one in sorted(number for number in odd if day <= number < end):
        if since < one:
            result.append((since, one, True))
        result.append((one, one + 1, False))
        since = one + 1
    if since < end:
        result.append((since, end, True))
    return result


def _doubles(plan: Plan, change: Transition, after_s: int, until_s: int) -> int:
    """By how many `count_slots` counts too much around a gap: several times may come down to one instant."""
    if plan.gap is Gap.SKIP or change.after_s <= change.before_s or not after_s - DAY_S <= change.at_s <= until_s:
        return 0
    moved = [instant for instant in _moved(plan, change) if after_s < instant <= until_s]
    alone = set(moved)
    return len(moved) - len(alone) + sum(_is_real(plan, instant + change.after_s) for instant in alone)


def _moved(plan: Plan, change: Transition) -> list[int]:
    """The instants that come of the times in the gap, once for each piece (AFTER) or time (KEPT)."""
    first = EPOCH_DAY + (change.at_s + change.before_s) // DAY_S
    last = EPOCH_DAY + (change.at_s + change.after_s - 1) // DAY_S
    found: list[int] = []
    for day in range(first, last + 1):
        if plan.dates.next(day) != day:
            continue
        for piece in pieces(plan.zone, day, plan.gap, plan.fold):
            numbers = range(plan.times.below(piece.from_s), plan.times.below(piece.end_s))
            if piece.at_s != change.at_s or piece.kind is Kind.PLAIN or not numbers:
                continue
            if piece.kind is Kind.AFTER:
                found.append(change.at_s)
            else:
                found += [start_s(day) + plan.times.at(number) - piece.offset_s for number in numbers]
    return found


def _is_real(plan: Plan, local_s: int) -> bool:
    """Whether the rule names this local time (seconds since 1970) itself."""
    days, time_s = divmod(local_s, DAY_S)
    day = EPOCH_DAY + days
    return plan.times.first(time_s, time_s + 1) is not None and plan.dates.next(day) == day
