"""What a rule loses in gaps under SKIP: nothing vanishes without a word.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from typing import NamedTuple

from timewheel.recurrence.choices import Gap
from timewheel.recurrence.civil import EPOCH_DAY, start_s
from timewheel.recurrence.offsets import DAY_S, Transition, transitions
from timewheel.recurrence.search import Plan


class Lost(NamedTuple):
    """The times of a rule in one gap: how many, and the first, as local seconds since 1970."""

    at_s: int  # the instant of the change
    first_s: int
    times: int


def lost_in_gaps(plan: Plan, after_s: int, until_s: int) -> list[Lost]:
    """What SKIP leaves out at the changes of offset with after_s < instant <= until_s; nothing under other policies."""
    if plan.gap is not Gap.SKIP:
        return []
    changes = transitions(plan.zone, after_s, until_s)
    found = (_lost(plan, change) for change in changes if change.after_s > change.before_s)  # a fold loses nothing
    return [one for one in found if one.times]


def _lost(plan: Plan, change: Transition) -> Lost:
    first_s, end_s = change.at_s + change.before_s, change.at_s + change.after_s
    first, count = 0, 0
    for day in range(EPOCH_DAY + first_s // DAY_S, EPOCH_DAY + (end_s - 1) // DAY_S + 1):
        if plan.dates.next(day) != day:
            continue
        start = start_s(day)
        low = plan.times.below(max(0, first_s - start))
        lost = plan.times.below(min(DAY_S, end_s - start)) - low
        if lost and not count:
            first = start + plan.times.at(low)
        count += lost
    return Lost(change.at_s, first, count)
