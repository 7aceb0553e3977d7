"""When a zone's clocks change: its offsets from UTC as a table, made from questions to the zone and kept.

Pure. tzinfo answers "which offset at this instant?" only, so the table is found by asking every five days and halving
where the answer differs: since 1970 no zone of tzdata changes twice within six days (a test reads the data to say so).
Seconds since the Unix epoch; an offset is local time minus UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import NamedTuple

DAY_S = 86_400
_STEP_S = 5 * DAY_S
_CHUNK_S = 100 * _STEP_S
_LAST_S = 253_402_300_800 - 2 * DAY_S  # beyond it local time may leave the years that datetime knows
_SECOND = timedelta(seconds=1)


class Transition(NamedTuple):
    """The clocks change at the instant `at_s`: a gap when the offset grows, a fold when it shrinks."""

    at_s: int
    before_s: int
    after_s: int


def offset_s(zone: tzinfo, instant_s: int) -> int:
    """What local time is ahead of UTC at this instant, in seconds. Beyond 9999-12-29 the last offset goes on."""
    offset = datetime.fromtimestamp(min(instant_s, _LAST_S), zone).utcoffset()
    return 0 if offset is None else offset // _SECOND


def transitions(zone: tzinfo, after_s: int, until_s: int) -> list[Transition]:
    """The changes of offset with after_s < at_s <= until_s, in order."""
    if isinstance(zone, timezone):
        return []
    first, last = after_s // _CHUNK_S, until_s // _CHUNK_S
    found: list[Transition] = []
    for number in range(first, last + 1):
        found += [one for one in _chunk(zone, number) if after_s < one.at_s <= until_s]
    return found


@lru_cache(maxsize=8192)
def _chunk(zone: tzinfo, number: int) -> tuple[Transition, ...]:
    start = number * _CHUNK_S
    before = offset_s(zone, start)
    found = []
    for instant in range(start + _STEP_S, start + _CHUNK_S + 1, _STEP_S):
        after = offset_s(zone, instant)
        if after != before:
            found.append(Transition(_when(zone, instant - _STEP_S, instant, before), before, after))
        before = after
    return tuple(found)


def _when(zone: tzinfo, low_s: int, high_s: int, before_s: int) -> int:
    """The first instant in (low_s, high_s] whose offset is no longer before_s."""
    while high_s - low_s > 1:
        middle = (low_s + high_s) // 2
        if offset_s(zone, middle) == before_s:
            low_s = middle
        else:
            high_s = middle
    return high_s
