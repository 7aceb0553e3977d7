"""Wall time -> instant: what becomes of the local times of one day, in gaps and folds, under each policy.

Pure: no asyncio, clock, randomness, files or sockets. A day is cut into pieces in which local time and instants go in
step. On the day when New York's clocks went from 02:00 to 03:00, under KEEP_OFFSET:

    PLAIN  00:00-02:00  offset -5 h      KEPT  02:00-03:00  offset -5 h      PLAIN  03:00-24:00  offset -4 h

Under FIRE_AFTER the middle piece is AFTER: whatever it holds becomes the one instant at which the clocks changed. On
the day when they went from 02:00 back to 01:00, the hour from 01:00 stands in two pieces; FIRST and SECOND cut one off.
"""

from __future__ import annotations

from datetime import date, tzinfo
from enum import IntEnum
from typing import NamedTuple

from timewheel.recurrence.choices import Fold, Gap
from timewheel.recurrence.offsets import DAY_S, Transition, offset_s, transitions
from timewheel.recurrence.times import DayTimes

EPOCH_DAY = date(1970, 1, 1).toordinal()
REACH_S = 16 * 3600  # more than any offset from UTC since 1970
_AROUND_S = REACH_S + DAY_S  # a transition farther from the day's local midnight, taken as UTC, does not touch the day
_ALWAYS_S = 10**12


class Kind(IntEnum):
    """How a piece came about. The least wins where two give the same instant."""

    PLAIN = 0
    KEPT = 1  # local times in a gap, as if the clocks had not changed
    AFTER = 2  # local times in a gap, all at the instant of the change


class Piece(NamedTuple):
    """The local times [from_s, end_s) of a day; local time - offset_s is the instant, but for AFTER, which is at_s."""

    from_s: int
    end_s: int
    offset_s: int
    kind: Kind = Kind.PLAIN
    at_s: int = 0


class Slot(NamedTuple):
    """One nominal time of a day and the instant that came of it; sorted by instant."""

    instant_s: int
    kind: Kind
    day: int
    time_s: int


def start_s(day: int) -> int:
    """Local midnight of the day, as if local time were UTC."""
    return (day - EPOCH_DAY) * DAY_S


def pieces(zone: tzinfo, day: int, gap: Gap, fold: Fold) -> list[Piece]:
    """The day's local times in pieces. AUTO is resolved by the caller."""
    start = start_s(day)
    changes = transitions(zone, start - _AROUND_S, start + DAY_S + _AROUND_S)
    if not changes:
        return [Piece(0, DAY_S, offset_s(zone, start))]
    found = _steady(changes, start, fold)
    if gap is not Gap.SKIP:
        found += _gaps(changes, start, gap)
    cut = [piece._replace(from_s=max(piece.from_s, 0), end_s=min(piece.end_s, DAY_S)) for piece in found]
    return [piece for piece in cut if piece.from_s < piece.end_s]


def _steady(changes: list[Transition], start: int, fold: Fold) -> list[Piece]:
    """The pieces between the changes, less the passes of a fold that the policy leaves out."""
    found = []
    since, offset = -_ALWAYS_S, changes[0].before_s
    for change in changes:
        shrinks = change.after_s < change.before_s
        end_offset = change.after_s if shrinks and fold is Fold.SECOND else change.before_s
        found.append(Piece(since, change.at_s + end_offset - start, offset))
        since_offset = change.before_s if shrinks and fold is Fold.FIRST else change.after_s
        since, offset = change.at_s + since_offset - start, change.after_s
    found.append(Piece(since, _ALWAYS_S, offset))
    return found


def _gaps(changes: list[Transition], start: int, gap: Gap) -> list[Piece]:
    kind = Kind.AFTER if gap is Gap.FIRE_AFTER else Kind.KEPT
    found = []
    for at, before, after in changes:
        if after > before:
            found.append(Piece(at + before - start, at + after - start, before, kind, at))
    return found


def first_slot(cut: list[Piece], times: DayTimes, day: int, after_s: int) -> Slot | None:
    """The day's first slot after the instant after_s."""
    start = start_s(day)
    found = []
    for piece in cut:
        if piece.kind is Kind.AFTER:
            from_s = piece.from_s if piece.at_s > after_s else piece.end_s
        else:
            from_s = max(piece.from_s, after_s + 1 + piece.offset_s - start)
        time_s = times.first(from_s, piece.end_s)
        if time_s is not None:
            found.append(_slot(piece, day, time_s))
    return min(found, default=None)


def last_slot(cut: list[Piece], times: DayTimes, day: int, until_s: int) -> Slot | None:
    """The day's last slot at or before the instant until_s."""
    start = start_s(day)
    found = []
    for piece in cut:
        if piece.kind is Kind.AFTER:
            time_s = times.first(piece.from_s, piece.end_s) if piece.at_s <= until_s else None
        else:
            time_s = times.last(piece.from_s, min(piece.end_s, until_s + 1 + piece.offset_s - start))
        if time_s is not None:
            found.append(_slot(piece, day, time_s))
    return max(found, key=lambda slot: (slot.instant_s, -slot.kind), default=None)


def _slot(piece: Piece, day: int, time_s: int) -> Slot:
    instant = piece.at_s if piece.kind is Kind.AFTER else start_s(day) + time_s - piece.offset_s
    return Slot(instant, piece.kind, day, time_s)


def count_slots(cut: list[Piece], times: DayTimes, day: int, after_s: int, until_s: int) -> int:
    """How many slots the pieces have in (after_s, until_s]; an instant that two pieces give counts twice."""
    start = start_s(day)
    total = 0
    for piece in cut:
        if piece.kind is Kind.AFTER:
            inside = after_s < piece.at_s <= until_s
            total += inside and times.first(piece.from_s, piece.end_s) is not None
        else:
            shift = piece.offset_s - start + 1
            total += times.between(max(piece.from_s, after_s + shift), min(piece.end_s, until_s + shift))
    return total
